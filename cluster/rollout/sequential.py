# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A sequential comparison of two shares that may be looked at any time. Pure.

Theory of operation. Two arms answer requests, some of them badly. Asked is whether the candidate's
share of bad answers lies above the stable arm's by more than ``margin``.

- The signed root of the deviance, the log likelihood ratio between the shares as they are and the
  best pair that differs by exactly ``margin``, is near to normal also for rare answers.
- Evidence is the normal mixture of Robbins: the mean of the likelihood ratios over all drifts of
  one sign. It is 1 in the beginning, a fair bet on there being no difference never has more in the
  mean, and so it reaches 1/a with probability a at most, however often it is looked at.
- Answers are not independent: failures come in batches, pauses hit all requests of a moment. So
  counts are divided by the dispersion, which is measured: by how much more than independent answers
  the difference between the arms changes from block to block, in blocks of one period and of 2, 4,
  8 ... periods. What hits both arms at once is in no difference and costs nothing.

Robbins: Statistical methods related to the law of the iterated logarithm, 1970. Waudby-Smith et
al.: Time-uniform central limit theory and asymptotic confidence sequences, 2021.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# Numbers of effective samples for which the mixture is at its best; decisions about small
# differences take some hundreds to some ten thousand.
_SCALES: Final = (30.0, 300.0, 3000.0)
_BISECTIONS: Final = 32
_EDGE: Final = 1e-12
_LEAST_BLOCKS: Final = 4
# What is taken for granted of the dispersion before it is measured, and how many blocks' worth.
PRIOR_DISPERSION: Final = 1.5
_PRIOR_BLOCKS: Final = 4.0
_HALF: Final = 0.5


@dataclass(frozen=True, slots=True)
class Counts:
    """Answers of both arms in the same time.

    Attributes:
        candidate_bad: Bad ones of the candidate.
        candidate: All of the candidate.
        stable_bad: Bad ones of the stable arm.
        stable: All of the stable arm.
    """

    candidate_bad: int = 0
    candidate: int = 0
    stable_bad: int = 0
    stable: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.candidate_bad + other.candidate_bad,
            self.candidate + other.candidate,
            self.stable_bad + other.stable_bad,
            self.stable + other.stable,
        )

    @property
    def harmonic(self) -> float:
        """Size of a sample of one arm against a known share that would say as much."""
        total = self.candidate + self.stable
        return self.candidate * self.stable / total if total else 0.0

    @property
    def shares(self) -> tuple[float, float]:
        """Of the candidate and of the stable arm; 0.0 without answers."""
        return (
            self.candidate_bad / self.candidate if self.candidate else 0.0,
            self.stable_bad / self.stable if self.stable else 0.0,
        )


def merged(blocks: Sequence[Counts]) -> list[Counts]:
    """Return blocks of twice the length; a last one without a partner stays."""
    pairs = [first + second for first, second in zip(blocks[::2], blocks[1::2], strict=False)]
    return [*pairs, blocks[-1]] if len(blocks) % 2 else pairs


def total_of(blocks: Sequence[Counts]) -> Counts:
    """Return the sum of blocks."""
    return Counts(
        sum([block.candidate_bad for block in blocks]),
        sum([block.candidate for block in blocks]),
        sum([block.stable_bad for block in blocks]),
        sum([block.stable for block in blocks]),
    )


def _log_likelihood(bad: float, count: float, share: float) -> float:
    likelihood = 0.0
    if bad > 0:
        likelihood += bad * math.log(max(share, _EDGE))
    if count > bad:
        likelihood += (count - bad) * math.log(max(1.0 - share, _EDGE))
    return likelihood


def _boundary(counts: Counts, margin: float) -> float:
    """Return the stable share at which shares that differ by ``margin`` are likeliest."""
    candidate, stable = counts.shares
    most = 1.0 - margin
    # The likeliest lies between what each arm alone would have.
    low, high = sorted((stable, candidate - margin))
    low, high = max(low, _EDGE), min(max(high, _EDGE), most - _EDGE)
    low = min(low, high)
    stable_good = counts.stable - counts.stable_bad
    candidate_good = counts.candidate - counts.candidate_bad
    for _ in range(_BISECTIONS):
        share = (low + high) * _HALF
        slope = (
            counts.stable_bad / share
            - stable_good / (1.0 - share)
            + counts.candidate_bad / (share + margin)
            - candidate_good / max(1.0 - share - margin, _EDGE)
        )
        if slope > 0:
            low = share
        else:
            high = share
    return (low + high) * _HALF


def root_of_deviance(counts: Counts, margin: float) -> float:
    """Return how far the difference of the shares is from ``margin``, in standard deviations.

    Args:
        counts: Of independent answers.
        margin: From 0.0 to less than 1.0.

    Returns:
        Positive where the candidate's share lies above; 0.0 while an arm has no answers.
    """
    if not counts.candidate or not counts.stable:
        return 0.0
    candidate, stable = counts.shares
    at = _boundary(counts, margin)
    free = _log_likelihood(counts.candidate_bad, counts.candidate, candidate)
    free += _log_likelihood(counts.stable_bad, counts.stable, stable)
    bound = _log_likelihood(counts.candidate_bad, counts.candidate, at + margin)
    bound += _log_likelihood(counts.stable_bad, counts.stable, at)
    root = math.sqrt(max(0.0, 2.0 * (free - bound)))
    return root if candidate - stable > margin else -root


def log_evidence(root: float, information: float) -> float:
    """Return the logarithm of the evidence that a drift is positive.

    Args:
        root: How far it has led, in standard deviations; see `root_of_deviance`.
        information: The number of effective samples that did.
    """
    parts = []
    for scale in _SCALES:
        weight = information / (information + scale)
        z = root * math.sqrt(weight)
        # log(2 * Phi(z)), which erfc has without loss on the left.
        tail = math.erfc(-z / math.sqrt(2.0))
        left = math.log(tail) if tail > 0 else -z * z * _HALF - math.log(1.0 - z)
        parts.append(z * z * _HALF + left - math.log1p(information / scale) * _HALF)
    most = max(parts)
    return most + math.log(sum(math.exp(part - most) for part in parts) / len(parts))


def dispersion(blocks: Sequence[Counts], prior: float = PRIOR_DISPERSION) -> float:
    """Return by how much the variance of the arms' difference exceeds independent answers'.

    Args:
        blocks: In their order in time.
        prior: What it was before, which some blocks of evidence overrule.

    Returns:
        At least 1.0: the largest over all lengths of blocks of which there are enough.
    """
    total = total_of(blocks)
    both = total.candidate + total.stable
    if not both:
        return max(1.0, prior)
    candidate, stable = total.shares
    expected = (
        total.stable * candidate * (1.0 - candidate) + total.candidate * stable * (1.0 - stable)
    ) / both
    largest = 1.0
    while True:
        seen = [block for block in blocks if block.candidate and block.stable]
        enough = len(seen) >= _LEAST_BLOCKS and expected > 0.0
        excess = _scatter(seen) / expected if enough else 0.0
        freedom = len(seen) - 1.0 if enough else 0.0
        found = (excess + _PRIOR_BLOCKS * prior) / (freedom + _PRIOR_BLOCKS)
        largest = max(largest, found)
        if len(blocks) < 2 * _LEAST_BLOCKS:
            return largest
        blocks = merged(blocks)


def _scatter(blocks: Sequence[Counts]) -> float:
    weights = [block.harmonic for block in blocks]
    gaps = [candidate - stable for candidate, stable in (block.shares for block in blocks)]
    mean = sum(w * gap for w, gap in zip(weights, gaps, strict=True)) / sum(weights)
    return sum(w * (gap - mean) ** 2 for w, gap in zip(weights, gaps, strict=True))
