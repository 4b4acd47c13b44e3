# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from backends.api.errors import InvalidArgumentError
from backends.lookup import Wanted, find_implementation


@pytest.fixture
def look(tmp_path):
    """Return a function that makes files and says which of them is found."""

    def find(*files, backend="b", runtime=""):
        for each in files:
            path = Path(f"{tmp_path}/{each}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        wanted = Wanted("m", backend, runtime, f"{tmp_path}/r/m", 1, f"{tmp_path}/d")
        return find_implementation(wanted).removeprefix(f"{tmp_path}/")

    return find


def refusal(look, *files, **fields):
    with pytest.raises(InvalidArgumentError) as raised:
        look(*files, **fields)
    return raised.value.message


PLACES = ["r/m/1/libtriton_b.so", "r/m/libtriton_b.so", "d/b/libtriton_b.so", "d/b/model.py"]


@pytest.mark.parametrize("first", range(len(PLACES)))
def test_version_then_model_then_backend_directory_then_python_is_searched(look, first):
    assert look(*PLACES[first:]) == PLACES[first]


def test_nothing_found_is_nothing_unless_runtime_says_what_to_find(look, tmp_path):
    assert look("r/m/1/model.py", "d/model.py") == ""
    assert refusal(look, runtime="libx.so") == (
        f"unable to find backend library 'libx.so' for model 'm', searched: '{tmp_path}/r/m/1' "
        f"'{tmp_path}/r/m' '{tmp_path}/d/b' "
    )
    assert refusal(look, runtime="model.py") == (
        "unable to find Python backend based backend library 'model.py' for model 'm', searched: "
        f"'{tmp_path}/d/b/model.py'"
    )


def test_runtime_names_the_library(look):
    assert look(*PLACES, "d/b/libx.so", runtime="libx.so") == "d/b/libx.so"
    assert look(*PLACES, runtime="model.py") == "d/b/model.py"
    assert look("d/b/deep/liby.so", runtime="deep/liby.so") == "d/b/deep/liby.so"


def test_runtime_may_not_lead_out_of_its_folder(look, tmp_path):
    (tmp_path / "r/m/1").mkdir(parents=True)
    assert refusal(look, "r/m/lib.so", runtime="../lib.so") == (
        f"backend library name '../lib.so' escapes backend directory '{tmp_path}/r/m/1', for model "
        "'m', check model config runtime field"
    )


def test_absolute_runtime_is_looked_for_inside(look, tmp_path):
    (tmp_path / "lib.so").touch()
    assert "searched" in refusal(look, runtime=f"{tmp_path}/lib.so")


def test_a_folder_of_the_librarys_name_is_no_library(look, tmp_path):
    (tmp_path / "r/m/1/libtriton_b.so").mkdir(parents=True)
    assert look("d/b/libtriton_b.so") == "d/b/libtriton_b.so"


@pytest.mark.parametrize("backend", ["../d/b", "..", ".", "b/"])
def test_backend_that_is_a_path_is_not_found(look, backend):
    assert look("d/b/model.py", "d/model.py", "model.py", backend=backend) == ""


def test_without_a_backend_directory_only_the_model_is_searched(tmp_path):
    (tmp_path / "lib.so").touch()
    wanted = Wanted("m", "b", "lib.so", str(tmp_path), 1)
    assert find_implementation(wanted) == f"{tmp_path}/lib.so"


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000, "a\0b", "\udcff"])
def test_a_name_that_no_file_can_have_is_not_found(look, name):
    assert look("r/m/1/model.py", backend=name) == ""
    assert refusal(look, runtime=name).startswith("unable to find backend library")
