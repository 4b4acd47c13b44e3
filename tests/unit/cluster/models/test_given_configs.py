# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Configs and files that come with a load."""

import asyncio
import dataclasses

from backends.api.errors import (
    InternalError,
)
from cluster.models.override import Override
from tests.support.control_plane_fakes import (
    World,
    error_of,
    in_virtual_time,
    model,
)


@in_virtual_time
async def test_files_made_for_a_load_are_removed_when_nothing_runs_from_them() -> None:
    temporary = dataclasses.replace(model("m", stamp="given"), model_dir="/tmp/given")
    world = World(temporary)
    await world.lifecycle.load("m", Override("{}", {"file:1/model": b""}))
    await asyncio.sleep(10)
    assert world.released == []
    world.candidates["m"] = model("m")
    await world.lifecycle.load("m")
    await world.lifecycle.close(0)
    assert world.released.count("/tmp/given") == 1
    assert "end m/1#0@1" in world.host.log


@in_virtual_time
async def test_files_of_a_failed_load_are_removed() -> None:
    world = World(model("m"))
    world.host.fail["m/1#0"] = [InternalError("broken")]
    await error_of(world.lifecycle.load("m"))
    await world.lifecycle.close(0)
    assert world.released == ["/r/m"]


@in_virtual_time
async def test_a_load_without_a_config_keeps_the_last_one_given() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m", Override("{}"))
    before = list(world.host.log)
    await world.lifecycle.load("m")
    await world.lifecycle.load("m")
    assert world.host.log == before
    assert {override.config_json for override in world.overrides} == {"{}"}
    assert world.lifecycle.model_of("m").override.config_json == "{}"


@in_virtual_time
async def test_once_files_change_a_load_without_a_config_takes_the_repositorys() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m", Override("{}"))
    world.directory_digest = "changed"
    await world.lifecycle.load("m")
    assert world.overrides[-1] == Override()
    assert world.endpoints("m") == ["m/1#0@2"]
    world.directory_digest = "as it was"
    await world.lifecycle.load("m")
    assert world.overrides[-1] == Override()


@in_virtual_time
async def test_what_a_poll_begins_is_read_with_what_it_was_loaded_with() -> None:
    world = World(model("m"))
    await world.lifecycle.begin_all(["m"], {"m": Override("{}")})
    assert world.overrides[-1].config_json == "{}"


@in_virtual_time
async def test_an_unload_ends_a_given_config() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m", Override("{}"))
    await world.lifecycle.unload("m")
    await world.lifecycle.load("m")
    assert world.overrides[-1] == Override()


@in_virtual_time
async def test_a_given_config_that_failed_to_load_is_not_kept() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m", Override("{}"))
    world.host.fail["m/1#0"] = [InternalError("broken")]
    await error_of(world.lifecycle.load("m", Override('{"max_batch_size": 2}')))
    await world.lifecycle.load("m")
    assert world.overrides[-1].config_json == "{}"
    assert world.endpoints("m") == ["m/1#0@1"]


@in_virtual_time
async def test_files_given_hold_for_one_load() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m", Override("{}", {"file:1/model": b""}))
    await world.lifecycle.load("m")
    assert world.overrides[-1] == Override()


@in_virtual_time
async def test_a_config_restored_after_a_restart_is_kept_until_files_change() -> None:
    world = World(model("m"))
    await world.lifecycle.load_all(["m"], {"m": Override("{}", directory_digest="as it was")})
    await world.lifecycle.load("m")
    assert world.overrides[-1].config_json == "{}"
    world.directory_digest = "changed"
    await world.lifecycle.load("m")
    assert world.overrides[-1] == Override()


@in_virtual_time
async def test_the_source_is_told_what_becomes_of_a_candidate() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    await asyncio.sleep(0)
    assert world.notices == ["loaded m"]
    await world.lifecycle.unload("m")
    assert world.notices == ["loaded m", "unloading m", "release m"]


@in_virtual_time
async def test_the_source_is_told_when_a_newer_candidate_serves() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    world.candidates["m"] = model("m", stamp="newer")
    await world.lifecycle.load("m")
    await asyncio.sleep(10)
    assert world.notices == ["loaded m", "loaded m", "unloading m", "release m"]


@in_virtual_time
async def test_a_load_that_failed_is_released_and_nothing_else() -> None:
    world = World(model("m"))
    world.host.fail["m/1#0"] = [InternalError("broken")]
    await error_of(world.lifecycle.load("m"))
    await asyncio.sleep(10)
    assert world.notices == ["release m"]


@in_virtual_time
async def test_the_end_of_the_server_is_the_end_of_its_candidates() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    await world.lifecycle.close(0)
    assert world.notices == ["loaded m", "unloading m", "release m"]
