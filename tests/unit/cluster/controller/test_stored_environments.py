# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""EXECUTION_ENV_PATH that leads into the directory of a model in a store."""

import io
import json
import os
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from cluster.controller.backend_options import stored_runtime_env_of
from cluster.repository.stores.fetch import FetchRequest, fetch
from cluster.repository.stores.local import LocalStore
from cluster.repository.stores.source import StoreSource
from deployments.model_files.cache import NodeCache
from deployments.model_files.contracts import AgentCall, ModelFile, ModelFiles

PACKAGES = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
INSIDE = "$$TRITON_MODEL_DIRECTORY/env.tar.gz"


def pack(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo(f"{PACKAGES}/packed_zq.py")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text.encode()))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The model's directory, as the store has it."""
    pack(tmp_path / "store" / "m" / "env.tar.gz", "VALUE = 1")
    return tmp_path / "store" / "m"


def files_of(model: Path, *agents: AgentCall) -> ModelFiles:
    found = LocalStore(str(model)).find()
    files = tuple(ModelFile(file.path, file.size_bytes, file.stamp) for file in found)
    return ModelFiles(str(model), files, agents)


def command_of(files: ModelFiles | None, cache: Path, path: str = INSIDE) -> list[str]:
    config = ModelConfig("m", backend="python", parameters={"EXECUTION_ENV_PATH": path})
    found = stored_runtime_env_of(config, "/skeleton/m", "", files, (str(cache), 0))
    return shlex.split(found["py_executable"])


def value_in(command: list[str], tmp_path: Path) -> str:
    """Start a process as Ray does and return what it imports."""
    script = "import os, packed_zq; print(packed_zq.VALUE, os.environ['VIRTUAL_ENV'])"
    variables = {**os.environ, "MANTA_ENVIRONMENT_CACHE": str(tmp_path / "environments")}
    done = subprocess.run(
        [*command, "-c", script], env=variables, check=True, capture_output=True, text=True
    )
    return done.stdout.split()[0]


def test_the_node_of_a_process_fetches_the_archive_before_it_begins(model: Path, tmp_path: Path):
    assert value_in(command_of(files_of(model), tmp_path / "cache"), tmp_path) == "1"
    # What the instance then needs of it is there.
    with NodeCache(tmp_path / "cache") as cache:
        assert cache.find(files_of(model)) is not None
    pack(model / "env.tar.gz", "VALUE = 2")
    assert value_in(command_of(files_of(model), tmp_path / "cache"), tmp_path) == "2"
    # The environment of the former archive is gone, for nobody uses it.
    (place,) = (each for each in (tmp_path / "environments").iterdir() if len(each.name) == 32)
    assert len([each for each in place.iterdir() if each.is_dir()]) == 1


def test_an_archive_that_cannot_be_fetched_is_told_to_who_loads_the_model(
    model: Path, tmp_path: Path
):
    command = command_of(files_of(model), tmp_path / "cache")
    (model / "env.tar.gz").unlink()
    script = "import os; print(os.environ['MANTA_MODEL_ENVIRONMENT_FAILURE'])"
    done = subprocess.run([*command, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.startswith(f"'{model}/env.tar.gz' cannot be fetched: ")


def test_an_archive_elsewhere_and_one_that_came_with_a_load_are_used_where_they_are(
    model: Path, tmp_path: Path
):
    assert command_of(files_of(model), tmp_path, "/opt/env.tar.gz")[-1] == "/opt/env.tar.gz"
    assert command_of(None, tmp_path)[-1] == "/skeleton/m/env.tar.gz"
    loaded = ModelFiles("load://n1/skeleton/m", files_of(model).files)
    assert command_of(loaded, tmp_path)[-1] == "/skeleton/m/env.tar.gz"


def test_a_path_that_is_no_file_of_the_model_is_refused(model: Path, tmp_path: Path):
    for path in ("none.tar.gz", "1/../folder"):
        with pytest.raises(InvalidArgumentError, match=r"m', which is no archive; put an archive"):
            command_of(files_of(model), tmp_path, f"$$TRITON_MODEL_DIRECTORY/{path}")


@pytest.mark.parametrize("agent", ["verify", "decrypt", "unpack", "own"])
def test_an_archive_that_agents_have_yet_to_make_or_to_trust_is_refused(
    model: Path, tmp_path: Path, agent: str
):
    with pytest.raises(InvalidArgumentError, match=f"before agent '{agent}' has seen it"):
        command_of(files_of(model, AgentCall("checksum"), AgentCall(agent)), tmp_path)


def test_agents_that_only_look_leave_it_as_it_is(model: Path, tmp_path: Path):
    command = command_of(files_of(model, AgentCall("checksum"), AgentCall("manifest")), tmp_path)
    assert json.loads(command[-2])["file"]["path"] == "env.tar.gz"


def test_a_file_is_fetched_once(model: Path, tmp_path: Path):
    (file,) = files_of(model).files
    request = FetchRequest("s3://bucket/m", file, str(tmp_path / "cache"))
    opened: list[str] = []

    def open_from(location: str) -> StoreSource:
        opened.append(location)
        return StoreSource(LocalStore(str(model)))

    first = fetch(request, open_from)
    assert fetch(request, open_from) == first
    assert opened == ["s3://bucket/m"]
    assert Path(first).read_bytes() == (model / "env.tar.gz").read_bytes()
