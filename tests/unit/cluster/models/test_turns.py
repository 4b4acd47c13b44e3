# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tasks of which a few begin at once."""

import asyncio
from functools import partial

import pytest

from cluster.models.turns import AT_ONCE, TURN_S, Turns
from tests.support.control_plane_fakes import in_virtual_time

COUNT = 5 * AT_ONCE + 1


@in_virtual_time
async def test_a_few_tasks_begin_at_once_in_order_and_all_are_waited_for() -> None:
    begun: list[int] = []
    ended: list[int] = []
    most = 0

    async def call(number: int) -> None:
        nonlocal most
        begun.append(number)
        await asyncio.sleep(TURN_S / 2)
        most = max(most, len(begun) - len(ended))
        ended.append(number)

    turns = Turns()
    for number in range(COUNT):
        turns.spawn(partial(call, number))
    await asyncio.sleep(1)
    assert not begun
    await turns.run()
    assert begun == list(range(COUNT))
    assert len(ended) == COUNT
    assert most <= AT_ONCE


@in_virtual_time
async def test_tasks_that_hang_hold_the_others_up_for_a_turn_and_one_that_fails_for_none() -> None:
    begun: list[int] = []
    forever = asyncio.Event()

    async def call(number: int) -> None:
        begun.append(number)
        if number < AT_ONCE:
            await forever.wait()
        raise ValueError(number)

    turns = Turns()
    tasks = [turns.spawn(partial(call, number)) for number in range(COUNT)]
    running = asyncio.create_task(turns.run())
    await asyncio.sleep(2 * TURN_S)
    assert len(begun) == COUNT
    assert not running.done()
    forever.set()
    await running
    assert [str(each.exception()) for each in tasks] == list(map(str, range(COUNT)))


@in_virtual_time
async def test_all_are_cancelled_with_who_waits_for_them_begun_or_not() -> None:
    begun: list[int] = []

    async def call(number: int) -> None:
        begun.append(number)
        await asyncio.Event().wait()

    turns = Turns()
    tasks = [turns.spawn(partial(call, number)) for number in range(COUNT)]
    running = asyncio.create_task(turns.run())
    await asyncio.sleep(TURN_S / 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait(tasks)
    assert all(each.cancelled() for each in tasks)
    assert len(begun) == AT_ONCE


@in_virtual_time
async def test_without_a_task_there_is_nothing_to_wait_for() -> None:
    await Turns().run()
