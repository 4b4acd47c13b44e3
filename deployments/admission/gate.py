# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who of the requests for one model version gets on, in one ingress. Pure: `now` is passed in.

Theory of operation. The gate counts the requests that this ingress has under way for the version,
and with each answer learns how long that request waited: what it took, less what its execution
took, less what a request takes besides when nothing is in its way.

The gate is **open** while answers come that have waited less than the target. Since the last of
them there is a **cap**: as many requests under way as the model works off in the burst time, at the
rate at which answers have come since. So a burst that drains is not refused, and one that does not
is noticed before it is long. Whoever meets the cap makes the gate **limited**: as many requests may
be under way as give the target queue time, by Little's law at first and then, window by window, by
the ratio of the time that requests shall take to the time that they take. Only requests that came
after a change count for the next one. The limit goes as soon as a window has passed without a
refusal, and grows faster where requests again find the model idle.

Ingresses need not know each other: all see the queue time of the one queue and have the share of
the limit that they have of the answers. A share below one request is kept by pauses.

Why this and not CoDel's or a plain AIMD: ADR 19.
"""

from typing import Final

from deployments.admission.levels import LevelLimits
from deployments.admission.places import Places
from deployments.admission.refusals import Reason, Refusal, Refusals
from deployments.admission.rules import AdmissionRules
from deployments.admission.window import Window

_OPEN: Final = 1 << 30
# A window lasts so many executions, and so long, at least; and has so many answers.
_WINDOW_EXECUTIONS: Final = 4
_WINDOW_NS: Final = 40_000_000
_WINDOW_COUNT: Final = 4
# A burst may stand for so many executions, but above so long only for these few.
_BURST_EXECUTIONS: Final = 20
_SLOW_BURST_NS: Final = 5_000_000_000.0
_SLOW_BURST_EXECUTIONS: Final = 4
# A limit that nobody met for so long, in executions and in time, is of another time.
_STALE_EXECUTIONS: Final = 32
_STALE_NS: Final = 1_500_000_000.0
# Targets below are lost in what schedulers of operating systems do.
_LEAST_TARGET_NS: Final = 1_000_000.0
# What a request takes beside its execution and its queue, at most: encoding, lanes.
_MOST_OVERHEAD_NS: Final = 5_000_000.0
_DRIFT: Final = 1.01
_DRIFT_NS: Final = 1000.0
# Fewer requests under way say nothing of a queue.
_LEAST_CAP: Final = 8.0
_PEAK_KEPT: Final = 0.99
# By how much one window changes the limit.
_MOST_GROWTH: Final = 1.25
_MOST_CUT: Final = 0.5
_UNMET_GROWTH: Final = 2.0
_IDLE_GROWTH: Final = 1.5
# Added with each window, so that ingresses with little get nearer to those with more.
_SHARE: Final = 0.05
# A wait of less than this part of the target found the model idle; and the part of requests, and
# their number, that did so where there is no overload.
_IDLE_WAIT: Final = 0.125
_IDLE_PART: Final = 0.15
_IDLE_COUNT: Final = 2
_LEAST_LIMIT: Final = 1 / 16
_UNLIMITED: Final = float("inf")


class AdmissionGate:
    """The door of one model version in one ingress.

    Args:
        name: The model's name, for refusals.
        rules: Its rules.
        now_ns: Of the clock that all other calls tell the time of.
        places: Those of the ingress, of which the model's requests have some; None where they are
            not counted.

    Attributes:
        name: The model's name.
        rules: Its rules.
        outstanding: Requests under way.
        limit: How many may be; infinite while the gate is open.
        is_limited: Whether overload limits them.
        refusals: What was refused, and why.
    """

    __slots__ = (
        "_door",
        "_execution_ns",
        "_last_refused_ns",
        "_levels",
        "_mean_per_ns",
        "_not_before_ns",
        "_offset_ns",
        "_peak_per_ns",
        "_places",
        "_places_door",
        "_rate_per_ns",
        "_stands_until_ns",
        "_target_ns",
        "_tells_queue",
        "_window",
        "is_limited",
        "limit",
        "name",
        "outstanding",
        "refusals",
        "rules",
    )

    def __init__(
        self, name: str, rules: AdmissionRules, now_ns: int, places: Places | None = None
    ) -> None:
        self.name = name
        self.rules = rules
        self.outstanding = 0
        self.limit = _UNLIMITED
        self.is_limited = False
        self.refusals = Refusals()
        self._door = _OPEN
        self._places = places
        limit = _OPEN if places is None else places.limit
        self._places_door = max(1, int(limit * rules.part_of_places))
        self._levels = LevelLimits(rules.level_count, _OPEN) if rules.level_count > 1 else None
        self._window = Window(now_ns, now_ns + _WINDOW_NS, 0.0)
        self._not_before_ns = 0
        self._last_refused_ns = 0
        # What is known of the model; 0 while nothing is.
        self._execution_ns = 0.0
        self._target_ns = 0.0
        # What requests take that do not wait, beside what answers say of their execution.
        self._offset_ns = _MOST_OVERHEAD_NS
        self._tells_queue = False
        # Answers per nanosecond while requests stand; 0 while they do not.
        self._rate_per_ns = 0.0
        # The most that such a rate was lately: one answer alone says little.
        self._peak_per_ns = 0.0
        # Their mean, for deadlines, and how long it is of use.
        self._mean_per_ns = 0.0
        self._stands_until_ns = 0

    # ---- the door ------------------------------------------------------------------------------

    def admit(
        self, now_ns: int, level: int = 0, time_left_ns: int = 0, *, is_bound: bool = False
    ) -> Refusal | None:
        """Count a request in, or return why it is refused.

        Args:
            now_ns: The time.
            level: The request's priority level; 0 for the model's default.
            time_left_ns: Within which its answer is of use; 0 for any time.
            is_bound: Whether it belongs to what was admitted before, a sequence, and gets on.
        """
        places = self._places
        if places is not None and places.count >= self._places_door and not is_bound:
            self.refusals.count(Reason.PLACES)
            return Refusal(self.name, Reason.PLACES, places.count, self._places_door, 0.0)
        door = self._door
        if self._levels is not None:
            door = self._levels.door(level or self.rules.default_level)
        if (self.outstanding >= door or now_ns < self._not_before_ns) and not is_bound:
            refusal = self._meet_limit(now_ns, door)
            if refusal is not None:
                return refusal
        if time_left_ns and self.outstanding and now_ns < self._stands_until_ns and not is_bound:
            needed_ns = self._needed_ns
            if needed_ns > time_left_ns:
                self._stands_until_ns = now_ns + self._window_ns
                return self._refused(now_ns, Reason.DEADLINE, needed_ns, time_left_ns)
        self.outstanding += 1
        if places is not None:
            places.count += 1
        return None

    def _meet_limit(self, now_ns: int, door: int) -> Refusal | None:
        """Return the refusal of a request that found no place; None where it is let in."""
        if not self.is_limited:
            self.is_limited = True
            self._limit_to(now_ns, self._rate_per_ns * (self._execution_ns + self._target_ns))
        elif now_ns - self._last_refused_ns > self._stale_ns:
            self._open(now_ns)
            return None
        reason = Reason.PRIORITY if self.outstanding < self._door > door else Reason.QUEUE
        return self._refused(now_ns, reason, self._wait_ns, self._target_ns)

    def _refused(self, now_ns: int, reason: Reason, estimate_ns: float, bound_ns: float) -> Refusal:
        self._last_refused_ns = now_ns
        self._window.refused_count += 1
        self.refusals.count(reason)
        retry_ns = self._execution_ns + max(self._wait_ns, self._target_ns)
        return Refusal(self.name, reason, estimate_ns, bound_ns, retry_ns)

    @property
    def _wait_ns(self) -> float:
        """About how long the next request would wait."""
        if not self._rate_per_ns:
            return 0.0
        return max(0.0, (self.outstanding + 1) / self._rate_per_ns - self._execution_ns)

    @property
    def _needed_ns(self) -> float:
        """About when the next request would be answered."""
        rate_per_ns, execution_ns = self._mean_per_ns, self._execution_ns
        # Of several that are executed together, the first to come waits for the whole before.
        together = max(1.0, rate_per_ns * execution_ns)
        return (self.outstanding + 1) / rate_per_ns + execution_ns * (1.0 - 1.0 / together) / 2

    @property
    def _stale_ns(self) -> float:
        return max(_STALE_NS, _STALE_EXECUTIONS * self._execution_ns)

    @property
    def _window_ns(self) -> int:
        return max(_WINDOW_NS, int(_WINDOW_EXECUTIONS * self._execution_ns))

    @property
    def _burst_ns(self) -> float:
        executions_ns = self._execution_ns * _BURST_EXECUTIONS
        slow_ns = max(_SLOW_BURST_NS, self._execution_ns * _SLOW_BURST_EXECUTIONS)
        least_ns = float(self.rules.burst_ns)
        return max(least_ns, min(executions_ns, slow_ns)) + self.rules.delay_ns

    # ---- answers -------------------------------------------------------------------------------

    def leave(self) -> None:
        """Count a request out that tells nothing: it failed, or nobody knows what it took."""
        self.outstanding -= 1
        if self._places is not None:
            self._places.count -= 1

    def answered(
        self,
        now_ns: int,
        start_ns: int,
        outstanding: int,
        execution_ns: int = 0,
        level: int = 0,
        queue_ns: int = -1,
    ) -> None:
        """Count a request out.

        Args:
            now_ns: The time.
            start_ns: When it was admitted.
            outstanding: What `outstanding` was right after that.
            execution_ns: What its execution took; 0 where nobody ever knows.
            level: As `admit` was told.
            queue_ns: How long it was in queues; -1 where nobody says.
        """
        self.leave()
        if not self.rules.is_adaptive:
            return
        took_ns = now_ns - start_ns
        window = self._window
        window.answered_count += 1
        wait_ns = took_ns - execution_ns if queue_ns < 0 else queue_ns
        # Faster than its execution is an answer that was not executed: one from a cache.
        if took_ns < execution_ns or took_ns < wait_ns:
            return
        self._tells_queue = queue_ns >= 0
        if self._levels is not None:
            level = level or self.rules.default_level
        if not self.is_limited:
            if window.take(took_ns, wait_ns, execution_ns, level):
                self._watch(now_ns, took_ns, outstanding, wait_ns)
        elif start_ns >= window.began_ns:
            window.take(took_ns, wait_ns, execution_ns, level)
        if self.limit < 1.0:
            self._not_before_ns = now_ns + int(took_ns * (1.0 / self.limit - 1.0))
        if now_ns >= window.due_ns and window.count >= _WINDOW_COUNT:
            self._end_window(now_ns, window)

    def _watch(self, now_ns: int, took_ns: int, outstanding: int, wait_ns: int) -> None:
        """Learn from one answer, while the gate is open, whether requests stand."""
        if not self._execution_ns:
            self._learn(self._window)
        if wait_ns - self._offset_ns <= self._target_ns:
            if self._rate_per_ns:
                self._rate_per_ns = 0.0
                self._set_limit(_UNLIMITED)
            return
        # All that were under way before it have been answered by now, one after the other.
        each_per_ns = outstanding / took_ns
        mean_per_ns = self._mean_per_ns or each_per_ns
        self._mean_per_ns = mean_per_ns + (each_per_ns - mean_per_ns) / 8
        peak_per_ns = max(each_per_ns, self._peak_per_ns * _PEAK_KEPT)
        self._peak_per_ns = self._rate_per_ns = peak_per_ns
        self._stands_until_ns = now_ns + self._window_ns
        cap = peak_per_ns * (self._execution_ns + self._burst_ns)
        self._set_limit(max(cap, _LEAST_CAP))

    def _end_window(self, now_ns: int, window: Window) -> None:
        self._learn(window)
        if self.is_limited:
            rate_per_ns = window.answered_count / (now_ns - window.began_ns)
            self._rate_per_ns = self._mean_per_ns = rate_per_ns
            self._adjust(now_ns, window)
        else:
            self._begin_window(now_ns)

    def _learn(self, window: Window) -> None:
        """Take what a window says of the model."""
        least_ns = float(max(0, window.least_wait_ns))
        if self._tells_queue:
            least_ns = 0.0
        drifted_ns = self._offset_ns * _DRIFT + _DRIFT_NS
        execution_ns = window.execution_ns / window.count
        if not execution_ns:
            # Nobody says what executions take: what the fastest request takes, then.
            if not self._execution_ns:
                self._offset_ns = least_ns
            elif not self.is_limited:
                self._offset_ns = min(least_ns, drifted_ns)
            execution_ns, self._execution_ns = self._offset_ns, self._offset_ns
            besides_ns = 0.0
        else:
            if not self.is_limited:
                self._offset_ns = min(least_ns, drifted_ns, _MOST_OVERHEAD_NS)
            besides_ns = self._offset_ns
        known_ns = self._execution_ns or execution_ns
        self._execution_ns = known_ns + (execution_ns - known_ns) / 8
        target_ns = float(self.rules.target_queue_ns)
        if not target_ns:
            target_ns = max(self._execution_ns + besides_ns, _LEAST_TARGET_NS)
        self._target_ns = target_ns + self.rules.delay_ns

    def _adjust(self, now_ns: int, window: Window) -> None:
        """Set the limit by what a window of a limited gate says."""
        # What requests take beside the queue, in this process too, must not make it shorter.
        wait_ns = max(0.0, window.wait_ns / window.count - self._offset_ns)
        took_ns = max(1.0, window.took_ns / window.count)
        ratio = (max(0.0, took_ns - wait_ns) + self._target_ns) / took_ns
        factor = min(max(ratio, _MOST_CUT), _MOST_GROWTH)
        if window.idle_count >= max(_IDLE_COUNT, _IDLE_PART * window.count):
            factor = 1.0 + _IDLE_GROWTH * window.idle_count / window.count
        elif not window.refused_count:
            # What nobody met need not get smaller.
            factor = _UNMET_GROWTH if ratio > 1.0 else 1.0
        limit = self.limit * factor + _SHARE
        if limit >= self._rate_per_ns * (self._execution_ns + self._burst_ns):
            self._open(now_ns)
            return
        self._limit_to(now_ns, limit)

    def _limit_to(self, now_ns: int, limit: float) -> None:
        self._set_limit(limit)
        if self._levels is not None:
            burst = self._rate_per_ns * (self._execution_ns + self._burst_ns)
            self._levels.divide(self._window.answered_count, self.limit, burst)
        self._begin_window(now_ns)

    def _open(self, now_ns: int) -> None:
        self.is_limited = False
        self._rate_per_ns = 0.0
        self._set_limit(_UNLIMITED)
        self._begin_window(now_ns)

    def _set_limit(self, limit: float) -> None:
        self.limit = limit = max(limit, _LEAST_LIMIT)
        self._door = door = _OPEN if limit >= _OPEN else max(1, int(limit))
        if limit >= 1.0:
            self._not_before_ns = 0
        if self._levels is not None:
            self._levels.fill(door)

    def _begin_window(self, now_ns: int) -> None:
        if self._levels is not None:
            self._levels.begin()
        length_ns = self._window_ns
        if self.is_limited:
            self._stands_until_ns = now_ns + 2 * length_ns
        idle_below_ns = self._offset_ns + _IDLE_WAIT * self._target_ns
        self._window = Window(now_ns, now_ns + length_ns, idle_below_ns)
