# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Versions that an earlier controller loaded go on serving."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from cluster.instances.live import find_live_instances
from cluster.instances.pool import InstancePool
from cluster.models.versions import RESIZE_DRAIN_S
from deployments.contracts.routing_table import ModelReadyState
from tests.support.control_plane_fakes import DRAIN_S, World, in_virtual_time, model

READY = ModelReadyState.READY


async def adopt(
    world: World,
    live_count: int,
    planned_count: int,
    parameters: Mapping[str, str] | None = None,
    draining: Collection[int] = (),
) -> None:
    """Adopt so many instances of a version whose config asked for others."""
    config = replace(model("m", count=planned_count).config, parameters=parameters or {})
    planned = await world.plan(world.candidates["m"], config, 1, 9, auto_complete=False)
    for spec in planned[:live_count]:
        (await world.host.create(spec)).is_draining = spec.index in draining
    found = (await find_live_instances(world.host)).described
    world.host.log.clear()

    def adopted(on_change: Callable[[], None]) -> InstancePool:
        pool = world._make_pool(on_change)
        pool.adopt(found, (), range(live_count, planned_count))
        return pool

    world.lifecycle.model_of("m").versions.adopt(1, "m1", config, adopted)


@in_virtual_time
async def test_an_adopted_version_serves_at_once_and_is_not_loaded_again() -> None:
    world = World(model("m"))
    await adopt(world, 1, 1)
    assert (world.state("m"), world.endpoints("m")) == (READY, ["m/1#0@9"])
    await world.lifecycle.load("m")
    assert world.host.log == []


@in_virtual_time
async def test_an_adopted_version_with_other_files_is_reloaded_without_a_gap() -> None:
    world = World(model("m", stamp="new"))
    await adopt(world, 1, 1)
    await world.lifecycle.load("m")
    assert {seen["m/1"] for seen in world.states} == {"READY"}
    assert world.endpoints("m") == ["m/1#0@1"]


@in_virtual_time
async def test_an_adopted_version_gets_the_instances_its_groups_ask_for_now() -> None:
    for count in (1, 2, 4):
        world = World(model("m", count=count))
        await adopt(world, 3, 3)
        await world.lifecycle.load("m")
        assert world.endpoints("m") == [f"m/1#{k}@9" for k in range(count)]
        assert {seen["m/1"] for seen in world.states} == {"READY"}


@in_virtual_time
async def test_an_adopted_version_gets_the_instances_that_its_own_config_had_asked_for() -> None:
    world = World(model("m", count=3))
    await adopt(world, 1, 3)
    await world.lifecycle.load("m")
    assert len(world.endpoints("m")) == 3


@in_virtual_time
async def test_what_an_adopted_version_had_let_go_has_as_long_as_after_a_resize() -> None:
    autoscaled = {"autoscaling.max_instances": "2"}
    for parameters, drain_s in (({}, DRAIN_S), (autoscaled, RESIZE_DRAIN_S)):
        world = World(model("m"))
        await adopt(world, 2, 2, parameters, draining={1})
        await asyncio.sleep(drain_s - 0.1)
        assert world.host.log == ["drain m/1#1@9"]
        await asyncio.sleep(0.2)
        assert world.host.log[1:] == ["end m/1#1@9"]
