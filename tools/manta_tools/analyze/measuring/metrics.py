# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""From a load that was measured to metrics by Model Analyzer's tags.

Times are in milliseconds, memory in megabytes (10^6 bytes), throughput in inferences a second.

Triton: model_analyzer/model_analyzer/record/types, perf_analyzer/perf_analyzer.py @63a0fec
"""

from collections.abc import Mapping
from typing import Final

from manta_tools.analyze.measuring.load import Loaded
from manta_tools.perf.measuring.histogram import LatencyHistogram
from manta_tools.perf.measuring.server_metrics import Gauges
from manta_tools.perf.measuring.server_statistics import ServerCounts
from manta_tools.perf.measuring.windows import Window

_NS_PER_MS: Final = 1e6
BYTES_PER_MB: Final = 1e6
_PERCENT: Final = 100.0
_PERCENTILES: Final = (90, 95, 99)
_TOKEN_PERCENTILES: Final = (25, 50, 75, 90, 95, 99)
# The CPU time of the whole server, divided by the inferences of all models under load.
CPU_PER_INFERENCE: Final = "cpu_per_inference"


def metrics_of(loaded: Loaded) -> dict[str, float]:
    """Return the metrics of a model that was under load."""
    total = loaded.measurement.total
    window = total.window
    found = {
        "perf_throughput": window.throughput,
        "perf_latency_avg": window.latencies.mean_ns / _NS_PER_MS,
        **{
            f"perf_latency_p{each}": window.latencies.percentile_ns(each) / _NS_PER_MS
            for each in _PERCENTILES
        },
        **_client(window),
    }
    if (side := loaded.server_side) is not None:
        parts = [counts for _, counts in side.composing] if side.composing else [side.counts]
        found |= _server(parts)
    if loaded.model.is_decoupled:
        found |= _tokens(window)
    return found


def gpu_metrics_of(
    gauges: Gauges | None, watched: frozenset[str] = frozenset()
) -> dict[str, dict[str, float]]:
    """Return the metrics of GPUs by UUID; none without gauges of them.

    Args:
        gauges: What the server said.
        watched: UUIDs of the GPUs that count; empty for all.
    """
    found: dict[str, dict[str, float]] = {}
    if gauges is None:
        return found
    for uuid, used in gauges.gpu_memory_used_bytes.items():
        metrics = found.setdefault(uuid, {})
        metrics["gpu_used_memory"] = used / BYTES_PER_MB
        total = gauges.gpu_memory_total_bytes.get(uuid)
        if total is not None:
            metrics["gpu_free_memory"] = (total - used) / BYTES_PER_MB
    for uuid, share in gauges.gpu_utilization.items():
        found.setdefault(uuid, {})["gpu_utilization"] = share * _PERCENT
    for uuid, power_w in gauges.gpu_power_w.items():
        found.setdefault(uuid, {})["gpu_power_usage"] = power_w
    return {uuid: each for uuid, each in found.items() if not watched or uuid in watched}


def _client(window: Window) -> dict[str, float]:
    count = max(window.requests, 1)
    transport_ms = (window.send_ns + window.receive_ns) / count / _NS_PER_MS
    wait_ms = window.latencies.mean_ns / _NS_PER_MS - transport_ms
    return {"perf_client_send_recv": transport_ms, "perf_client_response_wait": max(wait_ms, 0.0)}


def _server(parts: list[ServerCounts]) -> dict[str, float]:
    """Return the means of a request; of an ensemble the sums over its models."""
    return {
        f"perf_server_{name}": sum(
            getattr(counts, f"{name}_ns") / max(getattr(counts, f"{name}_count"), 1)
            for counts in parts
        )
        / _NS_PER_MS
        for name in ("queue", "compute_input", "compute_infer", "compute_output")
    }


def _tokens(window: Window) -> dict[str, float]:
    """Return the metrics of tokens, of which each response of a decoupled model is one."""
    return {
        "output_token_throughput": window.response_throughput,
        **_spread("time_to_first_token", window.first_responses),
        **_spread("inter_token_latency", window.gaps),
    }


def _spread(tag: str, times: LatencyHistogram) -> Mapping[str, float]:
    found = {"avg": times.mean_ns, "min": times.percentile_ns(0), "max": times.percentile_ns(100)}
    found |= {f"p{each}": times.percentile_ns(each) for each in _TOKEN_PERCENTILES}
    return {f"{tag}_{name}": value / _NS_PER_MS for name, value in found.items()}
