# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the metrics page shows beyond counters. Pure.

Triton: core/src/metric_model_reporter.cc MetricReporterConfig @73aad7c
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from backends.api.evolving import evolves

DEFAULT_QUANTILES: Final = (0.5, 0.9, 0.95, 0.99, 0.999)


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Settings of metrics; they do not change while a server runs.

    Attributes:
        has_counters: Whether latencies are shown as counters.
        has_summaries: Whether latencies are shown as summaries.
        has_histograms: Whether the time to the first response is shown as a histogram.
        quantiles: Of the summaries, each in [0, 1].
        interval_ms: Facts about the machine are read anew when older than half of this.
        has_cpu: Whether processor and memory are shown.
        has_gpu: Whether GPUs are shown.
    """

    has_counters: bool = True
    has_summaries: bool = False
    has_histograms: bool = False
    quantiles: tuple[float, ...] = DEFAULT_QUANTILES
    interval_ms: float = 2000.0
    has_cpu: bool = True
    has_gpu: bool = True


evolves(MetricsSettings)


def read_quantiles(text: str) -> tuple[float, ...]:
    """Read ``<quantile>:<error>[,<quantile>:<error>..]``.

    The allowed error is not used: quantiles are right within 1 % of their value.

    Raises:
        ValueError: A pair has another form, or a number is not between 0 and 1.
    """
    quantiles = []
    for pair in text.split(","):
        quantile, colon, error = pair.partition(":")
        numbers = [float(quantile), float(error)] if colon else []
        if not numbers or not all(0 <= number <= 1 for number in numbers):
            raise ValueError(f"expected <quantile>:<error>, each between 0 and 1, got '{pair}'")
        quantiles.append(numbers[0])
    return tuple(quantiles)


def read_metrics_config(
    config: Iterable[tuple[str, str]], *, interval_ms: float, has_cpu: bool, has_gpu: bool
) -> MetricsSettings:
    """Read ``--metrics-config`` and the flags beside it.

    Raises:
        ValueError: ``summary_quantiles`` is wrong.
    """
    given = dict(config)
    quantiles = given.get("summary_quantiles")
    return MetricsSettings(
        has_counters=given.get("counter_latencies") != "false",
        has_summaries=given.get("summary_latencies") == "true",
        has_histograms=given.get("histogram_latencies") == "true",
        quantiles=DEFAULT_QUANTILES if quantiles is None else read_quantiles(quantiles),
        interval_ms=interval_ms,
        has_cpu=has_cpu,
        has_gpu=has_gpu,
    )
