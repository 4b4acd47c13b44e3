# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which adjustment comes next: one at a time, judged before the next, taken back unless it helped.

Pure: a period comes in, a decision goes out. The longest a model is worse off is the period in
which a change is judged.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from manta_tools.tune.records import Bounds, Decision, Knob, Observation, Settings

# Fewer requests say little of a percentile.
_LEAST_REQUESTS: Final = 100
# From here on requests wait for instances, not for the delay.
_SATURATED: Final = 0.85
# Below this part of the SLO there is room for larger batches.
_ROOMY: Final = 0.8
# What a change that was made for larger batches must leave of the SLO.
_KEPT_ROOM: Final = 0.9
_BETTER: Final = 0.95
_LARGER: Final = 1.02
# Loads that differ by more cannot be compared.
_SAME_LOAD: Final = 0.25
# How many periods a change that did not help is not tried again; doubled each time.
_PAUSE_PERIODS: Final = 5
_LONGEST_PAUSE_PERIODS: Final = 80
# The smallest delay above none, and into how many steps a range without one is cut.
_LEAST_DELAY_US: Final = 100
_STEPS: Final = 16

# A knob and whether it goes up.
Move = tuple[Knob, bool]

_DOWN: Final[tuple[Move, ...]] = (("delay_us", False), ("batch", False))
_UP: Final[tuple[Move, ...]] = (("batch", True), ("delay_us", True))
# What to try when the SLO is broken: who waits for instances needs larger batches, who waits for
# the delay a shorter one. What helps less often comes after.
_WHEN_BROKEN: Final[dict[bool, tuple[Move, ...]]] = {True: _UP + _DOWN, False: _DOWN + _UP}


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A change that is judged after the next period."""

    move: Move
    before: Settings
    seen: Observation
    was_broken: bool


@dataclass(slots=True)
class _Pause:
    """How long a move is not tried."""

    left: int
    length: int


class Tuner:
    """Decides for one model.

    Args:
        slo_ms: What the latency is to stay under.
        bounds: What may be adjusted.
        settings: How the model is batched now.
    """

    def __init__(self, slo_ms: float, bounds: Bounds, settings: Settings) -> None:
        self._slo_ms, self._bounds = slo_ms, bounds
        self._settings = settings
        self._attempt: _Attempt | None = None
        self._pauses: dict[Move, _Pause] = {}

    @property
    def settings(self) -> Settings:
        """How the model is batched, as far as is known here."""
        return self._settings

    def adopt(self, settings: Settings) -> None:
        """Take over settings that somebody else has made."""
        self._settings, self._attempt = settings, None

    def decide(self, seen: Observation) -> Decision:
        """Return what is to be done after a period, taking it for done.

        Args:
            seen: A period in which nothing was changed.
        """
        for pause in self._pauses.values():
            pause.left = max(0, pause.left - 1)
        if seen.requests < _LEAST_REQUESTS:
            return self._keep(
                f"{seen.requests} requests are too few to judge by, of {_LEAST_REQUESTS}"
            )
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            return self._judged(attempt, seen)
        if seen.latency_ms > self._slo_ms:
            return self._try(seen, _WHEN_BROKEN[seen.busy >= _SATURATED], is_broken=True)
        if seen.latency_ms <= _ROOMY * self._slo_ms:
            return self._try(seen, _UP, is_broken=False)
        return self._keep("within the SLO, with too little room for larger batches")

    def _keep(self, reason: str) -> Decision:
        return Decision(self._settings, is_change=False, reason=reason)

    def _try(self, seen: Observation, moves: tuple[Move, ...], *, is_broken: bool) -> Decision:
        found = next(self._possible(moves), None)
        why = "above the SLO" if is_broken else "well below the SLO"
        if found is None:
            return self._keep(f"{why}, and nothing that may be adjusted is left to try")
        move, settings = found
        self._attempt = _Attempt(move, self._settings, seen, is_broken)
        reason = f"{seen.latency_ms:.2f} ms is {why} of {self._slo_ms:g} ms: {_text(*found)}"
        self._settings = settings
        return Decision(settings, is_change=True, reason=reason)

    def _possible(self, moves: tuple[Move, ...]) -> Iterator[tuple[Move, Settings]]:
        for move in moves:
            pause = self._pauses.get(move)
            settings = self._moved(move)
            if settings != self._settings and (pause is None or not pause.left):
                yield move, settings

    def _moved(self, move: Move) -> Settings:
        knob, is_up = move
        limits = self._bounds.delay_us if knob == "delay_us" else self._bounds.batch
        if limits is None:
            return self._settings
        least = _LEAST_DELAY_US if knob == "delay_us" else 1
        value = getattr(self._settings, knob)
        if knob == "batch" and not value:
            if is_up:
                return self._settings
            value = limits[1]
        return replace(self._settings, **{knob: _stepped(value, limits, least, is_up=is_up)})

    def _judged(self, attempt: _Attempt, seen: Observation) -> Decision:
        has_helped, reason = self._has_helped(attempt, seen)
        if has_helped:
            self._pauses.pop(attempt.move, None)
            return self._keep(f"kept: {reason}")
        last = self._pauses.get(attempt.move)
        length = min(2 * last.length, _LONGEST_PAUSE_PERIODS) if last else _PAUSE_PERIODS
        self._pauses[attempt.move] = _Pause(length, length)
        self._settings = attempt.before
        return Decision(
            attempt.before, is_change=True, reason=f"taken back: {reason}", is_revert=True
        )

    def _has_helped(self, attempt: _Attempt, seen: Observation) -> tuple[bool, str]:
        before = attempt.seen
        latencies = f"{before.latency_ms:.2f} ms before, {seen.latency_ms:.2f} ms now"
        is_faster = seen.latency_ms <= _BETTER * before.latency_ms
        if attempt.was_broken and is_faster and seen.rate >= before.rate:
            # Clients that wait for answers ask more once those come sooner.
            return True, latencies
        if abs(seen.rate - before.rate) > _SAME_LOAD * max(seen.rate, before.rate):
            is_kept = seen.latency_ms <= self._slo_ms
            return is_kept, f"the load has changed, and the SLO is {_KEPT[is_kept]} ({latencies})"
        if attempt.was_broken:
            return is_faster, latencies
        if seen.latency_ms > _KEPT_ROOM * self._slo_ms:
            return False, f"too close to the SLO ({latencies})"
        batches = f"batches of {before.batch_size:.2f} before, of {seen.batch_size:.2f} now"
        return seen.batch_size >= _LARGER * before.batch_size, batches


_KEPT: Final = {True: "kept", False: "broken"}


def _stepped(value: int, limits: tuple[int, int], least: int, *, is_up: bool) -> int:
    """Return the next value: twice or half of it, within limits."""
    low, high = limits
    if is_up:
        first = max(least, (high - low) // _STEPS)
        return min(high, max(low, 2 * value if value >= least else first))
    half = value // 2
    return max(low, min(high, half if half >= least else low))


def _text(move: Move, settings: Settings) -> str:
    knob, is_up = move
    name = {"delay_us": "queue delay, us", "batch": "preferred batch size"}[knob]
    return f"{'more' if is_up else 'less'} ({name}: {getattr(settings, knob)})"
