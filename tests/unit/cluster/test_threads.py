# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Calls that block, on threads of pools of their own. In real time."""

import asyncio
import contextvars
import threading
from pathlib import Path

import pytest

import cluster
from cluster.threads import ThreadPool

SOON_S = 10.0
ROOMS = ("actors", "controller", "instances", "placement", "residency", "models", "autoscaling")


def test_nothing_of_the_control_plane_uses_the_threads_that_all_kinds_would_share() -> None:
    root = Path(cluster.__file__).parent
    found = {
        path.relative_to(root).as_posix()
        for room in ROOMS
        for path in (root / room).rglob("*.py")
        if "asyncio.to_thread(" in path.read_text()
    }
    assert found == set()


async def test_a_pool_that_is_full_holds_up_no_other() -> None:
    full, other = ThreadPool("full", 2), ThreadPool("other", 1)
    go_on = threading.Event()
    waiting = [full.run(go_on.wait) for _ in range(5)]
    async with asyncio.timeout(SOON_S):
        assert await other.run(int, "7") == 7
    assert not any(call.done() for call in waiting)
    go_on.set()
    assert await asyncio.gather(*waiting) == [True] * 5


async def test_a_call_has_the_context_of_who_makes_it_and_raises_what_it_raises() -> None:
    pool, name = ThreadPool("one", 1), contextvars.ContextVar("name", default="")
    name.set("caller")
    assert await pool.run(name.get) == "caller"
    with pytest.raises(ValueError, match="invalid literal"):
        await pool.run(int, "seven")


async def test_a_call_that_is_cancelled_while_it_waits_for_a_thread_is_never_made() -> None:
    pool, go_on, made = ThreadPool("one", 1), threading.Event(), threading.Event()
    first, second = pool.run(go_on.wait), pool.run(made.set)
    second.cancel()
    # The pool hears of it from the loop.
    await asyncio.sleep(0)
    go_on.set()
    await first
    await pool.run(int)
    assert not made.is_set()
