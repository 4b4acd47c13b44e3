# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Publishing, checking and pulling what the Hugging Face Hub and MLflow have."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cluster.cli import main
from cluster.repository.repository import ModelRepository
from tests.support.broken_repositories import onnx_file
from tests.support.hub_server import HubServer
from tests.support.mlflow_server import MlflowServer


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield running


def add(source: str, repository: Path) -> int:
    return main(["model", "add", source, "--name", "mine", "--to", str(repository)])


def test_a_model_of_the_hub_is_published(hub: HubServer, tmp_path: Path) -> None:
    hub.push("org/net", {"onnx/model.onnx": onnx_file(), "README.md": b"#"})
    assert add("hf://org/net", tmp_path) == 0
    assert (tmp_path / "mine/1/model.onnx").read_bytes() == onnx_file()
    assert main(["check", str(tmp_path)]) == 0


def test_the_newest_registered_version_is_published(tmp_path: Path) -> None:
    about = yaml.safe_dump({"flavors": {"xgboost": {"data": "model.json"}}}).encode()
    with MlflowServer() as server:
        for number in (1, 2):
            content = b'{"learner": %d}' % number
            server.register("net", number, {"MLmodel": about, "model.json": content})
        assert add(f"mlflow://{server.address}/models/net", tmp_path) == 0
    assert (tmp_path / "mine/1/xgboost.json").read_bytes() == b'{"learner": 2}'
    assert (tmp_path / "mine/config.pbtxt").read_bytes() == b'backend: "fil"\n'


def test_of_several_models_one_has_to_be_chosen(
    hub: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.push("org/many", {"a/1/model.onnx": onnx_file(), "b/1/model.onnx": onnx_file()})
    assert add("hf://org/many", tmp_path) == 1
    assert "has the models a, b, expected one" in capsys.readouterr().err
    assert main(["model", "pull", "b", "--at", "hf://org/many", "--to", str(tmp_path)]) == 0
    assert (tmp_path / "b/1/model.onnx").read_bytes() == onnx_file()


def test_repositories_of_several_kinds_are_checked_and_read(hub: HubServer, tmp_path: Path) -> None:
    hub.push("org/net", {"model.onnx": onnx_file() + b"\x82\x01\x00" * 400})
    (tmp_path / "local/1").mkdir(parents=True)
    (tmp_path / "local/1/model.onnx").write_bytes(onnx_file())
    locations = ["hf://org/net", str(tmp_path)]
    assert main(["check", *locations]) == 0
    repository = ModelRepository(locations)
    assert sorted(repository.scan().directories) == ["local", "net"]
    model = repository.read_model("net")
    assert model.config.backend == "onnxruntime"
    assert model.files is not None
    (file,) = model.files[1].files
    assert len(file.sha256) == 64
    assert model.files[1].location == "hf://org/net/net"
