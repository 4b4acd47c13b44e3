# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""pb_utils.MetricFamily: metrics a model makes of its own.

Families of one name and metrics with equal labels are one in the whole process. A metric lives as
long as the `MetricFamily` object that made it.

Triton: python_backend/src/metric_family.cc, metric.cc; core/src/metric_family.cc @73aad7c
"""

import bisect
import itertools
import math
import re
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from backends.api.custom_metrics import CustomFamily, CustomMetric, MetricKind
from backends.python.model_side.current_model import refused
from backends.python.model_side.failure import TritonModelException

_FAMILY_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_NAME: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")

_Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Series:
    labels: _Labels
    bounds: list[float]
    counts: list[int]
    value: float = 0.0
    set_ns: int = 0
    owner_count: int = 0


@dataclass(slots=True)
class _Family:
    name: str
    description: str
    kind: MetricKind
    series: dict[_Labels, _Series] = field(default_factory=dict)


_lock = threading.Lock()
_families: dict[str, _Family] = {}
# Metrics of families that were collected. The garbage collector may come by inside the lock, so
# that the next caller who holds it takes them off.
_dropped: "deque[tuple[_Family, list[Metric]]]" = deque()


def custom_metrics() -> list[CustomFamily]:
    """Return a copy of the metrics of this process; families without any are left out."""
    if not _families:
        return []
    with _lock:
        _forget_dropped()
        return [
            CustomFamily(family.name, family.description, family.kind, _copies(family))
            for family in _families.values()
            if family.series
        ]


def _copies(family: _Family) -> list[CustomMetric]:
    return [
        CustomMetric([*row.labels], row.value, row.set_ns, row.bounds, [*row.counts])
        for row in family.series.values()
    ]


def _forget_dropped() -> None:
    while _dropped:
        family, metrics = _dropped.popleft()
        for metric in metrics:
            series = metric._series  # noqa: SLF001 - of the same module
            series.owner_count -= 1
            if not series.owner_count:
                family.series.pop(series.labels, None)


class MetricFamily:
    """Metrics of one name.

    Args:
        name: As on the metrics page.
        description: Help text; the first one given for a name stays.
        kind: COUNTER, GAUGE or HISTOGRAM.

    Raises:
        TritonModelException: The name is not a metric name, or belongs to a family of another kind.
    """

    __module__ = "c_python_backend_utils"
    __slots__ = ("_family", "_metrics")

    COUNTER: ClassVar[MetricKind] = MetricKind.COUNTER
    GAUGE: ClassVar[MetricKind] = MetricKind.GAUGE
    HISTOGRAM: ClassVar[MetricKind] = MetricKind.HISTOGRAM

    def __init__(self, name: str, description: str, kind: MetricKind) -> None:
        types = (isinstance(name, str), isinstance(description, str), isinstance(kind, MetricKind))
        if not all(types):
            raise TypeError(
                "MetricFamily takes a str, a str and one of its kinds, such as "
                f"MetricFamily.COUNTER; got {name!r}, {description!r} and {kind!r}"
            )
        if not _FAMILY_NAME.fullmatch(name):
            raise refused("Error when creating MetricFamily", "Invalid metric name")
        with _lock:
            family = _families.get(name)
            if family is None:
                family = _families[name] = _Family(name, description, kind)
        if family.kind is not kind:
            raise refused(
                "Error when creating MetricFamily",
                "Family name already exists with different type",
            )
        self._family = family
        self._metrics: list[Metric] = []

    def Metric(  # noqa: N802 - Triton's name
        self, labels: dict[str, str] | None = None, buckets: list[float] | None = None
    ) -> "Metric":
        """Return the metric with these labels; there may be others with the same.

        Args:
            labels: Value by name; none is a metric without labels.
            buckets: Upper bounds of a histogram's buckets, strictly ascending; those given first
                for these labels stay.

        Raises:
            TritonModelException: Labels or buckets are none, or do not fit the kind.
        """
        if labels is not None and not isinstance(labels, dict):
            raise TritonModelException("Failed to create metric. Labels must be a dictionary.")
        family = self._family
        bounds = _checked_bounds(family.kind, buckets)
        key = _checked_labels(family.kind, labels or {})
        with _lock:
            _forget_dropped()
            series = family.series.get(key)
            if series is None:
                counts = [0] * (len(bounds) + 1) if buckets is not None else []
                series = family.series[key] = _Series(key, bounds, counts)
            series.owner_count += 1
            metric = Metric(family.kind, series)
            self._metrics.append(metric)
        return metric

    def __del__(self) -> None:
        metrics = getattr(self, "_metrics", None)
        if metrics:
            for metric in metrics:
                metric._is_cleared = True  # noqa: SLF001 - of the same module
            _dropped.append((self._family, metrics))


def _checked_bounds(kind: MetricKind, buckets: Any) -> list[float]:
    is_histogram = kind is MetricKind.HISTOGRAM
    if buckets is None:
        if is_histogram:
            raise TritonModelException("Failed to create metric. Missing required buckets.")
        return []
    if not isinstance(buckets, list):
        raise TritonModelException("Failed to create metric. Buckets must be a list.")
    if not is_histogram:
        raise TritonModelException("Failed to create metric. Unexpected buckets found.")
    bounds = [float(bound) for bound in buckets]
    if bounds and bounds[-1] == math.inf:
        # There always is a bucket up to infinity.
        bounds.pop()
    # NaN is refused too: it is below nothing.
    if not all(low < high for low, high in itertools.pairwise([*bounds, math.inf])):
        raise refused("Error when creating Metric", "Bucket Boundaries must be strictly sorted")
    return bounds


def _checked_labels(kind: MetricKind, labels: dict[Any, Any]) -> _Labels:
    for name, value in labels.items():
        is_taken = kind is MetricKind.HISTOGRAM and name == "le"
        if is_taken or not isinstance(name, str) or not _LABEL_NAME.fullmatch(name):
            raise refused("Error when creating Metric", "Invalid label name")
        if not isinstance(value, str):
            raise refused(
                "Error when creating Metric",
                f"attempt to access JSON non-string as string; label '{name}' is {value!r}",
            )
    return tuple(sorted(labels.items()))


class Metric:
    """One metric; made by `MetricFamily.Metric`. All methods may be called from any thread."""

    __module__ = "c_python_backend_utils"
    __slots__ = ("_is_cleared", "_kind", "_series")

    def __init__(self, kind: MetricKind, series: _Series) -> None:
        self._kind = kind
        self._series = series
        self._is_cleared = False

    def increment(self, value: float) -> None:
        """Add to a counter, at least 0, or to a gauge.

        Raises:
            TritonModelException: A counter would fall, it is a histogram, or the family is gone.
        """
        self._check("increment", "Increment", MetricKind.COUNTER, MetricKind.GAUGE)
        value = float(value)
        if value < 0 and self._kind is MetricKind.COUNTER:
            raise refused(
                "Failed to increment metric value",
                "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by "
                "non-negative values.",
            )
        with _lock:
            self._series.value += value

    def set(self, value: float) -> None:
        """Set a gauge.

        Raises:
            TritonModelException: It is no gauge, or the family is gone.
        """
        self._check("set", "Set", MetricKind.GAUGE)
        value = float(value)
        with _lock:
            self._series.value = value
            self._series.set_ns = time.monotonic_ns()

    def observe(self, value: float) -> None:
        """Count a value in a histogram.

        Raises:
            TritonModelException: It is no histogram, or the family is gone.
        """
        self._check("observe", "Observe", MetricKind.HISTOGRAM)
        value = float(value)
        series = self._series
        with _lock:
            series.counts[bisect.bisect_left(series.bounds, value)] += 1
            series.value += value

    def value(self) -> float:
        """Return what this process has counted, or set.

        Raises:
            TritonModelException: It is a histogram, or the family is gone.
        """
        self._check("get", "Value", MetricKind.COUNTER, MetricKind.GAUGE)
        return self._series.value

    def _check(self, verb: str, operation: str, *kinds: MetricKind) -> None:
        what = f"Failed to {verb} metric value"
        if self._is_cleared:
            raise TritonModelException(
                f"{what}: Invalid metric operation as the corresponding 'MetricFamily' has been "
                "deleted. The 'MetricFamily' object should be deleted AFTER its corresponding "
                "'Metric' objects have been deleted."
            )
        if self._kind not in kinds:
            name = f"TRITONSERVER_METRIC_KIND_{self._kind.name}"
            raise refused(what, f"{name} does not support {operation}")
