# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A folder that is a model in the place of a repository."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.repository.repository import ModelRepository
from cluster.repository.single_model import SingleModels, is_model

KSERVE = {"INFERENCE_SERVICE_NAME": "digits"}


def write(root: Path, *files: str, text: str = "") -> Path:
    for file in files:
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def models() -> Iterator[SingleModels]:
    models = SingleModels(KSERVE)
    yield models
    models.close()


@pytest.mark.parametrize(
    "files",
    [
        ("config.pbtxt", "1/model.onnx"),
        ("1/model.onnx",),
        ("1/model.onnx", "3/model.onnx", "labels.txt", "warmup/input"),
        ("1/model.savedmodel/variables/v", "1/model.savedmodel/saved_model.pb"),
    ],
)
def test_folder_of_a_config_or_of_versions_is_a_model(tmp_path: Path, files) -> None:
    assert is_model(write(tmp_path, *files))


@pytest.mark.parametrize(
    "files",
    [
        (),
        ("resnet/config.pbtxt", "resnet/1/model.onnx"),
        ("1/config.pbtxt", "1/1/model.onnx"),
        ("1/1/model.onnx",),
        ("1/model.onnx", "resnet/1/model.onnx"),
        ("readme.txt",),
    ],
)
def test_folder_of_models_is_none(tmp_path: Path, files) -> None:
    assert not is_model(write(tmp_path, *files))


@pytest.mark.parametrize("path", ["s3://bucket/models", "/there/is/nothing"])
def test_what_is_no_folder_here_is_left_as_it_is(models: SingleModels, path: str) -> None:
    assert models.repositories([path]) == (path,)


@pytest.mark.parametrize(
    ("config", "environment", "name"),
    [
        ('name: "resnet"', KSERVE, "resnet"),
        ("", KSERVE, "digits"),
        ("", {}, "models"),
        ('name: "../evil"', KSERVE, "models"),
        ("this is no config", KSERVE, "digits"),
    ],
)
def test_model_is_called_as_its_config_or_kserve_says(
    tmp_path: Path, config: str, environment, name: str
) -> None:
    folder = write(tmp_path / "models", "config.pbtxt", text=config)
    write(folder, "1/model.onnx")
    models = SingleModels(environment)
    (repository,) = models.repositories([str(folder)])
    assert list(ModelRepository((repository,)).scan().directories) == [name]
    models.close()
    assert not Path(repository).exists()
    assert (folder / "1/model.onnx").exists()


def test_repository_beside_a_model_is_left_as_it_is(models: SingleModels, tmp_path: Path) -> None:
    model = write(tmp_path / "a", "1/model.onnx")
    repository = write(tmp_path / "b", "resnet/1/model.onnx")
    made = models.repositories([str(model), str(repository)])
    assert made[1] == str(repository)
    assert list(ModelRepository(made).scan().directories) == ["digits", "resnet"]
