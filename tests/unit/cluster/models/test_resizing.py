# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A version gets another count of instances while it serves."""

import asyncio

from cluster.models.operation import Kind
from cluster.models.versions import RESIZE_DRAIN_S
from tests.support.control_plane_fakes import DRAIN_S, World, in_virtual_time, model, now


async def serving(count: int) -> World:
    world = World(model("m", count=count))
    await world.lifecycle.load("m")
    world.host.log.clear()
    return world


@in_virtual_time
async def test_new_instances_take_requests_once_all_are_ready() -> None:
    world = await serving(1)
    assert await world.lifecycle.resize("m", 1, 3)
    assert len(world.endpoints("m")) == 3
    assert [each for each in world.host.log if each.startswith("ready")] == [
        "ready m/1#1@1",
        "ready m/1#2@1",
    ]


@in_virtual_time
async def test_those_that_are_too_many_end_once_routers_know_and_their_requests_have_ended() -> (
    None
):
    world = await serving(3)
    world.routers_s = 0.5
    assert await world.lifecycle.resize("m", 1, 1)
    assert world.endpoints("m") == ["m/1#0@1"]
    await asyncio.sleep(RESIZE_DRAIN_S + 1)
    assert world.host.log == [
        "known",
        *("drain m/1#1@1", "drain m/1#2@1"),
        *("end m/1#1@1", "end m/1#2@1"),
    ]
    assert world.record("m").versions[1].leaving == ()


@in_virtual_time
async def test_an_instance_on_a_node_with_many_stays_rather_than_one_that_is_alone() -> None:
    world = await serving(1)
    world.host.node = "full"
    await world.lifecycle.resize("m", 1, 3)
    await world.lifecycle.resize("m", 1, 2)
    assert world.endpoints("m") == ["m/1#1@1", "m/1#2@1"]


@in_virtual_time
async def test_what_is_not_there_or_rests_is_left_alone() -> None:
    world = await serving(1)
    assert not await world.lifecycle.resize("nobody", 1, 2)
    assert await world.lifecycle.resize("m", 7, 2)
    assert world.host.log == []
    assert world.lifecycle.dormancy.rest("m", 1)
    await asyncio.sleep(DRAIN_S + 1)
    world.host.log.clear()
    await world.lifecycle.resize("m", 1, 2)
    assert world.host.log == []


@in_virtual_time
async def test_a_wake_waits_for_an_operation_that_began_before_its_turn() -> None:
    world = await serving(1)
    world.lifecycle.dormancy.rest("m", 1)
    await asyncio.sleep(DRAIN_S + 1)
    operated, begin_s = world.lifecycle.model_of("m"), now()
    another = operated.run(Kind.LOAD, None, "another", lambda _: asyncio.sleep(5))
    begun = asyncio.create_task(another)
    await asyncio.sleep(0.1)
    await world.lifecycle.dormancy.wake("m", 1)
    await begun
    assert now() > begin_s + 5
    assert len(world.endpoints("m")) == 1
