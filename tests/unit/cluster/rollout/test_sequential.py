# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.rollout.sequential import (
    Counts,
    dispersion,
    log_evidence,
    merged,
    root_of_deviance,
    total_of,
)
from tests.support.examples import examples

_arm = st.integers(1, 5000).flatmap(lambda count: st.tuples(st.integers(0, count), st.just(count)))
_counts = st.tuples(_arm, _arm).map(lambda arms: Counts(*arms[0], *arms[1]))


@settings(max_examples=examples(200), deadline=None)
@given(_counts, st.sampled_from([0.0, 0.001, 0.01, 0.2]))
def test_the_sign_says_on_which_side_of_the_margin_the_candidate_is(
    counts: Counts, margin: float
) -> None:
    root = root_of_deviance(counts, margin)
    candidate, stable = counts.shares
    assert math.isfinite(root)
    assert root <= 0 or candidate - stable > margin
    assert root >= 0 or candidate - stable <= margin


@settings(max_examples=examples(200), deadline=None)
@given(_counts, st.sampled_from([0.0, 0.01]))
def test_a_wider_margin_is_harder_to_be_beyond(counts: Counts, margin: float) -> None:
    assert root_of_deviance(counts, margin + 0.05) <= root_of_deviance(counts, margin) + 1e-3


def test_the_root_is_near_the_usual_score_where_both_are_good() -> None:
    counts = Counts(550, 10_000, 500, 10_000)
    pooled = 1050 / 20_000
    score = 0.005 / math.sqrt(pooled * (1 - pooled) * 2 / 10_000)
    assert root_of_deviance(counts, 0.0) == pytest.approx(score, rel=0.01)


def test_evidence_begins_at_one_and_grows_with_the_root() -> None:
    assert log_evidence(0.0, 0.0) == pytest.approx(0.0)
    found = [log_evidence(root, 500.0) for root in (-40.0, -3.0, 0.0, 3.0, 6.0, 40.0)]
    assert found == sorted(found)
    assert found[2] < 0 < found[4]


def test_evidence_is_a_fair_bet_without_a_difference() -> None:
    roots = np.random.default_rng(3).standard_normal(20_000)
    for information in (10.0, 1000.0):
        mean = np.mean([math.exp(log_evidence(root, information)) for root in roots])
        assert 0.7 < mean < 1.2


@pytest.mark.slow
def test_looking_again_and_again_reaches_the_bound_rarely() -> None:
    rng = np.random.default_rng(11)
    alarms, runs = 0, 1000
    bound = math.log(1 / 0.02)
    for _ in range(runs):
        bad = np.cumsum(rng.binomial(200, 0.03, (60, 2)), axis=0)
        looks = (
            Counts(int(c), 200 * (at + 1), int(s), 200 * (at + 1)) for at, (c, s) in enumerate(bad)
        )
        alarms += any(
            log_evidence(root_of_deviance(look, 0.0), look.harmonic) >= bound for look in looks
        )
    # A test at 2 % that is read sixty times as if it were the only time has some 20 %.
    assert alarms / runs <= 0.025


def test_independent_answers_have_hardly_any_dispersion() -> None:
    rng = np.random.default_rng(5)
    found = []
    for _ in range(50):
        bad = rng.binomial((100, 1000), 0.05, (60, 2))
        found.append(dispersion([Counts(int(c), 100, int(s), 1000) for c, s in bad]))
    assert np.median(found) < 1.7


def test_answers_that_fail_in_batches_are_counted_as_batches() -> None:
    rng = np.random.default_rng(5)
    bad = 10 * rng.poisson((1.0, 10.0), (60, 2))
    blocks = [Counts(int(c), 1000, int(s), 10_000) for c, s in bad]
    assert 6 < dispersion(blocks) < 20


def test_bursts_longer_than_a_block_show_in_longer_blocks() -> None:
    rng = np.random.default_rng(6)
    states = np.repeat(rng.choice([0.01, 0.09], (8, 2)), 8, axis=0)
    blocks = [
        Counts(int(rng.binomial(500, c)), 500, int(rng.binomial(500, s)), 500) for c, s in states
    ]
    assert dispersion(blocks) > 1.5 * dispersion([*blocks[:7]])


def test_what_hits_both_arms_is_no_dispersion() -> None:
    rng = np.random.default_rng(7)
    shares = rng.uniform(0.01, 0.2, 60)
    blocks = [
        Counts(int(rng.binomial(300, s)), 300, int(rng.binomial(3000, s)), 3000) for s in shares
    ]
    assert dispersion(blocks) < 2.5


def test_one_burst_of_one_arm_is_no_evidence() -> None:
    quiet = [Counts(0, 100, 2, 1000)] * 9
    blocks = [*quiet, Counts(80, 100, 2, 1000)]
    spread = dispersion(blocks)
    total = total_of(blocks)
    root = root_of_deviance(total, 0.01) / math.sqrt(spread)
    assert log_evidence(root, total.harmonic / spread) < math.log(200)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(_counts, min_size=1, max_size=20))
def test_merging_blocks_loses_nothing(blocks: list[Counts]) -> None:
    assert total_of(merged(blocks)) == total_of(blocks)
