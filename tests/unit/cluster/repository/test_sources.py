# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A node brings what a repository of the Hugging Face Hub, or of MLflow, has told."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from backends.api.errors import UnavailableError
from cluster.repository.repository import ModelRepository
from cluster.repository.stores.source import open_source
from deployments.model_files.cache import NodeCache
from deployments.model_files.contracts import FileChangedError, ModelFiles
from tests.support.broken_repositories import onnx_file
from tests.support.hub_server import HubServer
from tests.support.mlflow_server import MlflowServer

# Three parts of a download.
WEIGHTS = random.Random(13).randbytes(10 << 20)
ABOUT = yaml.safe_dump({"flavors": {"onnx": {"data": "model.onnx"}}}).encode()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield running


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[MlflowServer]:
    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with MlflowServer() as running:
        yield running


def files_of(location: str, model: str = "net", version: int = 1) -> ModelFiles:
    files = ModelRepository([location]).read_model(model).files
    assert files is not None
    return files[version]


def test_a_node_brings_a_model_of_the_hub_once(hub: HubServer, tmp_path: Path) -> None:
    hub.push("org/net", {"model.onnx": onnx_file(), "model.onnx_data": WEIGHTS})
    files = files_of("hf://org/net")
    with NodeCache(tmp_path) as cache:
        directory = cache.ensure(files, open_source)
        assert (directory / "1/model.onnx_data").read_bytes() == WEIGHTS
        # The same content in another repository is known by its digest.
        hub.push("org/copy", {"model.onnx": onnx_file(), "model.onnx_data": WEIGHTS})
        hub.requests.clear()
        other = cache.ensure(files_of("hf://org/copy", "copy"), open_source)
        assert (other / "1/model.onnx_data").read_bytes() == WEIGHTS
    assert not any(path.startswith("*") for path in hub.requests)


def test_a_file_that_is_not_what_the_hub_has_told_is_refused(
    hub: HubServer, tmp_path: Path
) -> None:
    hub.push("org/net", {"model.onnx": onnx_file(), "model.onnx_data": WEIGHTS})
    files = files_of("hf://org/net")
    hub.sent = {"model.onnx_data": WEIGHTS[::-1]}
    with NodeCache(tmp_path) as cache, pytest.raises(UnavailableError, match="SHA-256"):
        cache.ensure(files, open_source)


def test_a_node_refuses_a_model_of_which_a_file_was_replaced(
    hub: HubServer, tmp_path: Path
) -> None:
    hub.push("org/net", {"model.onnx": onnx_file(), "model.onnx_data": WEIGHTS})
    files = files_of("hf://org/net")
    hub.push("org/net", {"model.onnx": onnx_file(), "model.onnx_data": WEIGHTS[::-1]})
    with NodeCache(tmp_path) as cache, pytest.raises(FileChangedError):
        cache.ensure(files, open_source)


def test_a_node_brings_a_registered_version_with_one_request_for_each_file(
    mlflow: MlflowServer, tmp_path: Path
) -> None:
    artifact = {"MLmodel": ABOUT, "model.onnx": onnx_file(), "0f1e": WEIGHTS}
    mlflow.register("net", 1, artifact)
    files = files_of(f"mlflow://{mlflow.address}/models/net")
    mlflow.requests.clear()
    with NodeCache(tmp_path) as cache:
        directory = cache.ensure(files, open_source)
        assert (directory / "1/0f1e").read_bytes() == WEIGHTS
        assert (directory / "1/model.onnx").read_bytes() == onnx_file()
    for name in artifact:
        assert sum(path.endswith(f"/{name}") for path in mlflow.requests) == 1
