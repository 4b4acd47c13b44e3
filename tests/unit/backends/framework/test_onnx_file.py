# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is read of an ONNX file is what ONNX Runtime tells of it."""

from pathlib import Path

import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from backends.api.errors import InternalError, UnsupportedError
from backends.framework.onnx_file import read_model_file
from backends.onnxruntime.signature import read_signature
from tests.support.broken_repositories import onnx_file, weighty_onnx_file
from tests.support.onnx_graphs import FLOAT, save, value


@pytest.mark.parametrize("kind", [FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING])
@pytest.mark.parametrize("shape", [[], [4], ["N", 4], ["N", "M", 3], [None, 2]])
def test_the_signature_is_that_of_a_session(tmp_path: Path, kind: int, shape: list[object]) -> None:
    path = str(tmp_path / "m.onnx")
    node = helper.make_node("Identity", ["IN"], ["OUT"])
    save(path, [node], [value("IN", kind, shape)], [value("OUT", kind, shape)])
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert read_model_file(path, "m").signature == read_signature(session)


def test_weights_in_other_files_are_told_and_are_no_inputs(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(weighty_onnx_file())
    found = read_model_file(str(path), "m")
    assert found.external == ("weights.bin",)
    assert [info.name for info in found.signature.inputs] == ["IN"]


def test_a_sequence_is_refused_as_a_session_does(tmp_path: Path) -> None:
    path = str(tmp_path / "m.onnx")
    made = helper.make_tensor_sequence_value_info("OUT", FLOAT, None)
    node = helper.make_node("SequenceConstruct", ["IN"], ["OUT"])
    save(path, [node], [value("IN", FLOAT, [1])], [made])
    with pytest.raises(UnsupportedError) as told:
        read_model_file(path, "m")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    with pytest.raises(UnsupportedError) as expected:
        read_signature(session)
    assert told.value.message == expected.value.message


@given(st.integers(0, len(onnx_file()) - 1))
def test_a_file_that_is_cut_is_read_or_refused(tmp_path_factory: object, size: int) -> None:
    path = Path(tmp_path_factory.mktemp("cut")) / "m.onnx"  # type: ignore[attr-defined]
    path.write_bytes(onnx_file()[:size])
    try:
        read_model_file(str(path), "m")
    except InternalError as error:
        assert "cannot be read as an ONNX model" in error.message  # noqa: PT017 - either will do
