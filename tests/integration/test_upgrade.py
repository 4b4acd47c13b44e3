# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Another release takes over on a running cluster: nothing is lost, or nothing changes."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from ray.cluster_utils import Cluster

from tests.faults.models import BUSY, Shape, write_model, write_sequence_model
from tests.support.busy_clients import OK, BusyClients
from tests.support.busy_sequences import BusySequences
from tests.support.gates import takes_minutes
from tests.support.ray_nodes import started_head
from tests.support.releases import CodeFolder, broken, evolved
from tests.support.server import RunningServer, title_of

COUNTED = "counted"
UPGRADE_S = 240.0


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A Ray whose workers find no release of Manta by themselves."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    # Copies of the sources run plain.
    monkeypatch.delenv("MANTA_COMPILED", raising=False)
    monkeypatch.setenv("RAY_worker_niceness", "0")
    started = started_head(num_cpus=2)
    yield started
    started.shutdown()


@pytest.fixture
def old(tmp_path: Path) -> CodeFolder:
    return CodeFolder(tmp_path / "old", "1.0")


def write_models(folder: Path) -> Path:
    write_model(folder, BUSY, Shape(instances=2))
    write_sequence_model(folder, COUNTED, Shape(instances=1))
    config = folder / COUNTED / "config.pbtxt"
    # A client that is starved for a second shall not lose its sequence.
    idle = "max_sequence_idle_microseconds: "
    assert f"{idle}1000000" in config.read_text()
    config.write_text(config.read_text().replace(f"{idle}1000000", f"{idle}10000000"))
    return folder


def serve(code: CodeFolder, head: Cluster, repository: Path) -> RunningServer:
    flags = (f"--ray-address={head.address}",)
    return RunningServer(repository, *flags, cwd=code.folder, environment=code.environment)


@contextmanager
def busy(server: RunningServer) -> Iterator[tuple[BusyClients, ...]]:
    """Clients of both protocols, of sequences too, that have had answers already."""
    clients = (
        BusyClients(server.http, server.grpc, BUSY, concurrency=3, patience_s=60),
        BusySequences(server.http, server.grpc, COUNTED, concurrency=2, patience_s=60),
    )
    try:
        for each in clients:
            each.wait_warm(5, 60)
        yield clients
    finally:
        for each in clients:
            each.stop()


def lost(clients: tuple[BusyClients, ...]) -> Counter[tuple[str, str, str]]:
    """Stop the clients; return what was not answered well."""
    outcomes = [outcome for each in clients for outcome in each.stop()]
    assert sum(each.kind == OK for each in outcomes) > 100
    return Counter((each.protocol, each.kind, each.detail) for each in outcomes if each.kind != OK)


def upgrade(code: CodeFolder, head: Cluster) -> Any:
    return code.run("upgrade", f"--ray-address={head.address}", timeout_s=UPGRADE_S)


def status(code: CodeFolder, head: Cluster) -> dict[str, Any]:
    answer = code.run(
        "upgrade", f"--ray-address={head.address}", "--status", "--json", timeout_s=60
    )
    assert answer.returncode == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def ingresses() -> list[psutil.Process]:
    """Return the ingresses on the nodes that this process has started."""
    nodes = [each for each in psutil.Process().children() if each.name() == "raylet"]
    workers = [worker for node in nodes for worker in node.children(recursive=True)]
    # Others come and go meanwhile.
    return [each for each in workers if "ServeReplica:manta:Ingress" in title_of(each)]


def test_an_upgrade_loses_nothing_and_leaves_nothing_of_the_old_release(
    head: Cluster, old: CodeFolder, tmp_path: Path
) -> None:
    new = evolved(CodeFolder(tmp_path / "new", "1.1"))
    server = serve(old, head, write_models(tmp_path / "models"))
    before = status(old, head)
    assert before["controller"].startswith("1.0+")
    assert before["instances"] == {before["controller"]: 3}
    with busy(server) as clients:
        old_ingresses = ingresses()
        done = upgrade(new, head)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not psutil.wait_procs(old_ingresses, timeout=60)[1]
        for each in clients:
            each.wait_warm(20, 60)
        assert not lost(clients)
    after = status(new, head)
    assert after["controller"].startswith("1.1+")
    assert after["controller"].endswith(after["ingress"])
    assert (after["phase"], after["left"]) == ("current", 0)
    assert after["instances"] == {after["controller"]: 3}
    # The driver of the old release still owns the server, and ends it.
    assert server.terminate() == 0
    assert not ingresses()


@takes_minutes
def test_a_release_whose_instances_do_not_start_leaves_the_old_ones_serving(
    head: Cluster, old: CodeFolder, tmp_path: Path
) -> None:
    bad = broken(CodeFolder(tmp_path / "bad", "1.1"))
    server = serve(old, head, write_models(tmp_path / "models"))
    before = status(old, head)
    with busy(server) as clients:
        refused = upgrade(bad, head)
        assert refused.returncode == 1, refused.stdout
        assert "error: the upgrade has stopped: instance " in refused.stderr
        after = status(old, head)
        assert (after["phase"], after["left"]) == ("failed", 3)
        assert after["instances"] == before["instances"]
        assert after["ingress"] == before["ingress"]
        back = upgrade(old, head)
        assert back.returncode == 0, back.stdout + back.stderr
        assert not lost(clients)
    assert status(old, head)["controller"] == before["controller"]
    assert server.terminate() == 0
