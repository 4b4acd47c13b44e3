# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Versions that an earlier controller loaded go on serving."""

import asyncio
from typing import cast

from backends.api.model_config import ModelConfig
from cluster.models.versions import RESIZE_DRAIN_S
from deployments.contracts.routing_table import ModelReadyState
from tests.support.control_plane_fakes import DRAIN_S, FakePool, World, in_virtual_time, model

READY = ModelReadyState.READY


def new_pool(world: World) -> FakePool:
    return cast("FakePool", world._make_pool(lambda: None))


def adopt(world: World, pool: FakePool, config: ModelConfig | None = None) -> None:
    versions = world.lifecycle.model_of("m").versions
    versions.adopt(1, "m1", config or ModelConfig("m"), lambda on_change: pool)


async def adopt_some(world: World, live_count: int, planned_count: int) -> None:
    """Adopt so many instances of a version whose config asked for others."""
    pool = new_pool(world)
    config = model("m", count=planned_count).config
    planned = await world.plan(world.candidates["m"], config, 1, 9, auto_complete=False)
    pool.live = {spec.name: spec for spec in planned[:live_count]}
    pool.next_index = planned_count
    adopt(world, pool, planned[0].config)


@in_virtual_time
async def test_an_adopted_version_serves_at_once_and_is_not_loaded_again() -> None:
    world = World(model("m"))
    pool = new_pool(world)
    pool.recover("m/1#0@9")
    adopt(world, pool)
    assert (world.state("m"), world.endpoints("m")) == (READY, ["m/1#0@9"])
    await world.lifecycle.load("m")
    assert world.log == []


@in_virtual_time
async def test_an_adopted_version_with_other_files_is_reloaded_without_a_gap() -> None:
    world = World(model("m", stamp="new"))
    pool = new_pool(world)
    pool.recover("m/1#0@9")
    adopt(world, pool)
    await world.lifecycle.load("m")
    assert {seen["m/1"] for seen in world.states} == {"READY"}
    assert world.endpoints("m") == ["m/1#0@1"]


@in_virtual_time
async def test_an_adopted_version_gets_the_instances_its_groups_ask_for_now() -> None:
    for count in (1, 2, 4):
        world = World(model("m", count=count))
        await adopt_some(world, 3, 3)
        await world.lifecycle.load("m")
        assert world.endpoints("m") == [f"m/1#{k}@9" for k in range(count)]
        assert {seen["m/1"] for seen in world.states} == {"READY"}


@in_virtual_time
async def test_an_adopted_version_gets_the_instances_that_its_own_config_had_asked_for() -> None:
    world = World(model("m", count=3))
    await adopt_some(world, 1, 3)
    await world.lifecycle.load("m")
    assert len(world.endpoints("m")) == 3


@in_virtual_time
async def test_what_an_adopted_version_had_let_go_has_as_long_as_after_a_resize() -> None:
    autoscaled = ModelConfig("m", parameters={"autoscaling.max_instances": "2"})
    for config, drain_s in ((ModelConfig("m"), DRAIN_S), (autoscaled, RESIZE_DRAIN_S)):
        world = World(model("m"))
        pool = new_pool(world)
        pool.recover("m/1#0@9")
        pool.going = {"m/1#1@9": pool.specs[0]}
        adopt(world, pool, config)
        await asyncio.sleep(drain_s - 0.1)
        assert world.log == ["drain m/1#1@9"]
        await asyncio.sleep(0.2)
        assert world.log[1:] == ["end m/1#1@9"]
