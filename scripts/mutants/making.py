# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Makes mutants of source files with mutmut's operators, in the environment that has mutmut.

    python -m scripts.mutants.making COUNT SEED FILE ... > mutants.json

Mutated are the bodies of functions. Left alone is what no test of behaviour can notice:
annotations, docstrings, casts, what is logged, and prose: texts with a space in them, which people
read. A change that leaves the function's bytecode as it is makes no mutant.

The mutants are chosen by digest, one of each function in turn, so that an edit of a function
chooses others of that function alone.
"""

import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType
from typing import Final

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

from scripts.mutants.rooms import ROOT, Mutant, code_of

_LOGGERS: Final = frozenset({"_log", "_audit_log", "logger", "logging", "warnings"})
_NAMES_IN_ANY_CASE: Final = frozenset({"inf", "-inf", "nan", "utf-8", "ascii", "latin-1"})
_UNMUTATED_CALLS: Final = frozenset({"cast", "assert_never", "isinstance", "len", "super"})


@dataclass(frozen=True)
class _Candidate:
    file: str
    function: str
    first_line: int
    lines: tuple[int, int]
    original: cst.CSTNode
    mutated: cst.CSTNode
    # Of the node's place, its operator's turn and the texts: the choice's order.
    digest: str


def _digest(candidate: _Candidate) -> str:
    return candidate.digest


def _is_prose(node: cst.CSTNode) -> bool:
    """Whether it is a text with a space, or is put together of such."""
    match node:
        case cst.SimpleString(value=value) | cst.FormattedStringText(value=value):
            return " " in value
        case cst.FormattedString(parts=parts):
            return any(_is_prose(each) for each in parts)
        case cst.ConcatenatedString(left=left, right=right):
            return _is_prose(left) or _is_prose(right)
    return False


def _is_left_alone(node: cst.CSTNode) -> bool:
    """Whether the node and all in it stay as they are."""
    match node:
        case cst.Annotation() | cst.Decorator():
            return True
        case cst.Arg():
            return _is_strictness(node)
        case cst.Call(func=cst.Name(value=name)):
            return name in _UNMUTATED_CALLS
        case cst.Call(func=cst.Attribute(value=cst.Name(value=name))):
            return name in _LOGGERS
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.SimpleString())]):  # a docstring
            return True
    return False


def _is_strictness(argument: cst.Arg) -> bool:
    """Whether it has zip() notice what never is: that the lengths differ."""
    return argument.keyword is not None and argument.keyword.value == "strict"


def _changes_nothing_to_notice(original: cst.CSTNode, mutated: cst.CSTNode) -> bool:
    """Whether it changes prose, a name in any case, or arguments that are such alone."""
    if isinstance(original, cst.Call) and isinstance(mutated, cst.Call):
        kept = {id(each) for each in mutated.args}
        gone = [each for each in original.args if id(each) not in kept]
        return bool(gone) and all(_is_prose(each.value) or _is_strictness(each) for each in gone)
    if isinstance(original, cst.SimpleString) and isinstance(mutated, cst.SimpleString):
        one, other = original.value.lower(), mutated.value.lower()
        if one == other and one.strip("\"'") in _NAMES_IN_ANY_CASE:
            return True
    return _is_prose(original)


def _functions(node: cst.CSTNode, prefix: str = "") -> Iterator[tuple[str, cst.FunctionDef]]:
    """Walk through all functions that no function surrounds, and their qualified names."""
    for child in node.children:
        if isinstance(child, cst.FunctionDef):
            yield prefix + child.name.value, child
        elif isinstance(child, cst.ClassDef):
            yield from _functions(child, f"{prefix}{child.name.value}.")
        elif isinstance(child, cst.BaseCompoundStatement | cst.BaseSuite):
            yield from _functions(child, prefix)


def _changes(node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Walk through the nodes in a node, each with what an operator makes of it."""
    if _is_left_alone(node):
        return
    for kind, operator in mutation_operators:
        if isinstance(node, kind):
            for mutated in operator(node):
                if not _changes_nothing_to_notice(node, mutated):
                    yield node, mutated
    for child in node.children:
        yield from _changes(child)


def _candidates(file: str, wrapper: MetadataWrapper, seed: int) -> Iterator[_Candidate]:
    """Walk through the changes of a file's functions."""
    positions = wrapper.resolve(PositionProvider)
    blank = cst.Module([])
    for name, function in _functions(wrapper.module):
        first = function.decorators[0] if function.decorators else function
        for turn, (node, mutated) in enumerate(_changes(function.body)):
            text = f"{blank.code_for_node(node)}\0{blank.code_for_node(mutated)}"
            digest = hashlib.sha256(f"{seed}\0{file}\0{name}\0{turn}\0{text}".encode()).hexdigest()
            lines = (positions[node].start.line, positions[node].end.line)
            yield _Candidate(file, name, positions[first].start.line, lines, node, mutated, digest)


def _runs_as(code: CodeType) -> tuple[object, ...]:
    """Return what a function does, without the places in the file."""
    consts = tuple(
        _runs_as(each) if isinstance(each, CodeType) else (type(each), repr(each))
        for each in code.co_consts
    )
    return (code.co_code, consts, code.co_names, code.co_varnames, code.co_exceptiontable)


def _mutant(candidate: _Candidate, module: cst.Module) -> Mutant | None:
    """Write the file with the change; absent if it does not compile or changes nothing."""
    source = module.code
    tree = module.deep_replace(candidate.original, candidate.mutated)
    assert isinstance(tree, cst.Module)
    mutated = tree.code
    where = (candidate.file, candidate.function, candidate.first_line)
    try:
        before, after = code_of(source, *where), code_of(mutated, *where)
    except SyntaxError:
        return None
    if before is None or after is None or before.co_freevars != after.co_freevars:
        return None
    if _runs_as(before) == _runs_as(after):
        return None
    return Mutant(*where, candidate.lines, _difference(source, mutated), mutated)


def _difference(before: str, after: str) -> str:
    """Return the lines that differ, without those that are the same above and below them."""
    old, new = before.splitlines(), after.splitlines()
    for end in (0, -1):
        while old and new and old[end] == new[end]:
            del old[end], new[end]
    return " -> ".join(" ".join(each.strip() for each in lines) for lines in (old, new))


def make(root: Path, files: list[str], count: int, seed: int) -> list[Mutant]:
    """Return so many mutants of files, if there are as many, spread over their functions."""
    modules: dict[str, cst.Module] = {}
    waiting: dict[tuple[str, str], list[_Candidate]] = defaultdict(list)
    for file in files:
        wrapper = MetadataWrapper(cst.parse_module((root / file).read_text()))
        modules[file] = wrapper.module
        for each in _candidates(file, wrapper, seed):
            waiting[each.file, each.function].append(each)
    order = [sorted(each, key=_digest) for each in waiting.values()]
    order.sort(key=lambda each: _digest(each[0]))
    mutants: list[Mutant] = []
    while order and len(mutants) < count:
        for function in order:
            made = None
            while function and made is None:
                candidate = function.pop(0)
                made = _mutant(candidate, modules[candidate.file])
            if made is not None and len(mutants) < count:
                mutants.append(made)
        order = [each for each in order if each]
    return mutants


if __name__ == "__main__":
    arguments = sys.argv[1:]
    made = make(ROOT, arguments[2:], int(arguments[0]), int(arguments[1]))
    json.dump([asdict(each) for each in made], sys.stdout)
