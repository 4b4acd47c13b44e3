# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import InternalError
from backends.framework.saved_model import MODEL_FILE, read_signature
from backends.framework.signature import TensorInfo
from tests.support.saved_models import Named, field, graph, save, save_add_sub, signature


def read(directory, tag="", key=""):
    return read_signature(str(directory), "m", tag, key)


def test_tensors_have_names_types_and_shapes_of_the_signature(tmp_path):
    tensors = {
        "matrix": Named("m:0", "FP32", (-1, 3)),
        "scalar": Named("s:0", "INT64", ()),
        "unknown": Named("u:0", "BYTES", None),
        "none": Named("n:0", "COMPLEX64", (2,)),
    }
    save(str(tmp_path), graph(), {"serving_default": signature(tensors, {})})
    found = read(tmp_path)
    assert found.signature.inputs == (
        TensorInfo("matrix", "FP32", (-1, 3)),
        TensorInfo("none", None, (2,)),
        TensorInfo("scalar", "INT64", ()),
        TensorInfo("unknown", "BYTES", None),
    )
    assert found.tensors["matrix"] == "m:0"


def test_signature_that_is_asked_for_has_to_be_there(tmp_path):
    save_add_sub(str(tmp_path), key="mine")
    assert read(tmp_path, key="mine").name == "mine"
    with pytest.raises(InternalError, match="unable to load model 'm', expected 'other' signature"):
        read(tmp_path, key="other")


def test_another_signature_is_taken_where_none_is_asked_for_and_the_log_says_so(tmp_path, caplog):
    both = {"__saved_model_init_op": signature({}, {}), "mine": signature({}, {})}
    save(str(tmp_path), graph(), both)
    assert read(tmp_path).name == "mine"
    assert "using signature 'mine' instead" in caplog.text


def test_model_that_only_initialises_has_no_signature(tmp_path):
    save(str(tmp_path), graph(), {"__saved_model_init_op": signature({}, {})})
    with pytest.raises(InternalError, match="expected 'serving_default' signature"):
        read(tmp_path)


def test_tag_that_is_not_there_is_told_with_those_that_are(tmp_path):
    save_add_sub(str(tmp_path), tags=["serve", "gpu"])
    with pytest.raises(InternalError, match=r"supplied tags: \{ serve \}; .* has \{ gpu, serve \}"):
        read(tmp_path)
    save_add_sub(str(tmp_path), tags=["train"])
    assert read(tmp_path, tag="train").name == "serving_default"


@pytest.mark.parametrize("content", [None, b"", b"\x0a\xff", b"\x0b", b"\x80"])
def test_file_that_is_no_saved_model_is_named(tmp_path, content):
    if content is not None:
        Path(tmp_path, MODEL_FILE).write_bytes(content)
    with pytest.raises(InternalError, match=r"saved_model.pb' cannot be read as a SavedModel: "):
        read(tmp_path)


_PIECES = st.recursive(
    st.binary(max_size=20),
    lambda inner: st.lists(
        st.builds(field, st.integers(1, 6), st.one_of(inner, st.integers(0, 1 << 63))), max_size=4
    ).map(b"".join),
)


@given(content=_PIECES)
def test_any_bytes_are_read_or_refused(tmp_path_factory, content):
    directory = tmp_path_factory.mktemp("model")
    Path(directory, MODEL_FILE).write_bytes(content)
    with pytest.raises(InternalError):
        read(directory, key="never there")
