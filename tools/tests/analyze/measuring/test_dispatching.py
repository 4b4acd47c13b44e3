# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Trials are shared among places that are free, and outlive a place that is lost."""

import asyncio

import pytest

from backends.api.errors import UnavailableError
from manta_tools.analyze.measuring.dispatching import PlaceLostError, Pool
from manta_tools.analyze.records import Candidate, Load, Measured, Setting, Trial


def trial(model, level=1.0):
    return Trial(Candidate((Setting(model),)), (Load(model, "concurrency", level),))


A, B, C = (trial(model) for model in "abc")


class Bench:
    """Places whose trials end when the test says so.

    Attributes:
        begun: Trials and where they were begun, in their order.
        closed: Names of places that were closed.
        said: Lines about places.
        outcomes: What came, and from where.
    """

    def __init__(self, *names):
        self.begun, self.closed, self.said, self.outcomes = [], [], [], []
        self.is_stopping = False
        self._ends = {}
        self.pool = Pool([Stand(name, self) for name in names], self.said.append)

    def start(self, *trials):
        """Begin to measure, and return the task."""
        return asyncio.create_task(
            self.pool.measure_all(
                trials,
                is_stopping=lambda: self.is_stopping,
                on_measured=lambda outcome, place: self.outcomes.append((outcome.trial, place)),
            )
        )

    async def has_begun(self, count):
        """Wait until so many trials were begun, and return them."""
        while len(self.begun) < count:  # noqa: ASYNC110 - of a task that has no event for it
            await asyncio.sleep(0)
        assert len(self.begun) == count
        return self.begun

    def ends(self, name, error=None):
        """End what a place measures: with an outcome, or with an error."""
        end = self._ends.pop(name)
        if error is None:
            end.set_result(None)
        else:
            end.set_exception(error)

    async def measure(self, name, wanted):
        self.begun.append((wanted, name))
        self._ends[name] = asyncio.get_running_loop().create_future()
        await self._ends[name]
        return Measured(wanted, {})


class Stand:
    """A place of a bench."""

    def __init__(self, name, bench):
        self.name, self._bench = name, bench
        self.idle_gpus = {f"GPU-{name}": {"gpu_power_usage": 10.0}}
        self.is_lost = False

    async def measure(self, wanted):
        return await self._bench.measure(self.name, wanted)

    async def default_config(self, model):
        if self.is_lost:
            raise PlaceLostError(f"node {self.name} has burnt down")
        return f"the config of {model}, from {self.name}"

    async def close(self):
        self._bench.closed.append(self.name)


async def test_trials_run_at_once_at_all_places_and_the_next_where_one_is_free():
    bench = Bench("x", "y")
    task = bench.start(A, B, C)
    assert await bench.has_begun(2) == [(A, "x"), (B, "y")]
    bench.ends("y")
    assert await bench.has_begun(3) == [(A, "x"), (B, "y"), (C, "y")]
    bench.ends("y")
    bench.ends("x")
    assert await task
    assert set(bench.outcomes) == {(A, "x"), (B, "y"), (C, "y")}


async def test_one_place_measures_in_the_order_that_was_asked_for():
    bench = Bench("x")
    task = bench.start(A, B, C)
    for count in (1, 2, 3):
        await bench.has_begun(count)
        bench.ends("x")
    assert await task
    assert bench.outcomes == [(A, "x"), (B, "x"), (C, "x")]


async def test_a_candidate_is_measured_where_it_is_loaded():
    bench = Bench("x", "y")
    first = bench.start(A, B)
    await bench.has_begun(2)
    for name in "xy":
        bench.ends(name)
    assert await first
    second = bench.start(trial("b", 2.0), trial("a", 2.0))
    assert (await bench.has_begun(4))[2:] == [(trial("b", 2.0), "y"), (trial("a", 2.0), "x")]
    for name in "xy":
        bench.ends(name)
    assert await second


async def test_a_place_whose_candidate_is_asked_for_is_left_to_it():
    bench = Bench("x", "y")
    first = bench.start(A, B)
    await bench.has_begun(2)
    for name in "xy":
        bench.ends(name)
    assert await first
    second = bench.start(C, trial("a", 2.0))
    assert set((await bench.has_begun(4))[2:]) == {(trial("a", 2.0), "x"), (C, "y")}
    for name in "xy":
        bench.ends(name)
    assert await second


async def test_a_node_that_dies_has_its_trial_measured_elsewhere():
    bench = Bench("x", "y")
    task = bench.start(A, B, C)
    await bench.has_begun(2)
    bench.ends("x", PlaceLostError("node x has burnt down"))
    bench.ends("y")
    assert (await bench.has_begun(3))[2] == (A, "y")
    bench.ends("y")
    await bench.has_begun(4)
    bench.ends("y")
    assert await task
    assert bench.outcomes == [(B, "y"), (A, "y"), (C, "y")]
    assert bench.said == ["note: node x has burnt down; 1 of 2 nodes are left"]


async def test_a_trial_that_costs_two_nodes_has_failed():
    bench = Bench("x", "y", "z")
    failed = []
    task = asyncio.create_task(
        bench.pool.measure_all(
            [A], is_stopping=bool, on_measured=lambda outcome, place: failed.append(outcome)
        )
    )
    await bench.has_begun(1)
    bench.ends("x", PlaceLostError("node x is out of memory"))
    await bench.has_begun(2)
    bench.ends("y", PlaceLostError("node y is out of memory"))
    assert await task
    assert [each.trial for each in failed] == [A]
    assert "2 nodes were lost" in failed[0].error
    assert "node y is out of memory" in failed[0].error


async def test_without_a_node_left_what_to_do_is_said():
    bench = Bench("x", "y")
    task = bench.start(A, B, C)
    await bench.has_begun(2)
    bench.ends("x", PlaceLostError("node x has burnt down"))
    bench.ends("y", PlaceLostError("node y is flooded"))
    with pytest.raises(
        UnavailableError, match=r"burnt down; .*flooded.*run the same command again"
    ):
        await task
    assert bench.outcomes == []


async def test_after_a_stop_what_runs_is_finished_and_nothing_is_begun():
    bench = Bench("x", "y")
    task = bench.start(A, B, C)
    await bench.has_begun(2)
    bench.is_stopping = True
    bench.ends("x")
    bench.ends("y", PlaceLostError("node y has burnt down"))
    assert not await task
    assert bench.outcomes == [(A, "x")]
    assert len(bench.begun) == 2


async def test_who_is_cancelled_leaves_no_trial_running():
    bench = Bench("x", "y")
    task = bench.start(A, B)
    await bench.has_begun(2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(asyncio.all_tasks()) == 1


async def test_an_error_that_is_no_loss_ends_the_analysis():
    bench = Bench("x")
    task = bench.start(A, B)
    await bench.has_begun(1)
    bench.ends("x", UnavailableError("the server does not start"))
    with pytest.raises(UnavailableError, match="the server does not start"):
        await task


async def test_a_config_comes_from_the_first_place_that_is_left():
    bench = Bench("x", "y")
    places = [Stand("x", bench), Stand("y", bench)]
    pool = Pool(places, bench.said.append)
    places[0].is_lost = True
    assert await pool.default_config("m") == "the config of m, from y"
    places[1].is_lost = True
    with pytest.raises(UnavailableError, match="none of 2 nodes is left"):
        await pool.default_config("m")


async def test_gpus_of_all_places_are_told_and_all_are_closed_in_the_end():
    bench = Bench("x", "y")
    assert list(bench.pool.idle_gpus) == ["GPU-x", "GPU-y"]
    assert bench.pool.width == 2
    await bench.pool.close()
    assert bench.closed == ["x", "y"]
