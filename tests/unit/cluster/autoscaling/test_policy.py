# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The policy over loads that step, burst, saw, swing with the day and stand still."""

import itertools
import math
import random

from hypothesis import given
from hypothesis import strategies as st

from backends.config.autoscaling import AutoscalingRules, Signal
from cluster.autoscaling.policy import LATENCY_WINDOW_S, LoadReading, begin, decide
from tests.unit.cluster.autoscaling.traces import requests, run

RULES = AutoscalingRules(max_instances=20, target=2.0)
QUICK = AutoscalingRules(max_instances=20, target=2.0, upscale_delay_s=0, downscale_delay_s=0)


def test_a_step_up_is_followed_in_one_change_after_the_delay() -> None:
    trace = run(RULES, requests(lambda _: 20), 120)
    assert trace.changes == [(31, 10)]


def test_a_step_down_is_followed_in_one_change_after_its_delay() -> None:
    trace = run(RULES, requests(lambda now_s: 20 if now_s < 100 else 2), 1000)
    assert [count for _, count in trace.changes] == [10, 1]
    when_s = trace.changes[1][0]
    assert 700 <= when_s <= 735


def test_without_delays_the_next_reading_decides() -> None:
    trace = run(QUICK, requests(lambda now_s: 20 if now_s == 1 else 4), 2)
    assert trace.counts == [10, 2]


def test_a_burst_shorter_than_the_delay_changes_nothing() -> None:
    trace = run(RULES, requests(lambda now_s: 100 if 50 <= now_s < 64 else 2), 300)
    assert trace.changes == []


def test_a_sawtooth_keeps_what_its_teeth_need() -> None:
    trace = run(RULES, requests(lambda now_s: now_s % 100 / 100 * 20), 5000)
    after = [change for change in trace.changes if change[0] > 700]
    assert after == []
    assert trace.count >= 6


def test_a_day_is_followed_up_and_down_once() -> None:
    # A day of four hours, as busy as that makes it.
    day_s = 14400
    rules = AutoscalingRules(max_instances=50, target=2.0)
    load = requests(lambda now_s: 40 * (1 - math.cos(2 * math.pi * now_s / day_s)))
    trace = run(rules, load, day_s)
    counts = [count for _, count in trace.changes]
    highest = counts.index(max(counts))
    assert max(counts) == 40
    assert counts[: highest + 1] == sorted(counts[: highest + 1])
    assert counts[highest:] == sorted(counts[highest:], reverse=True)
    assert trace.count <= 3


def test_noise_around_a_load_makes_no_flapping() -> None:
    rng = random.Random(7)
    trace = run(RULES, requests(lambda _: rng.gauss(19, 3)), 7200)
    directions = [after > before for (_, before), (_, after) in itertools.pairwise(trace.changes)]
    assert len(trace.changes) <= 4
    assert sum(a != b for a, b in itertools.pairwise(directions)) <= 1


def test_a_factor_takes_the_way_in_parts_and_arrives() -> None:
    rules = AutoscalingRules(20, target=2.0, upscaling_factor=0.5, upscale_delay_s=10)
    trace = run(rules, requests(lambda _: 20), 300)
    counts = [count for _, count in trace.changes]
    assert counts[0] == 6
    assert counts[-1] == 10
    assert counts == sorted(counts)


def test_nobody_asking_for_long_ends_the_last_instance_where_that_is_allowed() -> None:
    rules = AutoscalingRules(5, min_instances=0, scale_to_zero_after_s=60)
    assert run(rules, requests(lambda _: 0), 70).changes == [(60, 0)]
    kept = AutoscalingRules(5, min_instances=1, scale_to_zero_after_s=60)
    assert run(kept, requests(lambda _: 0), 70).changes == []


def test_short_requests_between_readings_keep_the_last_instance() -> None:
    rules = AutoscalingRules(5, min_instances=0, scale_to_zero_after_s=60)
    trace = run(rules, lambda now_s, _: LoadReading(0.0, is_used=now_s % 50 == 0), 3000)
    assert trace.changes == []


def test_a_version_without_instances_stays_so_until_it_is_woken() -> None:
    rules = AutoscalingRules(5, min_instances=0, scale_to_zero_after_s=60, target=2.0)
    state = run(rules, requests(lambda _: 0), 70).state
    state, decision = decide(rules, state, LoadReading(9.0), 71)
    assert (state.count, decision) == (0, None)
    assert begin(rules, 1, 72).count == 1


def test_other_bounds_apply_at_once() -> None:
    state = begin(RULES, 10, 0)
    state, decision = decide(AutoscalingRules(4), state, LoadReading(20.0), 1)
    assert decision is not None
    assert state.count == decision.count == 4


def test_a_queue_grows_the_pool_by_its_ratio_but_no_more_than_twofold() -> None:
    rules = AutoscalingRules(20, signal=Signal.QUEUE_US, target=1000, upscale_delay_s=10)
    trace = run(rules, lambda _, count: LoadReading(9, 100, measured_us=1e6 / count**3), 400)
    counts = [count for _, count in trace.changes]
    assert counts[0] == 2
    assert all(after <= 2 * before for before, after in itertools.pairwise([1, *counts]))
    assert 1e6 / trace.count**3 <= 1100


def test_a_load_that_stands_still_does_not_swing_between_too_few_and_too_many() -> None:
    rules = AutoscalingRules(
        20, signal=Signal.QUEUE_US, target=1000, upscale_delay_s=5, downscale_delay_s=20
    )

    def measure(_: float, count: int) -> LoadReading:
        # Three are overrun, four are idle.
        return LoadReading(8, 100, measured_us=50_000 if count < 4 else 0)

    trace = run(rules, measure, 5000)
    assert trace.count == 4
    assert trace.changes[-1][0] < 100


def test_a_count_that_was_too_few_is_gone_back_to_when_the_rate_is_lower() -> None:
    rules = AutoscalingRules(
        20, signal=Signal.QUEUE_US, target=1000, upscale_delay_s=5, downscale_delay_s=20
    )

    def measure(now_s: float, count: int) -> LoadReading:
        needed, rate = (4, 100) if now_s < 500 else (1, 20)
        return LoadReading(8, rate, measured_us=50_000 if count < needed else 0)

    trace = run(rules, measure, 1000)
    assert trace.counts[400:499] == [4] * 99
    assert trace.count == 1


def test_a_latency_is_not_looked_at_before_it_is_of_the_new_count() -> None:
    rules = AutoscalingRules(20, signal=Signal.LATENCY_P95_US, target=1000, upscale_delay_s=0)
    trace = run(rules, lambda *_: LoadReading(9, 100, measured_us=5000), 600, at_s=1000)
    times_s = [when_s for when_s, _ in trace.changes]
    assert len(times_s) == 5
    assert all(b - a >= LATENCY_WINDOW_S for a, b in itertools.pairwise([1000, *times_s]))


def test_nothing_is_decided_while_a_busy_version_has_no_measure() -> None:
    rules = AutoscalingRules(20, signal=Signal.QUEUE_US, target=1000, downscale_delay_s=0)
    assert run(rules, lambda *_: LoadReading(9, 100), 100, start=5).changes == []
    assert run(rules, lambda *_: LoadReading(0, 0), 100, start=5).count == 1


@st.composite
def some_rules(draw: st.DrawFn) -> AutoscalingRules:
    least = draw(st.integers(0, 5))
    return AutoscalingRules(
        max_instances=draw(st.integers(max(1, least), 40)),
        min_instances=least,
        signal=draw(st.sampled_from(Signal)),
        target=draw(st.floats(0.1, 1e6)),
        upscale_delay_s=draw(st.integers(0, 60)),
        downscale_delay_s=draw(st.integers(0, 120)),
        scale_to_zero_after_s=draw(st.integers(0, 120)),
        upscaling_factor=draw(st.floats(0.05, 1)),
        downscaling_factor=draw(st.floats(0.05, 1)),
    )


readings = st.builds(
    LoadReading,
    ongoing=st.one_of(st.just(0.0), st.floats(0, 1e6)),
    rate=st.floats(0, 1e6),
    is_used=st.booleans(),
    measured_us=st.none() | st.floats(0, 1e9),
)


@given(some_rules(), st.lists(readings, max_size=60), st.integers(1, 50))
def test_bounds_are_always_kept(
    rules: AutoscalingRules, given_readings: list[LoadReading], start: int
) -> None:
    state = begin(rules, start, 0)
    for second, reading in enumerate(given_readings):
        state, decision = decide(rules, state, reading, second)
        smallest = 0 if rules.min_instances == 0 else rules.min_instances
        assert smallest <= state.count <= rules.max_instances
        assert decision is None or decision.count == state.count


@given(some_rules(), st.lists(readings, max_size=200))
def test_a_turn_takes_at_least_its_delay(
    rules: AutoscalingRules, given_readings: list[LoadReading]
) -> None:
    state, changed_s = begin(rules, 3, 0), 0
    for second, reading in enumerate(given_readings, start=1):
        before = state.count
        state, decision = decide(rules, state, reading, second)
        if decision is not None and decision.count:
            is_up = decision.count > before
            delay_s = rules.upscale_delay_s if is_up else rules.downscale_delay_s
            assert second - changed_s >= min(delay_s, second - 1)
        if decision is not None:
            changed_s = second


@given(some_rules(), st.floats(0, 200), st.integers(1, 50))
def test_counts_settle_and_stay_while_the_load_stands_still(
    rules: AutoscalingRules, ongoing: float, start: int
) -> None:
    rules = AutoscalingRules(
        rules.max_instances,
        rules.min_instances,
        target=max(rules.target % 10, 0.1),
        upscale_delay_s=rules.upscale_delay_s % 10,
        downscale_delay_s=rules.downscale_delay_s % 20,
        upscaling_factor=rules.upscaling_factor,
        downscaling_factor=rules.downscaling_factor,
    )
    steps_s = int(max(rules.upscale_delay_s, rules.downscale_delay_s)) + 1
    settled_s = 45 * steps_s
    load = requests(lambda _: max(ongoing, 0.001))
    trace = run(rules, load, settled_s + 3 * steps_s, start)
    assert not [change for change in trace.changes if change[0] > settled_s]
    wanted = rules.within(math.ceil(max(ongoing, 0.001) / rules.target - 0.02))
    assert trace.count == wanted
    ups = [after > before for before, after in itertools.pairwise(trace.counts) if after != before]
    assert len(set(ups)) <= 1
