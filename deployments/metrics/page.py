# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Triton's Prometheus metrics as text, format 0.0.4.

Names, help texts, family order, label order (alphabetical) and number format are those of a
tritonserver, so dashboards and scrapers written for it work unchanged.

Triton: core/src/metrics.cc, core/src/metric_model_reporter.cc @73aad7c
"""

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from deployments.metrics.counters import FailureReason, Snapshot
from deployments.metrics.custom import on_node, render_custom
from deployments.metrics.distributions import FIRST_RESPONSE, quantile
from deployments.metrics.exposition import head, label_set
from deployments.metrics.host import GpuMetrics, HostMetrics, gpu_rows
from deployments.settings.metrics_settings import MetricsSettings

CONTENT_TYPE = "text/plain; charset=utf-8"

# What prometheus-cpp prints: 16 significant digits, shortest form.
_NUMBER = "%.16g"
_NS_PER_US = 1000
_NS_PER_S = 1_000_000_000
_DEFAULT_SETTINGS = MetricsSettings()


@dataclass(frozen=True, slots=True)
class ModelMetrics:
    """One model version's row in every family.

    Attributes:
        name: Model.
        version: Version, as text.
        statistics: Counters, summed over the instances the row stands for.
        load_duration_ns: How long the load took.
        metric_tags: Tags of the model's config; each becomes a label ``_<key>``.
        has_cache: Whether the model's response cache is on.
        first_response_bounds: Buckets of the histogram, milliseconds.
        namespace: The model's namespace; empty without one.
        node: The node it was counted on, if that is another one, without an ingress.
    """

    name: str
    version: str
    statistics: Snapshot
    load_duration_ns: int = 0
    metric_tags: Mapping[str, str] = field(default_factory=dict)
    has_cache: bool = False
    first_response_bounds: tuple[float, ...] = ()
    namespace: str = ""
    node: str = ""


Value = Callable[[ModelMetrics], float]


@dataclass(frozen=True, slots=True)
class _Family:
    name: str
    kind: str
    help: str
    value: Value
    only_cached: bool = False
    fold: Callable[[float, float], float] = operator.add
    is_latency: bool = False


def _us(ns: int) -> int:
    return ns // _NS_PER_US


def _counter(name: str, text: str, value: Value, *, only_cached: bool = False) -> _Family:
    is_latency = only_cached or "duration" in name
    return _Family(name, "counter", text, value, only_cached, is_latency=is_latency)


_SUCCESS = _counter(
    "nv_inference_request_success",
    "Number of successful inference requests, all batch sizes",
    lambda m: m.statistics.success_count,
)
_FAILURE = ("nv_inference_request_failure", "Number of failed inference requests, all batch sizes")
_COUNTERS = (
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
)
_GAUGES = (
    _Family(
        "nv_inference_pending_request_count",
        "gauge",
        "Instantaneous number of pending requests awaiting execution per-model.",
        lambda m: m.statistics.pending_count,
    ),
    _Family(
        "nv_model_load_duration_secs",
        "gauge",
        "Model load time in seconds",
        lambda m: m.load_duration_ns / _NS_PER_S,
        fold=max,
    ),
)
# Name, help text and total of each summary, in the order of `Distributions.latencies`.
_SUMMARIES: tuple[tuple[str, str, Value], ...] = (
    (
        "nv_inference_request_summary_us",
        "Summary of inference request duration in microseconds (includes cached requests)",
        lambda m: _us(m.statistics.success_ns),
    ),
    (
        "nv_inference_queue_summary_us",
        "Summary of inference queuing duration in microseconds (includes cached requests)",
        lambda m: _us(m.statistics.queue_ns),
    ),
    (
        "nv_inference_compute_input_summary_us",
        "Cumulative compute input duration in microseconds (does not include cached requests)",
        lambda m: _us(m.statistics.compute_input_ns),
    ),
    (
        "nv_inference_compute_infer_summary_us",
        "Cumulative compute inference duration in microseconds (does not include cached requests)",
        lambda m: _us(m.statistics.compute_infer_ns),
    ),
    (
        "nv_inference_compute_output_summary_us",
        "Cumulative inference compute output duration in microseconds "
        "(does not include cached requests)",
        lambda m: _us(m.statistics.compute_output_ns),
    ),
)
# Name, kind, help text and field of `GpuMetrics`.
_GPU_COUNTERS = (
    (
        "nv_energy_consumption",
        "counter",
        "GPU energy consumption in joules since the Triton Server started",
        "energy_j",
    ),
)
_GPU_GAUGES = (
    ("nv_gpu_utilization", "gauge", "GPU utilization rate [0.0 - 1.0)", "utilization"),
    ("nv_gpu_memory_total_bytes", "gauge", "GPU total memory, in bytes", "memory_total_bytes"),
    ("nv_gpu_memory_used_bytes", "gauge", "GPU used memory, in bytes", "memory_used_bytes"),
    ("nv_gpu_power_usage", "gauge", "GPU power usage in watts", "power_usage_w"),
    ("nv_gpu_power_limit", "gauge", "GPU power management limit in watts", "power_limit_w"),
)


def _labels(model: ModelMetrics, *, reason: str = "") -> str:
    labels = {f"_{key}": value for key, value in model.metric_tags.items()}
    labels["model"] = model.name
    labels["version"] = model.version
    if model.namespace:
        labels["namespace"] = model.namespace
    if model.node:
        labels["node"] = model.node
    if reason:
        labels["reason"] = reason
    return label_set(sorted(labels.items()))


def _family(lines: list[str], family: _Family, models: Sequence[ModelMetrics]) -> None:
    rows: dict[str, float] = {}
    for model in models:
        if model.has_cache or not family.only_cached:
            labels = _labels(model)
            rows[labels] = family.fold(rows.get(labels, 0), family.value(model))
    if not rows:
        return
    lines += head(family.name, family.kind, family.help)
    lines.extend(f"{family.name}{labels} {_NUMBER % value}" for labels, value in rows.items())


def _failures(lines: list[str], models: Sequence[ModelMetrics]) -> None:
    if not models:
        return
    name, text = _FAILURE
    lines += head(name, "counter", text)
    for model in models:
        counts = model.statistics.fail_count
        lines.extend(
            f"{name}{_labels(model, reason=reason)} {counts.get(reason, 0)}"
            for reason in FailureReason
        )


def _gauge(lines: list[str], name: str, text: str, rows: Iterable[tuple[str, float]]) -> None:
    lines += head(name, "gauge", text)
    lines.extend(f"{name}{labels} {_NUMBER % value}" for labels, value in rows)


def _gpus(
    lines: list[str], families: Iterable[tuple[str, str, str, str]], gpus: tuple[GpuMetrics, ...]
) -> None:
    for name, kind, text, field_name in families:
        rows = list(gpu_rows(gpus, field_name))
        if rows:
            lines += head(name, kind, text)
            lines.extend(
                f"{name}{label_set([('gpu_uuid', uuid)])} {_NUMBER % value}" for uuid, value in rows
            )


def _machine(lines: list[str], host: HostMetrics | None, gpus: tuple[GpuMetrics, ...]) -> None:
    # There is no pinned memory pool here; the gauges stay for dashboards that ask for them.
    for use in ("total", "used"):
        name = f"nv_pinned_memory_pool_{use}_bytes"
        _gauge(lines, name, f"Pinned memory pool {use} memory size, in bytes", [("", 0)])
    _gpus(lines, _GPU_GAUGES, gpus)
    if host is None:
        return
    for name, text, value in (
        ("nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", host.cpu_utilization),
        ("nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes", host.memory_total_bytes),
        ("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", host.memory_used_bytes),
    ):
        _gauge(lines, name, text, [("", value)])


def _histograms(lines: list[str], models: Sequence[ModelMetrics]) -> None:
    if not models:
        return
    lines += head(
        FIRST_RESPONSE,
        "histogram",
        "Duration from request to first response in milliseconds",
    )
    for model in models:
        statistics = model.statistics
        bounds = [_NUMBER % bound for bound in model.first_response_bounds] + ["+Inf"]
        # Before an instance has told of itself it has no counts.
        counts = statistics.bucket_counts or [0] * len(bounds)
        labels = _labels(model)
        lines.append(f"{FIRST_RESPONSE}_count{labels} {sum(counts)}")
        lines.append(f"{FIRST_RESPONSE}_sum{labels} {statistics.first_response_ms}")
        for bound, total in zip(bounds, itertools.accumulate(counts), strict=True):
            lines.append(f'{FIRST_RESPONSE}_bucket{labels[:-1]},le="{bound}"}} {total}')


def _summaries(
    lines: list[str], models: Sequence[ModelMetrics], quantiles: Sequence[float]
) -> None:
    if not models:
        return
    for at, (name, text, value) in enumerate(_SUMMARIES):
        lines += head(name, "summary", text)
        for model in models:
            statistics = model.statistics
            labels = _labels(model)
            lines.append(f"{name}_count{labels} {statistics.success_count}")
            lines.append(f"{name}_sum{labels} {_NUMBER % value(model)}")
            classes = statistics.latencies[at] if statistics.latencies else {}
            for fraction in quantiles:
                found = quantile(classes, fraction)
                shown = "Nan" if math.isnan(found) else f"{found:g}"
                lines.append(f'{name}{labels[:-1]},quantile="{_NUMBER % fraction}"}} {shown}')


_CACHE_HELP = {
    "nv_cache_num_entries": "Number of responses stored in response cache",
    "nv_cache_num_lookups": "Number of cache lookups in response cache",
    "nv_cache_num_hits": "Number of cache hits in response cache",
    "nv_cache_num_misses": "Number of cache misses in response cache",
    "nv_cache_num_evictions": "Number of cache evictions in response cache",
    "nv_cache_lookup_duration": "Total cache lookup duration (hit and miss), in microseconds",
    "nv_cache_insertion_duration": "Total cache insertion duration, in microseconds",
    "nv_cache_util": "Cache utilization [0.0 - 1.0]",
}
_NO_CACHE: Mapping[str, float] = {}


def render(
    models: Iterable[ModelMetrics],
    host: HostMetrics | None = None,
    gpus: tuple[GpuMetrics, ...] = (),
    settings: MetricsSettings = _DEFAULT_SETTINGS,
    cache: Mapping[str, float] = _NO_CACHE,
) -> bytes:
    """Return the metrics page.

    Args:
        models: One row per model version and, on GPU, per GPU.
        host: Processor and memory of this machine; None leaves them out.
        gpus: GPUs of this machine.
        settings: What is shown.
        cache: Gauges of the response cache by metric name; empty without one.
    """
    rows = list(models)
    lines: list[str] = []
    _family(lines, _SUCCESS, rows)
    _failures(lines, rows)
    for family in _COUNTERS:
        if settings.has_counters or not family.is_latency:
            _family(lines, family, rows)
    _gpus(lines, _GPU_COUNTERS, gpus)
    for family in _GAUGES:
        _family(lines, family, rows)
    _machine(lines, host, gpus)
    for name, value in cache.items():
        _gauge(lines, name, _CACHE_HELP[name], [("", value)])
    if settings.has_histograms:
        _histograms(lines, rows)
    if settings.has_summaries:
        _summaries(lines, rows, settings.quantiles)
    custom = [
        on_node(family, row.node) if row.node else family
        for row in rows
        for family in row.statistics.custom
    ]
    if custom:
        taken = {line.split(" ", 3)[2] for line in lines if line.startswith("# TYPE")}
        lines += render_custom(custom, taken)
    lines.append("")
    return "\n".join(lines).encode()
