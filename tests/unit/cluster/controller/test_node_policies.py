# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes are asked for while instances wait in the controller, and only then."""

import asyncio
from dataclasses import replace

import pytest

from backends.api.model_config import InstanceGroup
from cluster.controller.node_policies import NodeDemand
from cluster.devices.inventory import Gpu, Inventory
from cluster.placement.nodes import SHARED_S
from deployments.instance.spec import InstanceSpec
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.controller_fakes import FakeHost
from tests.support.gpu_clusters import gpu, specs_of

# More than the time after which the placer looks again.
AGAIN_S = 6.0


class _Scene:
    """A node with one GPU, and who wants GPU 1."""

    def __init__(self) -> None:
        self.host = FakeHost()
        self.demand = NodeDemand(self.host, self.host.placer)
        self.add("n", gpu(0))
        group = InstanceGroup("g", "KIND_GPU", 1, gpus=(1,))
        (self.spec,) = specs_of(group)
        self.texts: list[str] = []

    def add(self, name: str, *gpus: Gpu) -> None:
        self.host.devices[name] = Inventory(gpus)
        self.host.node_names = tuple(self.host.devices)

    async def begin(self) -> "asyncio.Task[InstanceSpec]":
        coming = asyncio.create_task(self.host.placer.wait_assigned(self.spec, self.texts.append))
        await asyncio.sleep(1)
        return coming

    async def asked_gpus(self) -> list[float]:
        await asyncio.sleep(SHARED_S)
        await self.demand.look()
        return [dict(each.shape.resources)["GPU"] for each in self.host.requested]


@in_virtual_time
async def test_nothing_is_asked_while_nobody_waits() -> None:
    scene = _Scene()
    assert await scene.asked_gpus() == []
    assert scene.host.looks == 0


@in_virtual_time
async def test_a_node_is_asked_for_until_it_is_there_and_the_instance_starts_on_it() -> None:
    scene = _Scene()
    coming = await scene.begin()
    assert await scene.asked_gpus() == [2]
    (request,) = scene.host.requested
    assert request.other_than == {"n"}
    scene.add("m", gpu(0, "m"), gpu(1, "m"))
    assert await scene.asked_gpus() == []
    placed = await coming
    assert placed.device is not None
    assert placed.device.node_id == "m"
    assert not scene.host.placer.waiting_for_nodes


@in_virtual_time
async def test_a_request_is_withdrawn_when_the_instance_waits_no_more() -> None:
    scene = _Scene()
    coming = await scene.begin()
    assert await scene.asked_gpus() == [2]
    coming.cancel()
    scene.host.placer.release(scene.spec.name)
    assert await scene.asked_gpus() == []


@in_virtual_time
async def test_a_request_that_ray_did_not_hear_is_made_again() -> None:
    scene = _Scene()
    coming = await scene.begin()
    scene.host.fail["ask_for_nodes"] = ConnectionError("no head")
    with pytest.raises(ConnectionError):
        await scene.demand.look()
    assert await scene.asked_gpus() == [2]
    coming.cancel()


@in_virtual_time
async def test_no_node_is_asked_for_where_a_larger_gpu_is_needed() -> None:
    scene = _Scene()
    scene.spec = replace(scene.spec, device_id=0, options_digest="d")
    scene.host.placer.devices.rules.memory.measured("d", 1 << 50)
    coming = await scene.begin()
    assert "a larger device is needed" in scene.texts[0]
    assert await scene.asked_gpus() == []
    coming.cancel()
