# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Servers for the tests that leave them as they found them; others start their own."""

import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tritonclient.http as triton_http

from cluster.cli import main as manta
from scripts import bench_overload
from tests.support.broken_repositories import onnx_file
from tests.support.free_ports import free_ports
from tests.support.last_users import (
    bring_together,
    half_of,
    pytest_fixture_setup,
    pytest_runtest_setup,
)
from tests.support.model_folders import write_folder
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.own_agent import install_own_agent
from tests.support.redis_server import redis_server
from tests.support.server import ROOT, RunningServer
from tests.support.server_reports import pytest_runtest_makereport
from tests.support.shared_fixtures import (
    encrypted,
    expendable,
    expendable_server,
    namespaced,
    pems,
    policed,
)
from tests.support.surface_models import write_surface_models

__all__ = [
    "encrypted",
    "expendable",
    "expendable_server",
    "namespaced",
    "pems",
    "policed",
    "pytest_fixture_setup",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
]

_exit_status = 0
# Of a test with its fixtures, which start servers and copy environments. It ends one that hangs,
# on a machine several times slower than usual, too.
_TIMEOUT_S = 600


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--half", type=int, choices=(1, 2), help="run one of two halves, side by side")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    half = config.getoption("--half", None)
    if half is not None:
        items[:] = [each for each in items if half_of(each) == half]
    for item in items:
        if Path(__file__).parent in item.path.parents and not any(item.iter_markers("timeout")):
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))
    bring_together(items)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    global _exit_status  # noqa: PLW0603 - the next hook is not told
    _exit_status = int(exitstatus)


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    # Native threads of Ray and grpc in this process, which also holds gevent's clients, sometimes
    # crash while the interpreter is torn down, after every result has been reported. What these
    # clients have left open is then no test's any more.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_exit_status)


def load_script(name: str) -> ModuleType:
    """Import a file of ``scripts/``."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"scripts/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def demo_script() -> ModuleType:
    return load_script("make_demo_models")


@pytest.fixture(scope="session")
def demo_repository() -> Path:
    repository = ROOT / "configs/models"
    assert (repository / "digits").is_dir(), "run 'make demo-models' first"
    return repository


@pytest.fixture(scope="session")
def spans() -> Iterator[OtlpReceiver]:
    """What `server` exports of requests whose callers trace them."""
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of `server`."""
    return tmp_path_factory.mktemp("log") / "server.log"


@pytest.fixture(scope="session")
def server(
    demo_repository: Path,
    spans: OtlpReceiver,
    log: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningServer]:
    """A server with one ingress, the demo models and a file alone, which logs to a file.

    It is ready with all models only: those that cannot be loaded are for `surface`.
    """
    extra = tmp_path_factory.mktemp("extra")
    write_add_sub(extra, "add_sub")
    write_counting(extra, "counting")
    alone = tmp_path_factory.mktemp("alone") / "alone.onnx"
    alone.write_bytes(onnx_file())
    running = RunningServer(
        extra,
        f"--model-repository={demo_repository}",
        f"--model={alone}",
        "--model-control-mode=explicit",
        "--load-model=*",
        "--cache-config=local,size=1048576",
        # A rate of 0 traces only what callers trace.
        "--trace-config=mode=opentelemetry",
        f"--trace-config=opentelemetry,url=http://127.0.0.1:{spans.server_port}/v1/traces",
        "--trace-config=opentelemetry,resource=service.name=manta",
        "--trace-config=opentelemetry,resource=site=lab",
        "--trace-config=level=TIMESTAMPS",
        "--trace-config=rate=0",
        f"--log-file={log}",
        "--metrics-config=summary_latencies=true",
        "--metrics-config=histogram_latencies=true",
        "--allow-gpu-metrics=false",
    )
    yield running
    assert running.terminate() == 0


@pytest.fixture(scope="session")
def redis_port() -> Iterator[int | None]:
    """The Redis in which `surface` caches; None where it is not installed."""
    with redis_server() as port:
        yield port


@pytest.fixture(scope="session")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The backends of `surface`; modules put theirs there."""
    return tmp_path_factory.mktemp("backends")


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `surface` keeps requests for the model ``captured``."""
    return tmp_path_factory.mktemp("captures")


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `surface` writes ``t.json``, and files of that name with a number."""
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="session")
def mismatches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `surface` writes which answers of a shadow were others."""
    return tmp_path_factory.mktemp("mismatches")


@pytest.fixture(scope="session")
def openai_port() -> int:
    """The port of `surface` for OpenAI's clients."""
    return free_ports(1).first


@pytest.fixture(scope="session")
def surface(
    redis_port: int | None,
    openai_port: int,
    backends: Path,
    captures: Path,
    traces: Path,
    mismatches: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningServer]:
    """A server that modules share, with flags that disturb none, started as KServe does.

    Shared memory, two ingresses, headers forwarded; `tests.support.shared_server` brings models.
    It is ready with models that cannot be loaded.
    """
    repository = tmp_path_factory.mktemp("surface")
    write_surface_models(repository)
    write_add_sub(repository, "add_sub")
    packages = tmp_path_factory.mktemp("packages")
    kept = {"models": ["captured"], "redact": {"parameters": ["user"]}}
    config = packages / "captures.yaml"
    config.write_text(json.dumps({"store": str(captures), "captures": [kept]}))
    cache = ("host=127.0.0.1", f"port={redis_port}") if redis_port else ()
    running = RunningServer(
        repository,
        "--allow-grpc=true",
        "--allow-http=true",
        "--model-control-mode=explicit",
        "--load-model=*",
        "--allow-client-shm=true",
        "--ingress-per-node=2",
        f"--openai-port={openai_port}",
        "--http-header-forward-pattern=^x-.*",
        "--grpc-header-forward-pattern=^x-.*",
        "--metrics-config=summary_latencies=true",
        "--strict-readiness=false",
        "--rate-limit=execution_count",
        "--rate-limit-resource=R:1",
        f"--backend-directory={backends}",
        f"--capture-config={config}",
        f"--trace-config=triton,file={traces / 't.json'}",
        *(f"--cache-config=redis,{each}" for each in cache),
        launch=("tritonserver", "model-store"),
        environment={
            **install_own_agent(packages / "noting"),
            "MANTA_ROLLOUT_DIRECTORY": str(mismatches),
        },
    )
    yield running
    assert running.terminate() == 0


# Of HTTP, to `guarded`.
PEER_CONNECTIONS = 60


@dataclass(frozen=True)
class Guarded:
    """A server that turns away, and what opens it.

    Attributes:
        server: The server.
        keys: Arguments of ``manta model add`` that sign and encrypt as the server wants it.
        header: What opens the restricted APIs over HTTP; over gRPC with Triton's prefix.
        left: Files that have to be gone when it has ended.
    """

    server: RunningServer
    keys: tuple[str, ...]
    header: Mapping[str, str]
    left: list[Path]


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """It turns away more than it can do, a peer's many connections, and models nobody signed."""
    folder = tmp_path_factory.mktemp("guarded")
    signing, encryption = folder / "release.pem", folder / "model.key"
    keys = ("--sign-with", str(signing), "--encrypt-with", str(encryption))
    bench_overload.write_repository(folder)
    for command in (
        ("keygen", str(signing)),
        ("keygen", str(encryption), "--encryption"),
        ("add", f"{folder / 'sleeper'}", "--name=sleeper", f"--to={folder / 'models'}", *keys[:2]),
    ):
        assert manta(["model", *command]) == 0
    running = RunningServer(
        folder / "models",
        "--model-control-mode=explicit",
        "--load-model=sleeper",
        "--admission=adaptive",
        f"--http-max-connections-per-peer={PEER_CONNECTIONS}",
        "--http-restricted-api=model-repository:x-key=s3cret",
        "--grpc-restricted-protocol=model-repository:key=s3cret",
        "--require-signed-models=true",
        f"--trusted-keys={folder / 'release.pub.pem'}",
        environment={**os.environ, "MANTA_TEST_MODEL_KEY": encryption.read_text()},
    )
    found = Guarded(running, keys, {"x-key": "s3cret"}, [])
    yield found
    assert running.terminate() == 0
    assert [each for each in found.left if each.exists()] == []


def client_of(server: RunningServer, module: ModuleType) -> Any:
    """Return a client of the module's protocol."""
    return module.InferenceServerClient(server.http if module is triton_http else server.grpc)


ADD_SUB: str = load_script("bench_models").ADD_SUB
ADD_SUB_CONFIG = """
backend: "python"
max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 16 ] },
        { name: "INPUT1" data_type: TYPE_INT32 dims: [ 16 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 16 ] },
         { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ 16 ] } ]
dynamic_batching { }
"""


def write_add_sub(repository: Path, name: str, *, instances: int = 1, code: str = ADD_SUB) -> None:
    group = f"instance_group [ {{ kind: KIND_CPU count: {instances} }} ]\n"
    write_folder(repository, name, ADD_SUB_CONFIG + group, code)


COUNTING = """
import os
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.count = 0

    def execute(self, requests):
        responses = []
        for request in requests:
            self.count += 1
            row = np.array([[os.getpid(), self.count]], np.int32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("PID_AND_COUNT", row)]))
        return responses
"""
COUNTING_CONFIG = """
backend: "python"
max_batch_size: 8
input [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "PID_AND_COUNT" data_type: TYPE_INT32 dims: [ 2 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""


def write_counting(repository: Path, name: str) -> None:
    """Write a model of three versions that tells its process and how often that was asked."""
    write_folder(repository, name, COUNTING_CONFIG, COUNTING, (1, 2, 3))
