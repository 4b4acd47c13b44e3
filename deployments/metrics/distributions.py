# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How latencies of one instance are distributed, in a form that adds up over instances. Pure.

Summaries cover the last minute. They are kept as counts of logarithmic classes, exact below 128 us
and 1 % wide above: unlike quantiles, counts of several instances can be added.

Triton: core/src/metric_model_reporter.cc; prometheus-cpp's defaults for summaries @73aad7c
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from backends.api.model_config import ModelConfig
from backends.config.pbtxt import to_message

FIRST_RESPONSE: Final = "nv_inference_first_response_histogram_ms"
_DEFAULT_BOUNDS_MS: Final[tuple[float, ...]] = (100.0, 500.0, 2000.0, 5000.0)

_SLICE_COUNT: Final = 5
_SLICE_NS: Final = 12_000_000_000
_EXACT_BELOW: Final = 128
_LOG_WIDTH: Final = math.log(1.01)
_NS_PER_US: Final = 1000
_NS_PER_MS: Final = 1_000_000

Classes = dict[int, int]


def class_of(value: int) -> int:
    """Return the class of a value, which is not negative."""
    if value < _EXACT_BELOW:
        return max(0, value)
    return _EXACT_BELOW + int(math.log(value / _EXACT_BELOW) / _LOG_WIDTH)


def value_of(number: int) -> int:
    """Return a value in the middle of a class."""
    if number < _EXACT_BELOW:
        return number
    return round(_EXACT_BELOW * math.exp((number - _EXACT_BELOW + 0.5) * _LOG_WIDTH))


def quantile(classes: Mapping[int, int], fraction: float) -> float:
    """Return the value below which a fraction of the values lie; NaN when there are none."""
    rank = math.ceil(fraction * sum(classes.values()))
    for number in sorted(classes):
        rank -= classes[number]
        if rank <= 0:
            return value_of(number)
    return math.nan


def bounds_ms(config: ModelConfig) -> tuple[float, ...]:
    """Return the upper bounds of the buckets of the time to the first response."""
    for control in to_message(config).model_metrics.metric_control:
        if control.metric_identifier.family == FIRST_RESPONSE:
            return tuple(control.histogram_options.buckets)
    return _DEFAULT_BOUNDS_MS


class _Window:
    """Classes of the values of the last minute."""

    __slots__ = ("_slices",)

    def __init__(self) -> None:
        # Number of the slice of time, and what came in it.
        self._slices: list[tuple[int, Classes]] = [(-1, {})] * _SLICE_COUNT

    def add(self, value: int, now_ns: int) -> None:
        period = now_ns // _SLICE_NS
        at = period % _SLICE_COUNT
        if self._slices[at][0] != period:
            self._slices[at] = (period, {})
        classes = self._slices[at][1]
        number = class_of(value)
        classes[number] = classes.get(number, 0) + 1

    def read(self, now_ns: int) -> Classes:
        oldest = now_ns // _SLICE_NS - _SLICE_COUNT
        total: Classes = {}
        for period, classes in self._slices:
            if period > oldest:
                add_classes(total, classes)
        return total


def add_classes(total: Classes, part: Mapping[int, int]) -> None:
    """Add counts of classes."""
    for number, count in part.items():
        total[number] = total.get(number, 0) + count


class Distributions:
    """Latencies of the requests of one instance that succeeded.

    Args:
        has_summaries: Whether the last minute is kept.
        bounds: Buckets of the time to the first response, milliseconds; None keeps none.
        clock_ns: The executor's clock.
    """

    __slots__ = ("_bounds", "_clock_ns", "_windows", "bucket_counts", "first_response_ms")

    def __init__(
        self,
        *,
        has_summaries: bool,
        bounds: Sequence[float] | None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._bounds = bounds
        self._clock_ns = clock_ns
        self._windows = tuple(_Window() for _ in range(5)) if has_summaries else ()
        self.bucket_counts = [0] * (len(bounds) + 1) if bounds is not None else []
        self.first_response_ms = 0

    def observe(self, durations_ns: Sequence[int]) -> None:
        """Note a request's five latencies, in the order of `latencies`."""
        if not self._windows:
            return
        now_ns = self._clock_ns()
        for window, duration_ns in zip(self._windows, durations_ns, strict=True):
            window.add(duration_ns // _NS_PER_US, now_ns)

    def first_response(self, duration_ns: int) -> None:
        """Note the time from a request to its first response."""
        if self._bounds is None:
            return
        duration_ms = duration_ns // _NS_PER_MS
        at = next(
            (at for at, bound in enumerate(self._bounds) if duration_ms <= bound),
            len(self._bounds),
        )
        self.bucket_counts[at] += 1
        self.first_response_ms += duration_ms

    def latencies(self) -> list[Classes]:
        """Return the last minute: request, queue, compute input, infer and output; or nothing."""
        now_ns = self._clock_ns()
        return [window.read(now_ns) for window in self._windows]
