# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A world in which canaries are tried: two versions, their load and their noise, in virtual time.

A period's latencies are drawn as counts of classes at once, so that an hour at a thousand requests
a second takes a moment.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from cluster.rollout.readings import ArmReading
from cluster.rollout.state import State, created
from cluster.rollout.steps import Observations, advanced
from deployments.metrics.distributions import class_of
from deployments.rollouts.spec import Analysis, Arm, Kind, Phase, Rollout, Step

Floats = npt.NDArray[np.float64]

_CLASSES = 1600
_DRAWS = 400_000


def lognormal(rng: np.random.Generator) -> Floats:
    """A median of 20 ms, the 95th percentile at 2.3 times of it."""
    return rng.lognormal(np.log(20_000), 0.5, _DRAWS)


def bimodal(rng: np.random.Generator) -> Floats:
    """Nine of ten answers take 5 ms, as from a cache, and the others 60 ms."""
    fast = rng.lognormal(np.log(5_000), 0.25, _DRAWS)
    slow = rng.lognormal(np.log(60_000), 0.3, _DRAWS)
    return np.where(rng.random(_DRAWS) < 0.9, fast, slow)


def heavy(rng: np.random.Generator) -> Floats:
    """A Pareto tail without a variance: the 99th percentile at 22 times the least."""
    return 8_000 * (1 + rng.pareto(1.5, _DRAWS))


SHAPES: dict[str, Callable[[np.random.Generator], Floats]] = {
    "lognormal": lognormal,
    "bimodal": bimodal,
    "heavy tail": heavy,
}


class Latencies:
    """Shares of the classes of a shape, for factors by which all times are longer."""

    def __init__(self, shape: str) -> None:
        values = SHAPES[shape](np.random.default_rng(7))
        classes = [class_of(int(value)) for value in np.quantile(values, np.linspace(0, 1, 20_001))]
        shares = np.bincount(classes, minlength=_CLASSES)[:_CLASSES].astype(float)
        self._shares = shares / shares.sum()

    def draw(self, rng: np.random.Generator, count: int, factor: float) -> Floats:
        """Return counts by class of so many times, each longer by the factor."""
        counts = rng.multinomial(count, self._shares)
        # A class is 1 % wide.
        moved = round(np.log(factor) / np.log(1.01))
        return np.roll(counts, moved).astype(float)


@dataclass(frozen=True)
class Noise:
    """What happens to good versions too.

    Attributes:
        shared: Standard deviation of a slow wave of both versions' latencies, as of load.
        own: The same of each version alone.
        memory: How much of a period's wave is left in the next.
        pauses: Part of the periods in which a version has a pause; that is how garbage collectors
            and noisy neighbours show.
        batch: Failures come so many at once.
        failures: Share of failures of both versions.
    """

    shared: float = 0.0
    own: float = 0.0
    memory: float = 0.0
    pauses: float = 0.0
    batch: int = 1
    failures: float = 0.001


QUIET = Noise()
LIVELY = Noise(shared=0.15, own=0.02, memory=0.8, pauses=0.03, batch=8, failures=0.002)


@dataclass
class Version:
    """Counters of a version, and what is wrong with it.

    Attributes:
        slower: Factor of all latencies.
        stalls: Share of answers that take five times as long.
        failures: Share of failures beside those of both versions.
    """

    slower: float = 1.0
    stalls: float = 0.0
    failures: float = 0.0
    wave: float = 0.0
    requests: int = 0
    failed: int = 0
    counts: Floats = field(default_factory=lambda: np.zeros(_CLASSES))

    def serve(
        self,
        rng: np.random.Generator,
        latencies: Latencies,
        noise: Noise,
        count: int,
        shared: float,
    ) -> None:
        """Serve so many requests of a period."""
        innovation = noise.own * np.sqrt(1 - noise.memory**2)
        self.wave = noise.memory * self.wave + innovation * rng.standard_normal()
        share = noise.failures + self.failures
        failed = min(count, noise.batch * int(rng.poisson(count * share / noise.batch)))
        self.requests += count
        self.failed += failed
        factor = self.slower * np.exp(shared + self.wave)
        succeeded = count - failed
        hit = 0
        if noise.pauses and rng.random() < noise.pauses:
            hit = int(succeeded * rng.uniform(0.05, 0.3))
            self.counts += latencies.draw(rng, hit, factor * 3.0)
        stalled = int(rng.binomial(succeeded - hit, self.stalls))
        self.counts += latencies.draw(rng, stalled, factor * 5.0)
        self.counts += latencies.draw(rng, succeeded - hit - stalled, factor)

    def reading(self) -> ArmReading:
        """Return the counters as an instance tells them."""
        found = np.flatnonzero(self.counts)
        classes = {int(at): int(self.counts[at]) for at in found}
        return ArmReading(self.requests, self.failed, classes)


STEPS = (Step(500, 120.0, 200), Step(2000, 120.0, 500), Step(5000, 120.0, 1000))


def canary() -> Rollout:
    """Return a canary of version 2 beside version 1."""
    arms = (Arm("stable", 1, 10_000), Arm("canary", 2, 0))
    return Rollout(Kind.CANARY, arms, steps=STEPS, analysis=Analysis())


def run(
    latencies: Latencies,
    candidate: Version,
    seed: int,
    *,
    rate: float,
    noise: Noise = LIVELY,
    rollout: Rollout | None = None,
) -> State:
    """Lead a canary to its end, and return it.

    Args:
        latencies: Of both versions.
        candidate: What is wrong with the canary.
        seed: Of all chance.
        rate: Requests a second, of both together.
        noise: Of both versions.
        rollout: A canary of the default steps where it is None.
    """
    rng = np.random.default_rng(seed)
    stable, candidate = Version(), replace(candidate, counts=np.zeros(_CLASSES))
    state = created(rollout or canary(), f"seed {seed}", 0.0)
    period_s, now_s, shared = state.analysis.period_s, 0.0, 0.0
    while not state.phase.is_terminal and state.phase is not Phase.PAUSED:
        now_s += period_s
        innovation = noise.shared * np.sqrt(1 - noise.memory**2)
        shared = noise.memory * shared + innovation * rng.standard_normal()
        total = int(rng.poisson(rate * period_s * np.exp(shared)))
        theirs = total * state.weights[1] // 10_000
        stable.serve(rng, latencies, noise, total - theirs, shared)
        candidate.serve(rng, latencies, noise, theirs, shared)
        seen = Observations(frozenset((1, 2)), stable.reading(), candidate.reading())
        state, _ = advanced(state, seen, now_s)
    return state
