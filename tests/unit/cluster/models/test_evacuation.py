# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is on a node that drains starts elsewhere first, and then leaves."""

import asyncio

from backends.api.errors import InternalError
from deployments.contracts.routing_table import ModelReadyState
from tests.support.control_plane_fakes import (
    DRAIN_S,
    LOAD_S,
    World,
    ensemble,
    in_virtual_time,
    model,
)


async def loaded(*counts: int) -> World:
    """Return a world with a model of so many instances each, all on node "n"."""
    world = World(*(model(f"m{at}", count=count) for at, count in enumerate(counts)))
    await world.lifecycle.load_all(world.candidates)
    world.host.log.clear()
    world.states.clear()
    world.host.node = "other"
    return world


async def look(world: World, times: int = 1) -> None:
    """Look as often as the controller does, once a second."""
    for _ in range(times):
        world.lifecycle.evacuation.look({"n"})
        await asyncio.sleep(1)


def nodes(world: World, name: str) -> list[str]:
    return [each.node_id for each in world.record(name).versions[1].instances]


@in_virtual_time
async def test_instances_start_elsewhere_before_those_on_the_node_drain() -> None:
    world = await loaded(2)
    await look(world, 5)
    assert nodes(world, "m0") == ["other", "other"]
    assert world.host.log == [
        "start m0/1#2@1",
        "start m0/1#3@1",
        "ready m0/1#2@1",
        "ready m0/1#3@1",
        "drain m0/1#0@1",
        "drain m0/1#1@1",
        "end m0/1#0@1",
        "end m0/1#1@1",
    ]
    assert {seen["m0/1"] for seen in world.states} <= {"READY"}


@in_virtual_time
async def test_all_models_of_a_node_are_moved_at_once() -> None:
    world = await loaded(1, 1, 1)
    await look(world, 3)
    assert [nodes(world, f"m{at}") for at in range(3)] == [["other"]] * 3


@in_virtual_time
async def test_a_version_is_moved_while_another_of_the_model_is() -> None:
    world = await loaded(1)
    world.host.node = "x"
    world.candidates["m0"] = model("m0", versions=(1, 2))
    await world.lifecycle.load("m0")
    world.host.node = "other"
    for draining in ({"n"}, {"n", "x"}):
        world.lifecycle.evacuation.look(draining)
        await asyncio.sleep(LOAD_S / 4)
    await asyncio.sleep(LOAD_S)
    versions = world.record("m0").versions
    assert [versions[each].instances[0].node_id for each in (1, 2)] == ["other", "other"]


@in_virtual_time
async def test_what_is_elsewhere_stays_where_it_is() -> None:
    world = await loaded(1)
    world.lifecycle.evacuation.look({"far"})
    world.lifecycle.evacuation.look(())
    await asyncio.sleep(5)
    assert world.host.log == []


@in_virtual_time
async def test_while_there_is_no_room_elsewhere_the_node_goes_on_serving() -> None:
    world = await loaded(1)
    world.host.blocked.add("m0/1#1")
    await look(world, 10)
    assert nodes(world, "m0") == ["n"]
    assert world.host.log == []
    world.host.unblock()
    await look(world, 2 + int(LOAD_S + DRAIN_S))
    assert "end m0/1#0@1" in world.host.log
    assert "m0/1#0@1" not in world.endpoints("m0")


@in_virtual_time
async def test_a_move_that_fails_changes_nothing_and_is_tried_again_later() -> None:
    world = await loaded(1)
    world.host.fail["m0/1#1"] = [InternalError("no such file")]
    await look(world, 9)
    assert nodes(world, "m0") == ["n"]
    assert [line for line in world.host.log if line.startswith("start")] == ["start m0/1#1@1"]
    await look(world, 5)
    assert nodes(world, "m0") == ["other"]


@in_virtual_time
async def test_an_unload_ends_a_move() -> None:
    world = await loaded(1)
    world.lifecycle.evacuation.look({"n"})
    await asyncio.sleep(LOAD_S / 2)
    await world.lifecycle.unload("m0")
    assert world.state("m0") is ModelReadyState.UNAVAILABLE
    assert "ready m0/1#1@1" not in world.host.log


@in_virtual_time
async def test_dormant_versions_and_ensembles_have_nothing_to_move() -> None:
    world = World(model("m"), ensemble("e", "m"))
    await world.lifecycle.load("e")
    world.lifecycle.dormancy.rest("m", 1)
    await asyncio.sleep(DRAIN_S + 1)
    world.host.log.clear()
    await look(world, 3)
    assert world.host.log == []
