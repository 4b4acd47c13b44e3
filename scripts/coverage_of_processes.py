# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Coverage of the processes of servers: what all tests together reach, killed processes included.

    python scripts/coverage_of_processes.py install .cache/reached cluster deployments/ingress.py
    MANTA_REACHED=$PWD/.cache/reached make test-all
    python scripts/coverage_of_processes.py report .cache/reached

`install` writes a `.pth` file into this Python's site-packages. With ``MANTA_REACHED`` in the
environment, each process that imports one of the sources named gets it with a probe before each
statement and on each way out of a branch: one byte of a file that all processes map. So nothing is
lost of a process that is killed, forked or ends by `os._exit`, which coverage tools report at exit.
A probe costs less than 0.1 us.

Imports nothing of ours, so that it measures an older commit as well.
"""

import argparse
import ast
import ctypes
import json
import mmap
import os
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Final

VARIABLE: Final = "MANTA_REACHED"
_NAME: Final = "__reached__"
_PTH: Final = "manta_reached.pth"
# Where the bytes of each source lie among those of all, and they.
_PLACES: Final = "places.json"
_MARKS: Final = "marks"


class Probes(ast.NodeTransformer):
    """A probe before each statement, and one where a branch or a loop is left without a body.

    Attributes:
        lines: The line of each probe, by its number.
    """

    def __init__(self) -> None:
        self.lines: list[int] = []

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Put probes into all lists of statements below a node."""
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list) and statements:
                setattr(node, field, list(self._probed(statements)))
        if isinstance(node, (ast.If, ast.For, ast.AsyncFor, ast.While)) and not node.orelse:
            node.orelse = [self._probe(node)]
        return node

    def _probed(self, statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        for number, statement in enumerate(statements):
            if not _stays_first(number, statement):
                yield self._probe(statement)
            yield statement

    def _probe(self, place: ast.stmt) -> ast.stmt:
        probe = ast.parse(f"{_NAME}[{len(self.lines)}] = 1").body[0]
        self.lines.append(place.lineno)
        for node in ast.walk(probe):
            ast.copy_location(node, place)
            if isinstance(node, (ast.stmt, ast.expr)):
                node.end_lineno, node.end_col_offset = node.lineno, node.col_offset
        return probe


def _stays_first(number: int, statement: ast.stmt) -> bool:
    """Return whether a statement is a docstring, or has to come before all others."""
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return number == 0 and is_text


class Marks:
    """The bytes of one source. Code that goes to another process by value marks nothing there."""

    __slots__ = ("_bytes",)

    def __init__(self, address: int, size: int) -> None:
        self._bytes = (ctypes.c_ubyte * size).from_address(address)

    def __setitem__(self, number: int, mark: int) -> None:
        self._bytes[number] = mark

    def __reduce__(self) -> tuple[type[bytearray], tuple[int]]:
        return bytearray, (len(self._bytes),)


def probed(source: bytes, path: str) -> tuple[CodeType, list[int]]:
    """Compile a module with probes, which assign to the module's global `__reached__`.

    Returns:
        Its code, and the line of each probe by number.
    """
    probes = Probes()
    tree = probes.visit(ast.parse(source, path))
    return compile(tree, path, "exec", dont_inherit=True), probes.lines


def watch(folder: Path) -> None:
    """Have this process, and those it forks, record which probes of the named sources it passes."""
    places: dict[str, tuple[int, int]] = json.loads((folder / _PLACES).read_text())
    address = _mapped(folder / _MARKS)
    plain = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        place = places.get(str(loader.path))
        module = sys.modules.get(fullname)
        if place is None or module is None:
            return plain(loader, fullname)
        start, end = place
        module.__dict__[_NAME] = Marks(address + start, end - start)
        return probed(loader.get_data(loader.path), loader.path)[0]

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]


def _mapped(file: Path) -> int:
    """Map a file until the process ends; returns where. No descriptor stays, as of `mmap.mmap`."""
    call = ctypes.CDLL(None, use_errno=True).mmap
    call.restype = ctypes.c_void_p
    call.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
    size = file.stat().st_size
    with file.open("r+b") as opened:
        found = call(
            None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, opened.fileno(), 0
        )
    if found in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "cannot map", str(file))
    return int(found)


def install(folder: Path, sources: Sequence[str]) -> None:
    """Have each process of this Python that has ``MANTA_REACHED`` record what it reaches."""
    folder.mkdir(parents=True, exist_ok=True)
    places: dict[str, tuple[int, int]] = {}
    end = 0
    for path in _files(sources):
        start, end = end, end + len(probed(path.read_bytes(), str(path))[1])
        places[str(path)] = (start, end)
    (folder / _PLACES).write_text(json.dumps(places))
    (folder / _MARKS).write_bytes(bytes(end))
    here = Path(__file__).resolve()
    line = (
        f"import os, sys; {VARIABLE!r} in os.environ and (sys.path.append({str(here.parent)!r}),"
        f" __import__({here.stem!r}).watch_environment(), sys.path.pop())\n"
    )
    (Path(sysconfig.get_path("purelib")) / _PTH).write_text(line)


def watch_environment() -> None:
    """Call `watch` with the folder that the environment names."""
    watch(Path(os.environ[VARIABLE]).resolve())


def report(folder: Path) -> None:
    """Print the share of probes passed by file, with the lines of others, and by folder."""
    places: dict[str, tuple[int, int]] = json.loads((folder / _PLACES).read_text())
    marks = (folder / _MARKS).read_bytes()
    folders: dict[Path, list[int]] = defaultdict(lambda: [0, 0])
    for name, (start, end) in places.items():
        path = Path(name)
        lines = probed(path.read_bytes(), name)[1]
        missed = sorted({lines[n] for n in range(end - start) if not marks[start + n]})
        total = folders[path.parent]
        total[0] += sum(marks[start:end])
        total[1] += end - start
        shown = path.relative_to(Path.cwd())
        print(_share(sum(marks[start:end]), end - start), shown, *missed)
    for path, (passed, probes) in folders.items():
        print(_share(passed, probes), path.relative_to(Path.cwd()))


def _share(passed: int, probes: int) -> str:
    return f"{100 * passed / (probes or 1):5.1f} % of {probes:5}"


def _files(sources: Sequence[str]) -> Iterator[Path]:
    for source in sources:
        place = Path(source).absolute()
        yield from [place] if place.is_file() else sorted(place.rglob("*.py"))


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=("install", "report"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("sources", nargs="*")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    if arguments.command == "install":
        install(folder, arguments.sources)
    else:
        report(folder)


if __name__ == "__main__":
    main()
