# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The table of operations that meet, as a table, and what runs by it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from backends.api.errors import InternalError
from cluster.models.operated_model import OperatedModel
from cluster.models.operation import RUNNING, Kind, Meeting, Operation, finished, meeting
from tests.support import virtual_time
from tests.support.control_plane_fakes import in_virtual_time, now

WORK_S = 10.0
CLEAN_UP_S = 1.0
OF_ALL = (Kind.LOAD, Kind.UNLOAD)
AT_ONCE = (Kind.REST, Kind.DISPLACE)
PAIRS = [
    pytest.param(arriving, running, is_pending, id=f"{arriving}-{running}-{is_pending}")
    for arriving in Kind
    for running in RUNNING
    for is_pending in (False, True)
]


def operated() -> OperatedModel:
    return OperatedModel(cast("Any", SimpleNamespace(candidate=None)), lambda task: task)


def works(
    steps: list[str], name: str, *, is_pending: bool = False
) -> Callable[[Operation], Coroutine[Any, Any, None]]:
    async def work(operation: Operation) -> None:
        steps.append(f"{name} begins")
        if is_pending:
            operation.block()
        try:
            await asyncio.sleep(WORK_S)
        except asyncio.CancelledError:
            await asyncio.sleep(CLEAN_UP_S)
            steps.append(f"{name} has cleaned up")
            raise
        steps.append(f"{name} ends")

    return work


def begun(work: Awaitable[Any]) -> "asyncio.Future[Any]":
    return asyncio.ensure_future(work)


@pytest.mark.parametrize(("arriving", "running", "is_pending"), PAIRS)
def test_what_arrives_waits_joins_cancels_or_is_refused_as_the_table_says(
    arriving: Kind, running: Kind, is_pending: bool
) -> None:
    expected = meeting(arriving, running, is_pending=is_pending)

    async def run() -> None:
        model, steps = operated(), list[str]()
        version = None if running in OF_ALL else 1
        first = begun(model.run(running, version, "", works(steps, "1", is_pending=is_pending)))
        await asyncio.sleep(1)
        assert model.meetings(arriving, 1) == {expected}
        assert model.meetings(arriving, 2) == ({expected} if version is None else frozenset())
        if arriving in AT_ONCE:
            assert not model.may(arriving, 1)
            await asyncio.sleep(2 * CLEAN_UP_S)
            assert model.may(arriving, 1) == (expected is Meeting.CANCEL)
        elif arriving is not Kind.POLL:
            version = None if arriving in OF_ALL else 1
            operation = await model.run(arriving, version, "", works(steps, "2"))
            if expected is Meeting.REFUSE:
                assert operation is None
                assert steps == ["1 begins"]
            elif expected is Meeting.JOIN:
                assert operation is await first
            else:
                how = "ends" if expected is Meeting.WAIT else "has cleaned up"
                assert steps == ["1 begins", f"1 {how}", "2 begins", "2 ends"]
        operation = await first
        await operation.wait_ended()

    virtual_time.run(run())


def test_loads_and_unloads_are_never_refused_and_an_unload_waits_for_no_load() -> None:
    for running in RUNNING:
        for is_pending in (False, True):
            for arriving in (*OF_ALL, Kind.POLL, Kind.WAKE):
                assert meeting(arriving, running, is_pending=is_pending) is not Meeting.REFUSE
            met = meeting(Kind.UNLOAD, running, is_pending=is_pending)
            assert met is (Meeting.WAIT if running is Kind.UNLOAD else Meeting.CANCEL)


def test_what_makes_room_ends_a_move_that_waits_for_some() -> None:
    for arriving in (Kind.LOAD, Kind.UNLOAD, Kind.RESIZE, Kind.REST, Kind.DISPLACE, Kind.MOVE):
        assert meeting(arriving, Kind.MOVE, is_pending=True) is Meeting.CANCEL


@in_virtual_time
async def test_operations_on_different_versions_run_at_the_same_time() -> None:
    model, steps = operated(), list[str]()
    works_at = [model.run(Kind.RESIZE, v, "", works(steps, str(v))) for v in (1, 2)]
    await asyncio.gather(*works_at)
    assert now() == WORK_S


@in_virtual_time
async def test_operations_have_their_turns_in_the_order_in_which_they_arrived() -> None:
    model, steps = operated(), list[str]()
    await asyncio.gather(
        *(model.run(Kind.LOAD, None, "", works(steps, str(number))) for number in range(4))
    )
    assert steps == [f"{number} {what}" for number in range(4) for what in ("begins", "ends")]
    assert model.operations == []


@in_virtual_time
async def test_an_unload_ends_the_loads_that_wait_before_it_too() -> None:
    model, steps = operated(), list[str]()
    loads = [begun(model.run(Kind.LOAD, None, "", works(steps, str(n)))) for n in range(3)]
    await asyncio.sleep(1)
    await model.run(Kind.UNLOAD, None, "", works(steps, "unload"))
    assert steps == ["0 begins", "0 has cleaned up", "unload begins", "unload ends"]
    assert [(await load).was_cancelled for load in loads] == [True] * 3


@in_virtual_time
async def test_an_unload_that_comes_as_a_load_ends_has_its_turn_before_the_load_that_waits() -> (
    None
):
    model, steps = operated(), list[str]()
    loads = [begun(model.run(Kind.LOAD, None, "", works(steps, str(n)))) for n in range(2)]
    await asyncio.sleep(1)
    unloads: list[asyncio.Future[Any]] = []

    def unload(_: object) -> None:
        unloads.append(begun(model.run(Kind.UNLOAD, None, "", works(steps, "unload"))))

    running = model.operations[0]._task
    assert running is not None
    running.add_done_callback(unload)
    await asyncio.gather(*loads)
    await asyncio.wait_for(unloads[0], 2 * WORK_S)
    assert steps == ["0 begins", "0 ends", "unload begins", "unload ends"]


@pytest.mark.parametrize("times", [1, 3])
def test_an_operation_that_is_cancelled_often_cleans_up_once(times: int) -> None:
    async def run() -> None:
        model, steps = operated(), list[str]()
        load = begun(model.run(Kind.LOAD, None, "", works(steps, "load")))
        await asyncio.sleep(1)
        unloads = []
        for number in range(times):
            unload = model.run(Kind.UNLOAD, None, "", works(steps, f"unload {number}"))
            unloads.append(begun(unload))
            await asyncio.sleep(0.1)
        await asyncio.gather(load, *unloads)
        assert steps[:3] == ["load begins", "load has cleaned up", "unload 0 begins"]

    virtual_time.run(run())


@in_virtual_time
async def test_who_waits_for_its_turn_and_goes_away_does_nothing() -> None:
    model, steps = operated(), list[str]()
    load = begun(model.run(Kind.LOAD, None, "", works(steps, "load")))
    await asyncio.sleep(1)
    other = begun(model.run(Kind.LOAD, None, "", works(steps, "other")))
    last = begun(model.run(Kind.LOAD, None, "", works(steps, "last")))
    await asyncio.sleep(1)
    other.cancel()
    await asyncio.gather(load, last)
    assert steps == ["load begins", "load ends", "last begins", "last ends"]


@in_virtual_time
async def test_what_has_begun_goes_on_when_who_asked_goes_away() -> None:
    model, steps = operated(), list[str]()
    load = begun(model.run(Kind.LOAD, None, "", works(steps, "load")))
    await asyncio.sleep(1)
    load.cancel()
    await asyncio.sleep(WORK_S)
    assert steps == ["load begins", "load ends"]


@pytest.mark.parametrize(
    ("error", "is_logged"), [(KeyError("x"), True), (InternalError("y"), False)]
)
def test_a_bug_in_a_load_that_nobody_waits_for_is_logged(
    caplog: pytest.LogCaptureFixture, error: Exception, is_logged: bool
) -> None:
    async def fails() -> None:
        await asyncio.sleep(1)
        raise error

    async def run() -> None:
        Operation(Kind.LOAD).begin("load of 'm'", fails())
        await asyncio.sleep(2)

    virtual_time.run(run())
    assert [record.message for record in caplog.records] == ["load of 'm' failed"] * is_logged


@in_virtual_time
async def test_who_is_cancelled_while_it_waits_for_an_undo_waits_on() -> None:
    undo = asyncio.create_task(asyncio.sleep(5))
    waits = asyncio.create_task(finished(undo))
    await asyncio.sleep(1)
    waits.cancel()
    await asyncio.wait({waits})
    assert undo.done()
    assert now() == 5
