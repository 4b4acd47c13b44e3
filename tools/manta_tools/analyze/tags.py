# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The metrics of a measurement: their tags, units and which way is better.

Triton: model_analyzer/model_analyzer/record/types @63a0fec
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Tag:
    """One metric.

    Attributes:
        title: Its heading, with the unit.
        is_more_better: Whether a higher value is the better one.
        is_of_gpu: Whether it is measured by GPU.
    """

    title: str
    is_more_better: bool = False
    is_of_gpu: bool = False


COST: Final = "cost_per_million_inferences"
THROUGHPUT: Final = "perf_throughput"
P99: Final = "perf_latency_p99"
# Model Analyzer's older name of the 99th percentile.
ALIASES: Final = {"perf_latency": P99}

_PERCENTILES: Final = ("avg", "min", "max", "p25", "p50", "p75", "p90", "p95", "p99")


def _of_tokens(tag: str, title: str) -> dict[str, Tag]:
    return {f"{tag}_{each}": Tag(f"{each} {title} (ms)") for each in _PERCENTILES}


TAGS: Final[dict[str, Tag]] = {
    THROUGHPUT: Tag("Throughput (infer/sec)", is_more_better=True),
    "perf_latency_avg": Tag("Average Latency (ms)"),
    "perf_latency_p90": Tag("p90 Latency (ms)"),
    "perf_latency_p95": Tag("p95 Latency (ms)"),
    P99: Tag("p99 Latency (ms)"),
    "perf_client_response_wait": Tag("Response Wait Time (ms)"),
    "perf_client_send_recv": Tag("Request/Response (ms)"),
    "perf_server_queue": Tag("Server Queue time (ms)"),
    "perf_server_compute_input": Tag("Server Compute Input time (ms)"),
    "perf_server_compute_infer": Tag("Server Compute Infer time (ms)"),
    "perf_server_compute_output": Tag("Server Compute Output time (ms)"),
    "gpu_used_memory": Tag("Max GPU Memory Usage (MB)", is_of_gpu=True),
    "gpu_free_memory": Tag("Min GPU Memory Available (MB)", is_more_better=True, is_of_gpu=True),
    "gpu_utilization": Tag("Average GPU Utilization (%)", is_more_better=True, is_of_gpu=True),
    "gpu_power_usage": Tag("Average GPU Power Usage (W)", is_of_gpu=True),
    "cpu_used_ram": Tag("RAM Usage (MB)"),
    "cpu_available_ram": Tag("RAM Available (MB)", is_more_better=True),
    "cpu_per_inference": Tag("Server CPU (ms/infer)"),
    "output_token_throughput": Tag(
        "Output Token Throughput (output tokens/sec)", is_more_better=True
    ),
    **_of_tokens("inter_token_latency", "Inter Token Latency"),
    **_of_tokens("time_to_first_token", "Time To First Token"),
    COST: Tag("Cost of a million inferences"),
}
# What a report sums over GPUs; other metrics of them are averages.
SUMMED: Final = frozenset({"gpu_used_memory", "gpu_free_memory", "gpu_power_usage"})
# What grows with the load; less of it helps against limits on these alone.
TIMES: Final = frozenset(tag for tag, row in TAGS.items() if row.title.endswith("(ms)"))
