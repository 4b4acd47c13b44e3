# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who waits gets the room of idle instances of a lower priority, never of busy ones."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace

import pytest

from backends.api.model_config import SequenceBatching
from cluster.controller.preemption import IDLE_S, Preemption
from cluster.models.contracts import Candidate
from cluster.placement.demand import ClusterResources, NodeResources
from deployments.instance.process_load import ProcessLoad
from deployments.instance.progress import Progress
from deployments.instance.spec import InstanceSpec
from tests.support.control_plane_fakes import World, in_virtual_time, model
from tests.support.controller_fakes import FakeHost
from tests.support.instance_host import spec

FULL = ClusterResources((NodeResources("n", {"CPU": 4.0}, {"CPU": 0.0}),))


def prioritised(name: str, priority: int, count: int = 1) -> Candidate:
    made = model(name, count=count)
    parameters = {"placement.priority": str(priority), "ray_num_cpus": "2"}
    return replace(made, config=replace(made.config, parameters=parameters))


class _Host(FakeHost):
    async def read_cluster(self) -> ClusterResources:
        return FULL


class _Scene:
    """Models that are loaded on one full node, and a controller's preemption."""

    def __init__(self, *candidates: Candidate) -> None:
        self.host = _Host()
        self.world = World(*candidates)
        self.host.placer = self.world.placer
        self.preemption = Preemption(self.host, self.host, self.world.lifecycle)
        self.use(0)

    def use(self, executions: int, pending: int = 0, executing_for_s: float = 0.0) -> None:
        load = ProcessLoad(execution_count=executions, pending_count=pending)
        self.host.progress = Progress(
            turned=True, executing_for_s=executing_for_s, is_stuck=False, load=load
        )

    def wait(self, name: str, priority: int) -> InstanceSpec:
        made = spec(0, name)
        parameters = {"placement.priority": str(priority)}
        waiting = replace(made, num_cpus=2, config=replace(made.config, parameters=parameters))
        self.host.placer.waits(waiting, "waiting for resources")
        return waiting

    async def look(self, seconds: float = IDLE_S + 4) -> list[str]:
        """Look every two seconds; return who has left."""
        for _ in range(int(seconds / 2) + 1):
            await self.preemption.look()
            await asyncio.sleep(2)
        return [line.removeprefix("drain ") for line in self.world.host.log if "drain" in line]


def on_stage(
    *candidates: Candidate,
) -> Callable[[Callable[[_Scene], Coroutine[object, object, None]]], Callable[[], None]]:
    def decorate(test: Callable[[_Scene], Coroutine[object, object, None]]) -> Callable[[], None]:
        async def run() -> None:
            scene = _Scene(*candidates)
            await scene.world.lifecycle.load_all(scene.world.candidates)
            await test(scene)

        return in_virtual_time(run)

    return decorate


@on_stage(prioritised("low", 0), prioritised("lower", -1))
async def test_the_idle_instance_of_the_lowest_priority_makes_room(scene: _Scene) -> None:
    scene.wait("high", 5)
    left = await scene.look()
    assert [name.partition("/")[0] for name in left] == ["lower"]


@on_stage(prioritised("low", 0))
async def test_nobody_who_waits_displaces_his_like(scene: _Scene) -> None:
    scene.wait("same", 0)
    assert await scene.look() == []


@on_stage(prioritised("low", 0))
async def test_while_nobody_waits_nobody_is_asked(scene: _Scene) -> None:
    scene.host.fail["ask_progress"] = AssertionError()
    assert await scene.look() == []


@pytest.mark.parametrize("use", [{"pending": 1}, {"executing_for_s": 0.1}])
def test_busy_instances_stay(use: dict[str, float]) -> None:
    @on_stage(prioritised("low", 0))
    async def run(scene: _Scene) -> None:
        scene.wait("high", 5)
        scene.use(7, **use)  # type: ignore[arg-type]  # of its own parameters
        assert await scene.look() == []

    run()


@on_stage(prioritised("low", 0))
async def test_an_instance_that_executes_between_two_looks_is_in_use(scene: _Scene) -> None:
    scene.wait("high", 5)
    for at in range(10):
        scene.use(at)
        assert await scene.look(1) == []
    assert await scene.look() == ["low/1#0@1"]


_SEQUENCES = SequenceBatching(max_sequence_idle_us=60_000_000)


@on_stage(
    replace(
        prioritised("low", 0),
        config=replace(prioritised("low", 0).config, sequence_batching=_SEQUENCES),
    )
)
async def test_sequences_may_go_on_for_as_long_as_they_may_be_idle(scene: _Scene) -> None:
    scene.wait("high", 5)
    assert await scene.look(50) == []
    assert await scene.look(20) == ["low/1#0@1"]


@on_stage(prioritised("low", 0, count=2))
async def test_one_makes_room_and_who_waits_is_given_time_to_take_it(scene: _Scene) -> None:
    high = scene.wait("high", 5)
    left = await scene.look(IDLE_S)
    assert len(left) == 1
    (pool,) = scene.world.pools
    assert pool.reason == (
        f"instance low/1#2@1 is waiting until {high.name}, which has a higher priority, has got its"
        " room"
    )
    scene.host.placer.release(high.name)
    assert await scene.look() == left
    assert len(scene.world.endpoints("low")) == 2
