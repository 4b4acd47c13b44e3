# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Loads that wait for room."""

import asyncio
import dataclasses

from backends.api.errors import (
    UnavailableError,
)
from deployments.contracts.routing_table import ModelReadyState
from tests.support.control_plane_fakes import (
    LOAD_S,
    World,
    error_of,
    in_virtual_time,
    model,
)

READY = ModelReadyState.READY
LOADING = ModelReadyState.LOADING
UNAVAILABLE = ModelReadyState.UNAVAILABLE


@in_virtual_time
async def test_a_load_without_room_is_reported_as_pending_and_goes_on() -> None:
    world = World(model("m"), model("other"), thread_count=1)
    world.host.blocked = {"m/1#0"}
    error = await error_of(world.lifecycle.load("m"))
    assert isinstance(error, UnavailableError)
    assert "pending" in error.message
    assert "instance m/1#0@1 is waiting" in error.message
    assert world.state("m") is LOADING
    assert world.reason("m").startswith("instance m/1#0@1 is waiting for resources")
    assert world.lifecycle.is_pending("m")
    await world.lifecycle.load("other")
    world.host.unblock()
    await asyncio.sleep(LOAD_S + 0.1)
    assert world.state("m") is READY
    assert not world.lifecycle.is_pending("m")


@in_virtual_time
async def test_a_load_that_has_waited_for_room_gives_its_place_back_once() -> None:
    world = World(model("m"), model("a"), model("b"), thread_count=1)
    world.host.blocked = {"m/1#0"}
    await error_of(world.lifecycle.load("m"))
    world.host.unblock()
    await asyncio.sleep(LOAD_S + 0.1)
    world.host.log.clear()
    await world.lifecycle.load_all(["a", "b"])
    assert [line.split()[0] for line in world.host.log] == ["start", "ready"] * 2


@in_virtual_time
async def test_a_pending_load_can_be_unloaded_and_loaded_again() -> None:
    world = World(model("m"))
    world.host.blocked = {"m/1#0"}
    await error_of(world.lifecycle.load("m"))
    await world.lifecycle.unload("m")
    assert world.state("m") is UNAVAILABLE
    await error_of(world.lifecycle.load("m"))
    world.host.blocked = set()
    await world.lifecycle.load("m")
    assert world.state("m") is READY


@in_virtual_time
async def test_a_poll_leaves_a_pending_load_alone_that_would_be_the_same() -> None:
    world = World(model("m"))
    world.host.blocked.add("m/1#0")
    await world.lifecycle.load_all(["m"], is_poll=True)
    assert world.lifecycle.is_pending("m")
    await world.lifecycle.load_all(["m"], is_poll=True)
    await asyncio.sleep(LOAD_S)
    assert world.lifecycle.is_pending("m")
    assert len(world.pools) == 1
    # The one that was read only to be compared.
    assert world.released == ["/r/m"]
    world.host.unblock()
    await asyncio.sleep(2 * LOAD_S)
    assert world.state("m") is READY


@in_virtual_time
async def test_a_poll_leaves_alone_a_load_that_has_just_got_room() -> None:
    world = World(dataclasses.replace(model("m", count=2), auto_complete=True))
    world.host.blocked.add("m/1#0")
    await world.lifecycle.load_all(["m"], is_poll=True)
    world.host.unblock()
    # The first one has completed the config, and the other one loads.
    await asyncio.sleep(1.5 * LOAD_S)
    await world.lifecycle.load_all(["m"], is_poll=True)
    await asyncio.sleep(LOAD_S)
    assert world.state("m") is READY
    assert len(world.pools) == 1


@in_virtual_time
async def test_a_poll_starts_a_pending_load_over_when_the_model_has_changed() -> None:
    world = World(model("m"))
    world.host.blocked.add("m/1#0")
    await world.lifecycle.load_all(["m"], is_poll=True)
    world.host.blocked.clear()
    world.candidates["m"] = model("m", stamp="changed")
    await world.lifecycle.load_all(["m"], is_poll=True)
    assert world.state("m") is READY
    assert world.record("m").versions[1].digest == "m1changed"


@in_virtual_time
async def test_a_poll_that_cannot_read_a_model_whose_load_is_pending_says_so() -> None:
    world = World(model("m"))
    world.host.blocked.add("m/1#0")
    await world.lifecycle.load_all(["m"], is_poll=True)
    del world.candidates["m"]
    await world.lifecycle.load_all(["m"], is_poll=True)
    assert not world.lifecycle.is_pending("m")
    assert world.record("m").failure == "m"
