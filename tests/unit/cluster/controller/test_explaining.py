# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the controller answers about the places of a model's instances."""

import asyncio
from dataclasses import replace

import pytest

from backends.api.errors import NotFoundError
from cluster.controller.explaining import explain, instances
from tests.support.control_plane_fakes import World, in_virtual_time, model
from tests.support.controller_fakes import FakeHost


async def world_of(*names: str) -> tuple[FakeHost, World]:
    world = World(*(model(name, count=2) for name in names))
    await world.lifecycle.load_all(names)
    return FakeHost(), world


async def waiting() -> tuple[FakeHost, World, asyncio.Task[None]]:
    """Return a world with a load that waits for more processors than any node has."""
    host, world = await world_of()
    made = model("m")
    config = replace(made.config, parameters={"ray_num_cpus": "64"})
    world.candidates["m"] = replace(made, config=config)
    world.host.blocked.add("m/1#0")
    world.host.cluster = await host.read_cluster()
    load = asyncio.create_task(world.lifecycle.load_all(["m"]))
    await asyncio.sleep(5)
    return host, world, load


@in_virtual_time
async def test_each_version_has_its_instances() -> None:
    host, world = await world_of("m", "other")
    (row,) = await explain("m", host, world.placer, world.lifecycle)
    assert (row["model"], row["version"], row["state"]) == ("m", 1, "READY")
    assert {each["state"] for each in row["instances"]} == {"live"}
    assert {each["name"].partition("@")[0] for each in row["instances"]} == {"m/1#0", "m/1#1"}
    assert all(each["why"] for each in row["instances"])


@in_virtual_time
async def test_a_first_load_that_waits_for_room_is_explained_too() -> None:
    host, world, load = await waiting()
    (row,) = await explain("m", host, world.placer, world.lifecycle)
    assert row["state"] == "LOADING"
    (instance,) = row["instances"]
    assert instance["waits_for"].startswith("instance m/1#0@1 is waiting for resources")
    assert instance["nodes"][0]["verdict"] == "CPU: needs 64, 2 free of 2"
    load.cancel()


@in_virtual_time
async def test_each_instance_of_all_models_is_listed_with_its_process() -> None:
    host, world = await world_of("m", "other")
    rows = await instances(host, world.placer, world.lifecycle)
    assert [row["name"] for row in rows] == ["m/1#0", "m/1#1", "other/1#0", "other/1#1"]
    assert {(row["state"], row["pid"], row["restarts"], row["device"]) for row in rows} == {
        ("live", 1, 0, "CPU")
    }
    assert all(row["node"] and row["node_id"] for row in rows)


@in_virtual_time
async def test_an_instance_that_waits_is_listed_with_its_reason_and_without_a_process() -> None:
    host, world, load = await waiting()
    (row,) = await instances(host, world.placer, world.lifecycle)
    assert (row["state"], row["pid"], row["node"]) == ("waiting", None, "")
    assert row["reason"].startswith("instance m/1#0@1 is waiting for resources")
    load.cancel()


@in_virtual_time
async def test_an_unknown_model_is_not_found() -> None:
    host, world = await world_of("m")
    with pytest.raises(NotFoundError, match="model 'x' is not known to the controller"):
        await explain("x", host, world.placer, world.lifecycle)
