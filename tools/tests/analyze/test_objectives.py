# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is better comes first, and what breaks a constraint comes after what keeps it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError
from manta_tools.analyze.json_forms import from_json, to_json
from manta_tools.analyze.objectives import Bound, Goal, Judge
from manta_tools.analyze.pareto import front
from manta_tools.analyze.records import Candidate, Load, Measured, Setting, Trial

LATENCY = Bound("perf_latency_p99", "max", 10.0)


def measured(throughput, p99=5.0, batch=0, error="", gpus=None, model="m"):
    values = (("max_batch_size", batch),) if batch else ()
    trial = Trial(Candidate((Setting(model, values),)), (Load(model, "concurrency", 4.0),))
    metrics = {model: {"perf_throughput": throughput, "perf_latency_p99": p99}}
    return Measured(trial, {} if error else metrics, error=error, gpu_metrics=gpus or {})


def judge(*objectives, constraints=(), **named):
    return Judge((Goal("m", objectives or (("perf_throughput", 1.0),), constraints),), **named)


def throughputs(ranked):
    return [each.metrics["m"]["perf_throughput"] for each in ranked]


def test_more_throughput_is_better_and_more_latency_is_worse():
    by_throughput, by_latency = judge(), judge(("perf_latency_p99", 1.0))
    one, two = measured(100, 5), measured(200, 9, batch=2)
    assert throughputs(by_throughput.ranked([one, two])) == [200, 100]
    assert throughputs(by_latency.ranked([two, one])) == [100, 200]


def test_a_gain_is_relative_to_the_mean_and_weighted():
    both = judge(("perf_throughput", 3.0), ("perf_latency_p99", 1.0))
    gain = both.gain(measured(150, 6), measured(50, 2))
    assert gain == pytest.approx(0.75 * 1.0 - 0.25 * 1.0)


def test_models_count_by_their_weighting():
    goals = (Goal("a", weighting=3.0), Goal("b", weighting=1.0))

    def of_two(a, b):
        return Measured(Trial(Candidate(()), ()),
                        {"a": {"perf_throughput": a}, "b": {"perf_throughput": b}})  # fmt: skip

    assert Judge(goals).gain(of_two(3, 1), of_two(1, 3)) == pytest.approx(0.5)


def test_what_keeps_the_constraints_comes_first_then_what_nearly_does():
    limited = judge(constraints=(LATENCY,))
    results = [
        measured(900, 30, 1), measured(100, 9), measured(800, 11, 2), measured(0, error="died")
    ]  # fmt: skip
    assert throughputs(limited.ranked(results)) == [100, 800, 900]
    assert [limited.satisfies(each) for each in results] == [False, True, False, False]


def test_a_metric_that_was_not_measured_is_not_bound():
    assert judge(constraints=(Bound("gpu_used_memory", "max", 1.0),)).satisfies(measured(1))


def test_less_load_is_tried_against_limits_on_times_alone():
    over_memory = Bound("cpu_used_ram", "max", 1.0)
    assert judge(constraints=(LATENCY, over_memory)).overload(measured(1, 25.0)) == 2.5
    assert judge(constraints=(over_memory,)).overload(measured(1, 25.0)) == 0.0
    assert not judge(constraints=(over_memory,)).limits_load
    assert judge(constraints=(Bound("perf_latency", "max", 1.0),)).limits_load


def test_metrics_of_gpus_are_summed_or_averaged():
    gpus = {"A": {"gpu_used_memory": 100.0, "gpu_utilization": 20.0},
            "B": {"gpu_used_memory": 50.0, "gpu_utilization": 40.0}}  # fmt: skip
    one = measured(1, gpus=gpus)
    assert judge().metric(one, "m", "gpu_used_memory") == 150.0
    assert judge().metric(one, "m", "gpu_utilization") == 30.0


def test_a_million_inferences_cost_the_node_hours_they_take():
    priced = judge(("cost_per_million_inferences", 1.0), price_per_node_hour=3.6)
    assert priced.metric(measured(1000), "m", "cost_per_million_inferences") == pytest.approx(1.0)
    assert judge().metric(measured(1000), "m", "cost_per_million_inferences") is None
    assert throughputs(priced.ranked([measured(10), measured(20, batch=1)])) == [20, 10]


def test_an_old_name_of_a_metric_is_understood():
    assert judge().metric(measured(1, 7.0), "m", "perf_latency") == 7.0


def test_the_best_of_each_candidate_is_one_row():
    results = [measured(1, batch=1), measured(5, batch=1), measured(3, batch=2)]
    assert throughputs(judge().best_by_candidate(results)) == [5, 3]


def test_of_nothing_there_is_no_best():
    assert judge().best([measured(0, error="died")]) is None


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=40))
def test_the_front_is_what_nothing_dominates(points):
    def dominates(one, two):
        return one[0] >= two[0] and one[1] >= two[1] and one != two

    kept = front(points)
    expected = {p for p in points if not any(dominates(other, p) for other in points)}
    assert {points[index] for index in kept} == expected
    assert len(kept) == len(expected)


SCALARS = st.integers() | st.floats(allow_nan=False) | st.text() | st.booleans()


@given(st.lists(st.tuples(st.text(), SCALARS)), st.floats(0.1, 1), st.text(), st.booleans())
def test_a_measurement_survives_json(values, budget, error, is_stable):
    one = Measured(
        Trial(
            Candidate((Setting("m", tuple(values)),)), (Load("m", "request_rate", 2.5, 3),), budget
        ),
        {"m": {"perf_throughput": 1.5}},
        is_stable=is_stable,
        error=error,
        gpu_metrics={"GPU-1": {"gpu_utilization": 3.0}},
    )
    assert from_json(json.loads(json.dumps(to_json(one)))) == one


@pytest.mark.parametrize("tree", [{}, {"trial": 3}, {"trial": {"candidate": [{"model": "m"}]}}])
def test_a_record_that_is_none_is_refused(tree):
    with pytest.raises(InvalidArgumentError, match="checkpoint"):
        from_json(tree)
