# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The names that our packages have where they are installed: all of them are in ``manta``.

In a checkout they lie beside each other, and sources import them so. A wheel has the same sources
with other names (ADR 24): absolute imports, strings that are the whole name of a module, and what
follows ``-m`` in a string. Comments, docstrings but for ``-m``, and f-strings stay as they are. A
string that has a name in any other way is refused: it would name a module that is not there.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PACKAGES: Final = ("backends", "cluster", "deployments")
AROUND: Final = "manta"

_NAME: Final = rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)*"
_WHOLE: Final = re.compile(rf"({_NAME})(?::\w+)?")
_RUN: Final = re.compile(rf"(?<=-m )({_NAME})")
_INSIDE: Final = re.compile(rf"(?<![\w./-])({_NAME})")
_QUOTES: Final = re.compile(r"""(\w*)(\"\"\"|'''|["'])""")
_FROM: Final = re.compile(r"from\s+")
# Functions that are given a package's name, which alone is a word like any other.
_TAKING_NAMES: Final = frozenset(
    {"__import__", "find_spec", "getLogger", "import_module", "run_module"}
)


class UnrenamableError(Exception):
    """A source that names a module of ours in a way that cannot be renamed; it says where."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A piece of a source and what stands there instead.

    Attributes:
        row: The line, from 1.
        begin: Where in it the piece begins, in characters.
        end: Where in it the piece ends.
        text: What stands there instead.
    """

    row: int
    begin: int
    end: int
    text: str


def modules(root: Path) -> frozenset[str]:
    """Return the dotted names of the packages in a folder, and of the modules in them."""
    found = set()
    for package in PACKAGES:
        for file in (root / package).rglob("*.py"):
            parts = file.relative_to(root).with_suffix("").parts
            found.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return frozenset(found)


def renamed(text: str, ours: frozenset[str], file: str = "") -> str:
    """Return a source with the names that modules have where they are installed.

    Args:
        text: The source.
        ours: The names of our modules, as `modules` finds them.
        file: What the source is called, for errors.

    Raises:
        UnrenamableError: A string has a name of ours that would be left.
    """
    lines = io.StringIO(text).readlines()
    edits = [*_of_imports(ast.parse(text), lines, file), *_of_strings(text, ours)]
    for edit in sorted(edits, key=lambda each: (each.row, each.begin), reverse=True):
        line = lines[edit.row - 1]
        lines[edit.row - 1] = line[: edit.begin] + edit.text + line[edit.end :]
    made = "".join(lines)
    _require_nothing_left(ast.parse(made), ours, file)
    return made


def renamed_files(root: Path, folder: str, ours: frozenset[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a folder, by their path in it, as they are where they are installed."""
    for file in sorted((root / folder).rglob("*")):
        path = file.relative_to(root / folder)
        if not file.is_file() or "__pycache__" in path.parts:
            continue
        content = file.read_bytes()
        if file.suffix == ".py":
            content = renamed(content.decode(), ours, f"{folder}/{path}").encode()
        yield path.as_posix(), content


def write_all(files: Mapping[str, bytes], target: Path) -> None:
    """Have a folder hold these files and no others; those that are there already stay untouched.

    Compilers tell by a file's time whether it has changed.
    """
    for path, content in files.items():
        file = target / path
        if file.is_file() and file.read_bytes() == content:
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    for file in [each for each in target.rglob("*") if each.is_file()]:
        if file.relative_to(target).as_posix() not in files:
            file.unlink()


def _of_imports(tree: ast.Module, lines: list[str], file: str) -> Iterator[Edit]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and _is_ours(node.module or ""):
            row, column = node.lineno, _characters(lines, node.lineno, node.col_offset)
            found = _FROM.match(lines[row - 1], column)
            if found is None or not lines[row - 1].startswith(str(node.module), found.end()):
                raise UnrenamableError(f"{file}:{row}: the module stands on another line than from")
            yield Edit(row, found.end(), found.end(), f"{AROUND}.")
        elif isinstance(node, ast.Import):
            for each in (name for name in node.names if _is_ours(name.name)):
                yield _of_import(each, lines)


def _of_import(name: ast.alias, lines: list[str]) -> Edit:
    begin = _characters(lines, name.lineno, name.col_offset)
    if name.asname:
        return Edit(name.lineno, begin, begin, f"{AROUND}.")
    top = name.name.partition(".")[0]
    # What the statement makes known is the package alone, by the name it had.
    text = f"{AROUND}.{top} as {top}"
    if name.name != top:
        text = f"{AROUND}.{name.name}, {text}"
    return Edit(name.lineno, begin, begin + len(name.name), text)


def _of_strings(text: str, ours: frozenset[str]) -> Iterator[Edit]:
    for token in _strings(text):
        quotes = _QUOTES.match(token.string)
        if quotes is None or {"f", "b"} & set(quotes[1].lower()):
            continue
        content = token.string[quotes.end() : -len(quotes[2])]
        whole = _WHOLE.fullmatch(content)
        found = [whole] if whole and "." in whole[1] else list(_RUN.finditer(content))
        for each in found:
            if each[1] in ours:
                row, column = _place(token, quotes.end() + each.start(1))
                yield Edit(row, column, column, f"{AROUND}.")


def _strings(text: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the string literals that are not in an f-string, which only Python 3.12 takes apart."""
    begins, ends = (getattr(tokenize, f"FSTRING_{each}", None) for each in ("START", "END"))
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        depth += (token.type == begins) - (token.type == ends)
        if token.type == tokenize.STRING and not depth:
            yield token


def _place(token: tokenize.TokenInfo, offset: int) -> tuple[int, int]:
    """Return row and column of a character of a token."""
    before = token.string[:offset]
    row = before.count("\n")
    column = offset - (before.rfind("\n") + 1)
    return token.start[0] + row, column + (0 if row else token.start[1])


def _require_nothing_left(tree: ast.Module, ours: frozenset[str], file: str) -> None:
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        left = ""
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            left = _left_in(node.value, ours)
        elif isinstance(node, ast.Call):
            left = _given(node)
        if left:
            raise UnrenamableError(
                f"{file}:{node.lineno}: {left!r} would name a module that a wheel does not have; "
                "write it as a string of its own, or make it of __name__ or __package__"
            )


def _left_in(value: object, ours: frozenset[str]) -> str:
    for each in _INSIDE.finditer(value) if isinstance(value, str) else ():
        parts = each[1].split(".")
        if len(parts) > 1 and ".".join(parts[:2]) in ours:
            return each[1]
    return ""


def _given(call: ast.Call) -> str:
    """Return the package whose name alone is given to a function that takes names of modules."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name not in _TAKING_NAMES or not call.args:
        return ""
    given = call.args[0]
    value = given.value if isinstance(given, ast.Constant) else None
    return value if isinstance(value, str) and value in PACKAGES else ""


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES


def _characters(lines: list[str], row: int, column: int) -> int:
    """Return the column in characters of one in bytes, as `ast` counts them."""
    return len(lines[row - 1].encode()[:column].decode())
