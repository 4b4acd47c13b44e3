# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Finds what mypy takes for unchanged after a call that may have changed it, which mypyc believes.

Within a function mypy remembers what an attribute was set to or tested for, also after calls, and
mypyc casts what is read to that type. So these are TypeErrors of the compiled form alone:

- an attribute that was None is read, and the call has set it;
- one that is of a class, by isinstance, is read, and the call has set it to another;
- one that was not None is compared with None once more, and the call has made it that.

What is narrowed to true or false, or to a member of an enumeration, is no cast: there mypy's own
``warn_unreachable`` tells of the branch that it thinks impossible.
"""

import ast
from dataclasses import dataclass, field
from typing import Final

# Of Python's own functions those that change nothing.
_HARMLESS: Final = frozenset({"isinstance", "len", "cast", "type", "id", "bool"})
_CALLS: Final = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom)
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ENDS: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)

NONE: Final = "None"
NOT_NONE: Final = "not None"


@dataclass(frozen=True)
class Known:
    """What mypy knows of an attribute.

    Attributes:
        what: `NONE`, `NOT_NONE`, or the class that isinstance was asked for.
        is_stale: Whether a call has come since.
    """

    what: str
    is_stale: bool = False


State = dict[str, Known]


@dataclass
class _Scan:
    """The walk through one function, in the order in which it runs."""

    names: set[str]
    found: dict[int, str] = field(default_factory=dict)

    def path(self, node: ast.AST) -> str:
        """Return an attribute as it is written; empty for what no call can change."""
        if isinstance(node, ast.Name):
            return node.id if node.id in self.names else ""
        inner = node
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        return ast.unparse(node) if inner is not node and isinstance(inner, ast.Name) else ""

    # Statements

    def block(self, body: list[ast.stmt], state: State | None) -> State | None:
        """Run statements; return what is known afterwards, None when that place is not reached."""
        for statement in body:
            if state is None:
                return None
            state = self.statement(statement, state)
        return state

    def statement(self, node: ast.stmt, state: State) -> State | None:
        """Run a statement."""
        if isinstance(node, _SCOPES):
            return state
        if isinstance(node, ast.If):
            self.read(node.test, state)
            yes, no = narrowed(self, node.test, state)
            return joined([self.block(node.body, yes), self.block(node.orelse, no)])
        if isinstance(node, ast.While | ast.For | ast.AsyncFor):
            return self.loop(node, state)
        if isinstance(node, ast.Try | ast.TryStar):
            return self.attempt(node, state)
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                self.read(item.context_expr, state)
            return self.block(node.body, state)
        if isinstance(node, ast.Match):
            self.read(node.subject, state)
            cases = [self.block(case.body, dict(state)) for case in node.cases]
            return joined([*cases, state])
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self.assign(node, state)
            return state
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.read(child, state)
        if isinstance(node, ast.Assert):
            return narrowed(self, node.test, state)[0]
        return None if isinstance(node, _ENDS) else state

    def loop(self, node: ast.While | ast.For | ast.AsyncFor, state: State) -> State | None:
        """Run a loop: what is known at its head is what is known before and after its body."""
        kept, self.found = self.found, {}
        after = self.round(node, dict(state))
        self.found = kept
        head = joined([state, after]) or {}
        end = joined([head, self.round(node, dict(head))]) or {}
        if isinstance(node, ast.While):
            end = narrowed(self, node.test, end)[1]
        return self.block(node.orelse, end)

    def round(self, node: ast.While | ast.For | ast.AsyncFor, state: State) -> State | None:
        """Run a loop's body once."""
        if isinstance(node, ast.While):
            self.read(node.test, state)
            return self.block(node.body, narrowed(self, node.test, state)[0])
        self.read(node.iter, state)
        self.forget(node.target, state)
        return self.block(node.body, state)

    def attempt(self, node: ast.Try | ast.TryStar, state: State) -> State | None:
        """Run a try: what a handler knows is what holds before and after the body."""
        body = self.block(node.body, dict(state))
        before = joined([dict(state), body if body is not None else {}]) or {}
        ends = [self.block(each.body, dict(before)) for each in node.handlers]
        ends.append(self.block(node.orelse, body))
        end = joined(ends)
        if not node.finalbody:
            return end
        self.block(node.finalbody, dict(before))
        return None if end is None else self.block(node.finalbody, end)

    def assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, state: State) -> None:
        """Run an assignment."""
        if node.value is not None:
            self.read(node.value, state)
        if isinstance(node, ast.AugAssign):
            self.read(node.target, state)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            self.forget(target, state)
            what = _value(node.value)
            if what and (path := self.path(target)):
                state[path] = Known(what)

    def forget(self, target: ast.expr, state: State) -> None:
        """Take what is assigned, and what is reached through it, for unknown."""
        for each in ast.walk(target):
            if isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, ast.Store):
                name = ast.unparse(each)
                for path in [path for path in state if path == name or path.startswith(name + ".")]:
                    del state[path]

    # Expressions

    def read(self, node: ast.expr, state: State) -> None:
        """Evaluate an expression: note what it reads of what is stale, and its calls."""
        if isinstance(node, ast.Lambda):
            return
        if isinstance(node, ast.IfExp | ast.BoolOp):
            self.choose(node, state)
            return
        known_of = state.get(self.path(node))
        if known_of is not None and known_of.is_stale and known_of.what != NOT_NONE:
            self.found[node.lineno] = f"{self.path(node)} is taken for {known_of.what}"
        self.compare(node, state)
        inside = [*ast.iter_child_nodes(node)]
        for child in inside:
            if isinstance(child, ast.expr):
                self.read(child, state)
            elif isinstance(child, ast.comprehension | ast.keyword):
                inside += ast.iter_child_nodes(child)
        if isinstance(node, _CALLS) and not _is_harmless(node):
            for each, known in list(state.items()):
                state[each] = Known(known.what, is_stale=True)

    def choose(self, node: ast.IfExp | ast.BoolOp, state: State) -> None:
        """Evaluate an expression whose parts are evaluated under what its other parts tell."""
        ways = []
        if isinstance(node, ast.IfExp):
            self.read(node.test, state)
            ways = list(narrowed(self, node.test, state))
            self.read(node.body, ways[0])
            self.read(node.orelse, ways[1])
        else:
            known = state
            for value in node.values:
                self.read(value, known)
                known = narrowed(self, value, known)[isinstance(node.op, ast.Or)]
                ways.append(known)
        for way in ways:
            for path, known_of in way.items():
                if known_of.is_stale and path in state:
                    state[path] = Known(state[path].what, is_stale=True)

    def compare(self, node: ast.expr, state: State) -> None:
        """Note that what was not None is compared with None once more."""
        if isinstance(node, ast.Compare) and is_none(node.comparators[0]):
            known = state.get(path := self.path(node.left))
            if known is not None and known.is_stale and known.what == NOT_NONE:
                self.found[node.lineno] = f"{path} is taken for {NOT_NONE}"


def narrowed(scan: _Scan, test: ast.expr, state: State) -> tuple[State, State]:
    """Return what is known where a test has held, and where it has not."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yes, no = narrowed(scan, test.operand, state)
        return no, yes
    if isinstance(test, ast.BoolOp):
        outcomes = []
        known = dict(state)
        for value in test.values:
            yes, no = narrowed(scan, value, known)
            is_and = isinstance(test.op, ast.And)
            outcomes.append(no if is_and else yes)
            known = yes if is_and else no
        other = joined([*outcomes, dict(outcomes[-1])]) or {}
        return (known, other) if isinstance(test.op, ast.And) else (other, known)
    told = _told(scan, test)
    if told is None or not told[0]:
        return dict(state), dict(state)
    path, yes_is, no_is = told
    return (
        {**state, **({path: Known(yes_is)} if yes_is else {})},
        {**state, **({path: Known(no_is)} if no_is else {})},
    )


def _told(scan: _Scan, test: ast.expr) -> tuple[str, str, str] | None:
    """Return of which attribute a simple test tells, and what when it holds and when not."""
    if isinstance(test, ast.Compare) and is_none(test.comparators[0]):
        is_it = isinstance(test.ops[0], ast.Is)
        path = scan.path(test.left)
        return (path, NONE, NOT_NONE) if is_it else (path, NOT_NONE, NONE)
    if isinstance(test, ast.Call) and ast.unparse(test.func) == "isinstance":
        return scan.path(test.args[0]), ast.unparse(test.args[1]), ""
    # What is true is not None; what is false may be so for other reasons.
    return (scan.path(test), NOT_NONE, "") if scan.path(test) else None


def _value(node: ast.expr | None) -> str:
    """Return what an attribute is that was set to a value; empty where its source does not say."""
    if is_none(node):
        return NONE
    is_made = isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1][:1].isupper()
    is_literal = isinstance(node, ast.Constant | ast.List | ast.Dict | ast.Tuple | ast.Lambda)
    return NOT_NONE if is_made or is_literal else ""


def _is_harmless(node: ast.expr) -> bool:
    """Whether a call is of a function that changes nothing."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) in _HARMLESS


def is_none(node: ast.expr | None) -> bool:
    """Whether an expression is the constant None."""
    return isinstance(node, ast.Constant) and node.value is None


def joined(states: list[State | None]) -> State | None:
    """Return what is known wherever several ways meet."""
    ways = [each for each in states if each is not None]
    if not ways:
        return None
    common = {}
    for path, known in ways[0].items():
        others = [each.get(path) for each in ways]
        if all(each is not None and each.what == known.what for each in others):
            is_stale = any(each is not None and each.is_stale for each in others)
            common[path] = Known(known.what, is_stale)
    return common


def stale_reads(source: str) -> list[str]:
    """Return where functions read what mypy takes for unchanged since before a call."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = [
                each for each in ast.walk(node) if isinstance(each, ast.Global | ast.Nonlocal)
            ]
            scan = _Scan({name for each in inside for name in each.names})
            scan.block(node.body, {})
            found += [f"line {line}: {text}" for line, text in sorted(scan.found.items())]
    return found
