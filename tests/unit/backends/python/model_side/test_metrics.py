# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""pb_utils.MetricFamily; the texts are those real Triton answered with."""

import gc
import math
import threading

import pytest

from backends.python.model_side import pb_utils
from backends.python.model_side.current_model import CURRENT
from backends.python.model_side.metrics import custom_metrics
from backends.python.model_side.pb_utils import MetricFamily

REFUSED = "Failed to process the request for model 'm_0_0', message: "


@pytest.fixture(autouse=True)
def _instance(monkeypatch):
    monkeypatch.setattr(CURRENT, "instance_name", "m_0_0")


def shown() -> dict[str, list[tuple[list[tuple[str, str]], float]]]:
    return {
        family.name: [(metric.labels, metric.value) for metric in family.metrics]
        for family in custom_metrics()
    }


def test_a_counter_counts_and_shows_its_labels():
    family = MetricFamily("c1", "help", MetricFamily.COUNTER)
    metric = family.Metric(labels={"b": "1", "a": "2"})
    metric.increment(1.5)
    metric.increment(True)
    assert metric.value() == 2.5
    assert shown() == {"c1": [([("a", "2"), ("b", "1")], 2.5)]}


def test_a_gauge_goes_up_and_down_and_can_be_set():
    family = MetricFamily(name="g1", description="", kind=MetricFamily.GAUGE)
    metric = family.Metric()
    metric.increment(2)
    metric.increment(-3)
    assert (metric.value(), custom_metrics()[0].metrics[0].set_ns) == (-1.0, 0)
    metric.set(7)
    assert metric.value() == 7.0
    assert custom_metrics()[0].metrics[0].set_ns > 0


def test_a_histogram_counts_up_to_and_including_each_bound():
    family = MetricFamily("h1", "", MetricFamily.HISTOGRAM)
    metric = family.Metric(buckets=[0.1, 1.0, math.inf])
    for value in (0.1, 0.5, 9):
        metric.observe(value)
    (row,) = custom_metrics()[0].metrics
    assert (row.bounds, row.counts, row.value) == ([0.1, 1.0], [1, 1, 1], pytest.approx(9.6))


def test_families_and_metrics_of_one_name_are_one():
    one = MetricFamily("c2", "first", MetricFamily.COUNTER)
    other = MetricFamily("c2", "second", MetricFamily.COUNTER)
    metrics = [one.Metric({"k": "v"}), other.Metric({"k": "v"}), one.Metric({"k": "v"})]
    for metric in metrics:
        metric.increment(1)
    assert [metric.value() for metric in metrics] == [3.0, 3.0, 3.0]
    assert custom_metrics()[0].description == "first"
    del one
    assert metrics[1].value() == 3.0
    with pytest.raises(pb_utils.TritonModelException, match="has been deleted"):
        metrics[0].value()
    assert shown() == {"c2": [([("k", "v")], 3.0)]}


def test_metrics_live_as_long_as_their_family():
    family = MetricFamily("g2", "", MetricFamily.GAUGE)
    family.Metric().set(3)
    gc.collect()
    assert shown() == {"g2": [([], 3.0)]}
    metric = family.Metric()
    del family
    assert shown() == {}
    with pytest.raises(pb_utils.TritonModelException) as raised:
        metric.set(4)
    assert str(raised.value) == (
        "Failed to set metric value: Invalid metric operation as the corresponding 'MetricFamily' "
        "has been deleted. The 'MetricFamily' object should be deleted AFTER its corresponding "
        "'Metric' objects have been deleted."
    )


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda f: MetricFamily("f_COUNTER", "", MetricFamily.GAUGE),
            f"Error when creating MetricFamily: {REFUSED}Family name already exists with different "
            "type",
        ),
        (
            lambda f: MetricFamily("bad name", "", MetricFamily.GAUGE),
            f"Error when creating MetricFamily: {REFUSED}Invalid metric name",
        ),
        (
            lambda f: f["GAUGE"].Metric(labels="a"),
            "Failed to create metric. Labels must be a dictionary.",
        ),
        (
            lambda f: f["GAUGE"].Metric(labels={"a": 1}),
            f"Error when creating Metric: {REFUSED}attempt to access JSON non-string as string",
        ),
        (
            lambda f: f["GAUGE"].Metric(labels={"__a": "v"}),
            f"Error when creating Metric: {REFUSED}Invalid label name",
        ),
        (
            lambda f: f["GAUGE"].Metric(buckets=[1]),
            "Failed to create metric. Unexpected buckets found.",
        ),
        (
            lambda f: f["HISTOGRAM"].Metric(),
            "Failed to create metric. Missing required buckets.",
        ),
        (
            lambda f: f["HISTOGRAM"].Metric(buckets=(1,)),
            "Failed to create metric. Buckets must be a list.",
        ),
        (
            lambda f: f["HISTOGRAM"].Metric(buckets=[1, 1]),
            f"Error when creating Metric: {REFUSED}Bucket Boundaries must be strictly sorted",
        ),
        (
            lambda f: f["HISTOGRAM"].Metric(buckets=[math.nan]),
            f"Error when creating Metric: {REFUSED}Bucket Boundaries must be strictly sorted",
        ),
        (
            lambda f: f["COUNTER"].Metric().increment(-1),
            f"Failed to increment metric value: {REFUSED}TRITONSERVER_METRIC_KIND_COUNTER can only "
            "be incremented monotonically by non-negative values.",
        ),
        (
            lambda f: f["COUNTER"].Metric().set(1),
            f"Failed to set metric value: {REFUSED}TRITONSERVER_METRIC_KIND_COUNTER does not "
            "support Set",
        ),
        (
            lambda f: f["GAUGE"].Metric().observe(1),
            f"Failed to observe metric value: {REFUSED}TRITONSERVER_METRIC_KIND_GAUGE does not "
            "support Observe",
        ),
        (
            lambda f: f["HISTOGRAM"].Metric(buckets=[]).increment(1),
            f"Failed to increment metric value: {REFUSED}TRITONSERVER_METRIC_KIND_HISTOGRAM does "
            "not support Increment",
        ),
        (
            lambda f: f["HISTOGRAM"].Metric(buckets=[]).value(),
            f"Failed to get metric value: {REFUSED}TRITONSERVER_METRIC_KIND_HISTOGRAM does not "
            "support Value",
        ),
    ],
)
def test_misuse_has_the_texts_of_triton(call, says):
    families = {
        kind.name: MetricFamily(f"f_{kind.name}", "", kind)
        for kind in (MetricFamily.COUNTER, MetricFamily.GAUGE, MetricFamily.HISTOGRAM)
    }
    with pytest.raises(pb_utils.TritonModelException) as raised:
        call(families)
    assert str(raised.value).startswith(says)


def test_a_kind_is_needed():
    with pytest.raises(TypeError, match="one of its kinds"):
        MetricFamily("n", "d", 0)


def test_threads_lose_no_increment():
    family = MetricFamily("c3", "", MetricFamily.COUNTER)
    metric = family.Metric()

    def count() -> None:
        for _ in range(2000):
            metric.increment(1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert metric.value() == 8000.0
