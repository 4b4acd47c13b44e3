# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A RayService as KubeRay 1.7 runs it: its commands, its calls of Ray's REST API, its probes.

The pods are namespaces of this machine, see `tests.support.pods`; a proxy stands for the Service.
``make test-all`` runs them, with ``MANTA_TESTS=all``.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from tests.faults.models import BUSY, Shape, write_model
from tests.support.busy_clients import BusyClients, failures
from tests.support.gates import takes_minutes
from tests.support.kuberay import GRACE_S, PROBE, RayCluster
from tests.support.model_folders import write_folder
from tests.support.pods import Pod, PodNetwork, missing_for_pods
from tests.support.readiness_proxy import Endpoints, ReadinessProxy, is_healthy

_LACKS = missing_for_pods()
pytestmark = [
    takes_minutes,
    pytest.mark.skipif(bool(_LACKS), reason=f"pods need {_LACKS}"),
    pytest.mark.timeout(1800),
]

FORK_SERVER: Final = "manta: fork server"
# A model that is loaded once a file is there.
GATED: Final = "gated"
OPEN: Final = "open"
_GATED_SOURCE: Final = f"""
import os
import time


class TritonPythonModel:
    def initialize(self, args):
        while not os.path.exists(os.path.join(args["model_repository"], "{OPEN}")):
            time.sleep(0.05)

    def execute(self, requests):
        raise NotImplementedError
"""
_GATED_CONFIG: Final = """
backend: "python"
input { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
"""
# Of a machine that is many times slower than usual.
_TIMEOUT_S: Final = 600.0
_POLL_S: Final = 0.2
# A controller that looks every 3 s and has missed its application twice ends the server.
_NOTICED_S: Final = 12.0
# Answers of every client, before and after what is tried.
_ANSWERS: Final = 5
ARGUMENTS: Final = {
    "exit_timeout_secs": 20,
    # A process that gets no turn for long must not be taken for a wedged one.
    "instance_heartbeat_timeout_secs": 120,
}


def wait_for(holds: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
    until_s = time.monotonic() + _TIMEOUT_S
    while not holds():
        assert time.monotonic() < until_s, "it never came to hold"
        meanwhile()
        time.sleep(_POLL_S)


def health(pod: Pod) -> str:
    return f"http://{pod.address}:8000/-/healthz"


def healthz(pod: Pod) -> tuple[int, bytes]:
    """Return status and body of the health probe; 0 while nothing listens."""
    try:
        with urllib.request.urlopen(health(pod), timeout=5) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


def model_is_ready(pod: Pod, name: str) -> bool:
    return is_healthy(f"http://{pod.address}:8000/v2/models/{name}/ready")


@pytest.fixture
def network(tmp_path: Path) -> Iterator[PodNetwork]:
    write_model(tmp_path / "models", BUSY, Shape(instances=2))
    network = PodNetwork(tmp_path / "pods", tmp_path / "models")
    try:
        with network:
            yield network
    finally:
        # pytest shows it beside a failure.
        print(json.dumps(network.logs(), indent=1))  # noqa: T201


def add_worker(cluster: RayCluster) -> Pod:
    """Start a worker, and return when its node is there."""
    worker = cluster.add_worker()
    agent = f"http://{worker.address}:52365/api/healthz"
    wait_for(partial(is_healthy, agent), meanwhile=cluster.restart_ended)
    return worker


def start(
    network: PodNetwork,
    name: str,
    workers: int,
    store: Path | None = None,
    *,
    forks: bool = False,
) -> RayCluster:
    """Start a cluster, and return when its application is RUNNING."""
    cluster = RayCluster(network, name, store, forks=forks)
    # One after the other: a raylet ends whose agent has not started after 15 s.
    for _ in range(workers):
        add_worker(cluster)
    wait_for(lambda: cluster.put(**ARGUMENTS), meanwhile=cluster.restart_ended)
    wait_for(
        lambda: cluster.is_running() and all(is_healthy(health(each)) for each in cluster.workers),
        meanwhile=cluster.restart_ended,
    )
    return cluster


def instances(cluster: RayCluster) -> list[set[int]]:
    """Return the processes of the model's instances, by worker."""
    return [each.processes(f"ray::{BUSY}/1") for each in cluster.workers]


def are_forked(pod: Pod) -> bool:
    """Whether the fork server of a pod has forked the ingress there."""
    servers = pod.processes(FORK_SERVER)
    (ingress,) = pod.processes("ray::ServeReplica:manta:Ingress")
    return psutil.Process(ingress).ppid() in servers


@contextmanager
def clients_of(cluster: RayCluster) -> Iterator[tuple[Endpoints, BusyClients]]:
    """Clients of both protocols behind what stands for the Service."""
    addresses = [each.address for each in cluster.workers]
    endpoints = Endpoints(addresses, "http://{}:8000/-/healthz".format)
    with ReadinessProxy(endpoints, 8000) as http, ReadinessProxy(endpoints, 8001) as grpc:
        try:
            endpoints.wait_ready(len(addresses), _TIMEOUT_S)
            clients = BusyClients(http.address, grpc.address, BUSY, concurrency=4, patience_s=60)
            try:
                clients.wait_warm(_ANSWERS, _TIMEOUT_S)
                yield endpoints, clients
            finally:
                clients.stop()
        finally:
            endpoints.close()


def serve_on(clients: BusyClients) -> None:
    """Wait until requests that are sent from now on have been answered."""
    begin_s = time.monotonic()
    clients.wait_until(
        lambda: sum(each.begin_s > begin_s for each in clients.outcomes()) >= 8 * _ANSWERS,
        _TIMEOUT_S,
        "nobody is served",
    )


def arguments_of(cluster: RayCluster) -> dict[str, Any]:
    config = cluster.application().get("deployed_app_config") or {}
    found: dict[str, Any] = config.get("args", {})
    return found


def test_application_is_running_and_pods_are_ready_only_when_the_models_are_loaded(
    network: PodNetwork,
) -> None:
    write_folder(network.models, GATED, _GATED_CONFIG, _GATED_SOURCE)
    cluster = RayCluster(network, "a")
    # Models that find no room were attempted, too, and what has been attempted is "success".
    worker = add_worker(cluster)
    wait_for(lambda: cluster.put(**ARGUMENTS), meanwhile=cluster.restart_ended)

    # Before the models: sockets are open, what is loaded answers, no probe succeeds.
    wait_for(lambda: model_is_ready(worker, BUSY), meanwhile=cluster.restart_ended)
    assert healthz(worker) == (503, b"starting")
    assert worker.execute(PROBE).returncode != 0
    assert cluster.application()["status"] == "DEPLOYING"

    (network.models / GATED / OPEN).touch()
    wait_for(cluster.is_running)
    wait_for(lambda: worker.execute(PROBE).returncode == 0)
    assert healthz(worker) == (200, b"success")


@pytest.mark.parametrize("forks", [False, True], ids=["plain", "forked"])
def test_changes_in_place_keep_the_instances_and_a_deleted_pod_costs_nothing(
    network: PodNetwork, forks: bool
) -> None:
    cluster = start(network, "a", workers=2, forks=forks)
    for each in cluster.workers:
        assert bool(each.processes(FORK_SERVER)) == forks
        assert are_forked(each) == forks
    with clients_of(cluster) as (endpoints, clients):
        # New ingresses and a new controller, the same instances.
        before = instances(cluster)
        assert any(before)
        wait_for(lambda: cluster.put(**ARGUMENTS, log_verbose=1))
        wait_for(lambda: arguments_of(cluster).get("log_verbose") == 1 and cluster.is_running())
        serve_on(clients)
        assert instances(cluster) == before

        # One that cannot be built changes nothing, for longer than a lost owner would be noticed.
        wait_for(lambda: cluster.put(**ARGUMENTS, no_such_flag=1))
        wait_for(lambda: cluster.application().get("status") == "DEPLOY_FAILED")
        failed_s = time.monotonic()
        clients.wait_until(
            lambda: any(each.begin_s > failed_s + _NOTICED_S for each in clients.outcomes()),
            _TIMEOUT_S,
            "nobody is served",
        )
        assert instances(cluster) == before
        wait_for(lambda: cluster.put(**ARGUMENTS))
        wait_for(cluster.is_running)
        assert not failures(clients.outcomes())

        leaving, staying = cluster.workers
        leaving.terminate()
        assert leaving.wait_ended(GRACE_S), "it had to be killed"
        assert endpoints.ready == {staying.address}
        serve_on(clients)
        lost = failures(clients.stop())
    assert not lost


def test_upgrade_to_a_second_cluster_loses_nothing(network: PodNetwork) -> None:
    old = start(network, "a", workers=1)
    with clients_of(old) as (endpoints, clients):
        new = start(network, "b", workers=1)
        there = [each.address for each in new.workers]
        endpoints.probe(there)
        wait_for(lambda: all(map(endpoints.is_healthy, there)))
        serve_on(clients)
        # What the operator does at this moment: the Service's selector.
        endpoints.select(there)
        serve_on(clients)
        assert endpoints.ready == set(there)
        # rayClusterDeletionDelaySeconds are over; long connections still go to the old cluster.
        old.delete()
        serve_on(clients)
        assert any(instances(new))
        lost = failures(clients.stop())
    assert not lost


def test_lost_head_that_comes_back_with_its_store_loses_nothing(
    network: PodNetwork, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    store.mkdir()
    cluster = start(network, "a", workers=2, store=store)
    with clients_of(cluster) as (_, clients):
        before = instances(cluster)
        cluster.head.end()
        serve_on(clients)
        cluster.start_head()
        # The operator sees the application again, without a further PUT.
        wait_for(cluster.is_running)
        serve_on(clients)
        assert instances(cluster) == before
        # A change of the configuration finds the server as it was.
        wait_for(lambda: cluster.put(**ARGUMENTS, log_verbose=1))
        wait_for(lambda: arguments_of(cluster).get("log_verbose") == 1 and cluster.is_running())
        serve_on(clients)
        assert instances(cluster) == before
        lost = failures(clients.stop())
    assert not lost
