# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Measurement windows: which requests are of one, and what they amount to.

A request is of the window in which it ended, as in perf_analyzer.

Triton: perf_analyzer/src/inference_profiler.cc ValidLatencyMeasurement, Summarize @263c5f6
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from manta_tools.perf.measuring.histogram import LatencyHistogram
from manta_tools.perf.records import Request

_NS_PER_S: Final = 1e9
_NS_PER_MS: Final = 1e6


@dataclass(slots=True)
class Window:
    """What was measured from one instant to another.

    Attributes:
        start_ns: The first instant.
        end_ns: The last one.
        batch_size: Inferences of a request.
        requests: Requests that succeeded.
        failures: Requests that failed.
        sequences: Sequences that ended.
        delayed: Requests that were sent late.
        responses: Responses with content.
        good: Requests that kept all objectives.
        sent: Requests that were sent.
        latencies: Of the requests that succeeded.
        first_responses: How long their first responses took.
        gaps: Distances of responses of one request.
        send_ns: What sending them took, together.
        receive_ns: What receiving their responses took, together.
        in_order: Ends and latencies, in the order of the ends, for confidence.
    """

    start_ns: int
    end_ns: int
    batch_size: int = 1
    requests: int = 0
    failures: int = 0
    sequences: int = 0
    delayed: int = 0
    responses: int = 0
    good: int = 0
    sent: int = 0
    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)
    first_responses: LatencyHistogram = field(default_factory=LatencyHistogram)
    gaps: LatencyHistogram = field(default_factory=LatencyHistogram)
    send_ns: int = 0
    receive_ns: int = 0
    in_order: "array[int]" = field(default_factory=lambda: array("q"))

    @property
    def duration_s(self) -> float:
        """Length, in seconds."""
        return (self.end_ns - self.start_ns) / _NS_PER_S

    @property
    def throughput(self) -> float:
        """Inferences a second."""
        return self._rate(self.requests * self.batch_size)

    @property
    def response_throughput(self) -> float:
        """Responses a second."""
        return self._rate(self.responses)

    @property
    def sequence_throughput(self) -> float:
        """Sequences a second."""
        return self._rate(self.sequences)

    @property
    def goodput(self) -> float:
        """Inferences a second whose requests kept all objectives."""
        return self._rate(self.good * self.batch_size)

    @property
    def send_rate(self) -> float:
        """Requests a second that were sent."""
        return self._rate(self.sent)

    @property
    def delayed_percentage(self) -> float:
        """The share of requests that were sent late."""
        return 100.0 * self.delayed / self.requests if self.requests else 0.0

    def _rate(self, count: int) -> float:
        return count / self.duration_s if self.end_ns > self.start_ns else 0.0


Objective = Callable[[Request], bool]


def objective(metric: str, limit_ms: float) -> Objective:
    """Return what says whether a request keeps a limit.

    Args:
        metric: request_latency, time_to_first_response or inter_response_latency: the mean distance
            of its responses.
        limit_ms: Longest time, in milliseconds.
    """
    measure, limit_ns = _METRICS[metric], limit_ms * _NS_PER_MS

    def keeps(request: Request) -> bool:
        return measure(request) <= limit_ns

    return keeps


def _time_to_first(request: Request) -> float:
    return (request.responses_ns or [request.end_ns])[0] - request.intended_ns


def _mean_gap(request: Request) -> float:
    came = request.responses_ns
    return (came[-1] - came[0]) / (len(came) - 1) if len(came) > 1 else 0.0


_METRICS: Final[dict[str, Callable[[Request], float]]] = {
    "request_latency": lambda request: request.latency_ns,
    "time_to_first_response": _time_to_first,
    "inter_response_latency": _mean_gap,
}


def summarise(
    ended: Iterable[Request],
    start_ns: int,
    end_ns: int,
    *,
    batch_size: int = 1,
    objectives: Sequence[Objective] = (),
) -> Window:
    """Add up requests that ended in a window; what ended outside is passed over."""
    window = Window(start_ns, end_ns, batch_size)
    for request in sorted(ended, key=lambda each: each.end_ns):
        if not start_ns <= request.end_ns <= end_ns:
            continue
        if request.error:
            window.failures += 1
            continue
        _count(window, request)
        window.good += all(keeps(request) for keeps in objectives)
    return window


def _count(window: Window, request: Request) -> None:
    latency_ns = request.latency_ns
    window.requests += 1
    window.sequences += request.is_sequence_end
    window.delayed += request.is_delayed
    window.responses += len(request.responses_ns)
    window.send_ns += request.send_ns
    window.receive_ns += request.receive_ns
    window.latencies.record(latency_ns)
    window.in_order.extend((request.end_ns, latency_ns))
    if request.responses_ns:
        window.first_responses.record(request.responses_ns[0] - request.intended_ns)
        for earlier, later in zip(request.responses_ns, request.responses_ns[1:], strict=False):
            window.gaps.record(later - earlier)


def clamped(ended: Sequence[Request]) -> tuple[int, int]:
    """Return the first start and the last end: the window of a run of exactly so many requests."""
    return min(each.start_ns for each in ended), max(each.end_ns for each in ended)


def merge(windows: Sequence[Window]) -> Window:
    """Return the windows as one, that lasted as long as all together."""
    first = windows[0]
    length_ns = sum(each.end_ns - each.start_ns for each in windows)
    merged = Window(first.start_ns, first.start_ns + length_ns, first.batch_size)
    for each in windows:
        _add(merged, each)
        merged.in_order.extend(each.in_order)
    return merged


def side_by_side(windows: Sequence[Window]) -> Window:
    """Return windows of the same time, of several senders, as one."""
    first = windows[0]
    found = Window(first.start_ns, first.end_ns, first.batch_size)
    for each in windows:
        _add(found, each)
    pairs = np.concatenate([np.array(each.in_order, np.int64).reshape(-1, 2) for each in windows])
    ordered = pairs[np.argsort(pairs[:, 0], kind="stable")]
    found.in_order = array("q", ordered.tobytes())
    return found


def _add(window: Window, other: Window) -> None:
    for name in COUNTS:
        setattr(window, name, getattr(window, name) + getattr(other, name))
    for name in HISTOGRAMS:
        getattr(window, name).add(getattr(other, name))


HISTOGRAMS: Final = ("latencies", "first_responses", "gaps")
COUNTS: Final = (
    "requests",
    "failures",
    "sequences",
    "delayed",
    "responses",
    "good",
    "sent",
    "send_ns",
    "receive_ns",
)
