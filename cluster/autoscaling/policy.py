# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Decides how many instances a model version shall have. Pure: readings and the time are given.

Theory of operation. Each reading recommends a count. A recommendation counts once it has pointed in
one direction, more or fewer, for the delay of that direction; one that does not starts it anew.

- More instances become what the mean over half of the delay recommends: that follows the load.
- Fewer become the most that any reading of the delay recommended: the way down waits for the
  highest peak of a sawtooth to be out of sight, so it does not shed what the next tooth needs.
- None is a matter of its own: nobody may have asked for `scale_to_zero_after_s`.

Requests are a sum, so a target of requests per instance says the count directly. A queue or a
latency says only that there are too few instances or too many. Then a step up goes by the ratio to
the target, at most to twice the count, and a step down takes one instance, while the reading is
below half the target. A count that was too few for some rate of requests is remembered, and not
gone back to before the rate is lower: else a load that stands still could swing between two counts
for ever, one too slow, the next idle.

Ray: python/ray/serve/autoscaling_policy.py _core_replica_queue_length_policy,
replica_queue_length_autoscaling_policy
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from backends.config.autoscaling import AutoscalingRules, Signal

# On the way up readings are means over this part of its delay, so that a burst shorter than that is
# forgotten before it counts; but over no longer than this.
_MEAN_PART: Final = 0.5
_MOST_MEAN_S: Final = 30.0
# What a sum may be above a multiple of the target, as rounding and chance have it.
_TOLERANCE: Final = 0.02
# A queue or a latency this much above the target asks for more, so much below it for fewer.
_TOO_HIGH: Final = 1.1
_TOO_LOW: Final = 0.5
_MOST_GROWTH: Final = 2.0
# A rate so much below one that was too much is another load.
_LOWER_RATE: Final = 0.8
# Latencies are those of the last minute: until they are all of the new count they say nothing.
LATENCY_WINDOW_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class LoadReading:
    """What was measured of one version.

    Attributes:
        ongoing: Requests that were sent and have no terminal outcome, in the mean.
        rate: Requests a second.
        is_used: Whether anybody has asked for the version since the last reading.
        measured_us: The queue or the latency; None where the target is another, or unknown.
    """

    ongoing: float
    rate: float = 0.0
    is_used: bool = True
    measured_us: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Another count of instances, and why, for the log."""

    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Streak:
    """Since when readings recommend more, or fewer, and the most that one of them did."""

    is_up: bool
    since_s: float
    most: int


@dataclass(frozen=True, slots=True)
class ScalingState:
    """What is remembered of one version between readings.

    Attributes:
        count: The instances it shall have; 0 while it has none until somebody asks for it.
        changed_s: When that last changed.
        used_s: When somebody last asked for the version.
        streak: What the last readings point to; None when they agree with the count.
        recent: When the last readings were, and their ongoing requests.
        too_few: The last count that there had to be more of, and the rate of requests then.
    """

    count: int
    changed_s: float
    used_s: float
    streak: Streak | None = None
    recent: tuple[tuple[float, float], ...] = ()
    too_few: tuple[int, float] = (0, 0.0)


def begin(rules: AutoscalingRules, count: int, now_s: float) -> ScalingState:
    """Return the state of a version that has been found with so many instances.

    Args:
        rules: Its rules.
        count: Its instances.
        now_s: Seconds of any clock that only goes forward; the same for all calls.
    """
    return ScalingState(rules.within(count), now_s, now_s)


def decide(
    rules: AutoscalingRules, state: ScalingState, reading: LoadReading, now_s: float
) -> tuple[ScalingState, Decision | None]:
    """Take a reading into account.

    Args:
        rules: The version's rules; they may be others than with the last reading.
        state: What was remembered after the last reading.
        reading: What was measured since.
        now_s: The time.

    Returns:
        What is to be remembered, and the other count if there is to be one.
    """
    if state.count == 0:
        return state, None
    state = _noted(rules, state, reading, now_s)
    bounded = rules.within(state.count)
    if bounded != state.count:
        return _changed(state, bounded, "the bounds of its config have changed", now_s)
    idle_s = now_s - state.used_s
    if rules.min_instances == 0 and idle_s >= rules.scale_to_zero_after_s:
        return _changed(state, 0, f"no request for {idle_s:.0f} s", now_s)
    recommended = _RECOMMEND[rules.signal](rules, state, reading, now_s)
    if recommended is None:
        return state, None
    return _after_delay(rules, state, recommended, reading, now_s)


def _noted(
    rules: AutoscalingRules, state: ScalingState, reading: LoadReading, now_s: float
) -> ScalingState:
    oldest_s = now_s - min(rules.upscale_delay_s * _MEAN_PART, _MOST_MEAN_S)
    recent = tuple(each for each in state.recent if each[0] > oldest_s)
    used_s = now_s if reading.is_used or reading.ongoing else state.used_s
    return replace(state, used_s=used_s, recent=(*recent, (now_s, reading.ongoing)))


def _changed(
    state: ScalingState, count: int, reason: str, now_s: float
) -> tuple[ScalingState, Decision]:
    after = replace(state, count=count, changed_s=now_s, streak=None)
    return after, Decision(count, reason)


def _by_requests(
    rules: AutoscalingRules, state: ScalingState, reading: LoadReading, now_s: float
) -> Decision:
    recent = state.recent
    mean = sum(each for _, each in recent) / len(recent)
    is_up = mean > state.count * rules.target
    ongoing = mean if is_up else reading.ongoing
    needed = ongoing / rules.target
    factor = rules.upscaling_factor if is_up else rules.downscaling_factor
    count = rules.within(math.ceil(needed - _TOLERANCE))
    if not is_up and count >= state.count:
        # One high reading asks for no more; that what is there is needed it does say.
        count = state.count
    if factor < 1 and count != state.count:
        part = rules.within(math.ceil(state.count + (needed - state.count) * factor - _TOLERANCE))
        # However small the factor is, a step is a step.
        count = part if part != state.count else state.count + (1 if is_up else -1)
    reason = f"{ongoing:.1f} ongoing requests, {rules.target:g} wanted per instance"
    return Decision(count, reason)


def _by_time(
    rules: AutoscalingRules, state: ScalingState, reading: LoadReading, now_s: float
) -> Decision | None:
    measured_us = reading.measured_us
    if measured_us is None and reading.ongoing:
        # All that is known is that nothing has ended lately.
        return None
    measured_us = measured_us or 0.0
    ratio = measured_us / rules.target
    reason = f"{rules.signal.removeprefix('target_')} is {measured_us:.0f}, {rules.target:g} wanted"
    count = state.count
    if ratio > _TOO_HIGH:
        growth = 1 + (min(ratio, _MOST_GROWTH) - 1) * rules.upscaling_factor
        return Decision(rules.within(math.ceil(count * growth)), reason)
    few, rate = state.too_few
    is_known_too_few = count - 1 <= few and reading.rate > rate * _LOWER_RATE
    if ratio < _TOO_LOW and not is_known_too_few:
        return Decision(rules.within(count - 1), reason)
    return Decision(count, reason)


def _by_latency(
    rules: AutoscalingRules, state: ScalingState, reading: LoadReading, now_s: float
) -> Decision | None:
    if now_s - state.changed_s < LATENCY_WINDOW_S:
        return None
    return _by_time(rules, state, reading, now_s)


_Recommend = Callable[[AutoscalingRules, ScalingState, LoadReading, float], Decision | None]
_RECOMMEND: Mapping[Signal, _Recommend] = {
    Signal.ONGOING_REQUESTS: _by_requests,
    Signal.QUEUE_US: _by_time,
    Signal.LATENCY_P95_US: _by_latency,
}


def _after_delay(
    rules: AutoscalingRules,
    state: ScalingState,
    recommended: Decision,
    reading: LoadReading,
    now_s: float,
) -> tuple[ScalingState, Decision | None]:
    """Return the decision once recommendations have pointed in one direction for long enough."""
    count = recommended.count
    if count == state.count:
        return replace(state, streak=None), None
    is_up = count > state.count
    streak = state.streak
    if streak is None or streak.is_up != is_up:
        streak = Streak(is_up, now_s, count)
    streak = replace(streak, most=max(streak.most, count))
    delay_s = rules.upscale_delay_s if is_up else rules.downscale_delay_s
    if now_s - streak.since_s < delay_s:
        return replace(state, streak=streak), None
    if is_up:
        state = replace(state, too_few=(state.count, reading.rate))
    reason = f"{recommended.reason} for {now_s - streak.since_s:.0f} s"
    return _changed(state, count if is_up else streak.most, reason, now_s)
