# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta_tools.perf.measuring import search, server_metrics
from manta_tools.perf.measuring.confidence import mean_of
from manta_tools.perf.measuring.histogram import LatencyHistogram
from manta_tools.perf.measuring.server_metrics import Gauges, read_gauges
from manta_tools.perf.measuring.server_statistics import (
    ServerCounts,
    difference,
    read_snapshot,
    server_side,
    together,
)
from manta_tools.perf.measuring.stability import StabilityRule
from manta_tools.perf.measuring.windows import clamped, merge, objective, summarise
from manta_tools.perf.records import Request

MS = 1_000_000


def ended(start_ns, end_ns, *, responses=(), error="", **traits):
    request = Request(**traits)
    request.intended_ns = request.start_ns = start_ns
    request.responses_ns = list(responses) or [end_ns]
    request.end_ns = end_ns
    request.error = error
    return request


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=200), st.integers(1, 100))
def test_a_percentile_is_right_to_a_thousandth(latencies, percentile):
    found = LatencyHistogram(latencies).percentile_ns(percentile)
    exact = sorted(latencies)[int(percentile / 100 * (len(latencies) - 1) + 0.5)]
    assert found == pytest.approx(exact, rel=0.001, abs=1)


@given(st.lists(st.integers(1, 10**12), min_size=2, max_size=50))
def test_mean_and_deviation_are_exact(latencies):
    histogram = LatencyHistogram(latencies)
    mean = sum(latencies) / len(latencies)
    spread = sum((each - mean) ** 2 for each in latencies) / (len(latencies) - 1)
    assert histogram.mean_ns == pytest.approx(mean)
    assert histogram.deviation_ns == pytest.approx(math.sqrt(spread), rel=1e-6, abs=1e-3)


def test_histograms_add_up():
    first, second = LatencyHistogram([MS] * 3), LatencyHistogram([9 * MS] * 7)
    first.add(second)
    assert first.count == 10
    assert first.percentile_ns(20) == pytest.approx(MS, rel=0.001)
    assert first.percentile_ns(40) == pytest.approx(9 * MS, rel=0.001)


def test_an_empty_histogram_has_zeros():
    histogram = LatencyHistogram()
    assert (histogram.mean_ns, histogram.deviation_ns, histogram.percentile_ns(99)) == (0, 0, 0)


def test_a_request_is_of_the_window_in_which_it_ended():
    requests = [ended(0, 10), ended(5, 20), ended(15, 40)]
    window = summarise(requests, 10, 20)
    assert window.requests == 2


def test_failures_count_neither_as_throughput_nor_as_latency():
    window = summarise([ended(0, 5), ended(0, 9, error="no")], 0, 10)
    assert (window.requests, window.failures, window.latencies.count) == (1, 1, 1)


def test_throughput_counts_the_inferences_of_a_batch():
    window = summarise([ended(0, MS), ended(0, MS)], 0, 1000 * MS, batch_size=8)
    assert window.throughput == 16.0


def test_first_responses_and_the_gaps_between_are_measured():
    request = ended(0, 9 * MS, responses=[2 * MS, 5 * MS, 9 * MS])
    window = summarise([request], 0, 10 * MS)
    assert window.first_responses.mean_ns == 2 * MS
    assert window.gaps.mean_ns == 3.5 * MS
    assert window.responses == 3


@pytest.mark.parametrize(
    ("metric", "limit_ms", "kept"),
    [
        ("request_latency", 9, True),
        ("request_latency", 8.9, False),
        ("time_to_first_response", 2, True),
        ("time_to_first_response", 1.9, False),
        ("inter_response_latency", 3.5, True),
        ("inter_response_latency", 3.4, False),
    ],
)
def test_an_objective_is_a_limit_that_may_be_reached(metric, limit_ms, kept):
    request = ended(0, 9 * MS, responses=[2 * MS, 5 * MS, 9 * MS])
    assert objective(metric, limit_ms)(request) is kept


def test_merged_windows_last_as_long_as_all_together():
    windows = [
        summarise([ended(0, MS)], 0, 2 * MS),
        summarise([ended(2 * MS, 3 * MS)], 2 * MS, 5 * MS),
    ]
    merged = merge(windows)
    assert merged.duration_s == pytest.approx(0.005)
    assert merged.requests == 2


def test_an_exact_run_lasts_from_the_first_start_to_the_last_end():
    assert clamped([ended(5, 9), ended(3, 7)]) == (3, 9)


RULE = StabilityRule(percentage=10.0, latency_limit_ms=100)


@pytest.mark.parametrize(
    ("throughputs", "latencies", "expected"),
    [
        ([100, 110], [5, 5], False),
        ([100, 110, 105], [5, 5, 5], True),
        ([100, 111, 105], [5, 5, 5], False),
        ([100, 110, 105], [5.0, 5.6, 5.0], False),
        ([1, 100, 100, 100], [9, 5, 5, 5], True),
        ([0, 0, 0], [5, 5, 5], False),
    ],
)
def test_three_windows_that_agree_are_stable(throughputs, latencies, expected):
    assert RULE.is_stable(throughputs, latencies) is expected


def test_throughput_alone_may_suffice():
    assert RULE.is_stable([100, 100, 100], [], check_latency=False)


def test_a_limit_of_latency_ends_a_level_with_three_windows():
    assert not RULE.is_over_limit([200 * MS, 200 * MS])
    assert RULE.is_over_limit([5 * MS, 5 * MS, 100 * MS])
    assert not StabilityRule().is_over_limit([200 * MS] * 3)


def levels(generator, meets):
    found = [next(generator)]
    while True:
        try:
            found.append(generator.send(meets(found[-1])))
        except StopIteration:
            return found


def test_a_linear_search_ends_at_the_end():
    assert levels(search.linear(1, 7, 2), lambda level: True) == [1, 3, 5, 7]


def test_a_linear_search_ends_where_limits_are_not_met():
    assert levels(search.linear(1, 0, 1), lambda level: level < 4) == [1, 2, 3, 4]


def test_a_start_above_the_end_is_one_level():
    assert levels(search.linear(8, 1, 1), lambda level: True) == [8]


@given(st.integers(1, 50), st.integers(2, 200), st.integers(1, 10), st.integers(1, 300))
def test_a_binary_search_finds_the_limit_to_a_step(start, length, step, limit):
    end = start + length
    found = levels(search.binary(start, end, step, is_whole=True), lambda level: level <= limit)
    assert found[0] == start
    if start <= limit < end:
        best = max(level for level in found if level <= limit)
        worst = min(level for level in found if level > limit)
        assert worst - best <= step
    else:
        assert len(found) == (1 if limit < start else 2)


def test_a_few_numbers_say_nothing_about_their_confidence():
    assert mean_of([1.0, 2.0]).half_width == math.inf


def stats(count, ns, version="1", name="m"):
    row = {"count": count, "ns": ns}
    kinds = ("success", "queue", "compute_input", "compute_infer", "compute_output")
    return {
        "name": name,
        "version": version,
        "inference_count": count,
        "execution_count": count,
        "inference_stats": dict.fromkeys(kinds, row),
    }


def test_the_server_s_part_is_what_it_counted_meanwhile():
    before = read_snapshot({"model_stats": [stats(10, 1000)]})
    # Over gRPC numbers of 64 bits are texts.
    after = read_snapshot({"model_stats": [stats("15", "1600")]})
    counted = server_side(difference(before, after), "m", "")
    assert (counted.counts.success_count, counted.counts.success_ns) == (5, 600)
    assert counted.counts.compute_ns == 1800


def test_counters_that_began_anew_are_taken_whole():
    before = read_snapshot({"model_stats": [stats(10, 1000)]})
    after = read_snapshot({"model_stats": [stats(4, 400)]})
    assert difference(before, after)["m", "1"].success_count == 4


def test_the_version_is_the_highest_that_worked():
    snapshot = read_snapshot(
        {"model_stats": [stats(1, 1), stats(2, 2, "10"), stats(0, 0, "11"), stats(9, 9, "9")]}
    )
    assert server_side(snapshot, "m", "").counts.success_count == 2
    assert server_side(snapshot, "m", "9").counts.success_count == 9


def test_composing_models_are_named_with_the_version_that_worked():
    snapshot = read_snapshot({"model_stats": [stats(1, 1), stats(3, 6, "2", "part")]})
    counted = server_side(snapshot, "m", "", [("part", ""), ("idle", "")])
    assert [key for key, _ in counted.composing] == [("part", "2")]


def test_differences_of_windows_add_up():
    one = {("m", "1"): ServerCounts(inference_count=2, success_ns=5)}
    assert together([one, one])["m", "1"] == ServerCounts(inference_count=4, success_ns=10)


PAGE = """# HELP nv_gpu_utilization GPU utilization rate [0.0 - 1.0)
# TYPE nv_gpu_utilization gauge
nv_gpu_utilization{gpu_uuid="GPU-1"} 0.5
nv_gpu_utilization{gpu_uuid="GPU-2"} 0.25
# TYPE nv_gpu_memory_used_bytes gauge
nv_gpu_memory_used_bytes{gpu_uuid="GPU-1"} 1000
# TYPE nv_cpu_utilization gauge
nv_cpu_utilization 0.75
# TYPE nv_inference_count counter
nv_inference_count{model="m",version="1"} 7
"""


def test_gauges_of_gpus_and_cpus_are_read_from_the_page():
    gauges = read_gauges(PAGE)
    assert gauges.gpu_utilization == {"GPU-1": 0.5, "GPU-2": 0.25}
    assert gauges.cpu_utilization == {"": 0.75}
    assert gauges.gpu_power_w == {}


def test_pages_together_are_means_of_use_and_maxima_of_memory():
    later = PAGE.replace(" 0.5", " 0.7").replace(" 1000", " 3000").replace(" 0.75", " 0.25")
    gauges = server_metrics.together([read_gauges(PAGE), read_gauges(later), Gauges()])
    assert gauges.gpu_utilization == pytest.approx({"GPU-1": 0.6, "GPU-2": 0.25})
    assert gauges.gpu_memory_used_bytes == {"GPU-1": 3000}
    assert gauges.cpu_utilization == {"": 0.5}


def test_what_is_no_page_is_refused():
    with pytest.raises(ValueError, match="html"):
        read_gauges("<html>{</html>")


def test_a_gauge_without_decimals_is_a_float():
    value = read_gauges("nv_gpu_memory_used_bytes 1000\n").gpu_memory_used_bytes[""]
    assert isinstance(value, float)
