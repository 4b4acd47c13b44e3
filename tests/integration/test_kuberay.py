# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A RayService as KubeRay 1.7 runs it: its commands, its calls of Ray's REST API, its probes.

The pods are namespaces of this machine, see `tests.support.pods`; a proxy stands for the Service.
"""

import json
import os
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.faults.models import BUSY, Shape, write_model
from tests.support.busy_clients import OK, BusyClients, Outcome
from tests.support.pods import MODELS, Pod, PodNetwork, missing_for_pods
from tests.support.readiness_proxy import Endpoints, ReadinessProxy, is_healthy

_LACKS = missing_for_pods()
pytestmark = [
    pytest.mark.skipif(
        os.environ.get("MANTA_PODS") != "all", reason="takes minutes: MANTA_PODS=all"
    ),
    pytest.mark.skipif(bool(_LACKS), reason=f"pods need {_LACKS}"),
    pytest.mark.timeout(1800),
]

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
_TIMEOUT_S: Final = 400.0
_POLL_S: Final = 0.2
# What KubeRay injects into workers of a RayService as readiness probe.
_WGET: Final = "wget --tries 1 -T {0} -q -O- http://localhost:{1}/{2} | grep success"
_PROBE: Final = " && ".join(
    (_WGET.format(2, 52365, "api/local_raylet_healthz"), _WGET.format(10, 8000, "-/healthz"))
)
_START: Final = "ulimit -n 65536; ray start "
_COMMON: Final = (
    " --block  --dashboard-agent-listen-port=52365  --memory=2147483648"
    "  --metrics-export-port=8080  --object-store-memory=104857600 "
)
_DRAIN_S: Final = 40
_GRACE_S: Final = _DRAIN_S + 30


def environment(head: str) -> dict[str, str]:
    """Return what KubeRay and Kubernetes set in every Ray container."""
    return {
        "FQ_RAY_IP": head,
        "RAY_IP": head,
        "RAY_PORT": "6379",
        "RAY_ADDRESS": f"{head}:6379",
        "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
        "RAY_TIMEOUT_MS_TASK_WAIT_FOR_DEATH_INFO": "0",
        "RAY_GCS_SERVER_REQUEST_TIMEOUT_SECONDS": "5",
        "RAY_SERVE_KV_TIMEOUT_S": "5",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(_DRAIN_S),
        "RAY_worker_niceness": "0",
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
    }


class RayService:
    """The parts of KubeRay's operator that touch a cluster.

    Attributes:
        head: The head's pod; workers likewise.
    """

    def __init__(self, network: PodNetwork) -> None:
        # The operator knows the head's Service before there is a head; here its address is known.
        self._network = network
        self.head = network.start(
            "head",
            f"{_START}--head  --dashboard-host=0.0.0.0  --num-cpus=0 {_COMMON}",
            environment("127.0.0.1"),
        )
        self.workers: list[Pod] = []

    def add_worker(self) -> Pod:
        name = f"worker-{len(self.workers)}"
        wait = f"until ray health-check --address {self.head.address}:6379; do sleep 1; done"
        start = f"{_START} --address={self.head.address}:6379  --num-cpus=2 {_COMMON}"
        worker = self._network.start(name, f"{wait}; {start}", environment(self.head.address))
        self.workers.append(worker)
        return worker

    def apply(self, **arguments: Any) -> None:
        """PUT serveConfigV2, when the dashboard is there."""
        config = f"""
proxy_location: Disabled
applications:
- name: manta
  import_path: cluster.app:build
  route_prefix: null
  args: {json.dumps({"model_repository": [MODELS], "http_port": 8000, **arguments})}
"""
        body = json.dumps(yaml.safe_load(config)).encode()
        wait_for(lambda: self._ask("PUT", "/api/serve/applications/", body) is not None)

    def status(self) -> dict[str, Any]:
        """Return what the operator polls of the application; empty while it is not known."""
        answer = self._ask("GET", "/api/serve/applications/?api_type=declarative")
        applications = json.loads(answer or b"{}").get("applications", {})
        found: dict[str, Any] = applications.get("manta", {})
        return found

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes | None:
        request = urllib.request.Request(
            f"http://{self.head.address}:8265{path}",
            data=body,
            method=method,
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                data: bytes = answer.read()
                return data
        except urllib.error.HTTPError as error:
            if error.code < 500:
                raise
            return None
        except OSError:
            return None


def wait_for(holds: Callable[[], bool], timeout_s: float = _TIMEOUT_S) -> None:
    until_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until_s, "it never came to hold"
        time.sleep(_POLL_S)


def write_models(repository: Path) -> None:
    write_model(repository, BUSY, Shape(instances=2))
    version = repository / GATED / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(_GATED_SOURCE)
    (repository / GATED / "config.pbtxt").write_text(_GATED_CONFIG)


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
    write_models(tmp_path / "models")
    network = PodNetwork(tmp_path / "pods", tmp_path / "models")
    try:
        with network:
            yield network
    finally:
        # pytest shows it beside a failure.
        print(json.dumps(network.logs(), indent=1))  # noqa: T201


@contextmanager
def clients_of(workers: list[Pod]) -> Iterator[tuple[Endpoints, BusyClients]]:
    """Clients of both protocols behind what stands for the Service."""
    endpoints = Endpoints([each.address for each in workers], "http://{}:8000/-/healthz".format)
    with ReadinessProxy(endpoints, 8000) as http, ReadinessProxy(endpoints, 8001) as grpc:
        try:
            endpoints.wait_ready(len(workers), _TIMEOUT_S)
            clients = BusyClients(http.address, grpc.address, BUSY, concurrency=4, patience_s=60)
            try:
                clients.wait_warm(5, _TIMEOUT_S)
                yield endpoints, clients
            finally:
                clients.stop()
        finally:
            endpoints.close()


def failures(outcomes: list[Outcome]) -> Counter[tuple[str, str, str]]:
    return Counter((each.protocol, each.kind, each.detail) for each in outcomes if each.kind != OK)


def test_service_runs_when_models_are_there_and_loses_nothing_with_a_pod(
    network: PodNetwork,
) -> None:
    service = RayService(network)
    workers = [service.add_worker(), service.add_worker()]
    # A process that gets no turn for long must not be taken for a wedged one.
    arguments = {"exit_timeout_secs": 20, "instance_heartbeat_timeout_secs": 120}
    service.apply(**arguments)

    # Before the models: sockets are open, what is loaded answers, no probe succeeds.
    wait_for(lambda: all(model_is_ready(each, BUSY) for each in workers))
    assert [healthz(each) for each in workers] == [(503, b"starting")] * 2
    assert workers[0].execute(_PROBE).returncode != 0
    assert service.status()["status"] == "DEPLOYING"

    (network.models / GATED / OPEN).touch()
    wait_for(lambda: service.status()["status"] == "RUNNING")
    wait_for(lambda: all(each.execute(_PROBE).returncode == 0 for each in workers))
    assert [healthz(each) for each in workers] == [(200, b"success")] * 2

    with clients_of(workers) as (endpoints, clients):
        # A change in place: new ingresses and a new controller, the same instances.
        before = [each.processes(f"ray::{BUSY}/1") for each in workers]
        service.apply(**arguments, log_verbose=1)
        wait_for(lambda: _arguments(service).get("log_verbose") == 1)
        wait_for(lambda: service.status()["status"] == "RUNNING")
        assert [each.processes(f"ray::{BUSY}/1") for each in workers] == before

        # A pod is deleted.
        leaving, staying = workers
        begin_s = time.monotonic()
        leaving.terminate()
        leaving.process.wait(_GRACE_S)
        took_s = time.monotonic() - begin_s
        assert endpoints.ready == {staying.address}
        clients.wait_until(
            lambda: any(each.begin_s > begin_s + took_s for each in clients.outcomes()),
            _TIMEOUT_S,
            "nobody is served",
        )
        outcomes = clients.stop()
    assert not failures(outcomes), (failures(outcomes), took_s)


def _arguments(service: RayService) -> dict[str, Any]:
    config = service.status().get("deployed_app_config") or {}
    found: dict[str, Any] = config.get("args", {})
    return found
