# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server on a node of `ray start`, with the hook of Ray's that has its workers forked."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import tritonclient.http as triton_http

from tests.integration.conftest import write_add_sub
from tests.support.clients import add_sub_inputs, check_add_sub
from tests.support.head_and_worker import HEAD_IP, SETTINGS, HeadAndWorker, on_node
from tests.support.server import ROOT, RunningServer, until

HOOK = {
    "PYTHONPATH": str(ROOT),
    "RAY_START_HOOK": "manta.fork_server.begin",
    # Of the standard library; nothing else imports it.
    "MANTA_FORK_SERVER_PRELOAD": "colorsys",
}
FORK_SERVER = "manta: fork server"
WATCHING = f"{sys.executable} -P -m cluster.fork_server.joined "
OURS = ("ray::ServeController", "ray::ModelController", "ray::ServeReplica:manta:Ingress")
# A job whose folder has a package of the name of one of Manta's.
JOB = f"""
import json, os, sys, ray

def told():
    import backends
    return backends.WHOSE, "colorsys" in sys.modules, os.getppid()

ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR", _node_ip_address="{HEAD_IP}")
print(json.dumps(ray.get(ray.remote(told).options(num_cpus=0).remote())))
"""


@dataclass
class Joined:
    """A server on a node of `ray start`."""

    nodes: HeadAndWorker
    server: RunningServer

    def fork_servers(self) -> list[psutil.Process]:
        """Return those of now: what one has forked has its title at first."""
        watching = [each.pid for each in self.nodes.workers(HEAD_IP, WATCHING)]
        found = self.nodes.workers(HEAD_IP, FORK_SERVER)
        return [each for each in found if each.ppid() in watching]

    def forked(self, title: str) -> list[psutil.Process]:
        """Return the processes of a title that a fork server of the node has forked."""
        (mark,) = self.nodes.folder.glob("session_2*/manta-fork-*/mark")
        found = []
        for each in self.nodes.workers(HEAD_IP, title):
            with contextlib.suppress(OSError):
                if f" {mark}\n" in Path(f"/proc/{each.pid}/maps").read_text():
                    found.append(each)
        return found

    def infer(self) -> None:
        with triton_http.InferenceServerClient(self.server.http, network_timeout=60) as client:
            check_add_sub(client.infer("add_sub", add_sub_inputs(triton_http)))


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Joined]:
    repository = tmp_path_factory.mktemp("joined")
    write_add_sub(repository, "add_sub", instances=2)
    with HeadAndWorker("memory", HOOK) as nodes:
        nodes.start_head()
        server = RunningServer(
            repository,
            manta=(sys.executable, "-c", on_node(HEAD_IP), nodes.address),
            environment={**os.environ, **SETTINGS},
        )
        yield Joined(nodes, server)
        if server.process.poll() is None:
            server.kill(psutil.Process(server.pid))
            server.wait(10)


def test_a_server_on_a_node_of_ray_start_has_forked_processes(joined: Joined) -> None:
    joined.infer()
    until(lambda: all(len(joined.forked(each)) == 1 for each in OURS), "they are not forked")
    until(lambda: len(joined.forked("ray::add_sub/1#")) == 2, "instances are not forked")


def test_a_job_of_anothers_finds_its_own_modules_in_a_forked_worker(
    joined: Joined, tmp_path: Path
) -> None:
    (tmp_path / "backends.py").write_text("WHOSE = 'the job'")
    done = subprocess.run(
        [sys.executable, "-c", JOB, joined.nodes.address],
        env={**os.environ, **SETTINGS},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (parent,) = joined.fork_servers()
    assert json.loads(done.stdout.splitlines()[-1]) == ["the job", True, parent.pid]


def test_a_fork_server_that_is_killed_is_replaced_and_costs_nothing(joined: Joined) -> None:
    (victim,) = joined.fork_servers()
    victim.kill()
    joined.infer()
    until(lambda: (found := joined.fork_servers()) and victim not in found, "no other fork server")
    before = joined.forked("ray::add_sub/1#")
    before[0].kill()

    def is_replaced() -> bool:
        now = joined.forked("ray::add_sub/1#")
        return len(now) == len(before) and before[0] not in now

    until(is_replaced, "the instance is not replaced by a forked one")
    joined.infer()


def test_a_raylet_that_is_killed_leaves_no_forked_process(joined: Joined) -> None:
    (folder,) = joined.nodes.folder.glob("session_2*/manta-fork-*")
    assert joined.server.terminate() == 0
    seen = [each for each in joined.nodes.processes(HEAD_IP) if each.name() != "gcs_server"]
    watching = [each for each in seen if str(folder) in each.cmdline()]
    assert len(watching) == 1
    (raylet,) = [each for each in seen if each.name() == "raylet"]
    raylet.kill()
    until(lambda: not joined.fork_servers() and not folder.exists(), "the fork server remains")
    _, alive = psutil.wait_procs([*watching, *joined.nodes.workers(HEAD_IP, "ray::")], timeout=60)
    assert not alive
