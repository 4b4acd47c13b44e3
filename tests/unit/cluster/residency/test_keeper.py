# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Resident models stay within the cap, by what their instances say."""

import asyncio
import dataclasses
from collections.abc import Iterable, Mapping

from backends.api.model_config import SequenceBatching
from cluster.controller.reconciler import Policy, Reconciler
from cluster.devices.inventory import Inventory
from cluster.instances.device_leases import DeviceLeases
from cluster.instances.placer import Placer
from cluster.models.contracts import Candidate
from cluster.placement.demand import ClusterResources, NodeResources
from cluster.placement.node_devices import NodeDevices
from cluster.placement.planner import PoolRequest, plan_pool
from cluster.residency.device_room import DeviceRoom
from cluster.residency.keeper import PINNED, ResidencyKeeper
from cluster.residency.policy import ResidencyLimits
from deployments.instance.process_load import ProcessLoad
from deployments.instance.progress import Progress
from tests.support.control_plane_fakes import (
    DRAIN_S,
    LOAD_S,
    World,
    in_virtual_time,
    model,
    now,
)

GB = 1 << 30


class Residents:
    """Models, and what their instances say.

    Attributes:
        counts: By model: executions there were.
        pending: Models with requests that wait.
        silent: Models whose instances do not answer.
        private_bytes: Memory of each instance.
    """

    def __init__(self, *candidates: Candidate, limits: ResidencyLimits) -> None:
        self.world = World(*candidates)
        self.counts: dict[str, int] = {}
        self.pending: set[str] = set()
        self.silent: set[str] = set()
        self.private_bytes = 0
        lifecycle = self.world.lifecycle
        # One node, all of which is reserved.
        full = NodeResources("n", {"CPU": 1.0}, {"CPU": 0.0})
        self.there = ClusterResources((full,))
        self.placer = Placer(self._look, DeviceLeases(self._look, NodeDevices(self._report)))
        devices = DeviceRoom(self.placer, self._look, lifecycle.pool_of)
        self.keeper = ResidencyKeeper(
            lifecycle.records, lifecycle.dormancy, self._ask, limits, devices
        )
        lifecycle.dormancy.know(candidate.key for candidate in candidates)

    async def _look(self) -> ClusterResources:
        return self.there

    async def _report(self, node_id: str) -> Inventory:
        return Inventory()

    async def _ask(self, incarnations: Iterable[str]) -> Mapping[str, Progress]:
        asked = {each: self.world.host.named[each].partition("/")[0] for each in incarnations}
        return {
            each: self._progress(name) for each, name in asked.items() if name not in self.silent
        }

    def _progress(self, name: str) -> Progress:
        load = ProcessLoad(
            self.counts.get(name, 0), int(name in self.pending), self.private_bytes, 10 * GB
        )
        return Progress(turned=True, executing_for_s=0.0, is_stuck=False, load=load)

    async def use(self, name: str, *, is_nested: bool = False) -> None:
        """One request: the model is woken if need be, and executes."""
        await self.world.lifecycle.dormancy.wake(name, 1, is_nested=is_nested)
        self.counts[name] = self.counts.get(name, 0) + 1
        await asyncio.sleep(2)
        await self.keeper.look()

    @property
    def awake(self) -> set[str]:
        records = self.world.lifecycle.records.items()
        return {
            name
            for name, record in records
            if any(version.instances for version in record.versions.values())
        }


def models(count: int) -> list[Candidate]:
    return [model(f"m{at}") for at in range(count)]


@in_virtual_time
async def test_the_model_used_longest_ago_rests_when_there_are_too_many() -> None:
    here = Residents(*models(4), limits=ResidencyLimits(2))
    for name in ("m0", "m1", "m0", "m2"):
        await here.use(name)
    assert here.awake == {"m0", "m2"}
    await here.use("m1")
    assert here.awake == {"m1", "m2"}
    assert here.world.record("m0").versions[1].is_dormant


@in_virtual_time
async def test_pinned_busy_and_silent_models_stay() -> None:
    pinned = model("m0")
    config = dataclasses.replace(pinned.config, parameters={PINNED: "true"})
    here = Residents(
        dataclasses.replace(pinned, config=config), *models(4)[1:], limits=ResidencyLimits(1)
    )
    here.pending.add("m1")
    here.silent.add("m2")
    for name in ("m0", "m1", "m2", "m3"):
        await here.use(name, is_nested=True)
    await asyncio.sleep(2)
    await here.keeper.look()
    assert here.awake == {"m0", "m1", "m2"}
    here.pending.clear()
    await asyncio.sleep(2)
    await here.keeper.look()
    assert here.awake == {"m0", "m2"}


@in_virtual_time
async def test_a_model_that_was_too_busy_to_answer_was_not_used_for_that() -> None:
    here = Residents(*models(3), limits=ResidencyLimits(2))
    await here.use("m0")
    await here.use("m1")
    await asyncio.sleep(2)
    here.silent.add("m0")
    await here.keeper.look()
    here.silent.clear()
    await here.use("m2")
    assert here.awake == {"m1", "m2"}


@in_virtual_time
async def test_a_model_with_sequences_stays_until_they_have_idled_out() -> None:
    stateful = model("m0")
    sequences = SequenceBatching(max_sequence_idle_us=60_000_000)
    config = dataclasses.replace(stateful.config, sequence_batching=sequences)
    here = Residents(
        dataclasses.replace(stateful, config=config), model("m1"), limits=ResidencyLimits(1)
    )
    await here.use("m0")
    await here.use("m1", is_nested=True)
    assert "m0" in here.awake
    await asyncio.sleep(60)
    here.counts["m1"] += 1
    await here.keeper.look()
    assert here.awake == {"m1"}


@in_virtual_time
async def test_memory_above_its_fraction_is_made_free() -> None:
    here = Residents(*models(5), limits=ResidencyLimits(0, memory_fraction=0.5))
    here.private_bytes = int(1.2 * GB)
    for name in ("m0", "m1", "m2", "m3"):
        await here.use(name)
    assert len(here.awake) == 4
    await here.use("m4")
    assert here.awake == {"m2", "m3", "m4"}


@in_virtual_time
async def test_a_wake_for_which_there_is_no_room_waits_until_a_model_is_idle() -> None:
    here = Residents(*models(3), limits=ResidencyLimits(1))
    await here.use("m0")
    here.pending.add("m0")
    await here.keeper.look()
    began_s = now()
    waking = asyncio.create_task(here.world.lifecycle.dormancy.wake("m1", 1))
    await asyncio.sleep(30)
    assert here.awake == {"m0"}
    assert here.world.record("m1").waits_for == (
        "--ondemand-max-models=1 lets no more model versions have instances ('m0' in use); raise"
        " it, or wait until one of these is idle"
    )
    here.pending.clear()
    await here.keeper.look()
    await waking
    assert now() - began_s == 30 + LOAD_S
    assert here.awake == {"m1"}
    assert here.world.record("m1").waits_for == ""


@in_virtual_time
async def test_a_wake_that_found_no_room_for_too_long_is_given_up_and_the_next_one_begins() -> None:
    here = Residents(*models(2), limits=ResidencyLimits(1))
    here.world.lifecycle.dormancy.room.wait_s = 20.0
    await here.use("m0")
    here.silent.add("m0")
    await here.keeper.look()
    began_s = now()
    await here.world.lifecycle.dormancy.wake("m1", 1)
    assert now() - began_s == 20
    assert here.awake == {"m0"}
    # For requests whose time is up a moment later.
    assert "('m0' in use)" in here.world.record("m1").waits_for
    here.silent.clear()
    await here.keeper.look()
    await here.use("m1")
    assert here.awake == {"m1"}
    assert here.world.record("m1").waits_for == ""


@in_virtual_time
async def test_what_a_running_request_waits_for_is_woken_above_the_cap() -> None:
    here = Residents(*models(3), limits=ResidencyLimits(1))
    await here.use("m0")
    here.pending.add("m0")
    await here.keeper.look()
    dormancy = here.world.lifecycle.dormancy
    plain = asyncio.create_task(dormancy.wake("m1", 1))
    await asyncio.sleep(1)
    assert here.awake == {"m0"}
    await dormancy.wake("m1", 1, is_nested=True)
    await plain
    assert here.awake == {"m0", "m1"}


@in_virtual_time
async def test_who_finds_no_place_has_the_idle_model_rest_that_was_used_longest_ago() -> None:
    here = Residents(*models(4), limits=ResidencyLimits())
    for name in ("m0", "m1", "m2"):
        await here.use(name)
    here.pending.add("m0")
    here.world.host.blocked.add("m3/1#0")
    waking = asyncio.create_task(here.world.lifecycle.dormancy.wake("m3", 1))
    await asyncio.sleep(2)
    await here.keeper.look()
    assert here.awake == {"m0", "m1", "m2"}
    config = here.world.candidates["m3"].config
    (spec,) = plan_pool(config, PoolRequest(generation=9, version=1, model_dir="/r/m3"), here.there)
    here.placer.waits(spec, "waiting for resources")
    assert await here.keeper.look()
    assert here.awake == {"m0", "m2"}
    # It is given the time to take the room.
    assert await here.keeper.look()
    assert here.awake == {"m0", "m2"}
    here.world.host.unblock()
    await waking


@in_virtual_time
async def test_models_wake_and_rest_by_themselves_under_a_cap() -> None:
    here = Residents(*models(6), limits=ResidencyLimits(2))
    policy = Policy("residency", 5.0, "")
    reconciler = Reconciler((policy,), {"residency": here.keeper.look})
    keeping = asyncio.create_task(reconciler.run())
    for at in range(30):
        reconciler.look_soon("residency")
        await here.world.lifecycle.dormancy.wake(f"m{at % 6}", 1)
        here.counts[f"m{at % 6}"] = at
        await asyncio.sleep(1)
    await asyncio.sleep(10 + DRAIN_S)
    assert len(here.awake) == 2
    keeping.cancel()
