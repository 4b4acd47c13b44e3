# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Publishing to, checking and pulling from a store that has no rename."""

from pathlib import Path
from uuid import uuid4

import pytest

from cluster.cli import main
from cluster.repository.repository import INCOMPLETE_FILE, ModelRepository
from cluster.repository.stores.opening import open_store
from tests.support.broken_repositories import CPU, TENSORS, onnx_file


@pytest.fixture
def location() -> str:
    return f"memory://{uuid4().hex}/models"


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx_file())
    return str(path)


def test_what_is_published_is_checked_and_pulled(
    location: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for flags in ((), ("--next",)):
        assert main(["model", "add", model, "--name", "net", "--to", location, *flags]) == 0
    assert main(["model", "pull", "net", "--at", location, "--to", str(tmp_path / "here")]) == 0
    assert (tmp_path / "here/net/2/model.onnx").read_bytes() == onnx_file()
    assert main(["model", "rm", "net", "--version", "1", "--at", location]) == 0
    capsys.readouterr()
    assert main(["check", location]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ["not checked" in line for line in lines] == [True, False]
    assert lines[-1].startswith("1 of 1 models load")
    assert main(["model", "rm", "net", "--all", "--at", location]) == 0
    assert open_store(location).look("net/2/model.onnx") is None
    assert main(["model", "show", "net", "--at", location]) == 1


def test_a_defect_has_its_place_in_the_store(
    location: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_store(location)
    store.write("net/config.pbtxt", f'backend: "onnxruntime"\n{TENSORS}{CPU}'.encode())
    store.write("net/1/other.onnx", onnx_file())
    store.write("wrong/config.pbtxt", b'backend: "identity"\nmax_batch_size: -1\n')
    store.write("wrong/1/x", b"")
    assert main(["check", location]) == 1
    errors = [line for line in capsys.readouterr().out.splitlines() if ": error: " in line]
    assert errors[0].startswith(f"{store.location}/net/1/model.onnx:1:1: error: unable to find")
    assert errors[1].startswith(f"{store.location}/wrong/config.pbtxt:2:1: error: 'max_batch_size'")


def test_a_version_that_is_being_written_is_not_read(location: str, model: str) -> None:
    main(["model", "add", model, "--name", "net", "--to", location])
    store = open_store(location)
    store.write(f"net/2/{INCOMPLETE_FILE}", b"")
    store.write("net/2/model.onnx", b"half")
    read = ModelRepository([location]).read_model("net")
    assert read.versions == (1,)
    assert "version 2 of model 'net' is left out" in read.warnings[-1]
    store.remove(f"net/2/{INCOMPLETE_FILE}")
    assert ModelRepository([location]).read_model("net").versions == (2,)
