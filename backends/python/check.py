# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Checks a model.py without running it: that it is there, is Python and has the class.

What only running tells is left open. Where code may make the class or its functions in ways that
its text does not show, they count as there.
"""

import ast
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from backends.api.backend import CheckedFiles, LoadContext
from backends.api.errors import InternalError
from backends.python.loading import MODEL_CLASS, model_file

_COMPLETION: Final = "auto_complete_config"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# Names in code that may bind any name.
_BINDS_ANYTHING: Final = frozenset(
    {"exec", "globals", "vars", "setattr", "locals", "__getattr__", "modules", "__dict__"}
)

_RUN = "what model.py does when it is imported and initialized"
_MAY_COMPLETE = "inputs and outputs, which auto_complete_config of model.py may set"


def check_files(context: LoadContext, *, auto_complete: bool, library: str = "") -> CheckedFiles:
    """Read the file; see `backends.api.backend.CheckFiles`."""
    path = model_file(context, library)
    if Path(path).suffix != ".py":
        return CheckedFiles(context.config, is_complete=not auto_complete, left_open=(_RUN,))
    tree = _parsed(path)
    _check_class(tree, path, f"{context.version}.{Path(path).stem}")
    if auto_complete and _mentions(tree, _COMPLETION):
        return CheckedFiles(context.config, is_complete=False, left_open=(_MAY_COMPLETE, _RUN))
    return CheckedFiles(context.config, left_open=(_RUN,))


def _parsed(path: str) -> ast.Module:
    try:
        source = Path(path).read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source, path)
            # Some of Python's rules hold for trees only.
            compile(tree, path, "exec")
    except SyntaxError as error:
        place = f"line {error.lineno or 1}, column {max(1, error.offset or 1)}"
        raise InternalError(f"SyntaxError: {path}: {place}: {error.msg}") from None
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise InternalError(f"{type(error).__name__}: {path}: {error}") from None
    return tree


def _check_class(tree: ast.Module, path: str, module: str) -> None:
    if MODEL_CLASS not in _bound(tree.body):
        if "*" in _bound(tree.body) or _is_dynamic(tree) or _mentions(tree, MODEL_CLASS):
            return
        raise InternalError(
            f"AttributeError: module '{module}' has no attribute '{MODEL_CLASS}': '{path}' defines "
            "no such class"
        )
    made = [each for each in tree.body if isinstance(each, ast.ClassDef)]
    own = [each for each in made if each.name == MODEL_CLASS]
    if not own or own[-1].bases or own[-1].decorator_list or own[-1].keywords:
        return
    if not _mentions(tree, "execute") and not _is_dynamic(tree):
        raise InternalError(f"Python model {path} does not implement `execute` method.")


def _bound(statements: Iterable[ast.stmt]) -> set[str]:
    """Return the names that statements bind in their own scope; ``*`` where that is open."""
    return {name for statement in statements for name in _names(statement)}


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.partition(".")[0]
    elif isinstance(node, _SCOPES):
        yield node.name
        return
    elif isinstance(node, ast.Lambda):
        return
    for child in ast.iter_child_nodes(node):
        yield from _names(child)


def _mentions(tree: ast.AST, name: str) -> bool:
    """Whether a name occurs anywhere: as a name, an attribute, a definition or a text."""
    return any(name in _words(node) for node in ast.walk(tree))


def _is_dynamic(tree: ast.AST) -> bool:
    return any(_BINDS_ANYTHING & set(_words(node)) for node in ast.walk(tree))


def _words(node: ast.AST) -> tuple[str, ...]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
            return (name,)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.Constant(value=str(text)):
            return (text,)
        case ast.Global(names=names):
            return tuple(names)
        case _:
            return ()
