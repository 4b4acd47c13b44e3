# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics that a model makes of its own, as an instance tells them.

The structs are msgspec array-likes because lanes carry them.

Triton: core/include/triton/core/tritonserver.h TRITONSERVER_MetricFamily @73aad7c
"""

import enum

import msgspec

from backends.api.evolving import evolves


class MetricKind(enum.IntEnum):
    """Kinds of a family, with Triton's numbers."""

    COUNTER = 0
    GAUGE = 1
    HISTOGRAM = 2


class CustomMetric(msgspec.Struct, array_like=True):
    """One metric of a family.

    Attributes:
        labels: Name and value, sorted by name.
        value: Of a counter or gauge; of a histogram the sum of what was observed.
        set_ns: When a gauge was last set, by the node's monotonic clock; 0 when never.
        bounds: Upper bounds of a histogram's buckets, ascending, without infinity.
        counts: Observations in each of those, and above the last.
    """

    labels: list[tuple[str, str]] = []
    value: float = 0.0
    set_ns: int = 0
    bounds: list[float] = []
    counts: list[int] = []


class CustomFamily(msgspec.Struct, array_like=True):
    """Metrics of one name.

    Attributes:
        name: As on the metrics page.
        description: Help text.
        kind: Kind of all its metrics.
        metrics: One for each set of labels.
    """

    name: str
    description: str
    kind: MetricKind
    metrics: list[CustomMetric]


evolves(CustomMetric, CustomFamily)
