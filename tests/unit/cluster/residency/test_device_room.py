# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Idle models leave a device for one that is being woken: the least recently used, no more."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from backends.api.model_config import InstanceGroup
from cluster.devices.inventory import Gpu, Inventory
from cluster.instances.device_leases import DeviceLeases, DeviceRules, GpuMemory
from cluster.instances.placer import Placer
from cluster.placement.demand import ClusterResources
from cluster.placement.explanation import InstanceStatus
from cluster.placement.leases import Lease
from cluster.placement.node_devices import NodeDevices
from cluster.residency.device_room import SETTLE_S, DeviceRoom
from cluster.residency.policy import Resident
from deployments.instance.spec import DeviceAssignment, InstanceSpec
from tests.support import virtual_time
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.gpu_clusters import GB, cluster, gpu, mig_gpu, specs_of

ON_FIRST = InstanceGroup("g", "KIND_GPU", 1, gpus=(0,))
SMALL = {"ray_resources": '{"mig_1g.10gb": 1}'}


@dataclass(frozen=True)
class Holder:
    """An idle model with one instance, those used longest ago first; its device and its memory."""

    name: str
    uuid: str
    taken: int = 0

    @property
    def node(self) -> str:
        return self.uuid.partition("-")[2][0]


@dataclass(frozen=True)
class Pool:
    places: tuple[InstanceStatus, ...]


class World:
    """Nodes with GPUs, idle models on them, and one that is being woken."""

    def __init__(
        self,
        holders: Sequence[Holder],
        *,
        needs: int = 0,
        nodes: Mapping[str, tuple[Gpu, ...]] | None = None,
        limits: Mapping[int, float] | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        self.there = cluster(nodes or {"a": (gpu(0, used=sum(each.taken for each in holders)),)})
        leases = DeviceLeases(self.read_cluster, NodeDevices(self._report))
        (self.spec,) = self._specs("w", parameters)
        memory = GpuMemory({self.spec.options_digest: [needs, needs]})
        leases.rules = DeviceRules(0.0, dict(limits or {}), memory, waits_above_limit=True)
        self.placer = Placer(self.read_cluster, leases)
        self.pools: dict[str, Pool] = {}
        for each in holders:
            (spec,) = self._specs(each.name, parameters)
            device = DeviceAssignment(each.node, each.uuid, 0, is_exclusive=parameters is not None)
            lease = Lease(device, each.name, each.taken, each.taken)
            cast("Any", leases.leases)[spec.name] = lease
            self.pools[each.name] = Pool((InstanceStatus(replace(spec, device=device), each.node),))
        self.residents = [
            Resident((each.name, 1), float(at), sizes_bytes={}) for at, each in enumerate(holders)
        ]
        self.room = DeviceRoom(self.placer, self.read_cluster, self._pool_of)
        self.placer.waits(self.spec, "waiting")

    def _specs(self, name: str, parameters: Mapping[str, str] | None) -> tuple[InstanceSpec, ...]:
        return specs_of(ON_FIRST, parameters, name, self.there)

    async def _report(self, node_id: str) -> Inventory:
        return self.there.devices[node_id]

    async def read_cluster(self) -> ClusterResources:
        return self.there

    def _pool_of(self, name: str, version: int) -> Any:
        return self.pools.get(name)

    async def rested(self) -> list[str]:
        keys, _ = await self.room.to_rest(self.residents, {"w"})
        return [name for name, _ in keys]


FULL = (Holder("old", "GPU-a0", 20 * GB), Holder("mid", "GPU-a0", 25 * GB))
FULL = (*FULL, Holder("new", "GPU-a0", 30 * GB))


@pytest.mark.parametrize(
    ("needs", "rested"),
    [
        (4 * GB, []),
        (20 * GB, ["old"]),
        # Not the newest, though it alone would do as well.
        (29 * GB, ["mid"]),
        (45 * GB, ["mid", "old"]),
        (70 * GB, ["mid", "new", "old"]),
        (90 * GB, []),
    ],
    ids=["fits", "the oldest", "one that is large enough", "two", "all", "in vain"],
)
def test_those_leave_a_full_gpu_that_were_used_longest_ago_and_no_more(
    needs: int, rested: list[str]
) -> None:
    async def main() -> None:
        assert await World(FULL, needs=needs).rested() == rested

    virtual_time.run(main())


def test_of_two_nodes_the_one_is_emptied_whose_latest_use_is_the_oldest() -> None:
    async def main() -> None:
        holders = (
            Holder("a-old", "GPU-a0", 40 * GB),
            Holder("b-old", "GPU-b0", 60 * GB),
            Holder("a-new", "GPU-a0", 40 * GB),
        )
        nodes = {
            "a": (gpu(0, "a", 80 * GB),),
            "b": (gpu(0, "b", 60 * GB),),
        }
        assert await World(holders, needs=60 * GB, nodes=nodes).rested() == ["b-old"]

    virtual_time.run(main())


def test_models_on_another_gpu_stay() -> None:
    async def main() -> None:
        holders = (Holder("far", "GPU-a1", 80 * GB), Holder("near", "GPU-a0", 80 * GB))
        nodes = {"a": (gpu(0, used=80 * GB), gpu(1, used=80 * GB))}
        assert await World(holders, needs=60 * GB, nodes=nodes).rested() == ["near"]

    virtual_time.run(main())


def test_memory_of_processes_that_are_not_this_servers_is_not_made_free() -> None:
    async def main() -> None:
        nodes = {"a": (gpu(0, used=79 * GB),)}
        assert await World(FULL[:1], needs=30 * GB, nodes=nodes).rested() == []

    virtual_time.run(main())


def test_the_model_used_longest_ago_gives_its_mig_device() -> None:
    async def main() -> None:
        holders = (Holder("old", "MIG-a01"), Holder("new", "MIG-a00"))
        nodes = {"a": (mig_gpu(0, "1g.10gb", "1g.10gb"),)}
        assert await World(holders, nodes=nodes, parameters=SMALL).rested() == ["old"]

    virtual_time.run(main())


def test_models_leave_a_gpu_that_is_above_its_load_limit() -> None:
    async def main() -> None:
        # Nothing is known of what it takes.
        assert await World(FULL, limits={0: 0.5}).rested() == ["mid", "old"]
        assert await World(FULL, limits={0: 0.95}).rested() == []

    virtual_time.run(main())


@in_virtual_time
async def test_no_more_are_chosen_until_those_have_gone_and_who_waits_had_time() -> None:
    world = World(FULL, needs=20 * GB)
    assert await world.rested() == ["old"]
    world.residents = world.residents[1:]
    place = world.pools["old"].places[0].spec
    world.placer._put(place, "a")
    await asyncio.sleep(3 * SETTLE_S)
    assert await world.rested() == []
    world.placer.release(place.name)
    await asyncio.sleep(SETTLE_S / 2)
    assert await world.rested() == []
    # Its memory was not given back.
    await asyncio.sleep(SETTLE_S)
    assert await world.rested() == ["mid"]


@in_virtual_time
async def test_nobody_leaves_for_what_is_not_being_woken_or_has_room() -> None:
    world = World(FULL, needs=20 * GB)
    assert await world.room.to_rest(world.residents, set()) == ((), False)
    assert await world.room.to_rest([], {"w"}) == ((), True)
    world.placer.has_room(world.spec.name)
    assert await world.room.to_rest(world.residents, {"w"}) == ((), False)


@in_virtual_time
async def test_nobody_leaves_while_the_nodes_are_not_known() -> None:
    world = World(FULL, needs=20 * GB)

    async def fail() -> ClusterResources:
        raise RuntimeError("the head is away")

    room = DeviceRoom(world.placer, fail, world._pool_of)
    assert await room.to_rest(world.residents, {"w"}) == ((), True)
