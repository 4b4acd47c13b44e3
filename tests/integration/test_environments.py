# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Models and backends with environments and modules of their own, on a real server.

Each model answers with the value of an expression over what it has imported.
"""

import io
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.support.model_folders import write_folder
from tests.support.server import RunningServer
from tests.support.shared_server import brought
from tests.support.wheels import make_wheel

PACKAGES = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
CONFIG = """
name: "{name}" backend: "python"
output {{ name: "SAYS" data_type: TYPE_STRING dims: [ 1 ] }}
"""
INPUT = 'input { name: "IN" data_type: TYPE_STRING dims: [ 1 ] }\noutput {'
MODEL = """
import numpy as np
import triton_python_backend_utils as pb_utils
{imports}


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        return config

    def execute(self, requests):
        text = np.array([str({says})], dtype=np.object_)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("SAYS", text)]) for _ in requests]
"""


def _write(root: Path, name: str, imports: str, says: str, config: str = "") -> Path:
    code = MODEL.format(imports=imports, says=says)
    return write_folder(root, name, CONFIG.format(name=name) + config, code) / "1"


def _parameter(key: str, value: str) -> str:
    return f"parameters {{ key: \"{key}\" value {{ string_value: '{value}' }} }}"


def _pack(path: Path, files: dict[str, str]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))


def _write_siblings(root: Path, name: str) -> None:
    """A model with a module, packages and relative imports, named as in the other model."""
    version = _write(
        root,
        name,
        "import common\nimport parts.first\nfrom above import ABOVE",
        "[common.NAME, parts.first.NAME, parts.first.second.NAME, ABOVE]",
    )
    (version / "common.py").write_text(f"NAME = '{name} common'")
    (version / "parts").mkdir()
    (version / "parts/__init__.py").write_text("")
    (version / "parts/first.py").write_text("from . import second\nfrom .second import NAME")
    (version / "parts/second.py").write_text(f"NAME = '{name} second'")
    (root / name / "above.py").write_text(f"ABOVE = '{name} above'")


def _write_python_based(root: Path, backends: Path, name: str, environment: str = "") -> None:
    """A model that says what its backend's environment, or its own, has in ``packed_zq``."""
    folder = backends / "say"
    if not folder.exists():
        folder.mkdir(parents=True)
        says = "[packed_zq.VALUE, beside_zq.NAME, pb_utils.get_model_dir().split('/')[-2:]]"
        source = MODEL.format(imports="import beside_zq, packed_zq", says=says)
        (folder / "model.py").write_text(source)
        (folder / "beside_zq.py").write_text("NAME = 'beside'")
        _pack(folder / "pb_exec_env_model.py.tar.gz", {f"{PACKAGES}/packed_zq.py": "VALUE = 7"})
    write_folder(root, name, CONFIG.format(name=name).replace('"python"', '"say"') + environment)


def _write_requiring(root: Path) -> None:
    """Models with requirements: two versions of one package, a package of the server, none such."""
    for name, version in (("required", "1.0"), ("other_required", "2.0")):
        folder = _write(root, name, "import wheel_zq", "wheel_zq.VALUE")
        make_wheel(folder, "wheel_zq", version, f"VALUE = {version}")
        lines = f"--no-index\n--find-links=.\nwheel_zq=={version}\nnumpy\n"
        (folder / "requirements.txt").write_text(lines)
    # What processes are forked from has imported hpack, which instances do not need.
    folder = _write(root, "replacing", "import hpack", "hpack.VALUE")
    make_wheel(folder, "hpack", "0.1", "VALUE = 7")
    (folder / "requirements.txt").write_text("--no-index\n--find-links=.\nhpack==0.1\n")
    folder = _write(root, "missing", "import wheel_zq", "0")
    (folder / "requirements.txt").write_text("--no-index\nnowhere_zq==9.9\n")


@pytest.fixture(scope="module")
def root(backends: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("environments")
    _write_siblings(root, "one")
    _write_siblings(root, "other")
    inside = _parameter("EXECUTION_ENV_PATH", "$$TRITON_MODEL_DIRECTORY/env.tar.gz")
    # yaml is one of Manta's own dependencies: the environment's comes first.
    imports = "import os, packed_zq, yaml"
    says = "[packed_zq.VALUE, yaml.VALUE, os.environ['PATH'].split(':')[0].endswith('/bin')]"
    _write(root, "packed", imports, says, inside)
    files = {f"{PACKAGES}/packed_zq.py": "VALUE = 1", f"{PACKAGES}/yaml.py": "VALUE = 2"}
    _pack(root / "packed/env.tar.gz", files)
    folder = root.parent / "environment_folder"
    (folder / PACKAGES).mkdir(parents=True, exist_ok=True)
    (folder / PACKAGES / "folder_zq.py").write_text("VALUE = 3")
    outside = _parameter("EXECUTION_ENV_PATH", str(folder))
    _write(root, "folder", "import folder_zq", "folder_zq.VALUE", outside)
    _write(root, "old", "import packed_zq", "0", inside)
    _pack(root / "old/env.tar.gz", {"lib/python3.4/site-packages/packed_zq.py": ""})
    _write_requiring(root)
    given = _parameter("runtime_env", '{"env_vars": {"SAID_ZQ": "5"}}')
    _write(root, "given", "import os", "os.environ['SAID_ZQ']", given)
    _write_python_based(root, backends, "based")
    own = _parameter("EXECUTION_ENV_PATH", str(root / "packed/env.tar.gz"))
    _write_python_based(root, backends, "based_own", own)
    old = _parameter("EXECUTION_ENV_PATH", str(root / "old/env.tar.gz"))
    config = CONFIG.format(name="native").replace('"python"', '"identity"')
    write_folder(root, "native", config.replace("output {", INPUT) + old)
    return root


@pytest.fixture(scope="module")
def client(surface: RunningServer, root: Path) -> Iterator[triton_http.InferenceServerClient]:
    with (
        brought(surface, root, refused={"native", "old", "missing"}) as server,
        triton_http.InferenceServerClient(server.http, network_timeout=300) as client,
    ):
        yield client


def _says(client: triton_http.InferenceServerClient, model: str) -> str:
    answer: bytes = client.infer(model, []).as_numpy("SAYS")[0]
    return answer.decode()


def _reason(client: triton_http.InferenceServerClient, model: str) -> str:
    (row,) = [row for row in client.get_model_repository_index() if row["name"] == model]
    assert row["state"] == "UNAVAILABLE"
    return str(row["reason"])


@pytest.mark.parametrize("name", ["one", "other"])
def test_modules_and_packages_beside_the_model_are_its_own(
    client: triton_http.InferenceServerClient, name: str
) -> None:
    parts = [f"{name} common", f"{name} second", f"{name} second", f"{name} above"]
    assert _says(client, name) == str(parts)


def test_packed_environment_comes_before_the_servers(
    client: triton_http.InferenceServerClient,
) -> None:
    assert _says(client, "packed") == "[1, 2, True]"
    assert _says(client, "folder") == "3"


def test_python_based_backend_brings_an_environment_and_models_may_bring_another(
    client: triton_http.InferenceServerClient,
) -> None:
    assert client.get_model_config("based")["runtime"] == "model.py"
    assert _says(client, "based") == "[7, 'beside', ['based', '1']]"
    assert _says(client, "based_own") == "[1, 'beside', ['based_own', '1']]"


def test_environment_of_another_python_is_refused_for_every_backend(
    client: triton_http.InferenceServerClient,
) -> None:
    assert "is an environment of Python 3.4" in _reason(client, "native")


def test_replaced_environment_is_used_after_a_load(
    root: Path, client: triton_http.InferenceServerClient
) -> None:
    files = {f"{PACKAGES}/packed_zq.py": "VALUE = 11", f"{PACKAGES}/yaml.py": "VALUE = 12"}
    _pack(root / "packed/env.tar.gz", files)
    client.load_model("packed")
    assert _says(client, "packed") == "[11, 12, True]"


def test_environment_of_another_python_names_both_versions(
    client: triton_http.InferenceServerClient,
) -> None:
    reason = _reason(client, "old")
    assert "is an environment of Python 3.4" in reason
    assert f"runs models with Python {sys.version_info.major}.{sys.version_info.minor}" in reason


def test_requirements_beside_the_model_are_installed(
    client: triton_http.InferenceServerClient,
) -> None:
    assert _says(client, "required") == "1.0"
    assert _says(client, "other_required") == "2.0"
    assert _says(client, "given") == "5"


def test_required_package_comes_before_one_that_processes_are_forked_with(
    client: triton_http.InferenceServerClient,
) -> None:
    assert _says(client, "replacing") == "7"


def test_requirements_that_cannot_be_installed_show_the_installers_message(
    client: triton_http.InferenceServerClient,
) -> None:
    reason = _reason(client, "missing")
    assert "missing/1/requirements.txt' cannot be met: " in reason
    assert "nowhere_zq==9.9" in reason.replace("-", "_")
    with pytest.raises(InferenceServerException):
        client.infer("missing", [])
