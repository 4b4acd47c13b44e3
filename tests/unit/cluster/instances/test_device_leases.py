# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Pools whose instances get GPUs: who has what, who waits, and what is measured."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace

import pytest

from backends.api.errors import UnavailableError
from backends.api.model_config import InstanceGroup
from cluster.devices.inventory import Gpu, Inventory
from cluster.instances.device_leases import MEASURE_S, DeviceLeases, DeviceRules, GpuMemory
from cluster.instances.live import find_live_instances
from cluster.instances.placer import Placer
from cluster.instances.pool import InstancePool
from cluster.instances.prober import Prober
from cluster.placement.demand import ClusterResources, NodeResources
from cluster.placement.node_devices import NodeDevices
from deployments.instance.spec import InstanceSpec
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.gpu_clusters import GB, gpu, mig_gpu, specs_of
from tests.support.instance_host import FakeHost, started, until

SMALL = {"ray_resources": '{"mig_1g.10gb": 1}'}
ON_FIRST = InstanceGroup("g", "KIND_GPU", 1, gpus=(0,))
NODE = "node"


class _World:
    """One node with GPUs, and the pools of a controller."""

    def __init__(self, *gpus: Gpu) -> None:
        self.gpus = gpus
        self.host = FakeHost()
        self.prober = Prober(0.0)
        self.rows: dict[str, list[int]] = {}
        self.reports = NodeDevices(self._read)
        self.pools: list[InstancePool] = []
        self.leases = self.leases_of_a_new_controller()

    async def _read(self, node_id: str) -> Inventory:
        del node_id
        await asyncio.sleep(0.1)
        return Inventory(self.gpus)

    async def look(self) -> ClusterResources:
        total = {"CPU": 8.0, "GPU": float(len(self.gpus))}
        return await self.reports.look(ClusterResources((NodeResources(NODE, total, total),)))

    def leases_of_a_new_controller(self, **limits: float) -> DeviceLeases:
        self.leases = DeviceLeases(self.look, self.reports)
        by_index = {int(name.removeprefix("gpu_")): value for name, value in limits.items()}
        self.leases.rules = DeviceRules(0.0, by_index, GpuMemory(self.rows))
        return self.leases

    def pool(self) -> InstancePool:
        placer = Placer(self.look, self.leases)
        made = InstancePool(lambda: None, self.host, self.prober, placer)
        self.pools.append(made)
        return made

    @property
    def devices(self) -> dict[str, str]:
        """Of the actors that were made: the device each was told."""
        return {
            actor.spec.name: "" if actor.spec.device is None else actor.spec.device.uuid
            for actor in self.host.actors
        }


def with_world(
    *gpus: Gpu,
) -> Callable[[Callable[[_World], Coroutine[object, object, None]]], Callable[[], None]]:
    def decorate(test: Callable[[_World], Coroutine[object, object, None]]) -> Callable[[], None]:
        async def run() -> None:
            world = _World(*gpus)
            try:
                await test(world)
            finally:
                for pool in world.pools:
                    await pool.close(0)
                await world.prober.close()

        return in_virtual_time(run)

    return decorate


def small(name: str, count: int = 1) -> tuple[InstanceSpec, ...]:
    return specs_of(replace(ON_FIRST, count=count), SMALL, name)


@with_world(mig_gpu(0, "1g.10gb", "1g.10gb", node=NODE))
async def test_instances_that_start_together_get_a_mig_device_each(world: _World) -> None:
    await started(world.pool(), small("m", 2))
    assert world.devices == {"m/1#0@1": "MIG-node00", "m/1#1@1": "MIG-node01"}
    assert world.leases.leases.keys() == world.devices.keys()


@with_world(mig_gpu(0, "1g.10gb", node=NODE))
async def test_an_instance_without_a_device_waits_until_another_leaves(world: _World) -> None:
    first, second = world.pool(), world.pool()
    await started(first, small("m"))
    await started(second, small("n"))
    assert second.reason == (
        "instance n/1#0@1 is waiting for a MIG device of profile 1g.10gb: 1 on 1 node, all taken"
        " (m/1#0@1); unload one of these, or make more such devices"
    )
    assert not second.is_live
    await first.close(0)
    await until(lambda: second.is_live, 3.0)
    assert not second.reason
    assert world.devices["n/1#0@1"] == "MIG-node00"


@with_world(mig_gpu(0, "1g.10gb", node=NODE))
async def test_a_device_stays_leased_while_it_is_not_known_that_its_instance_is_killed(
    world: _World,
) -> None:
    first, second = world.pool(), world.pool()
    await started(first, small("m"))
    await started(second, small("n"))
    world.host.kill_s = 1.0
    closing = asyncio.create_task(first.close(0))
    await asyncio.sleep(0.5)
    assert "m/1#0@1" in world.leases.leases
    closing.cancel()
    await asyncio.sleep(60)
    assert [actor.spec.name for actor in world.host.alive] == ["m/1#0@1"]
    assert world.leases.leases.keys() == {"m/1#0@1"}


@with_world(mig_gpu(0, node=NODE))
async def test_mig_devices_that_are_made_later_are_found(world: _World) -> None:
    pool = world.pool()
    await started(pool, specs_of(ON_FIRST))
    assert "in MIG mode without MIG devices" in pool.reason
    world.gpus = (mig_gpu(0, "1g.10gb", node=NODE),)
    await until(lambda: pool.is_live, 60.0)


@with_world(gpu(0, NODE))
async def test_an_instance_that_ray_placed_where_mig_devices_came_is_started_anew_with_one(
    world: _World,
) -> None:
    pool = world.pool()
    starting = asyncio.create_task(started(pool, small("m")))
    await until(lambda: world.host.actors)
    assert world.devices == {"m/1#0@1": ""}
    await asyncio.sleep(0.5)
    world.gpus = (mig_gpu(0, "1g.10gb", node=NODE),)
    await starting
    assert len(world.host.actors) == 2
    assert world.devices == {"m/1#0@1": "MIG-node00"}


@with_world(gpu(0, NODE))
async def test_where_ray_alone_knows_the_mig_device_the_choice_is_its(world: _World) -> None:
    pool = world.pool()
    await started(pool, small("m"))
    assert world.devices == {"m/1#0@1": ""}
    assert pool.is_live


@with_world(mig_gpu(0, "1g.10gb", node=NODE))
async def test_a_crashed_instance_keeps_its_device_while_ray_restarts_it(world: _World) -> None:
    pool = world.pool()
    await started(pool, small("m"))
    world.host.crash(world.host.actors[0])
    await until(lambda: not pool.is_live)
    await until(lambda: pool.is_live)
    assert len(world.host.actors) == 1
    assert world.leases.leases["m/1#0@1"].device.uuid == "MIG-node00"


@with_world(gpu(0, NODE), gpu(1, NODE))
async def test_an_instance_that_is_created_anew_may_get_another_device(world: _World) -> None:
    pool = world.pool()
    await started(pool, specs_of(ON_FIRST))
    world.gpus = (replace(gpu(0, NODE), uuid="GPU-new"), gpu(1, NODE))
    await asyncio.sleep(60)
    await world.host.kill(world.host.actors[0])
    await until(lambda: len(world.host.actors) > 1 and pool.is_live)
    device = world.host.actors[1].spec.device
    assert device is not None
    assert device.uuid == "GPU-new"


@with_world(mig_gpu(0, "1g.10gb", node=NODE))
async def test_a_new_controller_learns_from_live_instances_who_has_what(world: _World) -> None:
    before = world.pool()
    await started(before, small("m"))
    live = (await find_live_instances(world.host)).described
    world.leases_of_a_new_controller()
    after, other = world.pool(), world.pool()
    after.adopt(live, ())
    await started(other, small("n"))
    assert "all taken (m/1#0@1)" in other.reason
    # Created anew, it asks for what it asked for at first.
    await world.host.kill(world.host.actors[0])
    await until(lambda: after.is_live and not other.is_live, 60.0)
    device = world.leases.leases["m/1#0@1"].device
    assert (device.uuid, device.is_exclusive) == ("MIG-node00", True)


@with_world(mig_gpu(0, "1g.10gb", node=NODE))
async def test_a_mig_device_of_an_instance_on_the_cpu_is_not_given_away_either(
    world: _World,
) -> None:
    before = world.pool()
    await started(before, specs_of(InstanceGroup("g", "KIND_CPU", 1), SMALL))
    live = (await find_live_instances(world.host)).described
    world.leases_of_a_new_controller()
    world.pool().adopt(live, ())
    assert world.leases.leases["m/1#0@1"].device.uuid == "MIG-node00"


@with_world(gpu(0, NODE, used=9 * GB))
async def test_a_load_on_a_gpu_above_its_limit_fails(world: _World) -> None:
    world.leases_of_a_new_controller(gpu_0=0.1)
    pool = world.pool()
    with pytest.raises(UnavailableError, match="memory limit set for KIND_GPU 0 has exceeded"):
        await started(pool, specs_of(ON_FIRST))
    assert not world.host.actors


@with_world(gpu(0, NODE, used=70 * GB))
async def test_above_its_limit_a_gpu_is_waited_for_where_models_leave(world: _World) -> None:
    world.leases_of_a_new_controller(gpu_0=0.5)
    world.leases.rules = replace(world.leases.rules, waits_above_limit=True)
    pool = world.pool()
    await started(pool, specs_of(ON_FIRST, name="m"))
    assert "memory limit set for KIND_GPU 0 has exceeded" in pool.reason
    world.gpus = (gpu(0, NODE, used=10 * GB),)
    await until(lambda: pool.is_live, 60.0)


@with_world(gpu(0, NODE))
async def test_models_share_a_gpu_until_memory_does_not_suffice(world: _World) -> None:
    world.rows["digest of n"] = [20 * GB, 30 * GB]
    first, second = world.pool(), world.pool()
    await started(first, specs_of(ON_FIRST))
    world.gpus = (gpu(0, NODE, used=60 * GB),)
    await asyncio.sleep(60)
    await started(second, specs_of(ON_FIRST, name="n"))
    assert "needs 30.00 GiB, as it took before, and GPU 0 of node node has 20.00" in second.reason
    world.gpus = (gpu(0, NODE, used=40 * GB),)
    await until(lambda: second.is_live, 60.0)
    assert set(world.devices.values()) == {"GPU-node0"}


@with_world(gpu(0, NODE))
async def test_what_instances_take_is_measured_while_they_live(world: _World) -> None:
    pool = world.pool()
    await started(pool, specs_of(ON_FIRST))
    # The process that the fake host tells.
    for taken in (2 * GB, 5 * GB, 3 * GB):
        world.gpus = (gpu(0, NODE, used=6 * GB, processes={1: taken, 99: GB}),)
        await asyncio.sleep(2 * MEASURE_S + 5)
    assert world.rows == {"digest of m": [2 * GB, 5 * GB]}
    (held,) = world.leases.leases.values()
    assert (held.expected_bytes, held.measured_bytes) == (5 * GB, 3 * GB)


@with_world(gpu(0, NODE, processes={1: GB}))
async def test_of_an_instance_that_ray_gave_a_gpu_it_is_measured_too(world: _World) -> None:
    pool = world.pool()
    await started(pool, specs_of(ON_FIRST, {"ray_num_gpus": "0.25"}))
    await asyncio.sleep(MEASURE_S)
    assert world.devices == {"m/1#0@1": ""}
    assert world.rows == {"digest of m": [GB, GB]}


@with_world(gpu(0, NODE))
async def test_instances_on_the_cpu_cost_no_look_at_the_gpus(world: _World) -> None:
    async def refuse() -> ClusterResources:
        raise AssertionError("looked")

    world.leases = DeviceLeases(refuse, world.reports)
    pool = world.pool()
    await started(pool, specs_of(InstanceGroup("g", "KIND_CPU", 3)))
    assert pool.is_live
    assert not world.leases.leases
