# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a period has shown: the statistics extension before and after it, and the metrics page."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from backends.api.errors import InvalidArgumentError, UnavailableError
from manta_tools.tune.records import Observation

SUMMARY: Final = "nv_inference_request_summary_us"
MEAN: Final = "mean"
_NS_PER_MS: Final = 1e6
_US_PER_MS: Final = 1e3


@dataclass(frozen=True, slots=True)
class Slo:
    """What a latency is to stay under.

    Attributes:
        quantile: Which, above 0 and below 1; 0 for the mean.
        limit_ms: Milliseconds.
    """

    quantile: float
    limit_ms: float


def read_slo(text: str) -> Slo:
    """Read ``mean:MS`` or ``p99:MS``.

    Raises:
        InvalidArgumentError: It is neither.
    """
    name, _, limit = text.partition(":")
    try:
        limit_ms = float(limit)
        quantile = 0.0 if name == MEAN else float(name.removeprefix("p")) / 100
    except ValueError:
        limit_ms = quantile = math.nan
    is_named = name == MEAN or name.startswith("p")
    if not (is_named and limit_ms > 0 and 0 <= quantile < 1):
        raise InvalidArgumentError(
            f"--slo '{text}' is none: expected mean:MS or pN:MS, for example p99:50"
        )
    return Slo(quantile, limit_ms)


@dataclass(frozen=True, slots=True)
class Counters:
    """What the server has counted of a model, of all versions together; times in nanoseconds."""

    requests: int = 0
    latency_ns: int = 0
    queue_ns: int = 0
    inferences: int = 0
    executions: int = 0
    executing_ns: int = 0


def read_counters(answer: Mapping[str, Any]) -> Counters:
    """Read the answer of the statistics extension."""
    total = [0] * 6
    for row in answer.get("model_stats", ()):
        durations = row.get("inference_stats", {})
        batches = row.get("batch_stats", ())
        found = (
            durations.get("success", {}).get("count", 0),
            durations.get("success", {}).get("ns", 0),
            durations.get("queue", {}).get("ns", 0),
            row.get("inference_count", 0),
            row.get("execution_count", 0),
            sum(_executing_ns(batch) for batch in batches),
        )
        total = [sum(pair) for pair in zip(total, map(int, found), strict=True)]
    return Counters(*total)


def _executing_ns(batch: Mapping[str, Any]) -> int:
    # Of a batch, not of each of its requests.
    names = ("compute_input", "compute_infer", "compute_output")
    return sum(int(batch.get(name, {}).get("ns", 0)) for name in names)


def observe(
    before: Counters, after: Counters, length_s: float, instances: int, latency_ms: float | None
) -> Observation:
    """Return what a period has shown.

    Args:
        before: Counters at its begin.
        after: Counters at its end; less than those before where instances are new.
        length_s: How long it was.
        instances: How many execute side by side.
        latency_ms: The percentile of the SLO; None for the mean.
    """
    pairs = [(getattr(after, n), getattr(before, n)) for n in Counters.__dataclass_fields__]
    is_anew = any(now < then for now, then in pairs)
    found = Counters(*(now if is_anew else now - then for now, then in pairs))
    requests = max(found.requests, 1)
    mean_ms = found.latency_ns / requests / _NS_PER_MS
    return Observation(
        found.requests,
        found.inferences / length_s,
        mean_ms if latency_ms is None else latency_ms,
        found.queue_ns / requests / _NS_PER_MS,
        found.inferences / max(found.executions, 1),
        found.executing_ns / 1e9 / length_s / max(instances, 1),
    )


def read_percentile_ms(page: str, model: str, quantile: float) -> float:
    """Read the quantile of a model's latencies over the last minute; that of the worst version.

    Returns:
        Milliseconds; NaN when there was no request.

    Raises:
        UnavailableError: The server does not tell that quantile.
    """
    offered: set[float] = set()
    found: list[float] = []
    for family in text_string_to_metric_families(page):
        if family.name != SUMMARY:
            continue
        for sample in family.samples:
            if sample.labels.get("model") != model or "quantile" not in sample.labels:
                continue
            given = float(sample.labels["quantile"])
            offered.add(given)
            if math.isclose(given, quantile) and not math.isnan(sample.value):
                found.append(sample.value)
    if found:
        return max(found) / _US_PER_MS
    if any(math.isclose(each, quantile) for each in offered):
        return math.nan
    raise UnavailableError(
        f"the metrics of the server have no quantile {quantile:g} of {SUMMARY} of model '{model}'"
        f" (but {', '.join(f'{each:g}' for each in sorted(offered)) or 'none'}): start it with"
        " --metrics-config summary_latencies=true, or give --slo mean:MS"
    )
