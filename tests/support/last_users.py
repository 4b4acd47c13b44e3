# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Hooks for the conftest file of tests that share servers: who shares one comes in a row.

A server that nobody will ask for any more is ended then and not when the session is over: a Ray
that idles takes memory and time from the tests of others.
"""

from collections.abc import Generator
from typing import Any

import pytest

from tests.support.expendable_server import ExpendableServer
from tests.support.policed_server import PolicedServer
from tests.support.server import RunningServer

# Fixtures whose users come in a row, in this order, after all other tests.
_IN_A_ROW = ("namespaced", "policed", "encrypted", "expendable_server")
# Fixtures whose users are the first of two halves that run side by side, each with its own servers.
_FIRST_HALF = frozenset({"surface", "guarded"})
# And modules with Rays of several nodes, whose addresses are fixed.
_SEVERAL_NODES = frozenset(
    {
        "test_cluster",
        "test_examples",
        "test_head_faults",
        "test_joined_fork_server",
        "test_lanes_between_nodes",
        "test_nodes",
        "test_placement",
        "test_raylet_kills",
        "test_upgrade",
    }
)
_live: dict[str, RunningServer | PolicedServer | ExpendableServer] = {}


def bring_together(items: list[pytest.Item]) -> None:
    """Sort tests by the server they share; one that ends it is its last user."""
    items.sort(key=lambda item: (_place(item), any(item.iter_markers("ends_server"))))


def half_of(item: pytest.Item) -> int:
    """Return to which of two halves a test belongs, 1 or 2; who shares a server is in one half."""
    if item.path.stem in _SEVERAL_NODES:
        return 1
    return 1 if not _place(item) and _FIRST_HALF & _names(item) else 2


def _place(item: pytest.Item) -> int:
    names = _names(item)
    return next((at for at, name in enumerate(_IN_A_ROW, 1) if name in names), 0)


def _names(item: pytest.Item) -> set[str]:
    """Return the fixtures of a test, those that its parameters name included."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return {*getattr(item, "fixturenames", ()), *(p for p in parameters if isinstance(p, str))}


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
    """Note the servers of the session."""
    value = yield
    is_server = isinstance(value, RunningServer | PolicedServer | ExpendableServer)
    if is_server and fixturedef.scope == "session":
        _live[fixturedef.argname] = value
    return value


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """End the servers that neither this test nor a later one asks for.

    What fixtures of the test before had to put right there has been put right by now.
    """
    items = item.session.items
    used = {name for each in items[items.index(item) :] for name in _names(each)}
    for name in _live.keys() - used:
        server = _live.pop(name)
        if isinstance(server, RunningServer):
            server.terminate()  # its fixture looks at the exit code when the session is over
        else:
            server.close()
