# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The digits of every framework on one server, and what does not load beside them.

The models and the answers of the frameworks themselves are those of ``make demo-frameworks``.
"""

import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import ray
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from ray._raylet import Config
from tritonclient.utils import InferenceServerException

from deployments.instance.spec import NAMESPACE
from tests.integration.conftest import client_of
from tests.support.c_backends import compile_libraries
from tests.support.model_folders import write_folder
from tests.support.server import ROOT, RunningServer
from tests.support.shared_server import brought

# The first test waits for the server, which imports PyTorch nine times and TensorFlow three.
pytestmark = pytest.mark.timeout(400)

Array = npt.NDArray[Any]
MADE = ROOT / "configs/framework_models"
ANSWERS = ROOT / "configs/framework_answers"
PYTHON_BACKENDS = ROOT / "scripts/demo_backends"
CLIENTS = {"http": triton_http, "grpc": triton_grpc}

# Each model's file.
FILES = {
    "digits_lightgbm": "model.txt",
    "digits_onnx": "model.onnx",
    "digits_openvino": "model.xml",
    "digits_python_based": "weights.npz",
    "digits_sklearn": "checkpoint.tl",
    "digits_tensorflow": "model.savedmodel/saved_model.pb",
    "digits_torch_class": "model.pt",
    "digits_torch_export": "model.pt2",
    "digits_torchscript": "model.pt",
    "digits_xgboost": "xgboost.json",
}
FORESTS = {"digits_lightgbm", "digits_sklearn", "digits_xgboost"}
# Those whose file tells its tensors; no name of a file is a forest's alone, so the backend is said.
TELLING = [name for name in FILES if name in FORESTS] + [
    "digits_onnx",
    "digits_openvino",
    "digits_tensorflow",
    "digits_torch_export",
]
# What is said of a file that holds something else.
BROKEN = {
    "digits_onnx": "model.onnx",
    "digits_openvino": "model.xml",
    "digits_tensorflow": "digits_tensorflow_broken",
    "digits_torchscript": "model.pt",
    "digits_xgboost": "xgboost.json",
}
MISTYPED = ("digits_onnx", "digits_torch_export", "digits_xgboost")
CRASHING = """
name: "crashing" backend: "crashing" max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 1 ] }
"""
GROUP = "\ninstance_group {{ count: {count} kind: KIND_CPU }}\n"
PACKAGES = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
# Comes first on the path of the model that brings it.
NOT_INSTALLED = "raise ModuleNotFoundError(\"No module named 'treelite'\", name='treelite')\n"


def _copy(repository: Path, name: str, suffix: str = "", count: int = 1) -> Path:
    """Copy a model, under another name; return its directory."""
    directory = repository / f"{name}{suffix}"
    shutil.copytree(MADE / name, directory)
    config = directory / "config.pbtxt"
    text = config.read_text().replace(f'"{name}"', f'"{directory.name}"')
    config.write_text(text + GROUP.format(count=count))
    return directory


def _write_repository(repository: Path) -> None:
    for name in _made():
        _copy(repository, name, count=2)
    for name in _made(TELLING):
        directory = _copy(repository, name, "_completed")
        backend = 'backend: "fil"' if name in FORESTS else ""
        (directory / "config.pbtxt").write_text(backend + GROUP.format(count=1))
    for name in _made(BROKEN):
        directory = _copy(repository, name, "_broken")
        (directory / "1" / FILES[name]).write_bytes(b'{"learner": 3')
    for name in _made(MISTYPED):
        config = _copy(repository, name, "_mistyped") / "config.pbtxt"
        head, output = config.read_text().split("output {")
        config.write_text(head + "output {" + output.replace("TYPE_FP32", "TYPE_INT64"))
    if _made(["digits_sklearn"]):
        directory = _copy(repository, "digits_sklearn", "_bare")
        folder = directory / f"environment/{PACKAGES}"
        folder.mkdir(parents=True)
        (folder / "treelite.py").write_text(NOT_INSTALLED)
        with (directory / "config.pbtxt").open("a") as config:
            config.write(
                'parameters { key: "EXECUTION_ENV_PATH" value { string_value:'
                ' "$$TRITON_MODEL_DIRECTORY/environment" } }\n'
            )
    write_folder(repository, "crashing", CRASHING + GROUP.format(count=2))


def _made(names: Any = FILES) -> list[str]:
    return [name for name in names if (ANSWERS / f"{name}.npy").is_file()]


@pytest.fixture(scope="module")
def server(
    surface: RunningServer, backends: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    assert _made(), "run 'make demo-frameworks' first"
    repository = tmp_path_factory.mktemp("frameworks")
    _write_repository(repository)
    shutil.copytree(PYTHON_BACKENDS, backends, dirs_exist_ok=True)
    compile_libraries(backends, "crashing")
    names = [each.name for each in repository.iterdir()]
    refused = [name for name in names if name.endswith(("_broken", "_mistyped", "_bare"))]
    with brought(surface, repository, refused=refused) as running:
        yield running


@pytest.fixture(autouse=True)
def server_lives(server: RunningServer) -> Iterator[None]:
    """After each test the next request is served."""
    yield
    assert server.process.poll() is None
    (image, *_), (expected, *_) = np.load(ANSWERS / "images.npy"), _expected("digits_onnx")
    with client_of(server, triton_http) as client:
        (answer,) = _ask(client, triton_http, "digits_onnx", [image[None]])
    np.testing.assert_allclose(answer, expected[None], rtol=1e-5, atol=1e-6)


def _expected(model: str) -> Array:
    path = ANSWERS / f"{model}.npy"
    if not path.is_file():
        pytest.skip(f"{model} was left out by make demo-frameworks")
    found: Array = np.load(path)
    return found


def _tensor(
    module: ModuleType, model: str, rows: Array, datatype: str = "FP32", name: str = ""
) -> list[Any]:
    name = name or ("input__0" if any(model.startswith(each) for each in FORESTS) else "X")
    tensor = module.InferInput(name, list(rows.shape), datatype)
    tensor.set_data_from_numpy(rows)
    return [tensor]


def _ask(client: Any, module: ModuleType, model: str, parts: list[Array]) -> list[Array]:
    """Ask for each part's probabilities; over gRPC eight at a time."""
    name = "output__0" if any(model.startswith(each) for each in FORESTS) else "probabilities"
    if module is triton_http:  # its async_infer sleeps 10 ms for each request
        return [client.infer(model, _tensor(module, model, part)).as_numpy(name) for part in parts]
    answers: Queue[tuple[int, Any, Any]] = Queue()
    room = threading.BoundedSemaphore(8)

    def keep(index: int, result: Any, error: Any) -> None:
        room.release()
        answers.put((index, result, error))

    for index, part in enumerate(parts):
        room.acquire()
        client.async_infer(
            model,
            _tensor(module, model, part),
            lambda result, error, index=index: keep(index, result, error),
        )
    found = dict[int, Array]()
    for _ in parts:
        index, result, error = answers.get(timeout=60)
        assert error is None, error
        found[index] = result.as_numpy(name)
    return [found[index] for index in range(len(parts))]


@pytest.mark.parametrize("protocol", CLIENTS)
@pytest.mark.parametrize("model", FILES)
def test_digits_are_answered_as_by_the_framework_itself_alone_and_batched(
    server: RunningServer, model: str, protocol: str
) -> None:
    expected = _expected(model)
    images = np.load(ANSWERS / "images.npy")
    module = CLIENTS[protocol]
    alone = [row[None] for row in images]
    # Batches of 1, 2, ... rows.
    ends = np.cumsum(np.arange(1, 64))
    batched = np.split(images, ends[ends < len(images)])
    with client_of(server, module) as client:
        for parts in (alone, batched):
            answers = np.concatenate(_ask(client, module, model, parts))
            np.testing.assert_allclose(answers, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", FILES)
def test_each_model_has_two_instances(server: RunningServer, model: str) -> None:
    _expected(model)
    assert len(server.processes(f"ray::{model}/1")) == 2


@pytest.fixture(scope="module")
def cluster(server: RunningServer) -> Iterator[None]:
    """The server's own Ray, joined by this process."""
    raylet = next(each for each in server.tree() if each.name() == "raylet")
    address = next(each for each in raylet.cmdline() if each.startswith("--gcs-address="))
    with pytest.MonkeyPatch.context() as patch:
        # To an address given explicitly Ray sends no token unless it is told to, before it has
        # read its variables.
        patch.setenv("RAY_AUTH_MODE", "token")
        Config.initialize("")
        ray.init(address=address.partition("=")[2], log_to_driver=False, logging_level="ERROR")
        yield
        ray.shutdown()


def _executions(model: str) -> list[int]:
    """Return how many batches each instance of a model has executed."""
    listed = ray.util.list_named_actors(all_namespaces=True)
    names = [each["name"] for each in listed if each["name"].startswith(f"{model}/")]
    instances = [ray.get_actor(name, namespace=NAMESPACE) for name in names]
    snapshots = ray.get([each.statistics.remote() for each in instances], timeout=60)
    return [each.execution_count for each in snapshots]


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("model", FILES)
def test_both_instances_answer(server: RunningServer, model: str) -> None:
    expected = _expected(model)[:64]
    # Each is a batch of its own, so that the first leaves the next to the other instance.
    full = [np.load(ANSWERS / "images.npy")[:64]] * 16
    with client_of(server, triton_grpc) as client:
        for _ in range(20):
            for answer in _ask(client, triton_grpc, model, full):
                np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-6)
            if all(_executions(model)):
                break
    assert len(_executions(model)) == 2
    assert all(_executions(model))


@pytest.mark.parametrize("model", TELLING)
def test_empty_config_is_completed_from_the_file(server: RunningServer, model: str) -> None:
    expected = _expected(model)
    name = f"{model}_completed"
    images = np.load(ANSWERS / "images.npy")[:4]
    with client_of(server, triton_http) as client:
        config, wanted = client.get_model_config(name), client.get_model_config(model)
        (given,), (output,) = config["input"], config["output"]
        for key in ("name", "data_type", "dims"):
            assert given[key] == wanted["input"][0][key]
        # Exported programs have no names for what they return.
        assert output["name"] in {wanted["output"][0]["name"], "OUTPUT__0"}
        assert output["data_type"] == "TYPE_FP32"
        assert config["max_batch_size"] >= 4
        tensors = _tensor(triton_http, model, images)
        answer = client.infer(name, tensors).as_numpy(output["name"])
    if model in FORESTS:  # classes, unless the config asks for probabilities
        np.testing.assert_array_equal(answer.ravel(), expected[:4].argmax(axis=1))
    else:
        np.testing.assert_allclose(answer, expected[:4], rtol=1e-5, atol=1e-6)


def _reason(server: RunningServer, model: str) -> str:
    with client_of(server, triton_http) as client:
        (row,) = [each for each in client.get_model_repository_index() if each["name"] == model]
        assert not client.is_model_ready(model)
    assert row["state"] == "UNAVAILABLE"
    return str(row["reason"])


@pytest.mark.parametrize("model", BROKEN)
def test_file_of_something_else_is_named_in_the_index(server: RunningServer, model: str) -> None:
    _expected(model)
    assert BROKEN[model] in _reason(server, f"{model}_broken")


@pytest.mark.parametrize("model", MISTYPED)
def test_datatype_that_is_not_the_files_is_named_in_the_index(
    server: RunningServer, model: str
) -> None:
    _expected(model)
    reason = _reason(server, f"{model}_mistyped")
    assert "INT64" in reason
    assert "FP32" in reason


def test_missing_framework_is_named_with_its_extra_in_the_index(server: RunningServer) -> None:
    _expected("digits_sklearn")
    reason = _reason(server, "digits_sklearn_bare")
    assert "'treelite' is not installed; pip install manta-serve[trees]" in reason
    assert "\n" not in reason


ROW = np.zeros((1, 64), np.float32)
# What is wrong with a request: its rows, their datatype and name, the version; and what is said.
REFUSED: dict[str, tuple[Array, str, str, str, str]] = {
    "datatype": (ROW.astype(np.int32), "INT32", "", "", "data-type is 'INT32', but"),
    "shape": (ROW[:, 1:], "FP32", "", "", "unexpected shape for input"),
    "batch": (ROW.repeat(65, 0), "FP32", "", "", "batch-size must be <= 64"),
    "name": (ROW, "FP32", "Y", "", "unexpected inference input 'Y'"),
    "version": (ROW, "FP32", "", "2", "version 2 is not found|version is not found"),
}


@pytest.mark.parametrize("protocol", CLIENTS)
@pytest.mark.parametrize("model", FILES)
def test_request_that_does_not_fit_is_refused_in_tritons_words(
    server: RunningServer, model: str, protocol: str
) -> None:
    _expected(model)
    module = CLIENTS[protocol]
    with client_of(server, module) as client:
        for rows, datatype, name, version, text in REFUSED.values():
            tensors = _tensor(module, model, rows, datatype, name)
            with pytest.raises(InferenceServerException, match=text):
                client.infer(model, tensors, model_version=version)


def test_backend_in_c_that_crashes_costs_one_instance_and_no_answer(
    server: RunningServer, tmp_path: Path
) -> None:
    asked = tmp_path / "crash"
    asked.touch()
    rows = np.int32([[7]])
    tensor = triton_http.InferInput("INPUT0", [1, 1], "INT32")
    tensor.set_data_from_numpy(rows)
    before = server.processes("ray::crashing/1")
    assert len(before) == 2
    with client_of(server, triton_http) as client:
        for parameters in ({"crash": str(asked)}, {}):
            answer = client.infer("crashing", [tensor], parameters=parameters)
            np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), rows)
    assert not asked.exists()
    said = "libtriton_crashing.so' of model 'crashing' crashed with SIGSEGV"
    _wait_until(lambda: any(said in line for line in server.lines))
    _wait_until(lambda: len(set(before) - set(server.processes("ray::crashing/1"))) == 1)
    _wait_until(lambda: len(server.processes("ray::crashing/1")) == 2)
    assert len(set(before) & set(server.processes("ray::crashing/1"))) == 1


def _wait_until(is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(600):
        if is_so():
            return
        pause.wait(0.1)
    raise AssertionError("it did not come to that")


def test_all_models_are_asked_at_once(server: RunningServer) -> None:
    images = np.load(ANSWERS / "images.npy")
    names = _made()

    def ask(model: str) -> Array:
        with client_of(server, triton_grpc) as client:
            return np.concatenate(_ask(client, triton_grpc, model, [images[:64]] * 8))

    with ThreadPoolExecutor(len(names)) as pool:
        for model, answer in zip(names, pool.map(ask, names), strict=True):
            expected = np.concatenate([_expected(model)[:64]] * 8)
            np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-6)
