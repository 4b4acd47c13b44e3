# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np
import pytest

from cluster.rollout.analysis import (
    LEAST_PERIODS,
    MOST_BLOCKS,
    MetricTrial,
    Outcome,
    Trial,
    Verdict,
    begun,
    judge,
    next_step,
    observed,
    summed,
)
from cluster.rollout.readings import ArmReading, Threshold, above, threshold_of, worsened
from cluster.rollout.sequential import Counts, total_of
from deployments.metrics.distributions import class_of, value_of
from deployments.rollouts.spec import Analysis, Metric, MetricKind, Phase
from tests.support.examples import examples
from tests.support.rollout_world import SHAPES, Latencies, Version, run

ERRORS = Metric(MetricKind.ERRORS, 0.01)
P95 = Metric(MetricKind.P95, 0.1)
QUEUE = Metric(MetricKind.QUEUE, 0.5, floor_us=1000)
GOOD_COUNTER = Metric(MetricKind.CUSTOM, 0.01, family="confident", is_good=True)


def lead(analysis: Analysis, periods: int, stable: ArmReading, candidate: ArmReading) -> Trial:
    """Observe arms that count the same in each period."""
    trial = begun(analysis)
    for at in range(periods + 1):
        trial = observed(trial, analysis, times(stable, at), times(candidate, at))
    return trial


def times(reading: ArmReading, factor: int) -> ArmReading:
    return ArmReading(
        reading.requests * factor,
        reading.failures * factor,
        {at: count * factor for at, count in reading.latencies.items()},
        {at: count * factor for at, count in reading.queue.items()},
        {family: value * factor for family, value in reading.custom.items()},
    )


def outcome(analysis: Analysis, periods: int, stable: ArmReading, candidate: ArmReading) -> Outcome:
    return summed(judge(lead(analysis, periods, stable, candidate), analysis)).outcome


def test_failures_beyond_the_tolerance_are_bad_and_within_it_good() -> None:
    analysis = Analysis((ERRORS,))
    stable = ArmReading(1000, 2)
    assert outcome(analysis, 20, stable, ArmReading(200, 6)) is Outcome.BAD
    assert outcome(analysis, 20, stable, ArmReading(200, 0)) is Outcome.GOOD
    assert outcome(analysis, 20, stable, ArmReading(200, 2)) is Outcome.OPEN


def test_nothing_is_said_before_there_are_some_periods() -> None:
    analysis = Analysis((ERRORS,))
    stable, candidate = ArmReading(1000, 2), ArmReading(1000, 900)
    assert outcome(analysis, LEAST_PERIODS - 1, stable, candidate) is Outcome.OPEN
    assert outcome(analysis, LEAST_PERIODS, stable, candidate) is Outcome.BAD


def test_a_counter_of_the_models_own_can_count_what_is_good() -> None:
    analysis = Analysis((GOOD_COUNTER,))
    stable = ArmReading(1000, custom={"confident": 900.0})
    bad = ArmReading(300, custom={"confident": 200.0})
    good = ArmReading(300, custom={"confident": 280.0})
    assert outcome(analysis, 30, stable, bad) is Outcome.BAD
    assert outcome(analysis, 30, stable, good) is Outcome.GOOD


def test_one_bad_metric_is_enough_and_good_needs_all() -> None:
    good = Verdict(Outcome.GOOD, "good", 5)
    bad = Verdict(Outcome.BAD, "bad", 7)
    still = Verdict(Outcome.OPEN, "open", 9)
    assert summed({"a": good, "b": bad, "c": still}) == Verdict(Outcome.BAD, "bad", 5)
    assert summed({"a": good, "b": still}).outcome is Outcome.OPEN
    assert summed({"a": good, "b": good}).outcome is Outcome.GOOD
    assert summed({}).outcome is Outcome.GOOD


def test_a_period_in_which_counters_began_anew_is_left_out() -> None:
    analysis = Analysis((ERRORS,))
    trial = lead(analysis, 3, ArmReading(100, 1), ArmReading(100, 1))
    after = observed(trial, analysis, ArmReading(400, 4), ArmReading(5, 5))
    assert after.metrics == trial.metrics
    later = observed(after, analysis, ArmReading(500, 5), ArmReading(105, 6))
    assert total_of(later.metrics[0].blocks) == Counts(4, 400, 4, 400)


def test_a_class_of_times_that_vanished_has_begun_anew() -> None:
    assert ArmReading(9, 0, {5: 9}).since(ArmReading(8, 0, {4: 1})) is None
    assert ArmReading(9, 0, {4: 3}).since(ArmReading(8, 0, {4: 1})) == ArmReading(1, 0, {4: 2})


def test_blocks_are_bounded_and_lose_nothing() -> None:
    trial = MetricTrial()
    for at in range(1, 1000):
        trial = trial.with_block(Counts(at, 2 * at, 0, 1))
        assert len(trial.blocks) <= MOST_BLOCKS
        assert trial.periods == at
        assert total_of(trial.blocks) == Counts(at * (at + 1) // 2, at * (at + 1), 0, at)


def test_the_next_step_keeps_evidence_and_what_is_known_of_the_stable_version() -> None:
    analysis = Analysis((ERRORS, P95))
    latencies = {class_of(1000): 90, class_of(2000): 10}
    arm = ArmReading(100, 0, latencies)
    trial = next_step(lead(analysis, 20, arm, arm), analysis)
    assert trial.requests == 0
    assert all(not each.blocks and len(each.closed) == 1 for each in trial.metrics)
    assert trial.latencies
    assert not trial.queue


def test_evidence_of_earlier_steps_counts() -> None:
    analysis = Analysis((ERRORS,))
    stable, candidate = ArmReading(1000, 2), ArmReading(50, 0)
    trial = lead(analysis, 11, stable, candidate)
    assert judge(trial, analysis, 2)["errors"].outcome is Outcome.OPEN
    both = next_step(trial, analysis)
    for at in range(11, 22):
        both = observed(both, analysis, times(stable, at + 1), times(candidate, at + 1))
    alone = lead(analysis, 11, stable, candidate)
    assert judge(alone, analysis, 1)["errors"].outcome is Outcome.OPEN
    assert judge(both, analysis, 2)["errors"].outcome is Outcome.GOOD


def lognormal_classes(factor: float = 1.0, count: int = 20_000) -> dict[int, int]:
    values = np.random.default_rng(4).lognormal(np.log(20_000), 0.5, count) * factor
    classes: dict[int, int] = {}
    for value in values:
        at = class_of(int(value))
        classes[at] = classes.get(at, 0) + 1
    return classes


def test_a_candidate_slower_by_the_tolerance_has_the_same_share_beyond_the_threshold() -> None:
    stable = lognormal_classes()
    threshold = threshold_of(P95, {at: float(n) for at, n in stable.items()}, None)
    assert threshold is not None
    slow, count = above(stable, threshold.stable)
    assert 0.01 < slow / count <= 0.05
    shifted, _ = above(lognormal_classes(1.1), threshold.candidate)
    assert abs(shifted - slow) < 0.15 * slow


def test_a_quantile_between_two_humps_is_asked_for_in_the_slow_one() -> None:
    fast, slow = class_of(1000), class_of(50_000)
    past = {fast: 9500.0, slow - 5: 200.0, slow: 200.0, slow + 5: 100.0}
    threshold = threshold_of(P95, past, None)
    assert threshold is not None
    assert threshold.stable > fast


def test_times_that_are_all_alike_have_a_threshold_too() -> None:
    at = class_of(1000)
    threshold = threshold_of(P95, {at: 1000.0}, None)
    assert threshold == Threshold(at, worsened(P95, at), pytest.approx(0.025), pytest.approx(0.025))


def test_there_is_no_threshold_before_enough_is_known() -> None:
    assert threshold_of(P95, {}, None) is None
    assert threshold_of(P95, {class_of(1000): 150.0}, None) is None


def test_a_threshold_stays_while_it_is_near_the_quantile() -> None:
    past = {at: float(count) for at, count in lognormal_classes().items()}
    first = threshold_of(P95, past, None)
    assert first is not None
    assert threshold_of(P95, past, first) is first
    slower = {at: float(count) for at, count in lognormal_classes(3.0).items()}
    moved = threshold_of(P95, slower, first)
    assert moved is not None
    assert moved.stable > first.stable


def test_a_difference_below_the_floor_is_harmless() -> None:
    assert worsened(QUEUE, class_of(100)) == class_of(value_of(class_of(100)) + 1000)
    assert worsened(QUEUE, class_of(100_000)) >= class_of(148_000)


def test_a_queue_is_compared_like_a_latency() -> None:
    analysis = Analysis((replace(QUEUE, floor_us=0),))
    quiet = {class_of(at): 10 for at in range(200, 2200, 20)}
    stable = ArmReading(1000, 0, {}, quiet)
    late = ArmReading(1000, 0, {}, {class_of(value_of(at) * 3): n for at, n in quiet.items()})
    assert outcome(analysis, 40, stable, stable) is Outcome.GOOD
    assert outcome(analysis, 40, stable, late) is Outcome.BAD


CANDIDATES = {
    "good": (Version(), Phase.PROMOTED),
    "+20 % latency": (Version(slower=1.2), Phase.ROLLED_BACK),
    "2 % failures more": (Version(failures=0.02), Phase.ROLLED_BACK),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CANDIDATES)
@pytest.mark.parametrize("shape", SHAPES)
def test_canaries_under_lively_noise_end_as_they_should(shape: str, name: str) -> None:
    # A few of what scripts/simulate_rollouts.py does 200 times.
    candidate, wanted = CANDIDATES[name]
    latencies = Latencies(shape)
    for seed in range(max(1, examples(30) // 10)):
        state = run(latencies, candidate, seed, rate=200.0)
        assert state.phase is wanted, (seed, state.history[-1].reason)
