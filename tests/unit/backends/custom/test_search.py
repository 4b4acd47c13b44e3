# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from backends.api.errors import InvalidArgumentError, NotFoundError
from backends.custom.search import find_library, find_strategy
from tests.support.models import context_of

PARAMETER = """parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "%s" } }"""


@pytest.fixture
def context(tmp_path):
    def made(extra=""):
        settings = {"backend-directory": str(tmp_path / "backends")}
        config = f'name: "m" backend: "b" {extra}'
        return context_of(tmp_path / "models", config, backend_config=settings)

    return made


def touch(*parts):
    path = Path(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return str(path)


def test_version_goes_before_model_before_backend_directory(context, tmp_path):
    own = context()
    for place in (tmp_path / "backends" / "b", Path(own.model_dir), Path(own.version_dir)):
        path = touch(place, "libtriton_b.so")
        assert find_library(own).path == path
        assert find_library(own).directory == str(place)


def test_missing_library_has_the_text_of_triton(context):
    with pytest.raises(InvalidArgumentError) as raised:
        find_library(context())
    assert raised.value.message == (
        "unable to find backend library for backend 'b', try specifying runtime on the model "
        "configuration."
    )


def test_runtime_names_the_library(context, tmp_path):
    path = touch(tmp_path, "backends/b/other.so")
    assert find_library(context('runtime: "other.so"')).path == path


def test_missing_runtime_names_where_it_was_looked_for(context, tmp_path):
    own = context('runtime: "other.so"')
    with pytest.raises(InvalidArgumentError) as raised:
        find_library(own)
    assert raised.value.message == (
        "unable to find backend library 'other.so' for model 'm', searched: "
        f"'{own.version_dir}' '{own.model_dir}' '{tmp_path}/backends/b' "
    )


def test_runtime_must_not_lead_out_of_the_directory(context, tmp_path):
    touch(tmp_path, "backends/secret.so")
    touch(tmp_path, "backends/b/libtriton_b.so")
    with pytest.raises(InvalidArgumentError) as raised:
        find_library(context('runtime: "../secret.so"'))
    assert raised.value.message == (
        f"backend library name '../secret.so' escapes backend directory '{tmp_path}/backends/b', "
        "for model 'm', check model config runtime field"
    )


def test_batching_library_is_found_where_backends_are(context):
    own = context()
    assert find_strategy(own) == ""
    path = touch(own.model_dir, "batchstrategy.so")
    assert find_strategy(own) == path


def test_batching_library_may_be_named(context):
    path = touch(context().model_dir, "mine.so")
    assert find_strategy(context(PARAMETER % path)) == path


def test_named_batching_library_must_be_there(context):
    path = f"{context().model_dir}/mine.so"
    with pytest.raises(NotFoundError, match=f"^Batching library path not found: {path}$"):
        find_strategy(context(PARAMETER % path))


def test_named_batching_library_must_be_the_model_s(context, tmp_path):
    path = touch(tmp_path, "mine.so")
    with pytest.raises(InvalidArgumentError, match=r"^Batching library path escapes model repos"):
        find_strategy(context(PARAMETER % path))


def test_sequences_have_no_batching_library(context):
    assert find_strategy(context("sequence_batching {}")) == ""
    with pytest.raises(InvalidArgumentError, match="cannot be specified with sequence batcher"):
        find_strategy(context("sequence_batching {}" + PARAMETER % "x"))


def test_library_may_be_a_link_to_elsewhere(context, tmp_path):
    own = context()
    Path(own.version_dir, "libtriton_b.so").symlink_to(touch(tmp_path, "built/b.so"))
    assert find_library(own).path == f"{own.version_dir}/libtriton_b.so"
