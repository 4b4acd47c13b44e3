# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever is done to models at once, the server's own pools know every instance."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import InternalError, TritonError
from cluster.instances.host import ActorLostError
from cluster.placement.demand import ClusterResources, NodeResources
from deployments.contracts.routing_table import ModelReadyState
from tests.support import virtual_time
from tests.support.control_plane_fakes import ensemble, model
from tests.support.examples import examples
from tests.support.pooled_world import PooledWorld

CPUS = {"CPU": 8.0}
TWO_NODES = ClusterResources(tuple(NodeResources(name, CPUS, CPUS) for name in "ab"))
# Longer than any load, drain, or delay before an instance is started again.
SETTLED_S = 300.0

Act = Callable[[PooledWorld, str, int], Awaitable[object]]


async def load(world: PooledWorld, name: str, number: int) -> None:
    if number == 0 and name != "e":
        world.candidates[name] = model(name, (1, 2), count=2, stamp="new")
    await world.lifecycle.load(name)


async def poll(world: PooledWorld, _: str, number: int) -> None:
    world.candidates["m"] = model("m", (1, 2), count=number + 1)
    await world.lifecycle.load_all(("e", "m", "n"), is_poll=True)


async def unload_twice(world: PooledWorld, name: str, _: int) -> None:
    await world.twice(name)


async def resize(world: PooledWorld, name: str, number: int) -> None:
    await world.lifecycle.resize(name, 1, number + 1)


async def rest(world: PooledWorld, name: str, _: int) -> None:
    world.lifecycle.dormancy.rest(name, 1)


async def wake(world: PooledWorld, name: str, _: int) -> None:
    await world.lifecycle.dormancy.wake(name, 1)


async def drain_node(world: PooledWorld, _: str, number: int) -> None:
    draining = frozenset("ab"[number % 2])
    world.cluster = TWO_NODES.with_draining(draining)
    world.lifecycle.evacuation.look(draining)


async def crash(world: PooledWorld, _: str, number: int) -> None:
    for actor in world.host.alive[number : number + 1]:
        world.host.crash(actor)


async def fail_load(world: PooledWorld, _: str, number: int) -> None:
    error = InternalError("no memory left") if number else ActorLostError("a signal")
    world.host.fail_load.append(error)


ACTS: Mapping[str, Act] = {
    act.__name__: act
    for act in (load, poll, unload_twice, resize, rest, wake, drain_node, crash, fail_load)
}
STEP = st.tuples(
    st.sampled_from(sorted(ACTS)),
    st.sampled_from("emn"),
    st.integers(0, 2),
    # At once, within a kill, within a drain or load, and after it.
    st.sampled_from((0.0, 0.02, 0.04, 0.5, 1.5)),
)


async def _done(work: Awaitable[object]) -> None:
    try:
        await work
    except TritonError:
        return


def _check_places(world: PooledWorld) -> None:
    assert all(map(world.placer.has_place, world.alive))


def _check_settled(world: PooledWorld) -> None:
    assert not world.lifecycle.loading_names
    known = set()
    for name, record in world.lifecycle.records.items():
        for number, version in record.versions.items():
            assert version.state in (ModelReadyState.READY, ModelReadyState.UNAVAILABLE)
            pool = world.lifecycle.pool_of(name, number)
            if pool is None:
                assert not version.instances
                continue
            assert version.instances == pool.endpoints
            is_served = version.is_dormant or name == "e" or bool(pool.endpoints)
            assert is_served == (version.state is ModelReadyState.READY)
            known |= {each.spec.name for each in pool.places}
    assert set(world.alive) == known


async def _live(steps: list[tuple[str, str, int, float]]) -> None:
    world = PooledWorld(
        ensemble("e", "m", "n"), model("m", (1, 2), count=2), model("n"), cluster=TWO_NODES
    )
    doing = [asyncio.create_task(_done(world.lifecycle.load("e")))]
    for what, name, number, pause_s in steps:
        await asyncio.sleep(pause_s)
        _check_places(world)
        doing.append(asyncio.create_task(_done(ACTS[what](world, name, number))))
    await asyncio.sleep(SETTLED_S)
    _check_settled(world)
    world.host.fail_load.clear()
    await asyncio.gather(*doing)
    await world.lifecycle.unload_all(("e", "m", "n"))
    await asyncio.sleep(SETTLED_S)
    assert not world.alive
    assert not world.placer.nodes_in_use


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(STEP, min_size=5, max_size=30))
def test_no_instance_is_left_without_a_pool_whatever_is_done_at_once(
    steps: list[tuple[str, str, int, float]],
) -> None:
    virtual_time.run(_live(steps))
