# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Triton's Prometheus metrics as text, format 0.0.4.

Names, help texts, family order, label order (alphabetical) and number format are those of a
tritonserver, so dashboards and scrapers written for it work unchanged.

Triton: core/src/metrics.cc, core/src/metric_model_reporter.cc @73aad7c
"""

import operator
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deployments.statistics import FailureReason, Snapshot

CONTENT_TYPE = "text/plain; charset=utf-8"

# What prometheus-cpp prints: 16 significant digits, shortest form.
_NUMBER = "%.16g"
_NS_PER_US = 1000
_NS_PER_S = 1_000_000_000
# Triton polls the host every two seconds unless --metrics-interval-ms says otherwise.
_HOST_INTERVAL_NS = _NS_PER_S

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


@dataclass(frozen=True, slots=True)
class ModelMetrics:
    """One model version's row in every family.

    Attributes:
        name: Model.
        version: Version, as text.
        statistics: Counters, summed over the instances the row stands for.
        load_duration_ns: How long the load took.
        gpu_uuid: GPU of those instances; empty on CPU.
        metric_tags: Tags of the model's config; each becomes a label ``_<key>``.
        has_cache: Whether the model's response cache is on.
    """

    name: str
    version: str
    statistics: Snapshot
    load_duration_ns: int = 0
    gpu_uuid: str = ""
    metric_tags: Mapping[str, str] = field(default_factory=dict)
    has_cache: bool = False


@dataclass(frozen=True, slots=True)
class HostMetrics:
    """Facts about this machine; utilization is in [0, 1]."""

    cpu_utilization: float = 0.0
    memory_total_bytes: int = 0
    memory_used_bytes: int = 0


Value = Callable[[ModelMetrics], float]


@dataclass(frozen=True, slots=True)
class _Family:
    name: str
    kind: str
    help: str
    value: Value
    only_cached: bool = False
    by_gpu: bool = True
    fold: Callable[[float, float], float] = operator.add


def _us(ns: int) -> int:
    return ns // _NS_PER_US


def _counter(name: str, text: str, value: Value, *, only_cached: bool = False) -> _Family:
    return _Family(name, "counter", text, value, only_cached)


_SUCCESS = _counter(
    "nv_inference_request_success",
    "Number of successful inference requests, all batch sizes",
    lambda m: m.statistics.success_count,
)
_FAILURE = ("nv_inference_request_failure", "Number of failed inference requests, all batch sizes")
_FAMILIES = (
    _counter(
        "nv_inference_count",
        "Number of inferences performed (does not include cached requests)",
        lambda m: m.statistics.inference_count,
    ),
    _counter(
        "nv_inference_exec_count",
        "Number of model executions performed (does not include cached requests)",
        lambda m: m.statistics.execution_count,
    ),
    _counter(
        "nv_inference_request_duration_us",
        "Cumulative inference request duration in microseconds (includes cached requests)",
        lambda m: _us(m.statistics.success_ns),
    ),
    _counter(
        "nv_inference_queue_duration_us",
        "Cumulative inference queuing duration in microseconds (includes cached requests)",
        lambda m: _us(m.statistics.queue_ns),
    ),
    _counter(
        "nv_inference_compute_input_duration_us",
        "Cumulative compute input duration in microseconds (does not include cached requests)",
        lambda m: _us(m.statistics.compute_input_ns),
    ),
    _counter(
        "nv_inference_compute_infer_duration_us",
        "Cumulative compute inference duration in microseconds (does not include cached requests)",
        lambda m: _us(m.statistics.compute_infer_ns),
    ),
    _counter(
        "nv_inference_compute_output_duration_us",
        "Cumulative inference compute output duration in microseconds "
        "(does not include cached requests)",
        lambda m: _us(m.statistics.compute_output_ns),
    ),
    _counter(
        "nv_cache_num_hits_per_model",
        "Number of cache hits per model",
        lambda m: m.statistics.cache_hit_count,
        only_cached=True,
    ),
    _counter(
        "nv_cache_hit_duration_per_model",
        "Total cache hit duration per model, in microseconds",
        lambda m: _us(m.statistics.cache_hit_ns),
        only_cached=True,
    ),
    _counter(
        "nv_cache_num_misses_per_model",
        "Number of cache misses per model",
        lambda m: m.statistics.cache_miss_count,
        only_cached=True,
    ),
    _counter(
        "nv_cache_miss_duration_per_model",
        "Total cache miss duration per model, in microseconds",
        lambda m: _us(m.statistics.cache_miss_ns),
        only_cached=True,
    ),
    _Family(
        "nv_inference_pending_request_count",
        "gauge",
        "Instantaneous number of pending requests awaiting execution per-model.",
        lambda m: m.statistics.pending_count,
        by_gpu=False,
    ),
    _Family(
        "nv_model_load_duration_secs",
        "gauge",
        "Model load time in seconds",
        lambda m: m.load_duration_ns / _NS_PER_S,
        by_gpu=False,
        fold=max,
    ),
)


def escape_label(value: str) -> str:
    """Escape a label value: backslash, double quote and newline."""
    return value.translate(_ESCAPES)


def _labels(model: ModelMetrics, *, by_gpu: bool = True, reason: str = "") -> str:
    labels = {f"_{key}": value for key, value in model.metric_tags.items()}
    labels["model"] = model.name
    labels["version"] = model.version
    if by_gpu and model.gpu_uuid:
        labels["gpu_uuid"] = model.gpu_uuid
    if reason:
        labels["reason"] = reason
    pairs = (f'{key}="{escape_label(value)}"' for key, value in sorted(labels.items()))
    return "{" + ",".join(pairs) + "}"


def _head(lines: list[str], name: str, kind: str, text: str) -> None:
    lines.append(f"# HELP {name} {text}")
    lines.append(f"# TYPE {name} {kind}")


def _family(lines: list[str], family: _Family, models: Sequence[ModelMetrics]) -> None:
    rows: dict[str, float] = {}
    for model in models:
        if model.has_cache or not family.only_cached:
            labels = _labels(model, by_gpu=family.by_gpu)
            rows[labels] = family.fold(rows.get(labels, 0), family.value(model))
    if not rows:
        return
    _head(lines, family.name, family.kind, family.help)
    lines.extend(f"{family.name}{labels} {_NUMBER % value}" for labels, value in rows.items())


def _failures(lines: list[str], models: Sequence[ModelMetrics]) -> None:
    if not models:
        return
    name, text = _FAILURE
    _head(lines, name, "counter", text)
    for model in models:
        counts = model.statistics.fail_count
        lines.extend(
            f"{name}{_labels(model, reason=reason)} {counts.get(reason, 0)}"
            for reason in FailureReason
        )


def _host(lines: list[str], host: HostMetrics) -> None:
    # There is no pinned memory pool here; the gauges stay for dashboards that ask for them.
    for name, text, value in (
        (
            "nv_pinned_memory_pool_total_bytes",
            "Pinned memory pool total memory size, in bytes",
            0,
        ),
        ("nv_pinned_memory_pool_used_bytes", "Pinned memory pool used memory size, in bytes", 0),
        ("nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", host.cpu_utilization),
        ("nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes", host.memory_total_bytes),
        ("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", host.memory_used_bytes),
    ):
        _head(lines, name, "gauge", text)
        lines.append(f"{name} {_NUMBER % value}")


def render(models: Iterable[ModelMetrics], host: HostMetrics | None = None) -> bytes:
    """Return the metrics page.

    Args:
        models: One row per model version and, on GPU, per GPU.
        host: Facts about this machine; None samples them, at most once a second.
    """
    rows = list(models)
    lines: list[str] = []
    _family(lines, _SUCCESS, rows)
    _failures(lines, rows)
    for family in _FAMILIES:
        _family(lines, family, rows)
    _host(lines, _sampler.sample(time.monotonic_ns()) if host is None else host)
    lines.append("")
    return "\n".join(lines).encode()


class HostSampler:
    """Reads processor and memory use from /proc; where there is none, everything is 0.

    Triton: core/src/metrics.cc ParseCpuInfo, ParseMemInfo @73aad7c
    """

    __slots__ = ("_busy", "_last", "_proc", "_sampled_ns", "_total")

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = Path(proc)
        self._sampled_ns: int | None = None
        self._busy = self._total = 0
        self._last = HostMetrics()

    def sample(self, now_ns: int) -> HostMetrics:
        """Return the facts, read again when the last ones are a second old."""
        if self._sampled_ns is not None and now_ns - self._sampled_ns < _HOST_INTERVAL_NS:
            return self._last
        self._sampled_ns = now_ns
        try:
            utilization = self._utilization((self._proc / "stat").read_text())
            total, available = _memory((self._proc / "meminfo").read_text())
        except (OSError, ValueError):
            return self._last
        self._last = HostMetrics(utilization, total, total - available)
        return self._last

    def _utilization(self, stat: str) -> float:
        # "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; guest time is
        # already in user time.
        ticks = [int(word) for word in stat.split("\n", 1)[0].split()[1:9]]
        total = sum(ticks)
        busy = total - sum(ticks[3:5])
        elapsed, used = total - self._total, busy - self._busy
        self._total, self._busy = total, busy
        return round(used / elapsed, 4) if elapsed > 0 else self._last.cpu_utilization


def _memory(meminfo: str) -> tuple[int, int]:
    sizes = {}
    for line in meminfo.splitlines():
        key, _, rest = line.partition(":")
        if key in {"MemTotal", "MemAvailable"}:
            sizes[key] = int(rest.split()[0]) * 1024
    return sizes.get("MemTotal", 0), sizes.get("MemAvailable", 0)


_sampler = HostSampler()
