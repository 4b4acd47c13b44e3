# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An analysis on two nodes of a Ray cluster: as a job, and with a node that dies."""

import contextlib
import csv
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from ray.cluster_utils import Cluster

from tests.integration.conftest import write_add_sub
from tests.support.free_ports import free_ports
from tests.support.ray_nodes import STORE_BYTES, kill_tree, started_head
from tests.support.server import ROOT, until

MODEL = "add_sub"
CONFIG = f"""
run_config_search_mode: brute
perf_analyzer_flags: {{request-count: 20}}
profile_models:
  {MODEL}:
    parameters: {{concurrency: [2]}}
    model_config_parameters:
      instance_group: [[{{kind: KIND_CPU, count: [1, 3]}}]]
"""
NODE = {"num_cpus": 1, "object_store_memory": STORE_BYTES}
PLACE = re.compile(r"^\[\d+\] .* on node [^/]+/(\w{8})$", re.MULTILINE)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Two nodes that are alike; a dead one is missed soon."""
    for name, text in {
        "PYTHONPATH": str(ROOT),
        "RAY_AUTH_MODE": "disabled",
        "RAY_worker_niceness": "0",
        "RAY_health_check_initial_delay_ms": "500",
        "RAY_health_check_period_ms": "500",
        "RAY_health_check_failure_threshold": "3",
    }.items():
        monkeypatch.setenv(name, text)
    ports = free_ports(2)
    with_dashboard = {
        "include_dashboard": True,
        "dashboard_port": ports.first,
        "dashboard_agent_listen_port": ports.last,
    }
    started = started_head(**(NODE | with_dashboard))
    started.add_node(**NODE)
    yield started
    started.shutdown()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    write_add_sub(tmp_path / "models", MODEL, instances=2)
    (tmp_path / "analysis.yaml").write_text(CONFIG)
    return tmp_path / "models"


def analysis(repository: Path) -> list[str]:
    folder = repository.parent
    return [
        *(sys.executable, "-u", "-m", "cluster", "analyze", "profile", "--nodes=auto"),
        f"-f={folder / 'analysis.yaml'}",
        f"--model-repository={repository}",
        f"--checkpoint-directory={folder / 'checkpoints'}",
        f"--export-path={folder}",
        f"--output-model-repository-path={folder / 'best'}",
        "--skip-summary-reports",
        "--skip-detailed-reports",
    ]


def rows(repository: Path) -> list[dict[str, str]]:
    with (repository.parent / "results" / "metrics-all.csv").open() as file:
        return list(csv.DictReader(file))


def servers(repository: Path) -> list[psutil.Process]:
    """Return the servers of the repository that run."""
    flag = f"--model-repository={repository}"
    return [
        each
        for each in psutil.process_iter(["cmdline"])
        if flag in (each.info["cmdline"] or ()) and "serve" in each.info["cmdline"]
    ]


def has_server(node: subprocess.Popen[bytes], repository: Path) -> bool:
    """Whether a server of the repository runs below a node's raylet."""
    for server in servers(repository):
        with contextlib.suppress(psutil.NoSuchProcess):
            if node.pid in (each.pid for each in server.parents()):
                return True
    return False


@pytest.mark.long
def test_an_analysis_that_is_a_job_measures_on_both_nodes(
    cluster: Cluster, repository: Path
) -> None:
    submit = [sys.executable, "-m", "ray.scripts.scripts", "job", "submit"]
    job = subprocess.run(
        [*submit, f"--address=http://{cluster.webui_url}", "--", *analysis(repository)],
        capture_output=True,
        text=True,
        check=False,
    )
    output = job.stdout + job.stderr
    assert job.returncode == 0, output
    nodes = {node.node_id[:8] for node in cluster.list_all_nodes()}
    assert "Measuring on 2 nodes: " in output
    assert len(PLACE.findall(output)) == 3
    assert set(PLACE.findall(output)) == nodes, output
    found = rows(repository)
    assert [row["error"] for row in found] == [""] * 3
    assert sorted(row["instance_group"] for row in found) == ["1:CPU", "2:CPU", "3:CPU"]
    # What its processes take is seen on the node that they are on.
    assert all(float(row["cpu_used_ram"]) > 10 for row in found)
    assert len(list((repository.parent / "best").iterdir())) == 3
    until(lambda: not servers(repository), "a server is left")


@pytest.mark.long
def test_the_trial_of_a_node_that_dies_is_measured_on_the_other(
    cluster: Cluster, repository: Path
) -> None:
    (lost,) = cluster.worker_nodes
    (raylet,) = (each.process for each in lost.all_processes["raylet"])
    process = subprocess.Popen(
        analysis(repository),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env=os.environ | {"RAY_ADDRESS": cluster.address},
    )
    assert process.stdout is not None
    lines = []
    with process.stdout:
        for line in process.stdout:
            lines.append(line)
            # Servers that run before that line measure nothing.
            if line.startswith("Measuring on 2 nodes: "):
                until(lambda: has_server(raylet, repository), "the node got no trial")
                # With all that it has started, which could end a trial without it.
                kill_tree(raylet)
    output = "".join(lines)
    assert process.wait(60) == 0, output
    assert f"/{lost.node_id[:8]} is left out: " in output
    assert "1 of 2 nodes are left" in output
    assert len(PLACE.findall(output)) == 3
    assert lost.node_id[:8] not in PLACE.findall(output)
    assert [row["error"] for row in rows(repository)] == [""] * 3
    until(lambda: not servers(repository), "a server is left")
