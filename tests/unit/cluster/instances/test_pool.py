# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Pools of instances that load, die, hang and cannot be started."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace

import pytest

from backends.api.custom_metrics import CustomFamily, CustomMetric, MetricKind
from backends.api.errors import (
    ImportedAlreadyError,
    InternalError,
    InvalidArgumentError,
    TritonError,
    UnavailableError,
)
from backends.environments.requirement_lines import Requirements
from cluster.instances.host import ActorLostError, EnvironmentFailedError, Knock
from cluster.instances.live import find_live_instances, kill_instances, retire_instances
from cluster.instances.pool import InstancePool
from cluster.instances.prober import Prober
from cluster.placement.demand import ClusterResources, NodeResources
from deployments.instance.progress import Progress
from deployments.metrics.counters import Snapshot, decode
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.instance_host import (
    LOAD_S,
    FakeActor,
    FakeHost,
    anywhere,
    spec,
    started,
    until,
)
from tests.support.logged import logged_by

TIMEOUT_S = 10.0


class _World:
    """A pool, where its actors live, and the reasons it has shown."""

    def __init__(self) -> None:
        self.host = FakeHost()
        self.prober = Prober(TIMEOUT_S)
        self.reasons: list[str] = []
        self.pool = InstancePool(self._changed, self.host, self.prober, anywhere())

    def _changed(self) -> None:
        if not self.reasons or self.reasons[-1] != self.pool.reason:
            self.reasons.append(self.pool.reason)

    @property
    def incarnations(self) -> list[str]:
        return [endpoint.incarnation for endpoint in self.pool.endpoints]


def with_world(
    test: Callable[[_World], Coroutine[object, object, None]],
) -> Callable[[], None]:
    async def run() -> None:
        world = _World()
        try:
            await test(world)
        finally:
            await world.pool.close(0)
            await world.prober.close()

    return in_virtual_time(run)


@with_world
async def test_a_pool_starts_all_its_instances(world: _World) -> None:
    await started(world.pool, [spec(0), spec(1)])
    assert world.incarnations == ["i0", "i1"]
    assert not world.pool.reason
    assert world.pool.next_index == 2


@with_world
async def test_a_wedged_instance_leaves_the_table_is_killed_and_replaced(world: _World) -> None:
    await started(world.pool, [spec(0), spec(1)])
    world.host.actors[0].progress = None
    await until(lambda: world.incarnations == ["i1"], 1.6 * TIMEOUT_S)
    await until(lambda: world.incarnations == ["i2", "i1"], 2 * LOAD_S)
    assert world.host.killed == ["i0"]
    assert world.reasons == [
        "",
        "instance m/1#0@1 showed no progress for 10 s; it is replaced",
        "",
    ]


@with_world
async def test_an_instance_whose_thread_is_stuck_is_replaced(world: _World) -> None:
    await started(world.pool, [spec(0)])
    world.host.actors[0].progress = Progress(turned=True, executing_for_s=0.0, is_stuck=True)
    await until(lambda: world.incarnations == ["i1"], 2 * TIMEOUT_S)


@with_world
async def test_an_instance_that_a_router_reports_is_replaced_within_seconds(world: _World) -> None:
    await started(world.pool, [spec(0)])
    world.host.actors[0].progress = None
    world.prober.suspect("i0")
    await until(lambda: world.incarnations == ["i1"], 2.1 + 0.2 + LOAD_S)


@with_world
async def test_an_instance_that_wedges_at_once_each_time_is_replaced_less_and_less_often(
    world: _World,
) -> None:
    await started(world.pool, [spec(0)])
    lives: list[float] = []
    for number in range(6):
        actor = world.host.actors[-1]
        await until(lambda number=number: world.incarnations == [f"i{number}"])
        actor.progress = None
        world.prober.suspect(actor.incarnation)
        lives.append(await until(lambda n=number: len(world.host.actors) > n + 1))
    assert lives == sorted(lives)
    assert lives[-1] > lives[0] + 1


@with_world
async def test_a_wedged_instance_that_ends_by_itself_is_created_once(world: _World) -> None:
    await started(world.pool, [spec(0)])
    actor = world.host.actors[0]
    actor.progress = None
    world.prober.suspect("i0")
    await until(lambda: not world.incarnations)
    world.host.crash(actor)
    await until(lambda: world.incarnations)
    await asyncio.sleep(60)
    assert world.incarnations == ["i1"]
    assert len(world.host.actors) == 2


@with_world
async def test_a_lost_instance_is_left_to_ray_until_ray_has_given_it_up(world: _World) -> None:
    await started(world.pool, [spec(0)])
    actor = world.host.actors[0]
    world.host.crash(actor)
    await until(lambda: not world.incarnations)
    assert not world.host.killed
    assert world.pool.reason == "instance m/1#0@1 died: a signal; restarting"
    await until(lambda: world.incarnations == ["i1"])
    assert not world.pool.reason
    (status,) = world.pool.places
    assert (status.state, status.pid, status.restarts) == ("live", 1, 1)


@with_world
async def test_an_instance_that_cannot_be_pickled_fails_the_load_at_once(world: _World) -> None:
    world.host.fail_create.append(TypeError("cannot pickle a lock"))
    with pytest.raises(InternalError) as caught:
        await started(world.pool, [spec(0)])
    assert caught.value.message == (
        "instance m/1#0@1 was not started: TypeError: cannot pickle a lock"
    )


@with_world
async def test_an_unforeseen_fault_of_a_restart_is_tried_again(world: _World) -> None:
    await started(world.pool, [spec(0)])
    world.host.fail_create += [RuntimeError("odd"), RuntimeError("odd")]
    actor = world.host.actors[0]
    actor.progress = None
    world.prober.suspect("i0")
    await until(lambda: world.incarnations == ["i1"])
    assert any("odd" in reason for reason in world.reasons)


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ActorLostError("killed"), InternalError, "instance m/1#0@1 died loading: killed"),
        (
            EnvironmentFailedError("no package"),
            InternalError,
            "instance m/1#0@1 was not started: no package",
        ),
        (UnavailableError("the model says no"), UnavailableError, "the model says no"),
    ],
    ids=["death", "environment", "model"],
)
def test_a_first_load_that_fails_says_why(
    error: TritonError | ActorLostError, kind: type[TritonError], text: str
) -> None:
    @with_world
    async def claim(world: _World) -> None:
        world.host.fail_load.append(error)
        with pytest.raises(kind) as caught:
            await started(world.pool, [spec(0)])
        assert caught.value.message == text

    claim()


@with_world
async def test_an_instance_whose_process_has_other_packages_starts_with_its_own(
    world: _World,
) -> None:
    wanted = Requirements("/m/requirements.txt", ("numpy<2",))
    world.host.fail_load += [ImportedAlreadyError("numpy"), ImportedAlreadyError("elsewhere")]
    await started(world.pool, [replace(spec(0), requirements=wanted)])
    plain, first, second = (actor.spec.runtime_env for actor in world.host.actors)
    assert (plain, first) == ({}, second)
    assert first["py_executable"].endswith(f"launcher.py --layer {wanted.key}")
    assert world.host.killed == ["i0", "i1"]


@with_world
async def test_an_instance_whose_process_never_has_its_packages_does_not_load(
    world: _World,
) -> None:
    world.host.fail_load += [ImportedAlreadyError("numpy")] * 9
    with pytest.raises(ImportedAlreadyError):
        await started(world.pool, [replace(spec(0), requirements=Requirements("/r", ("numpy<2",)))])
    assert len(world.host.actors) == 4


@with_world
async def test_a_recipe_that_the_host_refuses_is_an_invalid_argument(world: _World) -> None:
    world.host.fail_create.append(ValueError("no such resource"))
    with pytest.raises(InvalidArgumentError, match="cannot be placed: no such resource"):
        await started(world.pool, [spec(0)])


@with_world
async def test_an_instance_that_leaves_is_drained_ended_and_not_replaced(world: _World) -> None:
    await started(world.pool, [spec(0), spec(1)])
    world.pool.commit({spec(0).name})
    assert world.incarnations == ["i1"]
    assert [endpoint.incarnation for endpoint in world.pool.leaving] == ["i0"]
    await world.pool.let_go(1.0)
    await asyncio.sleep(60)
    assert world.host.killed == ["i0"]
    assert not world.pool.leaving
    assert len(world.host.actors) == 2


@with_world
async def test_an_instance_that_leaves_has_its_time_unless_the_pool_closes(world: _World) -> None:
    await started(world.pool, [spec(0), spec(1)])
    world.host.actors[0].drain_s = 1000
    world.pool.commit({spec(0).name})
    letting_go = asyncio.create_task(world.pool.let_go(3600))
    await asyncio.sleep(500)
    assert not letting_go.done()
    await world.pool.close(30)
    await asyncio.sleep(31)
    assert letting_go.done()
    assert world.host.killed == ["i1", "i0"]


@with_world
async def test_live_instances_say_what_they_have_counted(world: _World) -> None:
    await started(world.pool, [spec(0), spec(1)])
    world.host.crash(world.host.actors[1])
    await until(lambda: world.incarnations == ["i0"])
    assert list(await world.pool.statistics()) == [spec(0).name]


@with_world
async def test_live_instances_are_found_and_adopted(world: _World) -> None:
    await started(world.pool, [spec(0)])
    other = InstancePool(lambda: None, world.host, world.prober, anywhere())
    found = (await find_live_instances(world.host)).described
    other.adopt(found, [spec(1)])
    assert [endpoint.incarnation for endpoint in other.endpoints] == ["i0"]
    await until(lambda: len(other.endpoints) == 2)
    await other.close(0)


@with_world
async def test_a_death_is_logged_once_though_the_next_call_ends_with_it_too(world: _World) -> None:
    with logged_by("cluster.instances.place") as logged:
        await started(world.pool, [spec(0)])
        world.host.fail_load.append(ActorLostError("a signal"))
        world.host.crash(world.host.actors[0])
        await until(lambda: world.incarnations == ["i1"])
    assert logged == ["instance m/1#0@1 died: a signal; restarting"]


@with_world
async def test_an_actor_that_cannot_describe_itself_is_killed_and_not_adopted(
    world: _World,
) -> None:
    await started(world.pool, [spec(0)])
    world.host.fail_load.append(ActorLostError("it is silent"))
    assert (await find_live_instances(world.host)).described == []
    assert world.host.killed == ["i0"]


@with_world
async def test_a_stopped_actor_does_not_hold_up_the_others_and_is_found_when_it_goes_on(
    world: _World,
) -> None:
    await started(world.pool, [spec(0), spec(1)])
    world.host.actors[1].resumes = goes_on = asyncio.Event()
    begin_s = asyncio.get_running_loop().time()
    found = await find_live_instances(world.host)
    assert asyncio.get_running_loop().time() - begin_s == 4
    assert [str(live.name) for live in found.described] == [spec(0).name]
    assert [str(name) for name in found.silent] == [spec(1).name]
    goes_on.set()
    assert [str(live.name) for live in await found.late()] == [spec(1).name]
    assert world.host.killed == []


@with_world
async def test_a_stopped_actor_that_does_not_go_on_is_killed(world: _World) -> None:
    await started(world.pool, [spec(0), spec(1)])
    world.host.actors[1].resumes = asyncio.Event()
    found = await find_live_instances(world.host)
    assert await found.late() == []
    assert world.host.killed == ["i1"]


@with_world
async def test_what_starts_in_the_place_of_a_silent_actor_has_another_name(world: _World) -> None:
    actor = await world.host.create(spec(1))
    other = InstancePool(lambda: None, world.host, world.prober, anywhere())
    other.adopt((), [spec(1)], taken={1})
    await until(lambda: len(other.endpoints) == 1)
    assert [each.name for each in other.specs] == [spec(2).name]
    assert world.host.killed == []
    await other.close(0)
    assert actor.incarnation not in world.host.killed


@with_world
async def test_orphans_are_killed(world: _World) -> None:
    actor = await world.host.create(spec(7))
    found = (await find_live_instances(world.host)).described
    await kill_instances(world.host, found)
    assert world.host.killed == [actor.incarnation]


@with_world
async def test_instances_of_an_earlier_generation_finish_their_requests_first(
    world: _World,
) -> None:
    actor = await world.host.create(spec(7))
    found = (await find_live_instances(world.host)).described
    world.host.actors[0].drain_s = 3.0
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    await retire_instances(world.host, found, 5.0)
    assert loop.time() - begin_s == 3.0
    assert world.host.killed == [actor.incarnation]


@with_world
async def test_a_pool_that_has_let_all_go_starts_again_and_keeps_what_was_counted(
    world: _World,
) -> None:
    await started(world.pool, [spec(0), spec(1)])
    world.pool.commit([each.name for each in world.pool.specs])
    assert not world.pool.endpoints
    assert not world.pool.is_live
    starting = asyncio.create_task(started(world.pool, [spec(world.pool.next_index)]))
    await world.pool.let_go(0)
    await starting
    assert world.incarnations == ["i2"]
    assert world.pool.is_live
    assert not world.pool.leaving
    assert set(world.pool.past) == {"node"}


@with_world
async def test_metrics_of_a_models_own_go_with_its_instance(world: _World) -> None:
    await started(world.pool, [spec(0)])
    family = CustomFamily("doubts", "", MetricKind.GAUGE, [CustomMetric(value=3.0)])
    world.host.actors[0].counted = Snapshot(execution_count=2, custom=[family])
    world.pool.commit([spec(0).name])
    await world.pool.let_go(0)
    past = decode(world.pool.past["node"])
    assert (past.execution_count, past.custom) == (2, [])


@with_world
async def test_what_was_counted_outlives_a_rest_and_a_wake(world: _World) -> None:
    await started(world.pool, [spec(0)])
    world.host.actors[0].counted = Snapshot(execution_count=2)
    world.pool.commit([spec(0).name])
    await world.pool.let_go(0)
    # Each wake has a generation of its own.
    await started(world.pool, [replace(spec(1), generation=2)])
    assert set(world.pool.past) == {"node"}


@with_world
async def test_a_reload_forgets_what_was_counted_and_who_leaves_for_it_counts_no_more(
    world: _World,
) -> None:
    await started(world.pool, [spec(0), spec(1)])
    world.host.actors[0].counted = world.host.actors[1].counted = Snapshot(execution_count=2)
    world.pool.commit([spec(0).name])
    await world.pool.let_go(0)
    await world.pool.stage([replace(spec(2), generation=2)], 1, lambda: None)
    world.pool.count_anew()
    world.pool.commit([spec(1).name])
    await world.pool.let_go(0)
    assert not world.pool.past


@with_world
async def test_a_pool_whose_only_start_failed_can_be_started_again(world: _World) -> None:
    await started(world.pool, [spec(0)])
    world.pool.commit([spec(0).name])
    await world.pool.let_go(0)
    past = dict(world.pool.past)
    world.host.fail_load = [InternalError("no such file")]
    with pytest.raises(InternalError):
        await started(world.pool, [spec(1)])
    await world.pool.close(0)
    assert (world.pool.specs, world.pool.reason) == ((), "")
    await started(world.pool, [spec(2)])
    assert len(world.incarnations) == 1
    assert dict(world.pool.past) == past


@with_world
async def test_who_makes_room_is_followed_by_one_that_waits_for_it(world: _World) -> None:
    pool = world.pool
    await started(pool, [spec(0), spec(1)])
    assert pool.displace(["m/1#0@1", "of another"]) == {"m/1#0@1": "m/1#2@1"}
    assert [each.name for each in pool.endpoints] == ["m/1#1"]
    assert [each.name for each in pool.leaving] == ["m/1#0"]
    await pool.let_go(1.0)
    await until(lambda: len(pool.endpoints) == 2)
    assert {each.name for each in pool.endpoints} == {"m/1#1", "m/1#2"}


@with_world
async def test_an_instance_that_ray_cannot_reach_for_a_while_stays_in_the_table(
    world: _World,
) -> None:
    await started(world.pool, [spec(0)])
    (actor,) = world.host.actors
    world.host.knocked = Knock.TAKEN
    for _ in range(3):
        world.host.disconnect(actor)
        await asyncio.sleep(3 * LOAD_S)
    assert world.reasons == [""]
    assert world.incarnations == ["i0"]
    # It is watched as before.
    world.host.knocked = Knock.REFUSED
    world.host.crash(actor)
    await until(lambda: world.incarnations == ["i1"])


@with_world
async def test_an_instance_that_ray_cannot_reach_and_that_is_gone_leaves_the_table(
    world: _World,
) -> None:
    await started(world.pool, [spec(0)])
    (actor,) = world.host.actors
    world.host.disconnect(actor)
    # Ray has started another process, which loads.
    actor.loaded = ""
    await until(lambda: not world.incarnations)
    await until(lambda: world.incarnations)


@with_world
async def test_an_instance_whose_node_stays_cut_off_is_replaced(world: _World) -> None:
    await started(world.pool, [spec(0)])
    (actor,) = world.host.actors
    actor.progress = None
    world.host.knocked = Knock.SILENT
    world.host.disconnect(actor)
    assert await until(lambda: world.host.killed == ["i0"]) >= 2 * TIMEOUT_S
    await until(lambda: world.incarnations == ["i1"])


@with_world
async def test_an_instance_that_dies_before_it_answers_anything_has_failed_to_load(
    world: _World,
) -> None:
    world.host.dies_silently = True
    world.host.cluster = ClusterResources((NodeResources("n", {"CPU": 2}, {"CPU": 2}),))
    with pytest.raises(InternalError, match="its process has died 3 times before it answered"):
        await started(world.pool, [spec(0)])
    assert len(world.host.killed) == 1


@with_world
async def test_of_a_process_that_ray_does_not_start_it_is_said_and_the_load_goes_on(
    world: _World,
) -> None:
    world.host.cluster = ClusterResources((NodeResources("n", {"CPU": 2}, {"CPU": 2}),))
    world.host.room = 0
    loading = asyncio.ensure_future(started(world.pool, [spec(0)]))
    waited_s = await until(lambda: "which Ray has not started" in world.pool.reason)
    assert 20 < waited_s < 40
    await asyncio.sleep(60)
    assert not loading.done()
    world.host.room = None
    world.host.give_room()
    await loading
    assert world.incarnations == ["i0"]
    assert not world.pool.reason


class _FullHost(FakeHost):
    """Has no room: nothing that is created ever answers."""

    asked = 0

    async def restarts(self, handle: FakeActor) -> int:
        self.asked += 1
        return 0


@with_world
async def test_instances_that_wait_for_long_are_asked_after_less_and_less(world: _World) -> None:
    world.host = host = _FullHost()
    host.dies_silently = True
    world.pool = InstancePool(world._changed, host, world.prober, anywhere())
    starting = asyncio.create_task(started(world.pool, [spec(index) for index in range(20)]))
    await asyncio.sleep(20)
    assert host.asked == 20 * 4
    await asyncio.sleep(580)
    assert host.asked <= 20 * 15
    starting.cancel()


@with_world
async def test_deaths_of_an_instances_earlier_life_are_not_counted(world: _World) -> None:
    await started(world.pool, [spec(0)])
    world.host.deaths = 100
    world.host.crash(world.host.actors[0])
    await until(lambda: world.incarnations == ["i1"])
    assert world.host.killed == []
