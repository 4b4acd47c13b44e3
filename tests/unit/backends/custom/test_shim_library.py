# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import re
import subprocess

import pytest

from backends.api.errors import InternalError, UnavailableError
from backends.custom import shim_library
from backends.custom.backend import CustomBackend
from tests.support.models import context_of


@pytest.fixture
def nothing_compiled(monkeypatch, tmp_path):
    monkeypatch.setattr(shim_library, "_places", lambda: (tmp_path / "no" / "way", tmp_path / "b"))
    (tmp_path / "no").touch()
    monkeypatch.setattr(shim_library, "_FLAGS", ("-fsyntax-only",))


def test_missing_compiler_says_what_to_do(nothing_compiled, monkeypatch, tmp_path):
    monkeypatch.setattr(shim_library, "_COMPILERS", ("no-such-compiler",))
    with pytest.raises(UnavailableError) as raised:
        shim_library.path()
    assert raised.value.message == (
        "a backend library needs Manta's own libtritonserver.so, which is compiled at first use, "
        "and there is no C++ compiler here (no-such-compiler): install one, or a wheel of Manta "
        "that was built where one is"
    )


def test_failing_compiler_is_quoted(nothing_compiled, monkeypatch):
    monkeypatch.setattr(shim_library, "_FLAGS", ("--no-such-flag",))
    with pytest.raises(InternalError, match=r"libtritonserver\.so cannot be compiled with"):
        shim_library.path()


def test_place_that_cannot_be_written_is_passed_over(nothing_compiled, monkeypatch, tmp_path):
    compiled = []
    monkeypatch.setattr(shim_library, "_compile", lambda _, made: compiled.append(made))
    assert shim_library.path() == tmp_path / "b" / shim_library.digest() / "libtritonserver.so"
    assert len(compiled) == 1


def test_what_is_compiled_is_found_again(nothing_compiled, tmp_path):
    made = tmp_path / "b" / shim_library.digest() / "libtritonserver.so"
    made.parent.mkdir(parents=True)
    made.touch()
    assert shim_library.path() == made


def test_other_sources_have_another_digest(monkeypatch, tmp_path):
    before = shim_library.digest()
    (tmp_path / "a.cc").write_text("int a;")
    monkeypatch.setattr(shim_library, "SOURCES", tmp_path)
    assert shim_library.digest() != before


def test_model_without_a_library_needs_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setattr(shim_library, "path", lambda: pytest.fail("was asked for"))
    with pytest.raises(Exception, match="unable to find backend library"):
        CustomBackend().load(context_of(tmp_path, 'name: "m" backend: "nobody"'))


def test_shim_has_every_function_of_the_interface_and_the_name_of_triton_s(backend_directory):
    made = shim_library.path()
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", made], capture_output=True, text=True, check=True
    ).stdout
    assert len(re.findall(r" T TRITON(?:BACKEND|SERVER)_", symbols)) == 261
    # What is not of an interface is hidden: libraries must not take our symbols for theirs.
    assert not re.search(r" [TD] (?!TRITON|manta_)", symbols)
    assert b"\0libtritonserver.so\0" in made.read_bytes()
