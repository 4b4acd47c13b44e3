# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Formats are told by content, and a version's directory gets Triton's names."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError
from cluster.repository import model_formats
from cluster.repository.model_formats import find_model
from cluster.repository.written_config import config_text
from tests.support.broken_repositories import COMPLETING, PYTHON, onnx_file, weighty_onnx_file

# A GraphDef of one node without attributes, field 1 of the graph.
GRAPH_DEF = b"\x0a\x05\x0a\x01x\x12\x00"
IR = b'<?xml version="1.0"?>\n<net name="g" version="11"></net>\n'


def archive(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name in names:
            made.writestr(f"model/{name}", "")
    return path


def written(name: str, content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return write


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (written("any.bin", onnx_file()), model_formats.ONNX),
        (written("graph.pb", GRAPH_DEF), model_formats.GRAPH_DEF),
        (written("net.engine", b"ftrt\0\0"), model_formats.PLAN),
        (written("chat.bin", b"GGUF\3\0\0\0"), model_formats.GGUF),
        (written("a.json", b'{"learner": {}}'), model_formats.XGBOOST_JSON),
        (written("a.json", b'{\n "learner": {}}'), model_formats.XGBOOST_JSON),
        (written("a.ubj", b"{L\0\0\0\0\0\0\0\x07learner{}"), model_formats.XGBOOST_UBJ),
        (written("a.txt", b"tree\nversion=v4\n"), model_formats.LIGHTGBM),
        (written("a.tl", b"\4\0\0\0\6\0\0\0\0\0\0\0rest"), model_formats.TREELITE),
        (written("any_name.py", PYTHON), model_formats.PYTHON),
        (
            lambda at: archive(at / "m.zip", "data.pkl", "constants.pkl", "code/x"),
            model_formats.SCRIPT,
        ),
        (lambda at: archive(at / "m.pt2", "models/model.json"), model_formats.EXPORTED),
        (lambda at: archive(at / "m.pt2", "data/aotinductor/model/x.so"), model_formats.PACKAGE),
    ],
    ids=lambda each: getattr(each, "title", None),
)
def test_a_file_is_found_by_its_content(
    tmp_path: Path, write: Callable[[Path], Path], expected: model_formats.ModelFormat
) -> None:
    path = write(tmp_path)
    found = find_model(path)
    assert found.format == expected
    assert found.files == {expected.filename: path}


def test_weights_in_other_files_come_along(tmp_path: Path) -> None:
    path = written("net.onnx", weighty_onnx_file())(tmp_path)
    with pytest.raises(InvalidArgumentError, match=r"weights\.bin"):
        find_model(path)
    weights = written("weights.bin", b"\0" * 16)(tmp_path)
    assert find_model(path).files == {"model.onnx": path, "weights.bin": weights}


def test_the_weights_of_an_ir_come_along_under_its_name(tmp_path: Path) -> None:
    path, weights = written("net.xml", IR)(tmp_path), written("net.bin", b"w")(tmp_path)
    assert find_model(path).files == {"model.bin": weights, "model.xml": path}
    assert find_model(tmp_path).files == {"model.bin": weights, "model.xml": path}


def test_a_saved_model_is_a_folder(tmp_path: Path) -> None:
    written("saved_model.pb", b"")(tmp_path)
    (tmp_path / "variables").mkdir()
    written("variables/v.index", b"")(tmp_path)
    found = find_model(tmp_path)
    assert found.format == model_formats.SAVED_MODEL
    assert list(found.files) == [
        "model.savedmodel/saved_model.pb",
        "model.savedmodel/variables/v.index",
    ]
    with pytest.raises(InvalidArgumentError, match="add its folder"):
        find_model(tmp_path / "saved_model.pb")


def test_modules_beside_a_model_py_come_along(tmp_path: Path) -> None:
    written("model.py", PYTHON)(tmp_path)
    written("part.py", b"# used by TritonPythonModel\n")(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    written("__pycache__/part.pyc", b"")(tmp_path)
    assert list(find_model(tmp_path).files) == ["model.py", "part.py"]


def test_an_export_of_a_language_model_is_a_folder_and_its_source_is_refused(
    tmp_path: Path,
) -> None:
    written("config.json", b"{}")(tmp_path)
    written("model.safetensors", b"")(tmp_path)
    with pytest.raises(InvalidArgumentError, match="optimum-cli export openvino"):
        find_model(tmp_path)
    for name in ("openvino_model.xml", "openvino_tokenizer.xml"):
        written(name, b"<net/>")(tmp_path)
    found = find_model(tmp_path)
    assert found.format == model_formats.LLM_FOLDER
    assert "model/openvino_tokenizer.xml" in found.files


def test_weights_beside_a_model_py_come_along_unread(tmp_path: Path) -> None:
    written("model.py", PYTHON)(tmp_path)
    written("forest.joblib", b"\x80")(tmp_path)
    written("net.onnx", onnx_file())(tmp_path)
    archive(tmp_path / "state.pt", "data.pkl")
    found = find_model(tmp_path)
    assert found.format is model_formats.PYTHON
    assert list(found.files) == ["forest.joblib", "model.py", "net.onnx", "state.pt"]


def test_several_models_in_a_folder_are_refused(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        written(name, onnx_file())(tmp_path)
    with pytest.raises(InvalidArgumentError, match=r"several models, 'a\.onnx', 'b\.onnx'"):
        find_model(tmp_path)


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (written("m.pkl", b"\x80"), "convert_sklearn"),
        (lambda at: archive(at / "m.pt", "data.pkl"), "need a class"),
        (written("notes.txt", b"hello"), "of no format that is known"),
        (written("empty", b""), "of no format that is known"),
        (lambda at: at / "missing", "there is no file or folder"),
        (lambda at: at, "of no format that is known"),
    ],
)
def test_what_is_no_model_is_refused(
    tmp_path: Path, write: Callable[[Path], Path], why: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        find_model(write(tmp_path))


@example(content=b"\x08\x008\x00\x00\x00")
@given(content=st.binary(max_size=200))
def test_any_content_is_of_a_format_or_of_none(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("any") / "file"
    path.write_bytes(content)
    try:
        find_model(path)
    except InvalidArgumentError as error:
        assert "\n" not in error.message  # noqa: PT017 - either will do


def test_a_config_is_written_where_the_file_does_not_tell(tmp_path: Path) -> None:
    texts = {
        write(tmp_path).name: config_text(find_model(write(tmp_path)))
        for write in (
            written("a.onnx", onnx_file()),
            written("own.py", COMPLETING),
            written("bare.py", PYTHON),
            written("f.json", b'{"learner": {}}'),
        )
    }
    assert texts["a.onnx"] == texts["own.py"] == ""
    assert '# input [ { name: "INPUT0"' in texts["bare.py"]
    assert 'backend: "fil"' in texts["f.json"]
    assert 'string_value: "xgboost_json"' in texts["f.json"]
