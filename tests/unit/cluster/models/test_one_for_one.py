# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Moves, reloads and changes of instance groups: who serves leaves when its successor is ready."""

import asyncio
import logging
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import InternalError, TritonError
from cluster.models.contracts import Candidate
from cluster.placement.demand import ClusterResources, NodeResources
from tests.support import virtual_time
from tests.support.control_plane_fakes import (
    DRAIN_S,
    LOAD_S,
    World,
    error_of,
    in_virtual_time,
    model,
)
from tests.support.examples import examples
from tests.support.gates import amount
from tests.support.instance_host import until

CPUS = {"CPU": 8.0}
TWO_NODES = ClusterResources(tuple(NodeResources(name, CPUS, CPUS) for name in "ab"))
LEFT_S = LOAD_S + DRAIN_S + 5.0


async def serving(count: int, room: int) -> World:
    """Return a world with a model of so many instances, and room for so many in all."""
    world = World(model("m", count=count), cluster=TWO_NODES, requests_s=0.0)
    await world.lifecycle.load("m")
    world.host.room = room
    return world


def generations(world: World) -> list[int]:
    pool = world.lifecycle.pool_of("m", 1)
    assert pool is not None
    live = {endpoint.name for endpoint in pool.endpoints}
    return sorted(s.generation for s in pool.specs if s.name.partition("@")[0] in live)


def with_config(candidate: Candidate) -> Candidate:
    return replace(candidate, config=replace(candidate.config, max_batch_size=8))


@in_virtual_time
async def test_a_reload_without_any_room_changes_nothing_that_serves() -> None:
    world = await serving(10, room=10)
    world.candidates["m"] = model("m", count=10, stamp="new")
    error = await error_of(world.lifecycle.load("m"))
    assert "pending" in error.message
    await asyncio.sleep(60)
    assert generations(world) == [1] * 10
    assert world.lifecycle.is_pending("m")


@in_virtual_time
async def test_a_reload_with_room_for_one_replaces_all_one_for_one() -> None:
    world = await serving(10, room=11)
    world.candidates["m"] = model("m", count=10, stamp="new")
    await error_of(world.lifecycle.load("m"))
    counts = set()
    while world.lifecycle.is_pending("m"):
        counts.add(len(world.endpoints("m")))
        await asyncio.sleep(0.1)
    assert counts == {10}
    assert generations(world) == [2] * 10
    assert world.record("m").versions[1].digest == "m1new"
    await asyncio.sleep(LEFT_S)
    assert len(world.alive) == 10
    assert world.notices.count("release m") == 1


@in_virtual_time
async def test_the_digest_is_of_what_served_before_until_all_of_it_has_left() -> None:
    world = await serving(2, room=3)
    world.candidates["m"] = model("m", count=2, stamp="new")
    await error_of(world.lifecycle.load("m"))
    await until(lambda: generations(world) == [1, 2])
    assert world.record("m").versions[1].digest == "m1"
    assert "release m" not in world.notices
    await until(lambda: generations(world) == [2, 2])
    await asyncio.sleep(0)
    assert world.record("m").versions[1].digest == "m1new"


@in_virtual_time
async def test_with_another_config_all_stay_until_all_successors_are_ready() -> None:
    world = await serving(10, room=11)
    world.candidates["m"] = with_config(model("m", count=10, stamp="new"))
    await error_of(world.lifecycle.load("m"))
    await asyncio.sleep(60)
    assert generations(world) == [1] * 10
    world.host.room = 20
    world.host.give_room()
    await until(lambda: generations(world) != [1] * 10)
    assert generations(world) == [2] * 10


@in_virtual_time
async def test_a_load_of_what_served_before_ends_a_reload_and_takes_back_what_was_replaced() -> (
    None
):
    world = await serving(4, room=5)
    before, world.candidates["m"] = world.candidates["m"], model("m", count=4, stamp="new")
    await error_of(world.lifecycle.load("m"))
    await until(lambda: generations(world).count(2) == 2)
    world.candidates["m"] = before
    await error_of(world.lifecycle.load("m"))
    await until(lambda: not world.lifecycle.is_pending("m"))
    assert generations(world) == [3] * 4
    assert world.record("m").versions[1].digest == "m1"


@in_virtual_time
async def test_an_unload_in_mid_reload_ends_both_generations() -> None:
    world = await serving(4, room=5)
    world.candidates["m"] = model("m", count=4, stamp="new")
    await error_of(world.lifecycle.load("m"))
    await until(lambda: generations(world).count(2) == 2)
    await world.lifecycle.unload("m")
    assert not world.alive
    assert world.reason("m") == "unloaded"
    assert world.notices.count("release m") == 2


@in_virtual_time
async def test_a_successor_that_does_not_load_keeps_the_one_before_it_serving() -> None:
    world = await serving(2, room=3)
    world.candidates["m"] = model("m", count=2, stamp="new")
    await error_of(world.lifecycle.load("m"))
    await until(lambda: generations(world) == [1, 2])
    world.host.fail_load = [InternalError("no memory left")] * 3
    await until(lambda: not world.host.fail_load)
    assert generations(world) == [1, 2]
    await until(lambda: generations(world) == [2, 2])


@in_virtual_time
async def test_a_node_that_drains_without_room_elsewhere_goes_on_serving() -> None:
    world = await serving(10, room=10)
    there = [each.node_id for each in world.record("m").versions[1].instances]
    assert there.count("a") == 5
    world.cluster = TWO_NODES.with_draining({"a"})
    world.lifecycle.evacuation.look({"a"})
    await asyncio.sleep(60)
    assert len(world.endpoints("m")) == 10
    # Room comes for two.
    world.host.room = 12
    world.host.give_room()
    await asyncio.sleep(LEFT_S)
    nodes = [each.node_id for each in world.record("m").versions[1].instances]
    assert len(nodes) == 10


@in_virtual_time
async def test_each_that_has_room_elsewhere_lets_one_on_the_node_go() -> None:
    world = await serving(4, room=5)
    world.cluster = TWO_NODES.with_draining({"a"})
    counts = set()
    world.lifecycle.evacuation.look({"a"})
    for _ in range(300):
        await asyncio.sleep(0.1)
        counts.add(len(world.endpoints("m")))
    assert counts == {4}
    assert {each.node_id for each in world.record("m").versions[1].instances} == {"b"}


@in_virtual_time
async def test_counters_of_instances_that_a_reload_replaced_are_forgotten() -> None:
    world = await serving(2, room=9)
    pool = world.lifecycle.pool_of("m", 1)
    assert pool is not None
    await world.lifecycle.resize("m", 1, 1)
    await asyncio.sleep(LEFT_S)
    assert pool.past
    world.candidates["m"] = model("m", count=2, stamp="new")
    await world.lifecycle.load("m")
    await asyncio.sleep(LEFT_S)
    assert pool.past == {}


async def draining_without_room() -> World:
    """Return a world with two instances on a node that drains, and a move that waits for room."""
    world = await serving(2, room=2)
    nodes = {each.node_id for each in world.record("m").versions[1].instances}
    world.cluster = TWO_NODES.with_draining(nodes)
    world.lifecycle.evacuation.look(nodes)
    operations = world.lifecycle.model_of("m").operations
    await until(lambda: any(each.is_pending for each in operations))
    return world


async def looked(world: World, seconds: int) -> None:
    for _ in range(seconds // 2):
        await asyncio.sleep(2)
        world.lifecycle.evacuation.look({"a", "b"})


@in_virtual_time
async def test_a_resize_has_its_turn_though_a_move_waits_for_room() -> None:
    world = await draining_without_room()
    assert await world.lifecycle.resize("m", 1, 1)
    assert len(world.endpoints("m")) == 1


@in_virtual_time
async def test_a_rest_has_its_turn_though_a_move_waits_for_room() -> None:
    world = await draining_without_room()
    assert not world.lifecycle.dormancy.rest("m", 1)
    await looked(world, 4)
    assert world.lifecycle.dormancy.rest("m", 1)
    await looked(world, 60)
    assert not world.alive


@in_virtual_time
async def test_instances_make_room_for_others_though_a_move_waits_for_room() -> None:
    world = await draining_without_room()
    displaced = world.lifecycle.model_of("m")
    (name, _) = world.alive[:2]
    assert displaced.may_displace(1)
    assert displaced.displace(1, (name,), "another") == {}
    await looked(world, 4)
    assert displaced.displace(1, (name,), "another") != {}


@in_virtual_time
async def test_a_move_that_gave_way_is_tried_again() -> None:
    world = await draining_without_room()
    assert await world.lifecycle.resize("m", 1, 1)
    world.cluster = TWO_NODES.with_draining({"a"})
    world.host.room = None
    for _ in range(10):
        await asyncio.sleep(2)
        world.lifecycle.evacuation.look({"a"})
    assert {each.node_id for each in world.record("m").versions[1].instances} == {"b"}


@in_virtual_time
async def test_a_second_node_that_drains_is_looked_at_while_a_move_off_the_first_waits() -> None:
    world = await serving(4, room=4)
    world.cluster = TWO_NODES.with_draining({"a"})
    world.lifecycle.evacuation.look({"a"})
    await asyncio.sleep(20)
    world.cluster = TWO_NODES.with_draining({"a", "b"})
    world.lifecycle.evacuation.look({"a", "b"})
    await asyncio.sleep(20)
    pool = world.lifecycle.pool_of("m", 1)
    assert pool is not None
    assert len(pool.places) == 8
    world.lifecycle.evacuation.look({"a", "b"})
    await asyncio.sleep(20)
    assert len(world.host.actors) == 4 + 2 + 4


CHANGE = st.tuples(
    st.sampled_from(("reload", "reconfigure", "drain", "regroup", "room", "fail")),
    st.integers(0, 4),
    st.sampled_from((0.0, 0.3, 1.1, 8.0)),
)


async def _changes(count: int, steps: list[tuple[str, int, float]]) -> None:
    world = World(model("m", count=count), cluster=TWO_NODES, requests_s=0.0)
    await world.lifecycle.load("m")
    least, stamp, doing = count, 0, []
    for what, number, pause_s in steps:
        if what in ("reload", "reconfigure", "regroup"):
            stamp += what != "regroup"
            wanted = number + 1 if what == "regroup" else count
            made = model("m", count=wanted, stamp=str(stamp))
            world.candidates["m"] = with_config(made) if what == "reconfigure" else made
            doing.append(asyncio.create_task(_loads(world, "m")))
            least = min(least, wanted)
        elif what == "drain":
            draining = frozenset(("", "a", "b")[number % 3])
            world.cluster = TWO_NODES.with_draining(draining)
            world.lifecycle.evacuation.look(draining)
        elif what == "room":
            world.host.room = count + number
            world.host.give_room()
        elif what == "fail":
            world.host.fail_load.append(InternalError("no memory left"))
        for _ in range(1 + int(pause_s * 10)):
            await asyncio.sleep(0.1)
            assert len(world.endpoints("m")) >= least
    world.host.room = None
    world.host.give_room()
    for _ in range(300):
        await asyncio.sleep(1)
        assert len(world.endpoints("m")) >= least
    loaded = await asyncio.gather(*doing)
    # A load that overtook another one's replacements and then failed has changed nothing.
    assert len(set(generations(world))) == 1 or not loaded[-1]
    await world.lifecycle.unload("m")
    assert not world.alive
    # What looks at the cluster for those that have just ended ends, too.
    await asyncio.sleep(60)


async def _loads(world: World, name: str) -> bool:
    try:
        await world.lifecycle.load(name)
    except TritonError as error:
        return "is pending" in error.message
    return True


@settings(max_examples=examples(amount(60, 2000)), deadline=None)
@given(st.integers(1, 4), st.lists(CHANGE, min_size=2, max_size=12))
def test_never_fewer_serve_than_the_smaller_of_what_was_and_what_is_wanted(
    count: int, steps: list[tuple[str, int, float]]
) -> None:
    logging.disable(logging.ERROR)
    try:
        virtual_time.run(_changes(count, steps))
    finally:
        logging.disable(logging.NOTSET)
