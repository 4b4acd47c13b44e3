# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One server for the tests that leave it as they found it; others start their own."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tritonclient.http as triton_http

from tests.support.server import ROOT, RunningServer
from tests.support.server_reports import pytest_runtest_makereport
from tests.support.surface_models import write_surface_models

__all__ = ["pytest_runtest_makereport"]

_exit_status = 0
# Of a test with its fixtures, which start servers and copy environments. It ends one that hangs,
# on a machine several times slower than usual, too.
_TIMEOUT_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and not any(item.iter_markers("timeout")):
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))


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
def server(
    demo_repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    extra = tmp_path_factory.mktemp("extra")
    write_add_sub(extra, "add_sub")
    write_counting(extra, "counting")
    running = RunningServer(
        demo_repository,
        f"--model-repository={extra}",
        "--model-control-mode=explicit",
        "--load-model=*",
    )
    yield running
    assert running.terminate() == 0


@pytest.fixture(scope="session")
def surface(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with shared memory, two ingresses and headers forwarded, started as KServe does."""
    repository = tmp_path_factory.mktemp("surface")
    write_surface_models(repository)
    write_add_sub(repository, "add_sub")
    running = RunningServer(
        repository,
        "--allow-grpc=true",
        "--allow-http=true",
        "--model-control-mode=explicit",
        "--load-model=*",
        "--allow-client-shm=true",
        "--ingress-per-node=2",
        "--http-header-forward-pattern=^x-.*",
        "--grpc-header-forward-pattern=^x-.*",
    )
    yield running
    assert running.terminate() == 0


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
    version = repository / name / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(code)
    group = f"instance_group [ {{ kind: KIND_CPU count: {instances} }} ]\n"
    (repository / name / "config.pbtxt").write_text(ADD_SUB_CONFIG + group)


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
    for version in "123":
        directory = repository / name / version
        directory.mkdir(parents=True)
        (directory / "model.py").write_text(COUNTING)
    (repository / name / "config.pbtxt").write_text(COUNTING_CONFIG)
