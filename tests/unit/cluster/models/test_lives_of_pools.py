# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever is done to models at once, and whatever fails, the server's own pools know every one.

The pools, places, prober, placer and leases are the server's own; what stands for Ray is
`tests.support.instance_host.FakeHost`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import InternalError
from backends.api.model_config import InstanceGroup
from cluster.instances.host import ActorLostError
from cluster.models.contracts import Candidate
from cluster.models.renewal import RenewalPhase
from deployments.contracts.routing_table import ModelReadyState
from tests.support import virtual_time
from tests.support.control_plane_fakes import (
    World,
    ensemble,
    model,
    quietly,
)
from tests.support.examples import examples
from tests.support.gates import amount
from tests.support.gpu_clusters import cluster, mig_gpu

PROFILE = "1g.10gb"
TWO_NODES = cluster(
    {name: (mig_gpu(0, PROFILE, node=name),) for name in "ab"}, {f"mig_{PROFILE}": 1}
)
# How long an instance may hang before it is killed.
PATIENCE_S = 10.0
# Longer than any load, drain, or delay before an instance is started again, or killed again.
SETTLED_S = 300.0
MODELS = ("e", "g", "m", "n")


def on_device(key: str, stamp: str = "") -> Candidate:
    """Return a model whose instance has a MIG device to itself."""
    made = model(key, stamp=stamp)
    group = InstanceGroup(f"{key}_0", "KIND_GPU", 1, gpus=(0,))
    parameters = {"ray_resources": f'{{"mig_{PROFILE}": 1}}'}
    config = replace(made.config, instance_group=(group,), parameters=parameters)
    return replace(made, config=config)


@dataclass(slots=True)
class Life:
    """A world, and what is being done to it."""

    world: World
    doing: list[asyncio.Task[None]] = field(default_factory=list)
    stamp: int = 0

    def do(self, work: Awaitable[object]) -> None:
        self.doing.append(asyncio.create_task(quietly(work)))


def load(life: Life, name: str, _: int) -> None:
    life.do(life.world.lifecycle.load(name))


def reload(life: Life, name: str, number: int) -> None:
    """Load other files; in one case of three with another config, too."""
    life.stamp += 1
    made = on_device(name, str(life.stamp)) if name == "g" else model(name, stamp=str(life.stamp))
    if name == "m":
        made = model(name, (1, 2), count=2, stamp=str(life.stamp))
    if number == 0:
        made = replace(made, config=replace(made.config, max_batch_size=life.stamp))
    if name != "e":
        life.world.candidates[name] = made
    life.do(life.world.lifecycle.load(name))


def poll(life: Life, _: str, number: int) -> None:
    life.world.candidates["m"] = model("m", (1, 2), count=number + 1)
    life.do(life.world.lifecycle.load_all(MODELS, is_poll=True))


def unload(life: Life, name: str, _: int) -> None:
    life.do(life.world.lifecycle.unload(name))


def unload_twice(life: Life, name: str, _: int) -> None:
    life.do(life.world.twice(name))


def resize(life: Life, name: str, number: int) -> None:
    life.do(life.world.lifecycle.resize(name, 1, number + 1))


def rest(life: Life, name: str, number: int) -> None:
    life.world.lifecycle.dormancy.rest(name, 1 + number % 2)


def wake(life: Life, name: str, number: int) -> None:
    life.do(life.world.lifecycle.dormancy.wake(name, 1 + number % 2))


def drain_node(life: Life, _: str, number: int) -> None:
    draining = frozenset(("", "a", "b", "")[number])
    life.world.cluster = TWO_NODES.with_draining(draining)
    life.world.lifecycle.evacuation.look(draining)


def renew(life: Life, _: str, number: int) -> None:
    renewal = life.world.lifecycle.renewal
    if renewal.phase is not RenewalPhase.RENEWING:
        life.world.host.running = str(number)
        life.do(renewal.run(str(number)))


def displace(life: Life, name: str, number: int) -> None:
    pool = life.world.lifecycle.pool_of(name, 1)
    names = () if pool is None else [spec.name for spec in pool.specs][:number]
    life.world.lifecycle.model_of(name).displace(1, names, "another")


def cancel(life: Life, _: str, number: int) -> None:
    """Have somebody who waits for an answer go away."""
    for task in life.doing[-1 - number : -number or None]:
        task.cancel()


def crash(life: Life, _: str, number: int) -> None:
    for actor in life.world.host.alive[number : number + 1]:
        life.world.host.crash(actor)


def hang(life: Life, _: str, number: int) -> None:
    for actor in life.world.host.alive[number : number + 1]:
        actor.progress = None


def fail_load(life: Life, _: str, number: int) -> None:
    error = InternalError("no memory left") if number % 2 else ActorLostError("a signal")
    life.world.host.fail_load.append(error)


def fail_kill(life: Life, _: str, number: int) -> None:
    host = life.world.host
    if number == 0:
        host.fail_kill.append(ConnectionError("no head"))
    elif number == 1:
        host.hung_kills += 1
    else:
        host.lost_kills += 1


def have_room(life: Life, _: str, number: int) -> None:
    life.world.host.room = 2 * number
    life.world.host.give_room()


Act = Callable[[Life, str, int], None]
OPERATIONS = (load, reload, poll, unload, unload_twice, resize, rest, wake, drain_node)
OPERATIONS += (renew, displace)
FAULTS = (cancel, crash, hang, fail_load, fail_kill, have_room)
ACTS: Mapping[str, Act] = {act.__name__: act for act in (*OPERATIONS, *FAULTS)}
STEP = st.tuples(
    st.sampled_from(sorted(ACTS)),
    st.sampled_from(MODELS),
    st.integers(0, 3),
    # At once, within a kill, within a drain or load, after it, and after all is well again.
    st.sampled_from((0.0, 0.02, 0.04, 0.5, 1.5, 20.0)),
)


def _check_always(world: World) -> None:
    assert not world.host.twice
    assert [name for name in world.alive if not world.placer.has_place(name)] == []


def _check_settled(world: World) -> None:
    assert not world.lifecycle.loading_names
    known = set()
    for name, record in world.lifecycle.records.items():
        for number, version in record.versions.items():
            assert version.state in (ModelReadyState.READY, ModelReadyState.UNAVAILABLE)
            assert not version.leaving
            pool = world.lifecycle.pool_of(name, number)
            if pool is None:
                assert not version.instances
                continue
            assert version.instances == pool.endpoints
            is_served = version.is_dormant or name == "e" or bool(pool.endpoints)
            assert is_served == (version.state is ModelReadyState.READY)
            known |= {each.spec.name for each in pool.places}
            # All of a version are of one load.
            assert len({spec.generation for spec in pool.specs}) <= 1
    assert set(world.alive) <= known
    assert set(world.leases.leases) <= known


async def _live(steps: list[tuple[str, str, int, float]]) -> None:
    world = World(
        ensemble("e", "m", "n"),
        model("m", (1, 2), count=2),
        model("n"),
        on_device("g"),
        cluster=TWO_NODES,
        patience_s=PATIENCE_S,
        requests_s=0.0,
    )
    life = Life(world)
    for name in ("e", "g"):
        load(life, name, 0)
    for what, name, number, pause_s in steps:
        await asyncio.sleep(pause_s)
        _check_always(world)
        ACTS[what](life, name, number)
    await _mend(life)
    _check_settled(world)
    await world.lifecycle.unload_all(MODELS)
    # Not before: a renewal waits for a reload that has no room.
    await asyncio.wait_for(asyncio.gather(*life.doing, return_exceptions=True), SETTLED_S)
    for task in life.doing:
        assert task.cancelled() or task.exception() is None, task.exception()
    await asyncio.sleep(SETTLED_S)
    assert not world.alive
    assert not world.placer.nodes_in_use
    assert not world.leases.leases
    await world.prober.close()


async def _mend(life: Life) -> None:
    """Have nothing fail any more, and let time pass in which drains are looked for as ever."""
    world, host = life.world, life.world.host
    host.fail_load.clear()
    host.fail_kill.clear()
    host.hung_kills = host.lost_kills = 0
    host.room = None
    host.give_room()
    for _ in range(int(SETTLED_S / 10)):
        await asyncio.sleep(10)
        _check_always(world)


@pytest.mark.timeout(1800)
@settings(max_examples=examples(amount(60, 2000)), deadline=None)
@given(st.lists(STEP, min_size=5, max_size=30))
def test_no_instance_is_left_without_a_pool_whatever_is_done_at_once(
    steps: list[tuple[str, str, int, float]],
) -> None:
    logging.disable(logging.ERROR)
    try:
        virtual_time.run(_live(steps))
    finally:
        logging.disable(logging.NOTSET)
