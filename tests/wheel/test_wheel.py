# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The wheel of ``dist/`` in an empty virtual environment, away from the sources."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from tests.support.clients import LEFT, RIGHT, add_sub_inputs, check_add_sub
from tests.support.server import ROOT, RunningServer

pytestmark = pytest.mark.timeout(600)

UV = Path(sys.executable).parent / "uv"
VARIABLES = ("PYTHONPATH", "VIRTUAL_ENV", "MANTA_COMPILED")

# Modules beside a model that are called as packages of a checkout, and as the one of a wheel.
NAMESAKES = {
    "cluster.py": "K = 1\n",
    "backends/__init__.py": "",
    "backends/api.py": "K = 10\n",
    "deployments/stages/first.py": "K = 100\n",
    "manta.py": "K = 1000\n",
    "model.py": """
import cluster
import triton_python_backend_utils as pb_utils
from backends import api


class TritonPythonModel:
    def execute(self, requests):
        import deployments.stages.first
        import manta

        own = cluster.K + api.K + deployments.stages.first.K + manta.K
        inputs = [pb_utils.get_input_tensor_by_name(each, "X").as_numpy() for each in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", own * each)]) for each in inputs]
""",
}
NAMESAKES_CONFIG = """
backend: "python"
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
"""


def environment(**more: str) -> dict[str, str]:
    """Those of the shell, without what leads to the sources."""
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return kept | more


@pytest.fixture(scope="module")
def wheel() -> Path:
    return made("manta_serve")


@pytest.fixture(scope="module")
def wheel_of_tools() -> Path:
    return made("manta_tools")


def made(distribution: str) -> Path:
    found = list((ROOT / "dist").glob(f"{distribution}-*.whl"))
    assert len(found) == 1, "run 'make wheel' first"
    return found[0]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wheel")


@pytest.fixture(scope="module")
def bin_of_venv(wheel: Path, place: Path) -> Path:
    """The programs of an empty environment that only the wheel was installed into."""
    venv = place / "venv"
    call(str(UV), "venv", "--quiet", "--python", sys.executable, str(venv), cwd=place)
    call(
        *(str(UV), "pip", "install", "--quiet", "--python", str(venv / "bin/python")),
        *("--constraint", str(ROOT / "constraints.txt"), f"{wheel}[cpu]"),
        cwd=place,
    )
    return venv / "bin"


def run(*command: str, cwd: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, cwd=cwd, env=environment(**more), capture_output=True, text=True, check=False
    )


def call(*command: str, cwd: Path, **more: str) -> str:
    done = run(*command, cwd=cwd, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def server(bin_of_venv: Path, place: Path) -> Iterator[RunningServer]:
    # A copy, so that no process has a reason to open a file of the sources.
    shutil.copytree(ROOT / "configs/models", place / "models")
    for path, text in NAMESAKES.items():
        file = place / "models/namesakes/1" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (place / "models/namesakes/config.pbtxt").write_text(NAMESAKES_CONFIG)
    running = RunningServer(
        place / "models",
        manta=(str(bin_of_venv / "manta"),),
        cwd=place,
        environment=environment(),
    )
    yield running
    running.terminate()


def test_wheel_is_for_this_python_and_machine_and_has_the_sources_too(wheel):
    assert re.fullmatch(r"manta_serve-[\w.]+-cp3\d+-cp3\d+-\w+\.whl", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    (library,) = (each for each in names if each.startswith("manta__mypyc."))
    suffix = library.removeprefix("manta__mypyc")
    compiled = [each for each in names if each.endswith(suffix) and each != library]
    assert len(compiled) > 50
    assert [each for each in compiled if each.removesuffix(suffix) + ".py" not in names] == []


def test_wheel_has_what_backends_in_c_are_loaded_with_and_its_sources(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "manta/backends/custom/shim/libtritonserver.so" in names
    assert "manta/backends/custom/shim/triton_abi.h" in names


def test_wheel_has_one_package_and_what_mypyc_makes_beside_it(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    outside = {each.partition("/")[0] for each in names if ".dist-info/" not in each}
    assert {each for each in outside if not each.startswith("manta__mypyc.")} == {"manta"}


@pytest.mark.parametrize(("wish", "form"), [("", "compiled"), ("1", "compiled"), ("0", "plain")])
def test_version_says_which_form_it_runs(bin_of_venv, place, wish, form):
    assert f"({form})" in call(
        str(bin_of_venv / "manta"), "version", cwd=place, MANTA_COMPILED=wish
    )


def test_modules_are_those_of_the_environment(bin_of_venv, place):
    code = (
        "import sys, manta.app, manta.cluster.cli;"
        "print(*(each.__file__ for name, each in sys.modules.items() if 'manta' in name))"
    )
    shown = call(str(bin_of_venv / "python"), "-c", code, cwd=place).split()
    assert len(shown) > 100
    assert [path for path in shown if not path.startswith(str(place))] == []


def test_names_of_a_checkout_are_those_of_whoever_uses_them_first(bin_of_venv, place):
    code = (
        "import sys, manta.app; from importlib.util import find_spec;"
        "print([find_spec(each) for each in ('cluster', 'backends', 'deployments')],"
        "[each for each in sys.modules if each.split('.')[0] in ('cluster', 'backends')])"
    )
    assert call(str(bin_of_venv / "python"), "-c", code, cwd=place) == "[None, None, None] []"


def test_command_is_a_module_too(bin_of_venv, place):
    shown = call(str(bin_of_venv / "python"), "-m", "manta", "version", cwd=place)
    assert shown == call(str(bin_of_venv / "manta"), "version", cwd=place)


def test_plain_form_imports_no_extension_module_of_its_own(bin_of_venv, place):
    code = (
        "import sys, manta.deployments.data_plane;print(*map(str, sys.modules.values()), sep='\\n')"
    )
    shown = call(str(bin_of_venv / "python"), "-c", code, cwd=place, MANTA_COMPILED="0")
    own = [line for line in shown.splitlines() if "'manta.deployments." in line]
    assert own
    assert not [line for line in own if ".so'" in line]
    assert "manta__mypyc" not in shown


def test_demo_models_are_served_over_http(server):
    with triton_http.InferenceServerClient(server.http) as client:
        check_add_sub(client.infer("simple", add_sub_inputs(triton_http)))
        digits = triton_http.InferInput("X", [1, 64], "FP32")
        digits.set_data_from_numpy(np.zeros((1, 64), np.float32))
        assert client.infer("digits", [digits]).as_numpy("label").shape == (1, 1)


def test_demo_models_are_served_over_grpc(server):
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        result = client.infer("simple", add_sub_inputs(triton_grpc))
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), LEFT + RIGHT)


def test_modules_beside_a_model_may_be_called_as_those_of_a_checkout(server):
    with triton_http.InferenceServerClient(server.http) as client:
        given = triton_http.InferInput("X", [1], "INT32")
        given.set_data_from_numpy(np.array([2], np.int32))
        assert client.infer("namesakes", [given]).as_numpy("Y").tolist() == [2222]


def test_no_process_of_the_server_uses_the_sources_and_those_that_serve_are_compiled(server):
    processes = [psutil.Process(server.pid), *server.tree()]
    files = {each.pid: opened(each) for each in processes}
    assert not [path for paths in files.values() for path in paths if path.startswith(f"{ROOT}/")]
    compiled = [pid for pid, paths in files.items() if any("manta__mypyc" in p for p in paths)]
    # An ingress and an instance of each model at least.
    assert len(compiled) > len(list((ROOT / "configs/models").iterdir())) // 2


def test_wheel_of_tools_is_for_all_and_has_what_pages_are_drawn_with(wheel_of_tools):
    assert wheel_of_tools.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel_of_tools).namelist()
    assert "manta_tools/pages/page.html.jinja" in names
    outside = {each.partition("/")[0] for each in names if ".dist-info/" not in each}
    assert outside == {"manta_tools"}


# After all others but those of the tools, for it installs into the environment.
def test_tools_are_asked_for_until_they_are_installed_beside_the_server(
    bin_of_venv, place, wheel_of_tools
):
    missing = run(str(bin_of_venv / "manta"), "perf", "--help", cwd=place)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr.endswith("pip install manta-tools\n")
    call(
        *(str(UV), "pip", "install", "--quiet", "--python", str(bin_of_venv / "python")),
        *("--constraint", str(ROOT / "constraints.txt"), str(wheel_of_tools)),
        cwd=place,
    )
    assert call(str(bin_of_venv / "manta"), "perf", "--help", cwd=place).startswith(
        "Usage: manta perf -m MODEL"
    )
    assert "pip install" not in call(str(bin_of_venv / "manta"), "--help", cwd=place)


def test_tools_measure_the_server_beside_them(bin_of_venv, place, server):
    shown = call(
        *(str(bin_of_venv / "manta"), "perf", "-m", "simple", "-u", server.http),
        *("--request-count", "20", "--concurrency-range", "1"),
        cwd=place,
    )
    assert "Throughput" in shown


def test_tools_find_every_module_of_the_server_that_they_take(bin_of_venv, place):
    code = (
        "import importlib, pkgutil, manta_tools as tools;"
        "found = pkgutil.walk_packages(tools.__path__, 'manta_tools.');"
        # Pages are drawn with what is an extra.
        "names = [each.name for each in found if not each.name.startswith('manta_tools.pages.')];"
        "print(len([importlib.import_module(each) for each in names]))"
    )
    assert int(call(str(bin_of_venv / "python"), "-c", code, cwd=place)) > 100


def test_server_stops_cleanly(server):
    assert server.terminate() == 0


def opened(process: psutil.Process) -> list[str]:
    try:
        maps = [each.path for each in process.memory_maps()]
        return [*maps, process.cwd(), *(each.path for each in process.open_files())]
    except (psutil.Error, OSError):
        return []
