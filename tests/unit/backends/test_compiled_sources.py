# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What mypyc would compile to something else than Python does, and mypy accepts."""

import ast
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, get_args, get_type_hints

import pytest

from backends import compiled_form
from deployments.contracts.routing_table import PollAnswer
from deployments.ingress_settings import IngressSettings
from deployments.instance.progress import Progress
from deployments.instance.spec import InstanceDescription, InstanceSpec
from deployments.metrics.counters import Snapshot
from deployments.metrics.node_roles import NodeRoles
from tests.support.stale_narrowing import stale_reads

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def in_scope(function: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs in a function, without the functions in it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, SCOPES):
            yield child
            yield from in_scope(child)


def bound_to_two_types(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the names of exceptions that are something else as well."""
    caught: dict[str, set[str]] = {}
    others = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    for node in in_scope(function):
        if isinstance(node, ast.ExceptHandler) and node.name is not None:
            caught.setdefault(node.name, set()).add(ast.unparse(node.type or node))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            others.add(node.id)
    return sorted(name for name, types in caught.items() if len(types) > 1 or name in others)


@pytest.mark.parametrize("source", compiled_form.sources())
def test_a_caught_exceptions_name_stands_for_one_type(source: str) -> None:
    # Compiled, it keeps the type that it was bound to first, and the second one is a TypeError.
    tree = ast.parse((compiled_form.ROOT / source).read_text())
    found = {
        f"{node.name}, line {node.lineno}": names
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (names := bound_to_two_types(node))
    }
    assert not found


@pytest.mark.parametrize("source", compiled_form.sources())
def test_nothing_is_read_as_it_was_before_a_call_that_may_have_changed_it(source: str) -> None:
    # Compiled, an attribute that was None before the call is a TypeError when the call has set it.
    assert stale_reads((compiled_form.ROOT / source).read_text()) == []


def suspended_in_handlers(tree: ast.AST) -> list[str]:
    """Return where a coroutine or generator may wait while it handles an exception."""
    found = []
    for node in ast.walk(tree):
        handlers: list[ast.stmt] = []
        if isinstance(node, ast.Try | ast.TryStar):
            handlers = [*node.handlers, *node.finalbody]
        elif isinstance(node, ast.AsyncWith):
            # The end of the one of asyncio's timeouts waits for nothing.
            contexts = {ast.unparse(each.context_expr).split("(")[0] for each in node.items}
            found += [f"line {node.lineno}: async with"] * (contexts != {"asyncio.timeout"})
        suite = ast.Module(body=handlers, type_ignores=[])
        found += [
            f"line {each.lineno}: {ast.unparse(each)}"
            for each in in_scope(suite)
            if isinstance(each, ast.Await | ast.Yield | ast.YieldFrom | ast.AsyncFor)
        ]
    return found


@pytest.mark.parametrize("source", compiled_form.sources())
def test_nothing_waits_while_it_handles_an_exception(source: str) -> None:
    # Compiled, the exception is then the one that its thread handles: others raise it again.
    assert suspended_in_handlers(ast.parse((compiled_form.ROOT / source).read_text())) == []


@pytest.mark.parametrize(
    "text",
    [
        "try: ...\nexcept OSError: await x",
        "try: ...\nfinally:\n  if x: await x",
        "try: ...\nexcept OSError as error: yield error",
        "async with lock: ...",
    ],
)
def test_who_waits_while_it_handles_an_exception_is_found(text: str) -> None:
    lines = [f"    {each}" for each in text.splitlines()]
    assert suspended_in_handlers(ast.parse("\n".join(["async def f():", *lines])))


def parts_of(kind: Any) -> Iterator[type]:
    """Yield the classes that a type annotation names."""
    if isinstance(kind, type) and not get_args(kind):
        yield kind
    for argument in get_args(kind):
        yield from parts_of(argument)


def carried_with(root: type) -> set[type]:
    """Return a dataclass, and those that its fields may hold."""
    found: set[type] = set()
    left = [root]
    while left:
        kind = left.pop()
        if is_dataclass(kind) and kind not in found:
            found.add(kind)
            left += (part for each in get_type_hints(kind).values() for part in parts_of(each))
    return found


@pytest.mark.parametrize(
    "root",
    [
        InstanceSpec, InstanceDescription, IngressSettings, NodeRoles, PollAnswer, Progress,
        Snapshot,
    ],
)  # fmt: skip
def test_what_ray_pickles_is_plain(root: type) -> None:
    # Frozen dataclasses that are compiled cannot be unpickled.
    modules = {f"{kind.__module__.replace('.', '/')}.py" for kind in carried_with(root)}
    assert not modules & set(compiled_form.sources())
