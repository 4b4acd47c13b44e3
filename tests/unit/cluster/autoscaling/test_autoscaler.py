# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Versions follow their load: pools change in place, and whatever else happens to the model."""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import InternalError
from cluster.autoscaling import autoscaler
from cluster.autoscaling.autoscaler import Autoscaler
from cluster.autoscaling.loads import SILENCE_S, LoadBoard, latency_p95_us, queue_us
from cluster.models.contracts import Candidate
from cluster.models.versions import RESIZE_DRAIN_S
from deployments.contracts.load_report import VersionLoad, encode_loads
from deployments.metrics.counters import Snapshot
from deployments.metrics.distributions import class_of
from deployments.supervision.supervisor import Supervisor
from tests.support import virtual_time
from tests.support.control_plane_fakes import LOAD_S, World, in_virtual_time, model, now
from tests.support.instruction_count import instructions

KEY = ("m", 1)
PERIOD_S = 1.0
QUICK = {"upscale_delay_s": "2", "downscale_delay_s": "10"}


def candidate(count: int = 1, stamp: str = "", **rules: str) -> Candidate:
    found = model("m", count=count, stamp=stamp)
    given = {"max_instances": "8", **QUICK, **rules}
    parameters = {f"autoscaling.{name}": value for name, value in given.items()}
    return dataclasses.replace(
        found, config=dataclasses.replace(found.config, parameters=parameters)
    )


class Scene:
    """A model that autoscales, and the load on it.

    Attributes:
        load: Requests under way, told every second.
        is_busy: Whether something else is done with the model, so that it cannot rest.
        rested: The versions that were, or should have been, let rest.
    """

    def __init__(self, served: Candidate) -> None:
        self.world = World(served)
        self.load = 0.0
        self.is_busy = False
        self.rested: list[tuple[str, int]] = []
        self._tasks = Supervisor("test")
        self.autoscaler = Autoscaler(
            self.world.lifecycle,
            self.world.counts,
            self._tasks.spawn,
            self._rest,
        )
        self._tasks.keep("autoscaling", self._look)
        self._tasks.keep("load", self._tell)

    def _rest(self, key: str, version: int) -> bool:
        self.rested.append((key, version))
        if self.is_busy:
            return False
        return self.world.lifecycle.dormancy.rest(key, version)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            await self.autoscaler.look_at_all()

    async def _tell(self) -> None:
        while True:
            loads = [VersionLoad("m", 1, self.load, self.load)]
            self.autoscaler.take("router", encode_loads(loads))
            await asyncio.sleep(PERIOD_S)

    @property
    def count(self) -> int:
        return len(self.world.endpoints("m"))

    @property
    def desired(self) -> int | None:
        return self.world.record("m").versions[1].desired_instances

    async def close(self) -> None:
        await self._tasks.close()


def with_scene(
    served: Candidate, *, is_loaded: bool = True
) -> Callable[[Callable[[Scene], Coroutine[object, object, None]]], Callable[[], None]]:
    def decorate(test: Callable[[Scene], Coroutine[object, object, None]]) -> Callable[[], None]:
        async def run() -> None:
            scene = Scene(served)
            if is_loaded:
                await scene.world.lifecycle.load("m")
            try:
                await test(scene)
            finally:
                await scene.close()

        return in_virtual_time(run)

    return decorate


@with_scene(candidate())
async def test_instances_follow_the_load_up_and_down(scene: Scene) -> None:
    assert (scene.count, scene.desired) == (1, None)
    scene.load = 12
    await asyncio.sleep(8)
    assert (scene.count, scene.desired) == (6, 6)
    scene.load = 2
    await asyncio.sleep(15)
    assert (scene.count, scene.desired) == (1, 1)
    record = scene.world.record("m").versions[1]
    assert len(record.leaving) == 5


@with_scene(candidate())
async def test_instances_that_are_too_many_may_finish_what_they_have_begun(scene: Scene) -> None:
    scene.load = 12
    await asyncio.sleep(5)
    scene.load = 2
    await asyncio.sleep(15)
    assert not [line for line in scene.world.host.log if line.startswith("end")]
    await asyncio.sleep(RESIZE_DRAIN_S)
    assert len([line for line in scene.world.host.log if line.startswith("end")]) == 5


@with_scene(candidate(count=3, min_instances="2"))
async def test_a_version_begins_with_what_its_groups_say_and_stays_in_its_bounds(
    scene: Scene,
) -> None:
    assert scene.count == 3
    await asyncio.sleep(30)
    assert scene.count == 2
    scene.load = 1000
    await asyncio.sleep(10)
    assert scene.count == 8


@with_scene(candidate())
async def test_an_instance_that_does_not_load_leaves_what_serves_and_is_tried_again(
    scene: Scene,
) -> None:
    scene.world.host.fail["m/1#1"] = [InternalError("no memory")]
    scene.load = 4
    await asyncio.sleep(6)
    assert (scene.count, scene.desired) == (1, 2)
    await asyncio.sleep(10)
    assert scene.count == 2


@with_scene(candidate())
async def test_what_never_loads_is_tried_less_and_less_often(scene: Scene) -> None:
    for index in range(100):
        scene.world.host.fail[f"m/1#{index}"] = [InternalError("no memory")]
    scene.load = 4
    await asyncio.sleep(600)
    assert 8 < len([line for line in scene.world.host.log if line.startswith("start")]) < 20
    assert scene.count == 1


@with_scene(candidate())
async def test_a_reload_makes_as_many_instances_as_there_were(scene: Scene) -> None:
    scene.load = 12
    await asyncio.sleep(5)
    scene.world.candidates["m"] = candidate(stamp="new")
    await scene.world.lifecycle.load("m")
    assert {name.rpartition("@")[2] for name in scene.world.endpoints("m")} == {"2"}
    assert scene.count == 6


@with_scene(candidate())
async def test_a_reload_with_other_bounds_keeps_the_count_within_them(scene: Scene) -> None:
    scene.load = 12
    await asyncio.sleep(5)
    scene.world.candidates["m"] = candidate(stamp="new", max_instances="3")
    await scene.world.lifecycle.load("m")
    assert scene.count == 3
    await asyncio.sleep(5)
    assert (scene.count, scene.desired) == (3, 3)


@with_scene(candidate())
async def test_other_instance_groups_keep_the_count(scene: Scene) -> None:
    scene.load = 12
    await asyncio.sleep(5)
    config = scene.world.candidates["m"].config
    groups = tuple(dataclasses.replace(group, count=2) for group in config.instance_group)
    changed = dataclasses.replace(config, instance_group=groups)
    scene.world.candidates["m"] = dataclasses.replace(scene.world.candidates["m"], config=changed)
    await scene.world.lifecycle.load("m")
    await asyncio.sleep(5)
    assert scene.count == 6


@with_scene(candidate())
async def test_a_model_that_autoscales_no_more_has_what_its_groups_say(scene: Scene) -> None:
    scene.load = 12
    await asyncio.sleep(5)
    scene.world.candidates["m"] = model("m", count=2, stamp="new")
    await scene.world.lifecycle.load("m")
    await asyncio.sleep(5)
    assert (scene.count, scene.desired) == (2, None)


@with_scene(candidate())
async def test_an_unload_ends_a_change_under_way_and_the_count_is_forgotten(scene: Scene) -> None:
    scene.load = 12
    await asyncio.sleep(3.5)
    began = now()
    await scene.world.lifecycle.unload("m")
    assert now() - began < 3
    scene.load = 0
    await asyncio.sleep(5)
    assert scene.count == 0
    await scene.world.lifecycle.load("m")
    assert scene.count == 1


@with_scene(candidate())
async def test_a_poll_that_finds_nothing_new_leaves_a_change_alone(scene: Scene) -> None:
    scene.load = 12
    # Between the looks: one that meets a poll waits for the next.
    await asyncio.sleep(LOAD_S / 8)
    for _ in range(28):
        await asyncio.sleep(LOAD_S / 4)
        await scene.world.lifecycle.load("m", is_poll=True)
    assert scene.count == 6
    started = [line for line in scene.world.host.log if line.startswith("start")]
    assert len(started) == 6


@with_scene(candidate())
async def test_a_load_that_comes_during_a_change_is_not_kept_waiting_by_it(scene: Scene) -> None:
    scene.load = 12
    await asyncio.sleep(3.5)
    began = now()
    await scene.world.lifecycle.load("m")
    assert now() - began < LOAD_S / 2
    await asyncio.sleep(10)
    assert scene.count == 6


@with_scene(candidate(min_instances="0", scale_to_zero_after_s="20"))
async def test_a_version_nobody_asks_for_rests_and_scales_again_when_it_was_woken(
    scene: Scene,
) -> None:
    await asyncio.sleep(19)
    assert scene.rested == []
    await asyncio.sleep(10)
    assert scene.rested == [KEY]
    assert scene.desired == 0
    await asyncio.sleep(10)
    assert scene.rested == [KEY]
    await scene.world.lifecycle.dormancy.wake(*KEY)
    await asyncio.sleep(2)
    assert scene.desired == 1
    scene.load = 12
    await asyncio.sleep(5)
    assert scene.count == 6


@with_scene(candidate(min_instances="0", scale_to_zero_after_s="20"))
async def test_a_version_that_cannot_rest_now_is_asked_again_unless_it_is_used(
    scene: Scene,
) -> None:
    scene.is_busy = True
    await asyncio.sleep(25)
    assert len(scene.rested) > 2
    scene.load = 1
    await asyncio.sleep(2)
    assert scene.desired == 1
    count = len(scene.rested)
    await asyncio.sleep(30)
    assert len(scene.rested) == count


@with_scene(candidate(target_queue_us="1000"))
async def test_a_queue_that_is_too_long_brings_more_instances(scene: Scene) -> None:
    (actor,) = scene.world.host.alive
    scene.load = 1
    for second in range(8):
        count = 100 * second
        actor.counted = Snapshot(success_count=count, queue_ns=count * 5_000_000)
        await asyncio.sleep(1)
    assert scene.count == 2


def test_a_router_that_falls_silent_has_no_load_any_more() -> None:
    board = LoadBoard()
    board.take("a", encode_loads([VersionLoad("m", 1, 3.0, 30.0)]), 0)
    board.take("b", encode_loads([VersionLoad("m", 1, 4.0, 40.0)]), 5)
    reading = board.read(KEY, 6)
    assert (reading.ongoing, reading.rate, reading.is_used) == (7.0, 70.0, True)
    reading = board.read(KEY, SILENCE_S + 1)
    assert (reading.ongoing, reading.is_used) == (4.0, False)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.dictionaries(st.sampled_from("mn"), st.floats(0, 1e6), max_size=2),
        ),
        max_size=12,
    )
)
def test_the_load_is_what_each_router_has_told_last(
    reports: list[tuple[str, dict[str, float]]],
) -> None:
    board, last = LoadBoard(), dict[str, dict[str, float]]()
    for router, loads in reports:
        told = [VersionLoad(name, 1, ongoing, ongoing) for name, ongoing in loads.items()]
        board.take(router, encode_loads(told), 0)
        last[router] = loads
    for name in "mn":
        expected = sum(loads.get(name, 0.0) for loads in last.values())
        assert board.read((name, 1), 0).ongoing == pytest.approx(expected, abs=1e-5)


def test_a_reading_costs_as_much_of_many_routers_as_of_few() -> None:
    costs = []
    for count in (10, 100):
        board = LoadBoard()
        for router in range(count):
            board.take(str(router), encode_loads([VersionLoad("m", 1, 1.0, 1.0)]), 0)
        costs.append(instructions(lambda board=board: board.read(KEY, 1)))
        assert board.read(KEY, 1).ongoing == count
    assert costs[0] == costs[1]


def test_of_many_versions_some_are_looked_at_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autoscaler, "_MOST_AT_ONCE", 2)

    async def main() -> None:
        scene = Scene(candidate())
        await scene.world.lifecycle.load("m")
        record = scene.world.record("m")
        for name in "abcd":
            scene.world.lifecycle.records[name] = dataclasses.replace(record, name=name)
        assert len(list(scene.autoscaler.look())) == 2
        await scene.close()

    virtual_time.run(main())


def test_a_report_that_cannot_be_read_is_left_out() -> None:
    board = LoadBoard()
    board.take("a", b"\xc1", 0)
    assert board.read(KEY, 0).ongoing == 0


def test_a_version_that_is_gone_is_forgotten() -> None:
    board = LoadBoard()
    board.take("a", encode_loads([VersionLoad("m", 1, 3.0, 30.0)]), 0)
    board.keep_only([("n", 1)])
    reading = board.read(KEY, 0)
    assert (reading.ongoing, reading.is_used) == (0, False)


def test_the_queue_is_that_of_requests_answered_since_the_last_question() -> None:
    before = {"a": Snapshot(success_count=10, queue_ns=10_000_000)}
    after = {
        "a": Snapshot(success_count=12, queue_ns=14_000_000),
        "b": Snapshot(success_count=2, queue_ns=12_000_000),
    }
    assert queue_us(before, after) == 4000.0
    assert queue_us(after, after) is None


def test_an_instance_whose_process_is_new_counts_from_nothing() -> None:
    before = {"a": Snapshot(success_count=10, queue_ns=10_000_000)}
    assert queue_us(before, {"a": Snapshot(success_count=1, queue_ns=3_000)}) == 3.0


def test_the_latency_is_that_of_all_instances_together() -> None:
    slow, quick = {class_of(9000): 1}, {class_of(100): 3}
    counted = [Snapshot(latencies=[slow, {}]), Snapshot(latencies=[quick, {}])]
    assert latency_p95_us(counted) == pytest.approx(9000, rel=0.02)
    assert latency_p95_us([Snapshot()]) is None
    assert latency_p95_us([Snapshot(latencies=[{}, {}])]) is None
