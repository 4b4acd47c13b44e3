# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The server's machine meanwhile: gauges of its Prometheus page, looked at again and again.

Triton: perf_analyzer/src/metrics_manager.cc, inference_profiler.cc MergeMetrics @263c5f6
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

# Gauges of the CPU have no label in Triton.
_NO_LABEL: Final = ""
_LABELS: Final = ("gpu_uuid", "uuid", "node", "pid")


@dataclass(frozen=True, slots=True)
class Gauges:
    """What a page says, or what several say together; each by the GPU's UUID, or for CPUs by node.

    Attributes:
        gpu_utilization: From 0.0 to 1.0; of several pages the mean.
        gpu_power_w: Watts; of several pages the mean.
        gpu_memory_used_bytes: Of several pages the largest.
        gpu_memory_total_bytes: Of several pages the first.
        cpu_utilization: From 0.0 to 1.0; of several pages the mean.
        cpu_memory_used_bytes: Of several pages the largest.
    """

    gpu_utilization: Mapping[str, float] = field(default_factory=dict)
    gpu_power_w: Mapping[str, float] = field(default_factory=dict)
    gpu_memory_used_bytes: Mapping[str, float] = field(default_factory=dict)
    gpu_memory_total_bytes: Mapping[str, float] = field(default_factory=dict)
    cpu_utilization: Mapping[str, float] = field(default_factory=dict)
    cpu_memory_used_bytes: Mapping[str, float] = field(default_factory=dict)


_FIELDS: Final = {
    "nv_gpu_utilization": "gpu_utilization",
    "nv_gpu_power_usage": "gpu_power_w",
    "nv_gpu_memory_used_bytes": "gpu_memory_used_bytes",
    "nv_gpu_memory_total_bytes": "gpu_memory_total_bytes",
    "nv_cpu_utilization": "cpu_utilization",
    "nv_cpu_memory_used_bytes": "cpu_memory_used_bytes",
}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _first(values: Sequence[float]) -> float:
    return values[0]


_TOGETHER: Final[dict[str, Callable[[Sequence[float]], float]]] = {
    "gpu_utilization": _mean,
    "gpu_power_w": _mean,
    "gpu_memory_used_bytes": max,
    "gpu_memory_total_bytes": _first,
    "cpu_utilization": _mean,
    "cpu_memory_used_bytes": max,
}


def read_gauges(page: str) -> Gauges:
    """Read a Prometheus page.

    Raises:
        ValueError: It is none.
    """
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(page):
        name = _FIELDS.get(family.name)
        if name is None:
            continue
        for sample in family.samples:
            label = next(
                (sample.labels[each] for each in _LABELS if each in sample.labels), _NO_LABEL
            )
            found.setdefault(name, {})[label] = float(sample.value)
    return Gauges(**found)


def together(pages: Sequence[Gauges]) -> Gauges:
    """Return what several pages say together."""
    merged: dict[str, dict[str, float]] = {}
    for row in fields(Gauges):
        given = [getattr(page, row.name) for page in pages]
        labels = dict.fromkeys(label for each in given for label in each)
        merged[row.name] = {
            label: _TOGETHER[row.name]([each[label] for each in given if label in each])
            for label in labels
        }
    return Gauges(**merged)
