# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which form of the sources a process takes, told by a tree that has a few files."""

import subprocess
import sys
from pathlib import Path

import pytest

from backends import compiled_form
from backends.compiled_form import (
    SUFFIX,
    VARIABLE,
    CompiledFinder,
    CompiledFormMissingError,
    PlainFinder,
)

NAME = "deployments.http2.frames"


def write(root: Path, name: str, text: str = "") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout that is not compiled, and a process that has imported nothing of it."""
    write(tmp_path, "deployments/http2/frames.py")
    write(tmp_path, "deployments/contracts/limits.py", "LIMIT: Final = 1\n")
    write(tmp_path, "backends/api/errors.py")
    monkeypatch.setattr(compiled_form, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "meta_path", [])
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


def compile_tree(tree: Path) -> Path:
    made = compiled_form.folder()
    write(made, f"deployments/http2/frames{SUFFIX}")
    write(made, f"manta__mypyc{SUFFIX}")
    return made


def origin(name: str, path: Path | None = None) -> Path | None:
    """Where the process would take a module from; None leaves that to Python."""
    for finder in sys.meta_path:
        spec = finder.find_spec(name, [str(path)] if path else None)  # type: ignore[call-arg]
        if spec is not None:
            return Path(str(spec.origin))
    return None


def test_compiled_form_stands_for_our_packages_only(tree):
    compile_tree(tree)
    compiled_form.install()
    (tree / "link").symlink_to(tree)
    assert origin(NAME, tree / "deployments/http2") is not None
    assert origin(NAME, tree / "link/deployments/http2") is not None
    assert origin(NAME, tree / "models/m/1/deployments/http2") is None


def test_compiled_tree_is_imported_from_its_folder(tree):
    made = compile_tree(tree)
    compiled_form.install()
    assert origin(NAME) == made / f"deployments/http2/frames{SUFFIX}"
    assert origin("manta__mypyc") == made / f"manta__mypyc{SUFFIX}"


def test_modules_that_are_not_compiled_and_those_of_others_are_found_as_ever(tree):
    made = compile_tree(tree)
    write(made, f"json{SUFFIX}")
    compiled_form.install()
    assert origin("deployments.contracts.limits") is None
    assert origin("json") is None


@pytest.mark.parametrize(
    "name",
    ["deployments/http2/frames.py", "deployments/contracts/limits.py", "backends/api/new.py"],
)
def test_edited_source_runs_plain_also_if_only_its_constants_were_compiled(tree, name):
    compile_tree(tree)
    write(tree, name, "LIMIT: Final = 2\n")
    compiled_form.install()
    assert origin(NAME) is None


def test_what_is_no_source_leaves_the_form_as_it_is(tree):
    made = compile_tree(tree)
    write(tree, "deployments/http2/__pycache__/frames.pyc")
    write(tree, "cluster/cli.py")
    assert compiled_form.folder() == made


def test_process_of_a_server_takes_the_folder_that_the_server_took(tree, monkeypatch):
    made = compile_tree(tree)
    compiled_form.install()
    monkeypatch.setenv(VARIABLE, compiled_form.choice())
    sys.meta_path.clear()
    write(tree, "deployments/http2/frames.py", "edited = True\n")
    compiled_form.install()
    assert origin(NAME) == made / f"deployments/http2/frames{SUFFIX}"


def test_process_of_a_plain_server_is_plain_also_when_compiled_meanwhile(tree, monkeypatch):
    compiled_form.install()
    monkeypatch.setenv(VARIABLE, compiled_form.choice())
    compile_tree(tree)
    compiled_form.install()
    assert origin(NAME) is None


def test_folder_that_is_gone_is_no_error(tree, monkeypatch):
    compile_tree(tree)
    monkeypatch.setenv(VARIABLE, "0123456789abcdef0123")
    compiled_form.install()
    assert origin(NAME) is None


def test_plain_can_be_demanded(tree, monkeypatch):
    compile_tree(tree)
    monkeypatch.setenv(VARIABLE, "0")
    compiled_form.install()
    assert origin(NAME) is None


def test_compiled_form_that_is_demanded_and_missing_says_what_to_do(tree, monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")
    with pytest.raises(CompiledFormMissingError, match="make compiled"):
        compiled_form.install()


def write_wheel(tree: Path) -> None:
    write(tree, f"manta__mypyc{SUFFIX}")
    write(tree, f"deployments/http2/frames{SUFFIX}")


@pytest.mark.parametrize("wish", ["", "1", "0123456789abcdef0123"])
def test_compiled_wheel_is_left_to_python(tree, monkeypatch, wish):
    write_wheel(tree)
    monkeypatch.setenv(VARIABLE, wish)
    compiled_form.install()
    assert sys.meta_path == []
    assert compiled_form.choice() == wish


def test_compiled_wheel_runs_plain_where_that_is_demanded(tree, monkeypatch):
    write_wheel(tree)
    monkeypatch.setenv(VARIABLE, "0")
    compiled_form.install()
    assert origin(NAME, tree / "deployments/http2") == tree / "deployments/http2/frames.py"
    assert origin("deployments.http2", tree / "deployments") is None
    assert origin("json.decoder", tree / "deployments/http2") is None
    assert compiled_form.choice() == "0"


def test_every_source_that_is_listed_is_there():
    assert len(compiled_form.sources()) > 50
    assert not [each for each in compiled_form.sources() if each.endswith("__init__.py")]
    assert [each for each in compiled_form.PLAIN if not (compiled_form.ROOT / each).exists()] == []


def test_finders_have_what_the_import_system_asks_of_them():
    for finder in (CompiledFinder(Path("/none")), PlainFinder()):
        assert finder.find_spec("backends.none", None, None) is None


def test_installed_sources_are_those_in_the_package_around_them(tmp_path: Path) -> None:
    # Without it the checkout's package would be found before these folders.
    write(tmp_path, "manta/__init__.py")
    write(tmp_path, "manta/backends/compiled_form.py", Path(compiled_form.__file__).read_text())
    compiled, plain = "manta/deployments/http2/frames.py", "manta/deployments/lane/batches.py"
    for path in (compiled, plain):
        write(tmp_path, path)
    code = (
        "from manta.backends import compiled_form as form;"
        "found, digest = form.sources(), form.folder();"
        f"print(form.ROOT, *form.PACKAGES, {compiled!r} in found, {plain!r} in found);"
        f"(form.ROOT / {plain!r}).write_text('edited = True');"
        "print(digest.parent, form.folder() == digest)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=True,
    )
    root = tmp_path.resolve()
    assert done.stdout.splitlines() == [
        f"{root} manta True False",
        f"{root}/.compiled False",
    ]
