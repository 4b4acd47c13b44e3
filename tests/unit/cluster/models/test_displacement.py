# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instances that make room leave like others, and their version waits with a reason."""

import asyncio
import logging

import pytest

from deployments.contracts.routing_table import ModelReadyState
from tests.support.control_plane_fakes import LOAD_S, World, in_virtual_time, model


@in_virtual_time
async def test_routers_hear_of_it_before_who_makes_room_drains() -> None:
    world = World(model("m", count=2))
    await world.lifecycle.load("m")
    world.host.log.clear()
    world.host.blocked = {"m/1#2"}
    world.routers_s = 0.5
    followers = world.lifecycle.model_of("m").displace(1, ["m/1#0@1"], "h/1#0@2")
    assert followers == {"m/1#0@1": "m/1#2@1"}
    assert world.endpoints("m") == ["m/1#1@1"]
    await asyncio.sleep(5)
    assert world.host.log == ["known", "drain m/1#0@1", "end m/1#0@1"]
    assert world.state("m") is ModelReadyState.READY


@in_virtual_time
async def test_a_version_whose_last_instance_makes_room_waits_with_a_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    world = World(model("m"))
    await world.lifecycle.load("m")
    world.host.blocked = {"m/1#1"}
    world.lifecycle.model_of("m").displace(1, ["m/1#0@1"], "h/1#0@2")
    assert caplog.messages[-1] == "'m' version 1: m/1#0@1 makes room for h/1#0@2"
    assert world.state("m") is ModelReadyState.UNAVAILABLE
    await asyncio.sleep(5)
    assert world.reason("m").startswith("instance m/1#1@1 is waiting for resources")
    world.host.unblock()
    await asyncio.sleep(2 * LOAD_S)
    assert world.state("m") is ModelReadyState.READY


@in_virtual_time
async def test_nobody_makes_room_while_another_operation_is_under_way() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    world.candidates["m"] = model("m", stamp="new")
    reload = asyncio.create_task(world.lifecycle.load("m"))
    await asyncio.sleep(LOAD_S / 2)
    assert world.lifecycle.model_of("m").displace(1, ["m/1#0@1"], "h/1#0@2") == {}
    await reload
    assert world.state("m") is ModelReadyState.READY


@in_virtual_time
async def test_a_model_that_is_gone_makes_no_room() -> None:
    world = World(model("m"))
    assert world.lifecycle.model_of("m").displace(1, ["m/1#0@1"], "h/1#0@2") == {}


@in_virtual_time
async def test_an_operation_that_is_about_to_begin_is_one_under_way() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    displaced = world.lifecycle.model_of("m")
    assert displaced.may_displace(1)
    world.candidates["m"] = model("m", stamp="new")
    reload = asyncio.create_task(world.lifecycle.load("m"))
    await asyncio.sleep(0)
    assert not displaced.may_displace(1)
    assert displaced.displace(1, ["m/1#0@1"], "h/1#0@2") == {}
    await reload
    assert displaced.may_displace(1)
