# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Changing instance groups or the version policy leaves alone what can stay."""

import asyncio
import dataclasses

from backends.api.errors import InternalError, UnavailableError
from backends.api.model_config import InstanceGroup, VersionPolicy
from cluster.models.contracts import Candidate
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
from tests.support.gpu_clusters import cluster, gpu

READY = ModelReadyState.READY
UNAVAILABLE = ModelReadyState.UNAVAILABLE


async def loaded(count: int = 2) -> World:
    world = World(model("m", count=count))
    await world.lifecycle.load("m")
    world.host.log.clear()
    world.states.clear()
    return world


def grouped(candidate: Candidate, *groups: InstanceGroup) -> Candidate:
    config = dataclasses.replace(candidate.config, instance_group=groups)
    return dataclasses.replace(candidate, config=config)


@in_virtual_time
async def test_more_instances_start_beside_those_there_are() -> None:
    world = await loaded(2)
    world.candidates["m"] = model("m", count=4)
    await world.lifecycle.load("m")
    names = ["m/1#0@1", "m/1#1@1", "m/1#2@1", "m/1#3@1"]
    assert world.endpoints("m") == names
    steps = [f"{what} {name}" for what in ("ready", "start") for name in names[2:]]
    assert sorted(world.host.log) == steps
    assert {seen["m/1"] for seen in world.states} <= {"READY"}
    assert len(world.pools) == 1


@in_virtual_time
async def test_new_instances_take_requests_once_all_are_ready() -> None:
    world = await loaded(1)
    world.candidates["m"] = model("m", count=3)
    update = asyncio.create_task(world.lifecycle.load("m"))
    await asyncio.sleep(LOAD_S / 2)
    assert world.endpoints("m") == ["m/1#0@1"]
    await update
    assert len(world.endpoints("m")) == 3


@in_virtual_time
async def test_fewer_instances_drain_after_the_answer_and_are_counted_meanwhile() -> None:
    world = await loaded(3)
    began = now()
    world.candidates["m"] = model("m", count=1)
    await world.lifecycle.load("m")
    assert now() == began
    record = world.record("m").versions[1]
    assert world.endpoints("m") == ["m/1#0@1"]
    assert [endpoint.name for endpoint in record.leaving] == ["m/1#1", "m/1#2"]
    await asyncio.sleep(DRAIN_S + 0.1)
    assert (world.record("m").versions[1].leaving, world.past("m")) == ((), {"n": 2})
    assert world.host.log == [f"{what} m/1#{k}@1" for what in ("drain", "end") for k in (1, 2)]


@in_virtual_time
async def test_a_name_is_never_used_twice() -> None:
    world = await loaded(2)
    for count in (1, 2):
        world.candidates["m"] = model("m", count=count)
        await world.lifecycle.load("m")
    assert world.endpoints("m") == ["m/1#0@1", "m/1#2@1"]


@in_virtual_time
async def test_other_devices_are_ready_before_what_they_replace_leaves() -> None:
    world = await loaded(2)
    world.cluster = cluster({"n": (gpu(0, "n"),)})
    on_gpu = InstanceGroup("m_0", "KIND_GPU", 1, gpus=(0,))
    world.candidates["m"] = grouped(model("m"), on_gpu)
    update = asyncio.create_task(world.lifecycle.load("m"))
    await asyncio.sleep(LOAD_S / 2)
    assert world.endpoints("m") == ["m/1#0@1", "m/1#1@1"]
    await update
    assert world.endpoints("m") == ["m/1#2@1"]
    await asyncio.sleep(DRAIN_S + 0.1)
    assert world.host.log.index("ready m/1#2@1") < world.host.log.index("drain m/1#0@1")


@in_virtual_time
async def test_names_and_shapes_of_groups_move_no_instance() -> None:
    world = await loaded(3)
    pair, one = InstanceGroup("b", "KIND_CPU", 2), InstanceGroup("a", "KIND_CPU", 1)
    world.candidates["m"] = grouped(model("m"), one, pair)
    await world.lifecycle.load("m")
    assert world.host.log == []
    config = world.record("m").versions[1].config
    assert config is not None
    assert config.instance_group == (one, pair)
    assert config.platform == "completed"


@in_virtual_time
async def test_an_update_that_fails_changes_nothing() -> None:
    world = await loaded(1)
    world.candidates["m"] = model("m", count=3)
    world.host.fail["m/1#2"] = [InternalError("broken")]
    error = await error_of(world.lifecycle.load("m"))
    assert "version 1 is at UNAVAILABLE state: Internal: broken;" in error.message
    assert (world.state("m"), world.endpoints("m")) == (READY, ["m/1#0@1"])
    assert world.record("m").versions[1].config.instance_group[0].count == 1  # type: ignore[union-attr]
    await asyncio.sleep(10)
    ended = [line for line in world.host.log if line.startswith("end")]
    assert sorted(ended) == ["end m/1#1@1", "end m/1#2@1"]
    assert world.alive == ["m/1#0@1"]
    await world.lifecycle.load("m")
    assert len(world.endpoints("m")) == 3


@in_virtual_time
async def test_an_update_that_failed_is_left_alone_by_polls_until_the_groups_change() -> None:
    world = await loaded(1)
    world.candidates["m"] = model("m", count=2)
    world.host.fail["m/1#1"] = [InternalError("broken")]
    await world.lifecycle.load_all(["m"], is_poll=True)
    world.host.log.clear()
    await world.lifecycle.load_all(["m"], is_poll=True)
    assert world.host.log == []
    world.candidates["m"] = model("m", count=3)
    await world.lifecycle.load_all(["m"], is_poll=True)
    assert len(world.endpoints("m")) == 3


@in_virtual_time
async def test_what_shall_leave_serves_on_while_nothing_else_has_room() -> None:
    world = await loaded(1)
    world.host.blocked = {"m/1#1"}
    world.candidates["m"] = grouped(model("m"), InstanceGroup("m_0", "KIND_MODEL", 1))
    error = await error_of(world.lifecycle.load("m"))
    assert isinstance(error, UnavailableError)
    assert "pending" in error.message
    assert world.endpoints("m") == ["m/1#0@1"]
    world.host.unblock()
    await asyncio.sleep(LOAD_S + 0.1)
    assert world.endpoints("m") == ["m/1#1@1"]


@in_virtual_time
async def test_what_shall_leave_stays_until_its_successor_has_room() -> None:
    world = await loaded(3)
    world.host.blocked = {"m/1#4"}
    world.candidates["m"] = grouped(model("m"), InstanceGroup("m_0", "KIND_MODEL", 2))
    error = await error_of(world.lifecycle.load("m"))
    assert "pending" in error.message
    assert "instance m/1#4@1 is waiting" in error.message
    # Two are wanted in place of three.
    assert world.endpoints("m") == ["m/1#2@1", "m/1#3@1"]
    world.host.unblock()
    await asyncio.sleep(LOAD_S + 0.1)
    assert world.endpoints("m") == ["m/1#3@1", "m/1#4@1"]
    assert not world.lifecycle.is_pending("m")


@in_virtual_time
async def test_an_unload_overtakes_an_update() -> None:
    world = await loaded(1)
    world.candidates["m"] = model("m", count=2)
    update = asyncio.create_task(world.lifecycle.load("m"))
    await asyncio.sleep(LOAD_S / 2)
    await world.lifecycle.unload("m")
    await error_of(update)  # type: ignore[arg-type]
    assert (world.state("m"), world.reason("m")) == (UNAVAILABLE, "unloaded")
    assert world.pools[0].places == ()


@in_virtual_time
async def test_a_changed_file_still_replaces_every_instance() -> None:
    world = await loaded(2)
    world.candidates["m"] = model("m", count=1, stamp="changed")
    await world.lifecycle.load("m")
    assert world.endpoints("m") == ["m/1#0@2"]
    assert not world.record("m").versions[1].past


@in_virtual_time
async def test_a_version_policy_loads_and_unloads_what_differs() -> None:
    world = World(model("m", versions=(2, 3)))
    await world.lifecycle.load("m")
    world.host.log.clear()
    policy = VersionPolicy("specific", 0, (1, 3))
    candidate = model("m", versions=(1, 3))
    config = dataclasses.replace(candidate.config, version_policy=policy)
    world.candidates["m"] = dataclasses.replace(candidate, config=config)
    await world.lifecycle.load("m")
    await asyncio.sleep(DRAIN_S + 0.1)
    states = {v: world.state("m", v) for v in (1, 2, 3)}
    assert states == {1: READY, 2: UNAVAILABLE, 3: READY}
    assert world.reason("m", 2) == "unloaded"
    assert not any("m/3" in line for line in world.host.log)
    staying = world.record("m").versions[3].config
    assert staying is not None
    assert staying.version_policy == policy


@in_virtual_time
async def test_an_ensemble_is_left_alone_when_only_groups_of_its_models_change() -> None:
    world = World(ensemble("e", "a"), model("a"))
    await world.lifecycle.load("e")
    world.states.clear()
    world.candidates["a"] = model("a", count=2)
    await world.lifecycle.load("a")
    await world.lifecycle.load("e")
    assert {seen["e/1"] for seen in world.states} <= {"READY"}
    assert "load e" not in " ".join(world.host.log)
    assert len(world.endpoints("a")) == 2


@in_virtual_time
async def test_an_ensemble_goes_with_the_version_it_requires() -> None:
    world = World(ensemble("e", "a", version=1), model("a", versions=(1, 2)))
    await world.lifecycle.load("e")
    world.candidates["a"] = model("a", versions=(2,))
    await world.lifecycle.load("a")
    assert (world.state("e"), world.state("a", 2)) == (UNAVAILABLE, READY)
    assert "whose required version 1 is not loaded" in world.record("e").failure
