# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What operations leave of instances when they fail or are ended, on the server's own pools."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace

import pytest

from backends.api.errors import InternalError
from backends.api.model_config import InstanceGroup
from cluster.models.contracts import Candidate
from cluster.placement.demand import ClusterResources, NodeResources
from tests.support import virtual_time
from tests.support.control_plane_fakes import (
    DRAIN_S,
    KILL_S,
    LOAD_S,
    World,
    ensemble,
    error_of,
    in_virtual_time,
    model,
    quietly,
)
from tests.support.gpu_clusters import cluster, mig_gpu

REQUEST_S = 1.5
CPUS = {"CPU": 8.0}
TWO_NODES = ClusterResources(tuple(NodeResources(name, CPUS, CPUS) for name in "ab"))
ONE_DEVICE = cluster({"a": (mig_gpu(0, "1g.10gb"),)}, {"mig_1g.10gb": 1})


def on_device(key: str) -> Candidate:
    made = model(key)
    group = InstanceGroup(f"{key}_0", "KIND_GPU", 1, gpus=(0,))
    parameters = {"ray_resources": '{"mig_1g.10gb": 1}'}
    config = replace(made.config, instance_group=(group,), parameters=parameters)
    return replace(made, config=config)


async def loaded(*candidates: Candidate, there: ClusterResources = TWO_NODES) -> World:
    world = World(*candidates, cluster=there, requests_s=0.0)
    for each in candidates:
        await world.lifecycle.load(each.key)
    return world


async def at_rest(*candidates: Candidate) -> World:
    world = await loaded(*candidates)
    for each in candidates:
        assert world.lifecycle.dormancy.rest(each.key, 1)
    await asyncio.sleep(DRAIN_S)
    assert not world.alive
    return world


def nothing_is_left(world: World) -> bool:
    return not (world.alive or world.placer.nodes_in_use or world.leases.leases)


@in_virtual_time
async def test_instances_finish_their_requests_after_a_wake_that_failed() -> None:
    world = await at_rest(model("m"))
    world.host.fail_load = [InternalError("no memory left")]
    error = await error_of(world.lifecycle.dormancy.wake("m", 1))
    await asyncio.sleep(error.retry_after_s)
    await world.lifecycle.dormancy.wake("m", 1)
    (name,) = world.alive
    world.actor(name).drain_s = REQUEST_S
    assert world.lifecycle.dormancy.rest("m", 1)
    await asyncio.sleep(REQUEST_S - 0.1)
    assert world.alive == [name]
    await asyncio.sleep(0.2 + KILL_S)
    assert nothing_is_left(world)


@in_virtual_time
async def test_a_wake_that_fails_leaves_those_alone_that_still_drain() -> None:
    world = await loaded(model("m"))
    (name,) = world.alive
    world.actor(name).drain_s = REQUEST_S
    assert world.lifecycle.dormancy.rest("m", 1)
    world.host.fail_load = [InternalError("no memory left")]
    await error_of(world.lifecycle.dormancy.wake("m", 1))
    await asyncio.sleep(REQUEST_S - 0.2 - KILL_S)
    assert world.alive == [name]
    assert world.record("m").versions[1].is_dormant
    await asyncio.sleep(0.3 + 2 * KILL_S)
    assert nothing_is_left(world)


async def _loads() -> tuple[World, Coroutine[object, object, object]]:
    world = World(model("m", count=2), cluster=TWO_NODES, requests_s=0.0)
    return world, world.lifecycle.load("m")


async def _reloads() -> tuple[World, Coroutine[object, object, object]]:
    world = await loaded(model("m"))
    world.candidates["m"] = model("m", stamp="new")
    return world, world.lifecycle.load("m")


async def _resizes() -> tuple[World, Coroutine[object, object, object]]:
    world = await loaded(model("m"))
    return world, world.lifecycle.resize("m", 1, 3)


async def _wakes() -> tuple[World, Coroutine[object, object, object]]:
    world = await at_rest(model("m"))
    return world, world.lifecycle.dormancy.wake("m", 1)


async def _moves() -> tuple[World, Coroutine[object, object, object]]:
    world = await loaded(model("m"))
    world.lifecycle.evacuation.look({"a", "b"})
    return world, asyncio.sleep(0)


BEGIN: Mapping[str, Callable[[], Awaitable[tuple[World, Coroutine[object, object, object]]]]] = {
    "load": _loads,
    "reload": _reloads,
    "resize": _resizes,
    "wake": _wakes,
    "move": _moves,
}


@pytest.mark.parametrize("what", BEGIN)
def test_an_unload_that_comes_twice_leaves_no_instance_and_no_lease_behind(what: str) -> None:
    async def run() -> None:
        world, work = await BEGIN[what]()
        working = asyncio.create_task(quietly(work))
        await asyncio.sleep(LOAD_S / 2)
        assert world.alive
        await world.twice("m")
        await working
        assert nothing_is_left(world)
        assert world.reason("m") == "unloaded"

    virtual_time.run(run())


@in_virtual_time
async def test_an_unload_leaves_nothing_behind_where_an_ensemble_loads_and_a_load_waits() -> None:
    world = World(ensemble("e", "m"), model("m", count=2), cluster=TWO_NODES, requests_s=0.0)
    by_ensemble = asyncio.create_task(quietly(world.lifecycle.load("e")))
    await asyncio.sleep(LOAD_S / 4)
    waits = asyncio.create_task(quietly(world.lifecycle.load("m")))
    await asyncio.sleep(LOAD_S / 4)
    assert len(world.alive) == 2
    await world.lifecycle.unload("m")
    # What waited has had its turn since, and has loaded the ensemble again.
    await asyncio.gather(by_ensemble, waits)
    assert 1 not in {actor.spec.generation for actor in world.host.alive}
    await world.lifecycle.unload("e", unload_dependents=True)
    await world.lifecycle.unload("m")
    assert nothing_is_left(world)


# The first while the instance that failed is killed, the second while the other one is.
@pytest.mark.parametrize("after_s", [0.4 * KILL_S, 1.4 * KILL_S])
def test_an_unload_leaves_nothing_behind_of_a_load_that_has_just_failed(after_s: float) -> None:
    async def run() -> None:
        world = World(model("m", count=2), cluster=TWO_NODES, requests_s=0.0)
        world.host.fail_load = [InternalError("no memory left")]
        loading = asyncio.create_task(quietly(world.lifecycle.load("m")))
        await asyncio.sleep(after_s)
        assert world.alive
        await world.lifecycle.unload("m")
        await loading
        assert nothing_is_left(world)

    virtual_time.run(run())


@in_virtual_time
async def test_a_load_begins_once_the_one_it_replaces_has_left_nothing() -> None:
    world = World(model("m", count=2), cluster=TWO_NODES, requests_s=0.0)
    world.host.fail_load = [InternalError("no memory left")]
    first = asyncio.create_task(quietly(world.lifecycle.load("m")))
    await asyncio.sleep(1.4 * KILL_S)
    unloads = asyncio.create_task(world.lifecycle.unload("m"))
    await asyncio.sleep(0)
    await world.lifecycle.load("m")
    await asyncio.gather(first, unloads)
    assert {actor.spec.generation for actor in world.host.alive} <= {2}
    await world.lifecycle.unload("m")
    assert nothing_is_left(world)


@in_virtual_time
async def test_a_device_is_given_to_the_next_once_the_one_before_is_killed() -> None:
    world = World(on_device("m"), on_device("n"), cluster=ONE_DEVICE, requests_s=0.0)
    loading = asyncio.create_task(quietly(world.lifecycle.load("m")))
    await asyncio.sleep(LOAD_S / 2)
    assert world.alive == ["m/1#0@1"]
    next_one = asyncio.create_task(quietly(world.lifecycle.load("n")))
    await asyncio.sleep(0)
    unloads = asyncio.create_task(world.twice("m"))
    while not unloads.done() or "n/1#0@2" not in world.alive:
        await asyncio.sleep(0.01)
        assert len(world.alive) <= 1
    await asyncio.gather(loading, next_one)
    await world.lifecycle.unload("n")
    assert nothing_is_left(world)


@in_virtual_time
async def test_a_device_is_given_to_the_next_once_a_kill_that_was_lost_has_happened() -> None:
    world = await loaded(on_device("m"), there=ONE_DEVICE)
    world.candidates["n"] = on_device("n")
    world.host.lost_kills = 2
    await world.lifecycle.unload("m")
    assert world.reason("m") == "unloaded"
    await error_of(world.lifecycle.load("n"))
    while "n/1#0@2" not in world.alive:
        await asyncio.sleep(0.1)
        assert len(world.alive) <= 1
    await asyncio.sleep(2 * LOAD_S)
    assert world.endpoints("n") == ["n/1#0@2"]
    await world.lifecycle.unload("n")
    assert nothing_is_left(world)
