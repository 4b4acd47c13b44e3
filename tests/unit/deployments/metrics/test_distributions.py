# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.config.pbtxt import parse_pbtxt
from deployments.metrics.counters import ExecutionTimes, InstanceStatistics, merge
from deployments.metrics.distributions import Distributions, bounds_ms, class_of, quantile, value_of
from deployments.settings.metrics_settings import (
    MetricsSettings,
    read_metrics_config,
    read_quantiles,
)

SECOND_NS = 1_000_000_000


@given(st.integers(0, 10**12))
def test_a_class_s_value_is_within_a_percent(value):
    assert math.isclose(value_of(class_of(value)), value, rel_tol=0.01, abs_tol=1)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200), st.floats(0.01, 1))
def test_a_quantile_is_the_value_of_its_rank(values, fraction):
    classes: dict[int, int] = {}
    for value in values:
        classes[class_of(value)] = classes.get(class_of(value), 0) + 1
    expected = sorted(values)[math.ceil(fraction * len(values)) - 1]
    assert math.isclose(quantile(classes, fraction), expected, rel_tol=0.01, abs_tol=1)


def test_nothing_has_no_quantile():
    assert math.isnan(quantile({}, 0.5))


def test_values_older_than_a_minute_are_forgotten():
    now = [0]
    distributions = Distributions(has_summaries=True, bounds=None, clock_ns=lambda: now[0])
    distributions.observe([5000] * 5)
    now[0] = 47 * SECOND_NS
    assert distributions.latencies() == [{5: 1}] * 5
    now[0] = 61 * SECOND_NS
    assert distributions.latencies() == [{}] * 5


def test_distributions_of_instances_add_up():
    snapshots = []
    for start_ns, end_ns in ((2000, 12_000), (7000, 300_000_000)):
        statistics = InstanceStatistics()
        statistics.distributions = Distributions(
            has_summaries=True, bounds=(100.0,), clock_ns=lambda: 0
        )
        times = ExecutionTimes(start_ns, start_ns, end_ns, end_ns)
        statistics.record_distribution(0, times)
        statistics.distributions.first_response(end_ns)
        snapshots.append(statistics.snapshot(0))
    total = merge(snapshots)
    assert total.latencies[1] == {2: 1, 7: 1}
    assert total.latencies[4] == {0: 2}
    assert (total.bucket_counts, total.first_response_ms) == ([1, 1], 300)


def test_without_distributions_nothing_is_noted():
    statistics = InstanceStatistics()
    statistics.record_distribution(0, ExecutionTimes(1, 2, 3, 4))
    assert statistics.snapshot(0).latencies == []


def test_buckets_follow_the_model():
    assert bounds_ms(parse_pbtxt('name: "m"', "")) == (100, 500, 2000, 5000)
    text = """name: "m" model_metrics { metric_control {
      metric_identifier { family: "nv_inference_first_response_histogram_ms" }
      histogram_options { buckets: [ 1, 2.5 ] } } }"""
    assert bounds_ms(parse_pbtxt(text, "")) == (1, 2.5)


def test_metrics_config_is_read_as_in_triton():
    flags = {"interval_ms": 500.0, "has_cpu": True, "has_gpu": False}
    assert read_metrics_config((), **flags) == MetricsSettings(interval_ms=500.0, has_gpu=False)
    given_config = (
        ("counter_latencies", "false"),
        ("summary_latencies", "true"),
        ("histogram_latencies", "true"),
        ("summary_quantiles", "0.5:0.05,0.99:0.001"),
        ("unknown", "x"),
    )
    settings = read_metrics_config(given_config, **flags)
    assert (settings.has_counters, settings.has_summaries) == (False, True)
    assert (settings.has_histograms, settings.quantiles) == (True, (0.5, 0.99))


@pytest.mark.parametrize("text", ["", "0.5", "x:y", "2:0.1", "0.5:0.1,", "nan:0"])
def test_wrong_quantiles_are_refused(text):
    with pytest.raises(ValueError, match=r"quantile|float"):
        read_quantiles(text)
