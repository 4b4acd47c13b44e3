# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Policies look in their order, and none keeps another from looking."""

import asyncio
import contextlib
import logging

import pytest
from ray.exceptions import GetTimeoutError

from backends.api.errors import UnavailableError
from cluster.controller.reconciler import LEAST_S, LONGEST_S, PATIENCE_S, Look, Policy, Reconciler
from tests.support.control_plane_fakes import in_virtual_time, now


class Scene:
    """Policies, and when they looked.

    Attributes:
        looks: Names and times, in the order in which looks began.
        takes_s: By name: how long looks take.
        fails: By name: what looks raise.
        answers: By name: when to look again, in place of the period.
    """

    def __init__(self, **periods_s: float) -> None:
        self.looks: list[tuple[str, float]] = []
        self.takes_s: dict[str, float] = {}
        self.fails: dict[str, BaseException] = {}
        self.answers: dict[str, float] = {}
        rows = [Policy(name, period_s, "") for name, period_s in periods_s.items()]
        # In another order than the table's.
        looks = {row.name: self._look(row.name) for row in reversed(rows)}
        self.reconciler = Reconciler(rows, looks)

    def _look(self, name: str) -> Look:
        async def look() -> float | None:
            self.looks.append((name, now()))
            await asyncio.sleep(self.takes_s.get(name, 0.0))
            if name in self.fails:
                raise self.fails[name]
            return self.answers.get(name)

        return look

    async def run(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.reconciler.run()

    def times(self, name: str) -> list[float]:
        return [round(at_s, 3) for each, at_s in self.looks if each == name]


@in_virtual_time
async def test_policies_that_are_due_look_one_after_the_other_in_the_order_of_the_table() -> None:
    scene = Scene(first=1.0, second=2.0, third=1.0)
    scene.takes_s = {"first": 0.1, "second": 0.2}
    await scene.run(2.9)
    assert [name for name, _ in scene.looks] == ["first", "third", "first", "second", "third"]
    assert scene.times("third") == [1.1, 2.3]
    assert scene.times("first") == [1.0, 2.0]


@in_virtual_time
async def test_a_look_that_takes_long_goes_on_beside_the_passes_and_is_not_begun_again() -> None:
    scene = Scene(slow=1.0, quick=1.0)
    scene.takes_s = {"slow": 60.0}
    await scene.run(6.8)
    assert scene.times("slow") == [1.0]
    assert scene.times("quick") == [1.0 + PATIENCE_S, 2.0, 3.0, 4.0, 5.0, 6.0]


@in_virtual_time
async def test_looks_that_hang_cost_the_others_half_a_second_in_sum() -> None:
    scene = Scene(one=1.0, two=1.0, three=1.0, last=1.0)
    scene.takes_s = dict.fromkeys(("one", "two", "three"), 600.0)
    await scene.run(2.0)
    assert scene.times("last") == [1.0 + PATIENCE_S]


@in_virtual_time
async def test_after_a_look_that_took_long_there_is_a_whole_period() -> None:
    scene = Scene(slow=2.0)
    scene.takes_s = {"slow": 3.0}
    await scene.run(11.0)
    assert scene.times("slow") == [2.0, 7.0]


@in_virtual_time
async def test_a_policy_that_fails_stops_no_other_and_looks_at_growing_intervals() -> None:
    scene = Scene(bad=2.0, good=2.0)
    scene.fails = {"bad": RuntimeError("no head")}
    await scene.run(31.0)
    assert scene.times("bad") == [2.0, 6.0, 14.0, 14.0 + LONGEST_S]
    assert scene.times("good") == [2.0 * n for n in range(1, 16)]


@in_virtual_time
async def test_a_policy_that_has_recovered_looks_as_often_as_before() -> None:
    scene = Scene(bad=2.0)
    scene.fails = {"bad": RuntimeError("no head")}
    await scene.run(13.0)
    scene.fails = {}
    scene.looks.clear()
    await scene.run(8.0)
    assert scene.times("bad") == [14.0, 16.0, 18.0, 20.0]
    scene.fails = {"bad": RuntimeError("no head")}
    await scene.run(6.0)
    assert scene.times("bad")[4:] == [22.0, 26.0]


@in_virtual_time
async def test_a_policy_with_a_long_period_is_not_tried_less_often_for_its_errors() -> None:
    scene = Scene(bad=30.0)
    scene.fails = {"bad": RuntimeError("no head")}
    await scene.run(95.0)
    assert scene.times("bad") == [30.0, 60.0, 90.0]


@in_virtual_time
async def test_a_policy_may_have_a_shorter_longest_interval_after_errors() -> None:
    scene = Scene(urgent=2.0)
    scene.reconciler._turns["urgent"].policy = Policy("urgent", 2.0, "", longest_s=2.0)
    scene.fails = {"urgent": RuntimeError("no head")}
    await scene.run(9.0)
    assert scene.times("urgent") == [2.0, 4.0, 6.0, 8.0]


@in_virtual_time
async def test_a_look_that_something_else_has_cancelled_is_tried_again() -> None:
    scene = Scene(cancelled=2.0)
    scene.fails = {"cancelled": asyncio.CancelledError()}
    await scene.run(7.0)
    assert scene.times("cancelled") == [2.0, 6.0]


@in_virtual_time
async def test_a_reconciler_that_runs_again_has_the_looks_begin_again_that_ended_with_it() -> None:
    scene = Scene(slow=2.0)
    scene.takes_s = {"slow": 100.0}
    await scene.run(3.0)
    await scene.run(10.0)
    assert scene.times("slow") == [2.0, 5.0]


def test_an_error_is_logged_once_until_it_is_another(caplog: pytest.LogCaptureFixture) -> None:
    @in_virtual_time
    async def run() -> None:
        scene = Scene(bad=1.0)
        scene.fails = {"bad": UnavailableError("no store")}
        await scene.run(60.0)
        scene.fails = {"bad": OSError("no head")}
        await scene.run(60.0)
        scene.fails = {}
        await scene.run(20.0)
        scene.fails = {"bad": OSError("no head")}
        await scene.run(60.0)

    with caplog.at_level(logging.WARNING):
        run()
    assert [text.partition(": ")[2] for text in caplog.messages] == [
        "no store",
        "OSError('no head')",
        "OSError('no head')",
    ]
    assert caplog.messages[0].startswith("policy 'bad' failed and is tried again in 2 s")


def test_an_error_of_our_own_is_logged_with_where_it_is(caplog: pytest.LogCaptureFixture) -> None:
    @in_virtual_time
    async def run() -> None:
        scene = Scene(bad=1.0)
        scene.fails = {"bad": KeyError("x")}
        await scene.run(60.0)

    with caplog.at_level(logging.WARNING):
        run()
    (record,) = caplog.records
    assert record.exc_info
    assert record.levelno == logging.ERROR


def test_an_error_of_rays_is_logged_in_a_line(caplog: pytest.LogCaptureFixture) -> None:
    @in_virtual_time
    async def run() -> None:
        scene = Scene(bad=1.0)
        scene.fails = {"bad": GetTimeoutError("the head is away")}
        await scene.run(60.0)

    with caplog.at_level(logging.WARNING):
        run()
    (record,) = caplog.records
    assert not record.exc_info
    assert record.levelno == logging.WARNING


@in_virtual_time
async def test_what_a_look_returns_is_when_it_looks_again() -> None:
    scene = Scene(crowded=5.0)
    scene.answers = {"crowded": 0.5}
    await scene.run(6.2)
    assert scene.times("crowded") == [5.0, 5.5, 6.0]


@in_virtual_time
async def test_a_policy_can_be_had_look_at_once_but_not_without_a_pause() -> None:
    scene = Scene(asked=60.0, other=60.0)
    scene.takes_s = {"asked": 0.2}
    running = asyncio.create_task(scene.run(20.0))
    await asyncio.sleep(3.0)
    scene.reconciler.look_soon("asked")
    await asyncio.sleep(0.1)
    # While it looks: what it has not seen is for the next look.
    scene.reconciler.look_soon("asked")
    await asyncio.sleep(0.2)
    scene.reconciler.look_soon("asked")
    await running
    assert scene.times("asked") == [3.0, 3.2 + LEAST_S]
    assert scene.times("other") == []


@in_virtual_time
async def test_what_is_asked_for_during_a_long_look_is_done_after_it_once() -> None:
    scene = Scene(asked=60.0)
    scene.takes_s = {"asked": 5.0}
    running = asyncio.create_task(scene.run(20.0))
    await asyncio.sleep(3.0)
    scene.reconciler.look_soon("asked")
    await asyncio.sleep(1.0)
    scene.reconciler.look_soon("asked")
    scene.reconciler.look_soon("a policy that this server does not have")
    await running
    assert scene.times("asked") == [3.0, 8.0 + LEAST_S]


@in_virtual_time
async def test_what_is_due_a_moment_later_looks_in_the_same_pass() -> None:
    scene = Scene(one=1.05, other=1.0)
    await scene.run(1.5)
    assert scene.looks == [("one", 1.0), ("other", 1.0)]


@in_virtual_time
async def test_looks_end_with_the_reconciler() -> None:
    scene = Scene(slow=1.0)
    ended = asyncio.Event()

    async def last() -> None:
        try:
            await asyncio.sleep(60.0)
        finally:
            ended.set()

    scene.reconciler = Reconciler((Policy("slow", 1.0, ""),), {"slow": last})
    await scene.run(5.0)
    async with asyncio.timeout(0.1):
        await ended.wait()
