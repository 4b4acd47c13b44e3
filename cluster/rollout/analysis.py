# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a candidate is worse than the stable arm, as good, or not known to be either yet. Pure.

Theory of operation. Each period the counters of both arms are read, and what each metric counts of
the period becomes a block of four numbers. Two questions are asked of the blocks, by the sequential
test of `cluster.rollout.sequential`: is the candidate worse by more than the tolerance, and is it
better than that. Answers of different steps are not added up, since their loads differ: each step
is a test of its own, and evidences are multiplied. As a candidate may become bad only under more
load, the evidence is the mean over all steps in which that may have begun.

A candidate is bad once one metric says so, for which the chance of an error is divided by the
number of metrics. It is good once all say so, which needs no dividing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from cluster.rollout.readings import QUANTILES, ArmReading, Threshold, above, bad_of, threshold_of
from cluster.rollout.sequential import (
    PRIOR_DISPERSION,
    Counts,
    dispersion,
    log_evidence,
    merged,
    root_of_deviance,
    total_of,
)
from deployments.rollouts.spec import Analysis, Metric, MetricKind

# Blocks of a step that are kept; with more, two become one.
MOST_BLOCKS: Final = 64
# Periods before anything is said: a burst shows as one only beside quieter periods.
LEAST_PERIODS: Final = 5
# What is left of the stable arm's past after a period: it is some thirty periods long.
_MEMORY: Final = 0.97
_FORGOTTEN: Final = 0.01
# When time is up nobody looks again, so that a test made once is enough: one in a hundred.
_LAST_LOOK: Final = 2.33


class Outcome(StrEnum):
    """What is known of a candidate."""

    OPEN = "open"
    BAD = "bad"
    GOOD = "good"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one metric says, or all together.

    Attributes:
        outcome: What is known.
        reason: A sentence with the numbers.
        samples: Answers of the candidate in this step that were compared.
    """

    outcome: Outcome
    reason: str
    samples: int = 0


@dataclass(frozen=True, slots=True)
class MetricTrial:
    """What one metric has counted.

    Attributes:
        closed: Logarithms of the evidences for bad and for good, of the steps that are over.
        blocks: Of this step.
        periods_per_block: All but the last block hold so many periods.
        periods_in_last: How many the last one holds.
        dispersion: Of the step before.
        threshold: Where times are compared; None for shares, and until enough is known.
    """

    closed: tuple[tuple[float, float], ...] = ()
    blocks: tuple[Counts, ...] = ()
    periods_per_block: int = 1
    periods_in_last: int = 0
    dispersion: float = PRIOR_DISPERSION
    threshold: Threshold | None = None

    @property
    def periods(self) -> int:
        """How many periods of this step have been counted."""
        full = max(0, len(self.blocks) - 1) * self.periods_per_block
        return full + self.periods_in_last

    def with_block(self, counts: Counts) -> "MetricTrial":
        """Return the trial with the counts of one more period."""
        blocks, per_block, last = self.blocks, self.periods_per_block, self.periods_in_last
        if blocks and last < per_block:
            return replace(
                self, blocks=(*blocks[:-1], blocks[-1] + counts), periods_in_last=last + 1
            )
        if len(blocks) >= MOST_BLOCKS:
            # An even number of full blocks.
            blocks, per_block = tuple(merged(blocks)), per_block * 2
        return replace(
            self, blocks=(*blocks, counts), periods_per_block=per_block, periods_in_last=1
        )


@dataclass(frozen=True, slots=True)
class Trial:
    """What an analysis has counted, by metric.

    Attributes:
        metrics: In the order of `Analysis.metrics`.
        requests: Requests that the candidate has answered in this step.
        latencies: Of the stable arm's past: by class, fading; empty where no metric needs them.
        queue: The same of its times in the queue.
        last: Counters of stable arm and candidate at the end of the last period; None where the
            next reading only begins a period, as after a restart.
    """

    metrics: tuple[MetricTrial, ...]
    requests: int = 0
    latencies: Mapping[int, float] = field(default_factory=dict)
    queue: Mapping[int, float] = field(default_factory=dict)
    last: tuple[ArmReading, ArmReading] | None = None


def begun(analysis: Analysis) -> Trial:
    """Return a trial that has counted nothing."""
    return Trial(tuple(MetricTrial() for _ in analysis.metrics))


def observed(trial: Trial, analysis: Analysis, stable: ArmReading, candidate: ArmReading) -> Trial:
    """Return the trial after a period.

    A period in which an instance's counters began anew is left out.
    """
    if trial.last is None:
        return replace(trial, last=(stable, candidate))
    stable_part, candidate_part = stable.since(trial.last[0]), candidate.since(trial.last[1])
    if stable_part is None or candidate_part is None:
        return replace(trial, last=(stable, candidate))
    metrics = tuple(
        _counted(metric, each, trial, stable_part, candidate_part)
        for metric, each in zip(analysis.metrics, trial.metrics, strict=True)
    )
    kinds = {metric.kind for metric in analysis.metrics}
    has_latencies = not kinds.isdisjoint(QUANTILES.keys() - {MetricKind.QUEUE})
    return Trial(
        metrics,
        trial.requests + candidate_part.requests,
        _past(trial.latencies, stable_part.latencies) if has_latencies else {},
        _past(trial.queue, stable_part.queue) if MetricKind.QUEUE in kinds else {},
        (stable, candidate),
    )


def _counted(
    metric: Metric, counted: MetricTrial, trial: Trial, stable: ArmReading, candidate: ArmReading
) -> MetricTrial:
    if metric.kind not in QUANTILES:
        bad, count = bad_of(metric, candidate)
        return counted.with_block(Counts(bad, count, *bad_of(metric, stable)))
    # The threshold comes from earlier periods only: else it would follow what it is to judge.
    past = trial.queue if metric.kind is MetricKind.QUEUE else trial.latencies
    threshold = threshold_of(metric, past, counted.threshold)
    counted = replace(counted, threshold=threshold)
    if threshold is None:
        return counted
    slow, count = above(candidate.classes_of(metric), threshold.candidate)
    stable_counts = above(stable.classes_of(metric), threshold.stable)
    return counted.with_block(Counts(slow, count, *stable_counts))


def _past(past: Mapping[int, float], part: Mapping[int, int]) -> dict[int, float]:
    fading = {at: round(count * _MEMORY, 4) for at, count in past.items() if count > _FORGOTTEN}
    for at, count in part.items():
        fading[at] = fading.get(at, 0.0) + count
    return fading


def _margins(metric: Metric, trial: MetricTrial) -> tuple[float, float]:
    if trial.threshold is not None:
        return trial.threshold.bad_margin, trial.threshold.good_margin
    return metric.tolerance, metric.tolerance


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What the blocks of a step say.

    Attributes:
        bad: Logarithm of the evidence that the candidate is worse.
        good: Of that it is within tolerance.
        spread: The dispersion of the answers.
        better: By how many standard deviations the candidate is within tolerance.
    """

    bad: float
    good: float
    spread: float
    better: float


def _evidence(metric: Metric, trial: MetricTrial) -> _Evidence:
    spread = dispersion(trial.blocks, trial.dispersion)
    counts = total_of(trial.blocks)
    information = counts.harmonic / spread
    bad_margin, good_margin = _margins(metric, trial)
    scale = math.sqrt(spread)
    worse = root_of_deviance(counts, bad_margin) / scale
    better = -worse
    if good_margin != bad_margin:
        better = -root_of_deviance(counts, good_margin) / scale
    bad, good = (log_evidence(root, information) for root in (worse, better))
    return _Evidence(bad, good, spread, better)


def next_step(trial: Trial, analysis: Analysis) -> Trial:
    """Return the trial as the next step begins: the step that is over keeps its evidence."""
    metrics = []
    for metric, each in zip(analysis.metrics, trial.metrics, strict=True):
        found = _evidence(metric, each)
        metrics.append(
            MetricTrial(
                closed=(*each.closed, (found.bad, found.good)),
                # Of what was measured, less than all of it: another load, another dispersion.
                dispersion=math.sqrt(found.spread * PRIOR_DISPERSION),
            )
        )
    return replace(trial, metrics=tuple(metrics), requests=0)


def _over_steps(closed: list[float], now: float, steps: int) -> float:
    """Return the mean evidence over the steps in which something may have begun, as a logarithm.

    Steps to come count as 1, so that the mean is a fair bet from the beginning.
    """
    running, sums = now, [now]
    for each in reversed(closed):
        running += each
        sums.append(running)
    sums += [0.0] * (steps - len(sums))
    most = max(sums)
    return most + math.log(sum(math.exp(each - most) for each in sums) / len(sums))


def judged(
    metric: Metric,
    trial: MetricTrial,
    analysis: Analysis,
    steps: int = 1,
    *,
    is_last_look: bool = False,
) -> Verdict:
    """Return what one metric says.

    Args:
        metric: Which.
        trial: What it has counted.
        analysis: Of the rollout.
        steps: How many steps the rollout has.
        is_last_look: Whether time is up, so that nobody looks again.
    """
    counts = total_of(trial.blocks)
    if metric.kind in QUANTILES and trial.threshold is None and not trial.closed:
        return Verdict(Outcome.OPEN, f"{metric.label}: too few answers of the stable version")
    found = _evidence(metric, trial)
    bad = _over_steps([each[0] for each in trial.closed], found.bad, steps)
    good = _over_steps([each[1] for each in trial.closed], found.good, steps)
    outcome = Outcome.OPEN
    if trial.periods >= LEAST_PERIODS:
        if bad >= math.log(len(analysis.metrics) / analysis.error_rate):
            outcome = Outcome.BAD
        elif good >= -math.log(analysis.error_rate) or (
            is_last_look and found.better >= _LAST_LOOK
        ):
            outcome = Outcome.GOOD
    reason = _sentence(metric, counts, outcome, max(bad, good))
    if found.spread > 2 * PRIOR_DISPERSION:
        reason += f"; they come in bursts, and count as {1 / found.spread:.0%} of them"
    return Verdict(outcome, reason, counts.candidate)


_WORDS: Final = {
    Outcome.BAD: "worse",
    Outcome.GOOD: "within tolerance",
    Outcome.OPEN: "not decided yet",
}


def _sentence(metric: Metric, counts: Counts, outcome: Outcome, evidence: float) -> str:
    candidate, stable = counts.shares
    what = "failed"
    if metric.kind is MetricKind.CUSTOM:
        what = "were not counted" if metric.is_good else "were counted"
    if metric.kind in QUANTILES:
        what = f"are slower than the stable version's {metric.label} and {metric.tolerance:.0%}"
    else:
        what += f", tolerated is a difference of {metric.tolerance:.2%}"
    text = (
        f"{metric.label}: {_WORDS[outcome]}: {candidate:.2%} of {counts.candidate} answers {what}; "
        f"of the stable version {stable:.2%} of {counts.stable}"
    )
    if outcome is Outcome.OPEN:
        return text
    if evidence < 1.0:
        return f"{text}; by a test made once, as time is up"
    return f"{text}; odds against chance 1:{min(math.exp(min(evidence, 30.0)), 1e9):.3g}"


def summed(verdicts: Mapping[str, Verdict]) -> Verdict:
    """Return what all metrics say together: bad if one is bad, good if all are good."""
    values = verdicts.values()
    samples = min((each.samples for each in values), default=0)
    bad = [each.reason for each in values if each.outcome is Outcome.BAD]
    if bad:
        return Verdict(Outcome.BAD, "; ".join(bad), samples)
    still_open = [each.reason for each in values if each.outcome is Outcome.OPEN]
    if still_open:
        return Verdict(Outcome.OPEN, "; ".join(still_open), samples)
    return Verdict(Outcome.GOOD, "; ".join(each.reason for each in values), samples)


def judge(
    trial: Trial, analysis: Analysis, steps: int = 1, *, is_last_look: bool = False
) -> dict[str, Verdict]:
    """Return what each metric says, by its label; see `judged`."""
    return {
        metric.label: judged(metric, each, analysis, steps, is_last_look=is_last_look)
        for metric, each in zip(analysis.metrics, trial.metrics, strict=True)
    }
