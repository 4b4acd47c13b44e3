# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Versions come to rest and are woken, whatever else happens to their model meanwhile."""

import asyncio
import itertools
from dataclasses import replace

from backends.api.errors import InternalError, TritonError, UnavailableError
from backends.api.model_config import InstanceGroup
from cluster.models.states import DORMANT_REASON, index_rows
from deployments.contracts.routing_table import ModelReadyState
from tests.support.control_plane_fakes import (
    DRAIN_S,
    LOAD_S,
    World,
    ensemble,
    error_of,
    in_virtual_time,
    model,
    now,
)

READY = ModelReadyState.READY
INTERVALS_S = [1, 2, 4, 8, 16, 32, 60, 60]


async def resting(count: int = 1) -> World:
    """Return a world with one dormant version, whose instances are gone."""
    world = World(model("m", count=count))
    await world.lifecycle.load("m")
    assert world.lifecycle.dormancy.rest("m", 1)
    await asyncio.sleep(DRAIN_S + 0.1)
    world.host.log.clear()
    world.states.clear()
    return world


def is_dormant(world: World, name: str = "m") -> bool:
    version = world.record(name).versions[1]
    routed = world.record(name).routing_model().versions[0]
    assert version.is_dormant == routed.is_dormant
    assert not (version.is_dormant and version.instances)
    return version.is_dormant


async def outcome_of(world: World, name: str = "m") -> TritonError | None:
    try:
        await world.lifecycle.dormancy.wake(name, 1)
    except TritonError as error:
        return error
    return None


@in_virtual_time
async def test_a_version_at_rest_is_ready_with_its_config_and_without_an_instance() -> None:
    world = World(model("m", count=2))
    await world.lifecycle.load("m")
    config = world.record("m").versions[1].config
    assert world.lifecycle.dormancy.rest("m", 1)
    assert is_dormant(world)
    assert (world.state("m"), world.endpoints("m")) == (READY, [])
    assert world.record("m").versions[1].config is config
    rows = index_rows(world.lifecycle.records, ["m"], [], ready_only=True)
    assert rows == [{"name": "m", "version": "1", "state": "READY", "reason": DORMANT_REASON}]


@in_virtual_time
async def test_instances_of_a_version_at_rest_drain_once_routers_know_and_their_counts_stay() -> (
    None
):
    world = World(model("m", count=2))
    await world.lifecycle.load("m")
    world.routers_s = 0.5
    world.host.log.clear()
    world.lifecycle.dormancy.rest("m", 1)
    await asyncio.sleep(DRAIN_S + 0.6)
    names = ["m/1#0@1", "m/1#1@1"]
    assert world.host.log == [
        "known",
        *(f"drain {name}" for name in names),
        *(f"end {name}" for name in names),
    ]
    assert is_dormant(world)
    assert world.past("m") == {"n": 2}


@in_virtual_time
async def test_a_version_is_woken_once_for_all_that_ask() -> None:
    world = await resting()
    outcomes = await asyncio.gather(*(outcome_of(world) for _ in range(100)))
    assert outcomes == [None] * 100
    assert world.host.log == ["start m/1#1@2", "ready m/1#1@2"]
    assert world.endpoints("m") == ["m/1#1@2"]
    assert not is_dormant(world)
    assert {seen["m/1"] for seen in world.states} == {"READY"}
    assert world.past("m") == {"n": 1}


@in_virtual_time
async def test_one_instance_is_woken_first_and_the_others_follow() -> None:
    world = await resting(count=3)
    waking = asyncio.create_task(outcome_of(world))
    await asyncio.sleep(LOAD_S + 0.1)
    assert world.endpoints("m") == ["m/1#3@2"]
    assert await waking is None
    assert len(world.endpoints("m")) == 3


@in_virtual_time
async def test_others_that_fail_to_load_leave_the_first_serving() -> None:
    world = await resting(count=2)
    world.host.fail["m/1#3"] = [InternalError("no memory left")]
    assert await outcome_of(world) is None
    assert world.endpoints("m") == ["m/1#2@2"]
    assert not is_dormant(world)


@in_virtual_time
async def test_a_version_woken_while_it_comes_to_rest_gets_new_instances_beside_the_old() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    world.host.log.clear()
    world.lifecycle.dormancy.rest("m", 1)
    assert await outcome_of(world) is None
    assert now() < LOAD_S + DRAIN_S + LOAD_S
    assert world.endpoints("m") == ["m/1#1@2"]
    await asyncio.sleep(DRAIN_S)
    assert "end m/1#0@1" in world.host.log
    assert world.endpoints("m") == ["m/1#1@2"]


@in_virtual_time
async def test_unload_during_a_wake_ends_it() -> None:
    world = await resting()
    waking = asyncio.create_task(outcome_of(world))
    await asyncio.sleep(LOAD_S / 2)
    await world.lifecycle.unload("m")
    assert await waking is None
    assert world.state("m") is ModelReadyState.UNAVAILABLE
    assert not is_dormant(world)
    assert world.host.log == ["start m/1#1@2", "end m/1#1@2"]


@in_virtual_time
async def test_a_dormant_version_can_be_unloaded_and_loaded_again() -> None:
    world = await resting()
    await world.lifecycle.unload("m")
    assert world.state("m") is ModelReadyState.UNAVAILABLE
    assert world.reason("m") == "unloaded"
    await world.lifecycle.load("m")
    assert len(world.endpoints("m")) == 1
    assert not is_dormant(world)


@in_virtual_time
async def test_load_without_changes_leaves_a_dormant_version_at_rest() -> None:
    world = await resting()
    for is_poll in (False, True):
        await world.lifecycle.load("m", is_poll=is_poll)
    assert is_dormant(world)
    assert world.host.log == []


@in_virtual_time
async def test_changed_files_of_a_dormant_version_are_loaded_with_instances() -> None:
    world = await resting()
    world.candidates["m"] = model("m", stamp="new")
    await world.lifecycle.load("m")
    assert world.endpoints("m") == ["m/1#0@2"]
    assert not is_dormant(world)


@in_virtual_time
async def test_changed_instance_groups_of_a_dormant_version_hold_when_it_wakes() -> None:
    world = await resting()
    candidate = world.candidates["m"]
    config = replace(candidate.config, instance_group=(InstanceGroup("m_0", "KIND_CPU", 2),))
    world.candidates["m"] = replace(candidate, config=config)
    await world.lifecycle.load("m")
    assert is_dormant(world)
    await outcome_of(world)
    assert len(world.endpoints("m")) == 2


@in_virtual_time
async def test_a_reload_during_a_wake_has_its_turn_after_it() -> None:
    world = await resting()
    waking = asyncio.create_task(outcome_of(world))
    await asyncio.sleep(LOAD_S / 2)
    world.candidates["m"] = model("m", stamp="new")
    await world.lifecycle.load("m")
    assert await waking is None
    assert world.endpoints("m") == ["m/1#0@3"]


@in_virtual_time
async def test_a_reload_during_a_rest_replaces_what_rests() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    world.lifecycle.dormancy.rest("m", 1)
    world.candidates["m"] = model("m", stamp="new")
    await world.lifecycle.load("m")
    await asyncio.sleep(2 * DRAIN_S)
    assert world.endpoints("m") == ["m/1#0@2"]
    assert not is_dormant(world)
    assert "end m/1#0@1" in world.host.log


@in_virtual_time
async def test_a_version_does_not_come_to_rest_during_a_load() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    world.candidates["m"] = model("m", stamp="new")
    load = asyncio.create_task(world.lifecycle.load("m"))
    await asyncio.sleep(LOAD_S / 2)
    assert not world.lifecycle.dormancy.rest("m", 1)
    await load
    assert world.lifecycle.dormancy.rest("m", 1)


@in_virtual_time
async def test_what_has_no_instances_does_not_come_to_rest() -> None:
    world = World(model("m"), ensemble("e", "m"))
    await world.lifecycle.load("e")
    assert not world.lifecycle.dormancy.rest("e", 1)
    assert not world.lifecycle.dormancy.rest("m", 2)
    assert not world.lifecycle.dormancy.rest("unknown", 1)
    assert world.lifecycle.dormancy.rest("m", 1)
    assert not world.lifecycle.dormancy.rest("m", 1)
    assert world.state("e") is READY


@in_virtual_time
async def test_a_wake_that_fails_leaves_the_version_dormant_and_says_why() -> None:
    world = await resting()
    world.host.fail["m/1#1"] = [InternalError("no such file")]
    error = await error_of(world.lifecycle.dormancy.wake("m", 1))
    assert isinstance(error, UnavailableError)
    assert error.message == "failed to start model 'm': Internal: no such file"
    assert error.retry_after_s == 1
    assert is_dormant(world)
    assert world.state("m") is READY


@in_virtual_time
async def test_a_version_that_fails_to_wake_is_tried_again_at_growing_intervals() -> None:
    world = await resting()
    world.host.fail = {f"m/1#{at}": [InternalError("no such file")] for at in range(100)}
    tried_s = []
    while len(tried_s) <= len(INTERVALS_S):
        began_s = now()
        assert await outcome_of(world) is not None
        if now() > began_s:
            tried_s.append(now())
        await asyncio.sleep(0.1)
    gaps_s = [late - early - LOAD_S for early, late in itertools.pairwise(tried_s)]
    assert [round(gap_s) for gap_s in gaps_s] == INTERVALS_S


@in_virtual_time
async def test_after_a_success_the_intervals_begin_anew() -> None:
    world = await resting()
    world.host.fail["m/1#1"] = [InternalError("no such file")]
    await outcome_of(world)
    await asyncio.sleep(1)
    assert await outcome_of(world) is None
    world.lifecycle.dormancy.rest("m", 1)
    world.host.fail = {f"m/1#{at}": [InternalError("no such file")] for at in range(100)}
    error = await outcome_of(world)
    assert error is not None
    assert error.retry_after_s == 1


@in_virtual_time
async def test_a_wake_that_waits_for_room_goes_on_when_there_is_some() -> None:
    world = await resting()
    world.host.blocked.add("m/1#1")
    waking = asyncio.create_task(outcome_of(world))
    await asyncio.sleep(5)
    assert is_dormant(world)
    assert world.reason("m").startswith("instance m/1#1@2 is waiting for resources")
    assert not world.lifecycle.dormancy.rest("m", 1)
    await asyncio.sleep(100)
    world.host.unblock()
    assert await waking is None
    assert not is_dormant(world)


@in_virtual_time
async def test_a_poll_leaves_a_wake_alone_that_waits_for_room() -> None:
    world = await resting()
    world.host.blocked.add("m/1#1")
    waking = asyncio.create_task(outcome_of(world))
    await asyncio.sleep(1)
    await world.lifecycle.load("m", is_poll=True)
    assert not waking.done()
    world.host.unblock()
    assert await waking is None
    assert world.endpoints("m") == ["m/1#1@2"]


@in_virtual_time
async def test_an_instance_that_dies_after_the_wake_makes_no_version_dormant() -> None:
    world = await resting()
    await outcome_of(world)
    await world.lose("m")
    assert world.state("m") is ModelReadyState.UNAVAILABLE
    assert not is_dormant(world)


@in_virtual_time
async def test_nothing_is_woken_once_the_server_ends() -> None:
    world = await resting()
    waking = asyncio.create_task(outcome_of(world))
    await asyncio.sleep(LOAD_S / 2)
    await world.lifecycle.close(0)
    error = await waking
    assert isinstance(error, UnavailableError)
    assert error.message == "Server exiting"
    assert "ready m/1#1@2" not in world.host.log


@in_virtual_time
async def test_a_known_model_is_in_the_index_as_ready_and_loads_with_its_first_use() -> None:
    world = World(model("m"), model("n"))
    world.lifecycle.dormancy.know(["m", "n"])
    rows = index_rows(world.lifecycle.records, ["m", "n"], [], ready_only=True)
    ready = {"state": "READY", "reason": DORMANT_REASON}
    assert rows == [{"name": "m", **ready}, {"name": "n", **ready}]
    assert world.host.log == []
    outcomes = await asyncio.gather(*(outcome_of(world) for _ in range(10)))
    assert outcomes == [None] * 10
    assert world.host.log == ["start m/1#0@1", "ready m/1#0@1"]
    record = world.record("m")
    assert (record.cold_start_count, record.cold_start_ns) == (1, LOAD_S * 1e9)
    assert record.routing_model().is_on_demand
    assert not record.routing_model().is_unread


@in_virtual_time
async def test_a_first_use_that_fails_is_tried_again_by_a_later_one() -> None:
    world = World(model("m"))
    world.lifecycle.dormancy.know(["m"])
    world.host.fail["m/1#0"] = [InternalError("no such file")]
    error = await error_of(world.lifecycle.dormancy.wake("m", -1))
    assert isinstance(error, UnavailableError)
    assert "Internal: no such file" in error.message
    assert world.record("m").routing_model().is_unread
    assert await outcome_of(world) is not None
    await asyncio.sleep(error.retry_after_s)
    assert await outcome_of(world) is None


@in_virtual_time
async def test_a_first_use_waits_while_the_cluster_has_no_room() -> None:
    world = World(model("m"))
    world.lifecycle.dormancy.know(["m"])
    world.host.blocked.add("m/1#0")
    using = asyncio.create_task(outcome_of(world))
    await asyncio.sleep(100)
    assert not using.done()
    world.host.unblock()
    assert await using is None


@in_virtual_time
async def test_an_unloaded_model_does_not_load_with_a_use() -> None:
    world = World(model("m"))
    world.lifecycle.dormancy.know(["m"])
    await world.lifecycle.unload("m")
    assert await outcome_of(world) is None
    assert world.host.log == []
    assert not world.record("m").routing_model().is_unread


@in_virtual_time
async def test_an_ensemble_that_loads_with_its_first_use_loads_its_models() -> None:
    world = World(model("m"), ensemble("e", "m"))
    world.lifecycle.dormancy.know(["m", "e"])
    await world.lifecycle.dormancy.wake("e", -1)
    assert world.state("e") is READY
    assert len(world.endpoints("m")) == 1
    world.lifecycle.dormancy.rest("m", 1)
    assert world.state("e") is READY


@in_virtual_time
async def test_a_version_that_was_loaded_since_it_failed_to_wake_is_woken_at_once() -> None:
    world = await resting()
    world.host.fail["m/1#1"] = [InternalError("no such file")]
    assert await outcome_of(world) is not None
    world.candidates["m"] = model("m", stamp="new")
    await world.lifecycle.load("m")
    assert world.lifecycle.dormancy.rest("m", 1)
    assert await outcome_of(world) is None


@in_virtual_time
async def test_waking_what_nobody_knows_does_nothing() -> None:
    world = World()
    await world.lifecycle.dormancy.wake("unknown", 1)
    assert not world.lifecycle.records
    assert not world.host.log


@in_virtual_time
async def test_a_wake_waits_for_a_pending_load_and_is_not_failed_by_it() -> None:
    world = await resting()
    world.candidates["m"] = model("m", stamp="new")
    world.host.blocked.add("m/1#0")
    await error_of(world.lifecycle.load("m"))
    waking = asyncio.create_task(outcome_of(world))
    await asyncio.sleep(5)
    assert not waking.done()
    await world.lifecycle.load("m", is_poll=True)
    world.host.unblock()
    assert await waking is None
    assert world.endpoints("m") == ["m/1#0@2"]
    assert world.record("m").cold_start_count == 0


@in_virtual_time
async def test_a_wake_follows_a_pending_load_that_fails() -> None:
    world = await resting()
    world.candidates["m"] = model("m", stamp="new")
    world.host.blocked.add("m/1#0")
    await error_of(world.lifecycle.load("m"))
    waking = asyncio.create_task(outcome_of(world))
    await asyncio.sleep(5)
    world.host.blocked.clear()
    world.candidates.pop("m")
    await error_of(world.lifecycle.load("m"))
    assert await waking is None
    assert world.endpoints("m") == ["m/1#1@3"]
