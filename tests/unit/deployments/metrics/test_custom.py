# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of models' own on the metrics page; the lines are those of real Triton."""

import math

from prometheus_client.parser import text_string_to_metric_families

from backends.api.custom_metrics import CustomFamily, CustomMetric, MetricKind
from deployments.metrics.counters import Snapshot, decode, encode, merge
from deployments.metrics.custom import render_custom
from deployments.metrics.page import ModelMetrics, render

HISTOGRAM = CustomMetric([], 9.6, 0, [0.1, 1.0, 2.5, 5.0], [1, 1, 0, 0, 1])
COUNTER = CustomMetric([("a", 'x"y\\z\nq'), ("b", "1")], 1.5)


def counter(value: float, name: str = "c") -> CustomFamily:
    return CustomFamily(name, "help", MetricKind.COUNTER, [CustomMetric([], value)])


def gauge(value: float, set_ns: int = 0) -> CustomFamily:
    return CustomFamily("g", "help", MetricKind.GAUGE, [CustomMetric([], value, set_ns)])


def test_each_kind_is_written_as_in_triton():
    lines = render_custom(
        [
            CustomFamily("hh_hist", "h", MetricKind.HISTOGRAM, [HISTOGRAM]),
            CustomFamily("zz_counter", "zz help", MetricKind.COUNTER, [COUNTER]),
        ]
    )
    assert lines == [
        "# HELP zz_counter zz help",
        "# TYPE zz_counter counter",
        r'zz_counter{a="x\"y\\z\nq",b="1"} 1.5',
        "# HELP hh_hist h",
        "# TYPE hh_hist histogram",
        "hh_hist_count 3",
        "hh_hist_sum 9.6",
        'hh_hist_bucket{le="0.1"} 1',
        'hh_hist_bucket{le="1"} 2',
        'hh_hist_bucket{le="2.5"} 2',
        'hh_hist_bucket{le="5"} 2',
        'hh_hist_bucket{le="+Inf"} 3',
    ]


def test_counters_and_histograms_of_instances_add_up():
    histogram = CustomFamily("h", "", MetricKind.HISTOGRAM, [HISTOGRAM])
    lines = render_custom([counter(1), histogram, counter(2), histogram])
    assert "c 3" in lines
    assert 'h_bucket{le="+Inf"} 6' in lines
    assert "h_sum 19.2" in lines


def test_a_gauge_is_the_sum_until_somebody_sets_it():
    assert render_custom([gauge(2), gauge(-3)])[-1] == "g -1"
    assert render_custom([gauge(2), gauge(7, set_ns=5), gauge(8, set_ns=4)])[-1] == "g 7"


def test_a_family_whose_name_is_taken_is_left_out_and_logged_once(caplog):
    families = [counter(1, "nv_taken"), counter(1, "k"), gauge(1)]
    families[2].name = "k"
    for _ in range(2):
        assert render_custom(families, {"nv_taken"})[-1] == "k 1"
    assert len(caplog.records) == 2


def test_numbers_that_are_none_are_written_as_in_triton():
    values = (math.nan, math.inf, -math.inf, 1e300)
    written = [render_custom([counter(value)])[-1] for value in values]
    assert written == ["c Nan", "c +Inf", "c -Inf", "c 1e+300"]


def test_the_page_has_what_all_instances_of_all_models_tell():
    told = [decode(encode(Snapshot(custom=[counter(value)]))) for value in (1, 2)]
    models = [
        ModelMetrics("m", "1", merge(told)),
        ModelMetrics("n", "1", merge([Snapshot(custom=[counter(4)])])),
    ]
    page = render(models).decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert families["c"].samples[0].value == 7.0
