# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who begins to wake while there is room for some, and what those who wait are told."""

import asyncio

from cluster.models.records import Records
from cluster.models.wake_room import WakeRoom
from tests.support.control_plane_fakes import in_virtual_time, now

A, B, C = ("a", 1), ("b", 1), ("c", 2)


def room_of() -> tuple[WakeRoom, Records, list[str]]:
    changed: list[str] = []
    records = Records(changed.append)
    return WakeRoom(records), records, changed


@in_virtual_time
async def test_without_a_bound_each_wake_begins_at_once() -> None:
    room, _, changed = room_of()
    for key in (A, B, C):
        assert await room.enter(key)
    assert (room.begun_count, changed, now()) == (3, [], 0)
    room.leave(A)
    room.leave(A)
    assert room.begun_count == 2


@in_virtual_time
async def test_as_many_begin_as_the_last_look_has_left_and_the_rest_by_their_turn() -> None:
    room, records, _ = room_of()
    room.looked(1, "x holds the room")
    assert await room.enter(A)
    waiting = [asyncio.create_task(room.enter(each)) for each in (B, C)]
    await asyncio.sleep(0.1)
    assert room.begun_count == 1
    assert [records.of(name).waits_for for name in "abc"] == ["", *["x holds the room"] * 2]
    room.looked(0, "y holds it")
    await asyncio.sleep(0.1)
    assert not any(each.done() for each in waiting)
    room.looked(1)
    assert await waiting[0]
    assert (records.of("b").waits_for, room.begun_count) == ("", 2)
    await asyncio.sleep(0.1)
    assert not waiting[1].done()
    room.looked(None)
    assert await waiting[1]
    assert room.begun_count == 3


@in_virtual_time
async def test_nobody_passes_those_who_wait() -> None:
    room, _, _ = room_of()
    room.looked(0)
    first = asyncio.create_task(room.enter(A))
    await asyncio.sleep(0.1)
    room.looked(2)  # room for the first and one more
    assert await first
    assert await room.enter(B)
    second = asyncio.create_task(room.enter(C))
    await asyncio.sleep(0.1)
    assert not second.done()
    second.cancel()


@in_virtual_time
async def test_what_is_urgent_begins_whatever_room_there_is() -> None:
    room, records, _ = room_of()
    room.looked(0, "x")
    assert await room.enter(A, is_urgent=True)
    waiting = asyncio.create_task(room.enter(B))
    await asyncio.sleep(0.1)
    room.let_in(B)
    room.let_in(B)  # once more is nothing
    room.let_in(C)  # nor is it of who does not wait
    assert await waiting
    assert (room.begun_count, records.of("b").waits_for) == (2, "")


@in_virtual_time
async def test_a_wake_without_room_is_given_up_after_two_minutes_and_told_what_holds_it() -> None:
    room, records, changed = room_of()
    room.looked(0, "x")
    waiting = asyncio.create_task(room.enter(A))
    await asyncio.sleep(0.1)
    room.looked(0, "y")
    assert records.of("a").waits_for == "x"
    await asyncio.sleep(1)
    assert records.of("a").waits_for == "y"
    assert not await waiting
    assert (now(), room.begun_count, changed) == (120, 0, ["a", "a"])
    # The place of who has gone is not kept.
    room.looked(1)
    assert await room.enter(B)
