# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The GCS and the head node of a Ray cluster die under load and come back.

CI runs the shortest case; `make test-all` runs all of them, with ``MANTA_TESTS=all``.
"""

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.integration.conftest import write_add_sub
from tests.support.clients import Load, add_sub_inputs, check_add_sub
from tests.support.gates import takes_minutes
from tests.support.head_and_worker import HEAD_IP, ON_WORKER, SETTINGS, WORKER_IP, HeadAndWorker
from tests.support.server import RunningServer, until

log = logging.getLogger(__name__)

INGRESS = "ray::ServeReplica:manta:Ingress"
CONTROLLER = "ray::ModelController"
CLIENTS = 4
# What a client's call may take while the GCS, or the node of the controller, is away.
BOUND_S = 45.0
# After the restart of the head, on a machine that runs other tests beside.
BACK_WITHIN_S = 60.0
ON_SURVIVOR = 'parameters { key: "ray_resources" value: { string_value: "{\\"survivor\\": 1}" } }\n'


class Scene:
    """A server on two nodes, one of them the head, with an instance on the other and load."""

    def __init__(self, nodes: HeadAndWorker, repository: Path) -> None:
        for name in ("add_sub", "during", "after"):
            write_add_sub(repository, name)
            with (repository / name / "config.pbtxt").open("a") as config:
                config.write(ON_SURVIVOR)
        self.nodes = nodes
        self.loads: list[Load] = []
        nodes.start_head()
        nodes.start_worker()
        self.server = RunningServer(
            repository,
            "--model-control-mode=explicit",
            "--load-model=add_sub",
            manta=(sys.executable, "-c", ON_WORKER, nodes.address),
            environment={**os.environ, **SETTINGS},
        )

    def begin(self) -> None:
        """Wait for both ingresses, and begin load."""
        until(lambda: all(self.nodes.workers(ip, INGRESS) for ip in (HEAD_IP, WORKER_IP)))
        self.start_loads()

    def end(self) -> None:
        """Leave nothing behind that would take time from other tests, whatever has failed."""
        if self.server.process.poll() is None:
            self.server.process.kill()
            self.server.wait(30)
        for load in self.loads:
            load.stop()

    def start_loads(self) -> None:
        """Begin load over HTTP and gRPC, which goes on until `stop_loads`."""
        self.loads = [
            Load(self.server.http, "add_sub", concurrency=CLIENTS),
            Load(self.server.grpc, "add_sub", protocol="grpc", concurrency=CLIENTS),
        ]
        self.make_progress()

    def make_progress(self) -> None:
        for load in self.loads:
            load.wait_for(100)

    def load_model(self, name: str) -> tuple[str, float]:
        """Return how a load ended, and how long it took."""
        began_s = time.monotonic()
        try:
            with triton_http.InferenceServerClient(
                self.server.http, connection_timeout=300, network_timeout=300
            ) as client:
                client.load_model(name)
                check_add_sub(client.infer(name, add_sub_inputs(triton_http)))
        except InferenceServerException as error:
            return str(error), time.monotonic() - began_s
        return "ok", time.monotonic() - began_s

    def index(self) -> dict[str, str]:
        """Return the states of the models, which the controller knows without the GCS."""
        with triton_http.InferenceServerClient(self.server.http, network_timeout=300) as client:
            rows = client.get_model_repository_index()
        return {row["name"]: row.get("state", "") for row in rows}

    def load_until_ok(self, name: str) -> float:
        """Load until that works; returns after how long it did."""
        began_s = time.monotonic()
        outcomes: list[str] = []

        def is_loaded() -> bool:
            outcome, _ = self.load_model(name)
            outcomes.append(outcome)
            assert outcome == "ok" or outcome.startswith("[503]"), outcomes
            return outcome == "ok"

        until(is_loaded)
        return time.monotonic() - began_s

    def head_connections(self) -> int:
        """Return how many of the clients' connections end on the head."""
        ports = {int(url.rpartition(":")[2]) for url in (self.server.http, self.server.grpc)}
        return sum(
            connection.status == "ESTABLISHED" and connection.laddr.port in ports
            for process in self.nodes.workers(HEAD_IP, INGRESS)
            for connection in process.net_connections("tcp")
        )

    def stop_loads(self) -> tuple[int, dict[str, int]]:
        """Return how many requests were answered, and how the others ended."""
        outcomes = sum((load.stop() for load in self.loads[1:]), self.loads[0].stop())
        good = outcomes.pop("ok")
        return good, dict(outcomes)


@contextmanager
def scene_of(storage: str, repository: Path) -> Iterator[Scene]:
    with HeadAndWorker(storage) as nodes:
        scene = Scene(nodes, repository)
        try:
            scene.begin()
            yield scene
        finally:
            scene.end()


@pytest.mark.parametrize(
    "storage",
    [
        pytest.param("rocksdb", marks=pytest.mark.long),
        pytest.param("redis", marks=takes_minutes),
    ],
)
def test_a_gcs_that_is_killed_and_started_again_costs_no_answer(
    storage: str, tmp_path: Path
) -> None:
    with scene_of(storage, tmp_path) as scene:
        start_again = scene.nodes.kill_gcs()
        scene.make_progress()
        outcome, took_s = scene.load_model("during")
        assert outcome.startswith("[503]"), outcome
        assert "head" in outcome
        assert "try again" in outcome
        assert took_s < BOUND_S
        assert scene.index()["add_sub"] == "READY"
        until(lambda: any("does not answer" in line for line in scene.server.lines))
        start_again()
        took_s = scene.load_until_ok("after")
        scene.make_progress()
        until(lambda: any("is back after" in line for line in scene.server.lines))
        # What had begun without the GCS has gone on.
        assert scene.load_model("during")[0] == "ok"
        good, errors = scene.stop_loads()
        log.warning("%s: %d answers, errors %s; loads after %.1f s", storage, good, errors, took_s)
        assert good
        assert not errors
        assert took_s < BACK_WITHIN_S
        assert scene.server.terminate() == 0


@takes_minutes
@pytest.mark.parametrize("storage", ["rocksdb", "redis"])
def test_a_head_that_is_lost_and_started_again_costs_only_the_connections_to_it(
    storage: str, tmp_path: Path
) -> None:
    with scene_of(storage, tmp_path) as scene:
        nodes = scene.nodes
        lost = scene.head_connections()
        nodes.kill_head()
        scene.make_progress()
        outcome, took_s = scene.load_model("during")
        assert outcome.startswith("[503]"), outcome
        assert "try again" in outcome
        assert took_s < BOUND_S
        answered, before = scene.stop_loads()
        # What was under way on a connection to the head; gRPC's clients share one.
        assert sum(before.values()) <= CLIENTS * lost, before
        scene.start_loads()
        nodes.start_head()
        took_s = scene.load_until_ok("after")
        scene.make_progress()
        assert scene.load_model("during")[0] == "ok"
        until(lambda: nodes.workers(HEAD_IP, INGRESS))
        controllers = [*nodes.workers(HEAD_IP, CONTROLLER), *nodes.workers(WORKER_IP, CONTROLLER)]
        assert len(controllers) == 1
        good, errors = scene.stop_loads()
        log.warning(
            "%s: %d answers, of %d connections to the head %s, other errors %s; loads after %.1f s",
            *(storage, answered + good, lost, before, errors, took_s),
        )
        assert good
        assert not errors
        assert took_s < BACK_WITHIN_S
        assert scene.server.terminate() == 0


@takes_minutes
def test_an_outage_longer_than_rays_own_patience_ends_no_process(tmp_path: Path) -> None:
    with scene_of("rocksdb", tmp_path) as scene:
        serving = {each.pid for each in scene.nodes.processes(WORKER_IP)}
        start_again = scene.nodes.kill_gcs()
        # Without the setting that docs/fault-tolerance.md names, Ray's processes end after 60 s.
        began_s = time.monotonic()
        while time.monotonic() - began_s < 90:
            scene.make_progress()
        assert serving <= {each.pid for each in scene.nodes.processes(WORKER_IP)}
        start_again()
        took_s = scene.load_until_ok("after")
        good, errors = scene.stop_loads()
        log.warning("90 s: %d answers, errors %s; loads after %.1f s", good, errors, took_s)
        assert not errors
        assert took_s < BACK_WITHIN_S
        assert scene.server.terminate() == 0
