# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A RayCluster as KubeRay 1.7 makes it, in pods of namespaces, and what KubeRay asks it.

KubeRay: ray-operator/controllers/ray/common/pod.go, .../ray/rayservice_controller.go
"""

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.pods import MODELS, VOLUME, Pod, PodNetwork

# What KubeRay injects into workers of a RayService as readiness probe.
_WGET: Final = "wget --tries 1 -T {0} -q -O- http://localhost:{1}/{2} | grep success"
PROBE: Final = " && ".join(
    (_WGET.format(2, 52365, "api/local_raylet_healthz"), _WGET.format(10, 8000, "-/healthz"))
)
# Of the pods, and how long Ray's drain in them may take.
GRACE_S: Final = 50
_DRAIN_S: Final = 40

_START: Final = "ulimit -n 65536; ray start "
_COMMON: Final = (
    " --block  --dashboard-agent-listen-port=52365  --memory=2147483648"
    "  --metrics-export-port=8080  --object-store-memory=104857600 "
)
_WAIT: Final = "until ray health-check --address {0}:6379 > /dev/null 2>&1; do sleep 1; done"
# Of every Ray container; RAY_GRACEFUL_... is the manifests' own, see docs/kubernetes-server.md.
_ENVIRONMENT: Final = {
    "RAY_PORT": "6379",
    "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
    "RAY_TIMEOUT_MS_TASK_WAIT_FOR_DEATH_INFO": "0",
    "RAY_GCS_SERVER_REQUEST_TIMEOUT_SECONDS": "5",
    "RAY_SERVE_KV_TIMEOUT_S": "5",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
    # The one of gRPC's resolvers that reads the file of names.
    "GRPC_DNS_RESOLVER": "native",
    # A busy machine may take longer than the 10 s Ray gives a node.
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(_DRAIN_S),
}
# Of the manifests' component fork-server.
_FORKING: Final = {"RAY_START_HOOK": "manta.fork_server.begin"}
# With gcsFaultToleranceOptions.
_KEPT_BY_HEAD: Final = {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": f"{VOLUME}/gcs"}
_PATIENCE_OF_WORKERS: Final = {"RAY_gcs_rpc_server_reconnect_timeout_s": "600"}


class RayCluster:
    """A head and its workers.

    Args:
        network: Where the pods are.
        name: Tells clusters apart.
        store: The head's volume with what the GCS knows; None without fault tolerance.
        forks: Whether workers are forked.

    Attributes:
        head: The head's pod; workers likewise.
    """

    def __init__(
        self, network: PodNetwork, name: str, store: Path | None = None, *, forks: bool = False
    ) -> None:
        self._network = network
        self._name = name
        self._store = store
        self._forking = _FORKING if forks else {}
        self._service = f"{name}-head-svc.default.svc.cluster.local"
        self._heads = 0
        self.workers: list[Pod] = []
        self.start_head()

    def start_head(self) -> None:
        """Start the head, or another in its place: with an address of its own, as any pod."""
        name = f"{self._name}-head-{self._heads}"
        self._heads += 1
        command = f"{_START}--head  --dashboard-host=0.0.0.0  --num-cpus=0 {_COMMON}"
        environment = self._environment("127.0.0.1")
        if self._store is not None:
            environment |= _KEPT_BY_HEAD
        self.head = self._network.start(name, command, environment, self._store)
        self._network.publish(self._service, self.head.address)

    def add_worker(self) -> Pod:
        """Start a worker, which waits for the head."""
        start = f"{_START} --address={self._service}:6379  --num-cpus=2 {_COMMON}"
        environment = self._environment(self._service)
        if self._store is not None:
            environment |= _PATIENCE_OF_WORKERS
        name = f"{self._name}-worker-{len(self.workers)}"
        command = f"{_WAIT.format(self._service)}; {start}"
        worker = self._network.start(name, command, environment)
        self.workers.append(worker)
        return worker

    def restart_ended(self) -> None:
        """Start again what has ended of itself: on a slow machine a node of Ray gives up."""
        for pod in (self.head, *self.workers):
            pod.restart_ended()

    def put(self, **arguments: Any) -> bool:
        """PUT serveConfigV2; returns whether the dashboard has taken it."""
        arguments = {"model_repository": [MODELS], "http_port": 8000, **arguments}
        config = f"""
proxy_location: Disabled
applications:
- name: manta
  import_path: manta.app:build
  route_prefix: null
  args: {json.dumps(arguments)}
"""
        body = json.dumps(yaml.safe_load(config)).encode()
        return self._ask("PUT", "/api/serve/applications/", body) is not None

    def application(self) -> dict[str, Any]:
        """Return what the operator polls of the application; empty while it is not known."""
        answer = self._ask("GET", "/api/serve/applications/?api_type=declarative")
        applications = json.loads(answer or b"{}").get("applications", {})
        found: dict[str, Any] = applications.get("manta", {})
        return found

    def is_running(self) -> bool:
        """Whether the operator would send clients to this cluster."""
        return bool(self.application().get("status") == "RUNNING")

    def delete(self) -> list[str]:
        """Delete all pods at once, as with the RayCluster; returns those that had to be killed."""
        pods = [self.head, *self.workers]
        for pod in pods:
            pod.terminate()
        until_s = time.monotonic() + GRACE_S
        ended = {pod: pod.wait_ended(max(0.0, until_s - time.monotonic())) for pod in pods}
        return [pod.log.parent.name for pod, by_itself in ended.items() if not by_itself]

    def _environment(self, head: str) -> dict[str, str]:
        return {
            **_ENVIRONMENT,
            **self._forking,
            "FQ_RAY_IP": head,
            "RAY_IP": head.partition(".")[0] if head == self._service else head,
            "RAY_ADDRESS": f"{head}:6379",
            "RAY_CLUSTER_NAME": self._name,
        }

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
