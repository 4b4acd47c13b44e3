# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the unit tests that a change can reach: python scripts/reached_tests.py [PYTEST OPTION ...].

Reached is a test file that imports a changed module, directly or over others, that names a changed
file which is not imported (a page, a script, a config), or that lies in the room of the changed
module: what is loaded by name, as backends are, has no importer. Of a change that reaches very many
files the nearest are run, by the number of imports between; `make unit` and CI run all.

The change is what differs from ``MANTA_CHECK_BASE``, by default from the branch's upstream, or from
the commit before if there is none: commits, edits and files that git does not know yet.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).resolve().parent.parent
VARIABLE: Final = "MANTA_CHECK_BASE"
# Those of the server, and those of the tools.
_UNIT: Final = "tests/unit"
_PAGES: Final = "docs"
_OF_TOOLS: Final = "tools/tests"
_ALL: Final = [_UNIT, _OF_TOOLS]
# Folders in the path, with the packages in them that are looked at.
_PATHS: Final = (ROOT, ROOT / "tools")
_PACKAGES: Final = (
    "backends",
    "cluster",
    "deployments",
    "manta",
    "manta_tools",
    "tests",
    "tools",
)
_TOOLS_ROOT: Final = "tools/manta_tools"
# What changes how every test runs.
_EVERYTHING: Final = frozenset({"Makefile", "pyproject.toml", "constraints.txt", "conftest.py"})
# And every test of the tools.
_EVERY_TOOL: Final = "tools/pyproject.toml"
# Those that are further away are not run where there are more than these.
_MANY: Final = 120
_NEAR: Final = 2
# A second process has to collect, too.
_WORTH_A_PROCESS: Final = 60


def changed_files(root: Path, base: str) -> list[str]:
    """Return the files that differ from a commit, those git does not know included."""
    differing = _git(root, "diff", "--name-only", base)
    unknown = _git(root, "ls-files", "--others", "--exclude-standard")
    return sorted({*differing, *unknown})


def base_of(root: Path, wanted: str = "") -> str:
    """Return the commit that the change is counted from."""
    for each in (wanted, "@{upstream}"):
        if each:
            found = _git(root, "merge-base", "HEAD", each)
            if found:
                return found[0]
    return "HEAD" if changed_files(root, "HEAD") else "HEAD~1"


def reached(root: Path, changed: Iterable[str]) -> list[str]:
    """Return the unit test files that a change of files reaches; the folders of all if all."""
    changed = list(changed)
    if _EVERYTHING.intersection(changed):
        return list(_ALL)
    graph = _graph()
    modules = {_module(each) for each in changed} & graph.modules
    found = {_file(each) for each in _importing(graph, modules)}
    if _EVERY_TOOL in changed:
        found |= {
            each.relative_to(root).as_posix() for each in (root / _OF_TOOLS).rglob("test_*.py")
        }
    for each in changed:
        found |= _room(root, each)
        if _module(each) not in graph.modules:
            found |= _naming(root, each)
    return sorted(each for each in found if (root / each).is_file())


def _graph() -> grimp.ImportGraph:
    # The tools may be installed from elsewhere, or not at all.
    sys.path[:0] = map(str, _PATHS)
    try:
        return grimp.build_graph(*_PACKAGES)
    finally:
        del sys.path[: len(_PATHS)]


def _importing(graph: grimp.ImportGraph, modules: set[str]) -> set[str]:
    """Return the test modules that import these, over as many others as they are not too many."""
    seen, edge, distance = set(modules), set(modules), 0
    while edge:
        importers = (graph.find_modules_that_directly_import(each) for each in edge)
        edge = set().union(*importers) - seen
        distance += 1
        if distance > _NEAR and len(_tests(seen | edge)) > _MANY:
            break
        seen |= edge
    return _tests(seen)


def _tests(modules: set[str]) -> set[str]:
    return {each for each in modules if _is_test(_file(each))}


def _room(root: Path, changed: str) -> set[str]:
    """Return the tests of the folder that mirrors a changed module's, or of all pages."""
    path = Path(changed)
    if path.parts[0] == _PAGES:
        return _tests_in(root, _UNIT, _PAGES)
    if path.suffix != ".py" or path.parts[0] not in _PACKAGES or _is_of_tests(path):
        return set()
    room = Path(_UNIT, path.parent)
    if path.is_relative_to(_TOOLS_ROOT):
        room = _OF_TOOLS / path.parent.relative_to(_TOOLS_ROOT)
    while not (root / room).is_dir():
        room = room.parent
    return _tests_in(root, room)


def _tests_in(root: Path, *folder: str | Path) -> set[str]:
    return {each.relative_to(root).as_posix() for each in Path(root, *folder).glob("test_*.py")}


def _naming(root: Path, changed: str) -> set[str]:
    """Return the tests whose text has the name of a file: they read it, or load it by its path."""
    path = Path(changed)
    name = path.stem if path.suffix == ".py" else path.name
    return {
        each.relative_to(root).as_posix()
        for folder in _ALL
        for each in (root / folder).rglob("test_*.py")
        if name in each.read_text()
    }


def _is_of_tests(path: Path) -> bool:
    return path.parts[0] == "tests" or path.is_relative_to(_OF_TOOLS)


def _module(file: str) -> str:
    if file.startswith(f"{_TOOLS_ROOT}/"):
        file = file.removeprefix("tools/")
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _file(module: str) -> str:
    return module.replace(".", "/") + ".py"


def _is_test(file: str) -> bool:
    return file.startswith(tuple(_ALL)) and Path(file).name.startswith("test_")


def _git(root: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines() if done.returncode == 0 else []


def main() -> int:
    """Run what the change reaches; return pytest's exit status."""
    parser = argparse.ArgumentParser(prog="scripts/reached_tests.py", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the files and run nothing")
    arguments, options = parser.parse_known_args()
    base = base_of(ROOT, os.environ.get(VARIABLE, ""))
    files = reached(ROOT, changed_files(ROOT, base))
    if arguments.list:
        print("\n".join(files))
        return 0
    if not files:
        print(f"no unit test is reached by what differs from {base}; 'make unit' runs all")
        return 0
    print(f"{len(files)} files of unit tests are reached by what differs from {base}", flush=True)
    if files == _ALL or len(files) > _WORTH_A_PROCESS:
        options += ["--numprocesses=logical", "--maxprocesses=4", "--dist=loadfile"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:schemathesis", *options, *files]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    # All tests of the files that are reached may be slow ones.
    return 0 if status == 5 else status  # noqa: PLR2004 - pytest: no tests collected


if __name__ == "__main__":
    sys.exit(main())
