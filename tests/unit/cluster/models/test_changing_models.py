# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Models in stores that change while nodes download their files."""

import asyncio

from backends.api.errors import UnavailableError
from deployments.contracts.routing_table import ModelReadyState
from deployments.model_files.contracts import ModelChangedError
from tests.support.control_plane_fakes import (
    KILL_S,
    LOAD_S,
    World,
    error_of,
    in_virtual_time,
    model,
    now,
)

WHY = "the files of model 'm' changed while they were downloaded: 1/x; load the model again"


def changing(times: int) -> list[ModelChangedError]:
    return [ModelChangedError(f"{WHY} {number}") for number in range(times)]


@in_virtual_time
async def test_a_model_that_changes_is_listed_again_and_loads() -> None:
    world = World(model("m"))
    world.host.fail["m/1#0"] = [*changing(2)]
    await world.lifecycle.load("m")
    assert world.state("m") is ModelReadyState.READY
    assert len(world.overrides) == 3
    assert world.record("m").failure == ""
    assert round(now(), 1) == 3 * LOAD_S + 2 * KILL_S + 1 + 2


@in_virtual_time
async def test_a_model_that_keeps_changing_fails_with_the_last_reason() -> None:
    world = World(model("m"))
    world.host.fail["m/1#0"] = [*changing(10)]
    error = await error_of(world.lifecycle.load("m"))
    assert error.message == (
        f"load failed for model 'm': version 1 is at UNAVAILABLE state: Unavailable: {WHY} 3;\n"
    )
    assert world.reason("m") == f"Unavailable: {WHY} 3"
    assert len(world.overrides) == len(world.released) == 4


@in_virtual_time
async def test_a_model_that_failed_for_another_reason_is_not_listed_again() -> None:
    world = World(model("m"))
    world.host.fail["m/1#0"] = [UnavailableError("the store is away")]
    await error_of(world.lifecycle.load("m"))
    assert len(world.overrides) == 1


@in_virtual_time
async def test_attempts_of_a_load_do_not_repeat_a_listing_that_is_outdated() -> None:
    world = World(model("m"), retry_count=5)
    world.host.fail["m/1#0"] = [*changing(1)]
    await world.lifecycle.load("m")
    assert len(world.overrides) == 2


@in_virtual_time
async def test_what_serves_goes_on_while_a_new_version_keeps_changing() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    world.candidates["m"] = model("m", stamp="new")
    world.host.fail["m/1#0"] = [*changing(10)]
    await error_of(world.lifecycle.load("m"))
    assert world.state("m") is ModelReadyState.READY
    assert world.endpoints("m") == ["m/1#0@1"]


@in_virtual_time
async def test_an_unload_ends_the_wait_for_a_model_to_be_whole() -> None:
    world = World(model("m"))
    world.host.fail["m/1#0"] = [*changing(10)]
    load = asyncio.create_task(error_of(world.lifecycle.load("m")))
    await asyncio.sleep(LOAD_S + 0.5)
    await world.lifecycle.unload("m")
    assert "out-dated" in (await load).message
    assert len(world.overrides) == len(world.released) == 1
