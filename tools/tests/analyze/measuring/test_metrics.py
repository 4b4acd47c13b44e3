# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Units of metrics, and where each comes from."""

import pytest

from manta_tools.analyze.measuring.load import Loaded
from manta_tools.analyze.measuring.metrics import gpu_metrics_of, metrics_of
from manta_tools.analyze.records import Load
from manta_tools.perf.data.model import Model
from manta_tools.perf.measuring.histogram import LatencyHistogram
from manta_tools.perf.measuring.server_metrics import Gauges
from manta_tools.perf.measuring.server_statistics import ServerCounts
from manta_tools.perf.measuring.windows import Window
from manta_tools.perf.profiler import Measurement, Pass

MS = 10**6


def loaded(window, counted=None, **model):
    total = Pass(window, counted, 0.0, 0.0)
    measurement = Measurement(1, total, (total,), is_stable=True, is_within_limit=True)
    return Loaded(Load("m", "concurrency", 1), Model("m", "1", (), (), **model), measurement)


def window(**fields):
    latencies = LatencyHistogram([2 * MS] * 99 + [10 * MS])
    return Window(0, 10**9, 4, requests=100, latencies=latencies, **fields)


def test_throughput_is_in_inferences_a_second_and_times_are_in_milliseconds():
    found = metrics_of(loaded(window(send_ns=20 * MS, receive_ns=30 * MS)))
    assert found["perf_throughput"] == 400
    assert found["perf_latency_avg"] == pytest.approx(2.08)
    assert found["perf_latency_p90"] == pytest.approx(2, rel=1e-3)
    assert found["perf_client_send_recv"] == pytest.approx(0.5)
    assert found["perf_client_response_wait"] == pytest.approx(1.58)
    assert "perf_server_queue" not in found


def test_the_time_of_an_ensemble_is_the_sum_of_its_models():
    part = ServerCounts(success_count=10, queue_count=10, queue_ns=10 * MS)
    counted = {("m", "1"): part, ("a", "1"): part, ("b", "1"): part}
    alone = metrics_of(loaded(window(), counted))
    together = metrics_of(loaded(window(), counted, composing=(("a", "1"), ("b", "1"))))
    assert alone["perf_server_queue"] == pytest.approx(1.0)
    assert together["perf_server_queue"] == pytest.approx(2.0)


def test_a_decoupled_model_has_metrics_of_tokens():
    found = metrics_of(
        loaded(
            window(
                responses=500,
                first_responses=LatencyHistogram([3 * MS]),
                gaps=LatencyHistogram([MS, 2 * MS]),
            ),
            is_decoupled=True,
        )
    )
    assert found["output_token_throughput"] == 500
    assert found["time_to_first_token_p99"] == pytest.approx(3, rel=1e-3)
    assert found["inter_token_latency_avg"] == pytest.approx(1.5)
    assert found["inter_token_latency_min"] == pytest.approx(1, rel=1e-3)


def test_gpus_are_in_megabytes_percent_and_watts():
    gauges = Gauges(
        gpu_utilization={"GPU-1": 0.5, "GPU-2": 0.1},
        gpu_power_w={"GPU-1": 70.0},
        gpu_memory_used_bytes={"GPU-1": 3e9},
        gpu_memory_total_bytes={"GPU-1": 8e9},
    )
    assert gpu_metrics_of(gauges, frozenset({"GPU-1"})) == {
        "GPU-1": {
            "gpu_used_memory": 3000,
            "gpu_free_memory": 5000,
            "gpu_utilization": 50,
            "gpu_power_usage": 70,
        }
    }
    assert set(gpu_metrics_of(gauges)) == {"GPU-1", "GPU-2"}
    assert gpu_metrics_of(None) == {}
