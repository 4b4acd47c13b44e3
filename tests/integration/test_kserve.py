# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A container as KServe 0.20 runs it: the arguments of a runtime, its mount, its probe.

The runtimes are KServe's own for Triton and the one in k8s/kserve.

The pod is a namespace of this machine, see `tests.support.pods`; the server is its PID 1.
"""

import json
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import yaml

from tests.integration.conftest import write_add_sub
from tests.support.clients import add_sub_inputs, check_add_sub
from tests.support.pods import MODELS, Pod, PodNetwork, missing_for_pods
from tests.support.readiness_proxy import is_healthy
from tests.support.server import ROOT, until

_LACKS = missing_for_pods()
pytestmark = pytest.mark.skipif(bool(_LACKS), reason=f"pods need {_LACKS}")

# Of kserve-tritonserver.
_ARGUMENTS: Final = (
    *("tritonserver", "--model-store=/mnt/models", "--grpc-port=9000"),
    *("--http-port=8080", "--allow-grpc=true", "--allow-http=true"),
)
_RUNTIME: Final = ROOT / "k8s/kserve/clusterservingruntime.yaml"
# The last two are what Kubernetes says of a Service called manta-http.
_ENVIRONMENT: Final = {
    "INFERENCE_SERVICE_NAME": "sums",
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
    "MANTA_HTTP_PORT": "tcp://10.96.0.7:80",
    "MANTA_HTTP_SERVICE_PORT": "80",
}
# An environment of its own, by `make kserve-client`: it pins packages that Manta needs newer.
_CLIENTS_PYTHON: Final = ROOT / ".cache/kserve/bin/python"
_TIMEOUT_S: Final = 180.0
# The drain delay on Kubernetes, the idle connections' grace and Ray's end; a pod has 30.
_END_S: Final = 30.0


@pytest.fixture
def network(tmp_path: Path) -> Iterator[PodNetwork]:
    (tmp_path / "volume").mkdir()
    network = PodNetwork(tmp_path / "pods", tmp_path / "volume")
    try:
        with network:
            yield network
    finally:
        # pytest shows it beside a failure.
        print(json.dumps(network.logs(), indent=1))  # noqa: T201


def is_ready(pod: Pod, path: str = "/v2/health/ready", port: int = 8080) -> bool:
    return is_healthy(f"http://{pod.address}:{port}{path}")


def start(network: PodNetwork, arguments: Sequence[str] = _ARGUMENTS) -> Pod:
    """Start a container with arguments for the image's entry point."""
    command = f"exec python -m cluster {shlex.join(arguments)}"
    return network.start("predictor", command, _ENVIRONMENT)


@pytest.mark.long
@pytest.mark.skipif(not _CLIENTS_PYTHON.exists(), reason="make kserve-client installs the client")
def test_kserves_own_client_gets_answers_over_both_protocols(network: PodNetwork) -> None:
    write_add_sub(network.models / "models", "sums")
    (container,) = yaml.safe_load(_RUNTIME.read_text())["spec"]["containers"]
    pod = start(network, container["args"])
    probe = container["readinessProbe"]["httpGet"]
    until(lambda: is_ready(pod, **probe) or pod.process.poll() is not None)
    script = str(ROOT / "tests/support/kserve_client.py")
    done = subprocess.run(
        [str(_CLIENTS_PYTHON), script, pod.address, "8080", "9000", "sums"],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_container_of_kserve_serves_a_model_without_a_name_and_ends_with_0(
    network: PodNetwork,
) -> None:
    assert MODELS == "/mnt"
    # The storage initialiser leaves out the last part of the storageUri, the model's name.
    write_add_sub(network.models, "models")
    pod = start(network)
    until(lambda: is_ready(pod) or pod.process.poll() is not None)
    with triton_http.InferenceServerClient(f"{pod.address}:8080") as client:
        check_add_sub(client.infer("sums", add_sub_inputs(triton_http)))
    with triton_grpc.InferenceServerClient(f"{pod.address}:9000") as client:
        assert client.is_server_ready()
        check_add_sub(client.infer("sums", add_sub_inputs(triton_grpc)))

    pod.terminate()
    until(lambda: not is_ready(pod), within_s=_END_S)
    # Until the endpoints have gone new connections are served.
    assert is_healthy(f"http://{pod.address}:8080/v2/health/live")
    assert pod.process.wait(_END_S) == 0
