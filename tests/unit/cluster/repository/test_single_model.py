# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A folder that is a model in the place of a repository."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.api.errors import InvalidArgumentError
from cluster.repository.repository import ModelRepository
from cluster.repository.single_model import SingleModels, is_model, refuse_files
from tests.support.broken_repositories import COMPLETING, PYTHON, onnx_file

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


def test_a_file_alone_is_a_model_called_as_the_file(tmp_path: Path) -> None:
    (tmp_path / "digits.onnx").write_bytes(onnx_file())
    models = SingleModels({})
    (place,) = models.repositories([str(tmp_path / "digits.onnx")])
    found = ModelRepository((place,)).read_model("digits")
    assert (found.config.backend, found.versions) == ("onnxruntime", (1,))
    assert Path(place, "digits/1/model.onnx").read_bytes() == onnx_file()
    models.close()
    assert not Path(place).exists()
    assert (tmp_path / "digits.onnx").exists()


@pytest.mark.parametrize(
    ("files", "given", "name"),
    [
        (("resnet/model.onnx",), "resnet/model.onnx", "resnet"),
        (("net.savedmodel/saved_model.pb",), "net.savedmodel", "net"),
        (("iris/model.py", "iris/iris.joblib"), "iris", "iris"),
        (("one/model.onnx",), "one", "one"),
    ],
)
def test_a_file_with_a_usual_name_and_a_folder_of_files_are_called_as_the_folder(
    tmp_path: Path, files: tuple[str, ...], given: str, name: str
) -> None:
    for file in files:
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(COMPLETING if path.suffix == ".py" else onnx_file())
    models = SingleModels({})
    (place,) = models.repositories([str(tmp_path / given)])
    assert list(ModelRepository((place,)).scan().directories) == [name]
    assert len([each for each in Path(place).rglob("*") if each.is_file()]) == len(files)
    models.close()


def test_a_forest_gets_the_config_that_names_its_type(models: SingleModels, tmp_path: Path) -> None:
    (tmp_path / "xgboost.json").write_text('{"learner": {}}')
    (place,) = models.repositories([str(tmp_path / "xgboost.json")])
    assert 'backend: "fil"' in Path(place, "digits/config.pbtxt").read_text()


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("notes.txt", b"hello", "of no format that is known"),
        ("model.py", PYTHON, "does not tell its inputs and outputs. Publish it with"),
    ],
)
def test_a_file_that_is_no_model_or_tells_too_little_is_refused(
    models: SingleModels, tmp_path: Path, name: str, content: bytes, why: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=why):
        models.repositories([str(tmp_path / name)])


def test_a_cluster_is_given_no_file_of_this_machine(tmp_path: Path) -> None:
    refuse_files([str(tmp_path), "s3://bucket/models"])
    (tmp_path / "net.onnx").write_bytes(onnx_file())
    with pytest.raises(InvalidArgumentError, match="other nodes of the cluster do not have"):
        refuse_files([str(tmp_path / "net.onnx")])


def test_repository_beside_a_model_is_left_as_it_is(models: SingleModels, tmp_path: Path) -> None:
    model = write(tmp_path / "a", "1/model.onnx")
    repository = write(tmp_path / "b", "resnet/1/model.onnx")
    made = models.repositories([str(model), str(repository)])
    assert made[1] == str(repository)
    assert list(ModelRepository(made).scan().directories) == ["digits", "resnet"]
