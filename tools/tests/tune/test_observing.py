# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import math

import pytest

from backends.api.errors import InvalidArgumentError, UnavailableError
from manta_tools.tune.observing import (
    Counters,
    Slo,
    observe,
    read_counters,
    read_percentile_ms,
    read_slo,
)

ROW = {
    "name": "m",
    "version": "1",
    "inference_count": "40",
    "execution_count": "10",
    "inference_stats": {
        "success": {"count": "20", "ns": "80000000"},
        "queue": {"count": "20", "ns": "20000000"},
    },
    "batch_stats": [
        {"batch_size": "4", "compute_input": {"ns": 1e6}, "compute_infer": {"ns": 3e6},
         "compute_output": {"ns": 1e6}},
        {"batch_size": "2", "compute_infer": {"ns": 5e6}},
    ],
}  # fmt: skip
PAGE = """# HELP nv_inference_request_summary_us x
# TYPE nv_inference_request_summary_us summary
nv_inference_request_summary_us_count{model="m",version="1"} 7
nv_inference_request_summary_us{model="m",version="1",quantile="0.99"} 4000
nv_inference_request_summary_us{model="m",version="2",quantile="0.99"} 7000
nv_inference_request_summary_us{model="n",version="1",quantile="0.99"} 9000
nv_inference_request_summary_us{model="idle",version="1",quantile="0.99"} NaN
"""


@pytest.mark.parametrize(
    ("text", "slo"),
    [("mean:20", Slo(0.0, 20.0)), ("p99:50", Slo(0.99, 50.0)), ("p99.9:2.5", Slo(0.999, 2.5))],
)
def test_an_slo_is_a_mean_or_a_percentile(text, slo):
    found = read_slo(text)
    assert found.limit_ms == slo.limit_ms
    assert found.quantile == pytest.approx(slo.quantile)


@pytest.mark.parametrize("text", ["", "99:5", "p99", "p100:5", "mean:0", "mean:x", "p-1:3"])
def test_anything_else_is_refused(text):
    with pytest.raises(InvalidArgumentError, match="expected mean:MS or pN:MS"):
        read_slo(text)


def test_counters_are_those_of_all_versions():
    once = read_counters({"model_stats": [ROW]})
    assert once == Counters(20, 80_000_000, 20_000_000, 40, 10, 10_000_000)
    assert read_counters({"model_stats": [ROW, ROW]}).requests == 40
    assert read_counters({}) == Counters()


def test_a_period_is_the_difference_of_its_ends():
    after = read_counters({"model_stats": [ROW]})
    seen = observe(Counters(), after, length_s=2.0, instances=2, latency_ms=None)
    assert seen.latency_ms == 4.0
    assert seen.queue_ms == 1.0
    assert seen.rate == 20.0
    assert seen.batch_size == 4.0
    assert seen.busy == pytest.approx(0.0025)
    assert observe(Counters(), after, 2.0, 2, latency_ms=7.5).latency_ms == 7.5


def test_instances_that_are_new_have_counted_all_of_it():
    after = read_counters({"model_stats": [ROW]})
    seen = observe(Counters(1000, 1, 1, 1, 1, 1), after, 2.0, 1, None)
    assert seen.requests == 20


def test_a_percentile_is_that_of_the_worst_version():
    assert read_percentile_ms(PAGE, "m", 0.99) == 7.0
    assert math.isnan(read_percentile_ms(PAGE, "idle", 0.99))


def test_a_quantile_that_the_server_does_not_tell_names_the_flag():
    with pytest.raises(UnavailableError, match="summary_latencies=true"):
        read_percentile_ms(PAGE, "m", 0.5)
