# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The best configurations over models that were measured apart."""

from manta_tools.analyze.objectives import Bound, Goal, Judge
from manta_tools.analyze.records import Candidate, Load, Measured, Setting, Trial
from manta_tools.analyze.results.across import best_paths_across
from manta_tools.analyze.results.rows import Found
from manta_tools.analyze.space.variants import VariantNames

THROUGHPUT = (("perf_throughput", 1.0),)
LATENCY = (("perf_latency_p99", 1.0),)


def measured(model, count, throughput, p99_ms):
    values = (("instance_group.count", count),) if count else ()
    trial = Trial(Candidate((Setting(model, values),)), (Load(model, "concurrency", 1.0),))
    metrics = {"perf_throughput": throughput, "perf_latency_p99": p99_ms}
    return Measured(trial, {model: metrics})


def found(model, *rows, most_ms=100.0):
    names = VariantNames()
    outcomes = tuple(measured(model, *row) for row in rows)
    for each in outcomes:
        names.names(each.trial.candidate)
    judge = Judge((Goal(model, constraints=(Bound("perf_latency_p99", "max", most_ms),)),))
    return Found((model,), judge, outcomes, {}, {}, names)


SLOW = found("slow", (0, 10.0, 5.0), (2, 20.0, 7.0), (2, 25.0, 200.0), (3, 30.0, 90.0))
FAST = found("fast", (0, 25.0, 4.0), (2, 90.0, 300.0), (3, 15.0, 1.0))


def test_configurations_of_all_models_are_compared_value_against_value():
    assert best_paths_across([SLOW, FAST], THROUGHPUT, 3) == [
        "slow_config_1", "fast_config_default", "slow_config_0"]  # fmt: skip
    assert best_paths_across([FAST, SLOW], THROUGHPUT, 3) == [
        "slow_config_1", "fast_config_default", "slow_config_0"]  # fmt: skip
    assert best_paths_across([SLOW, FAST], LATENCY, 2) == ["fast_config_1", "fast_config_default"]


def test_what_breaks_its_constraints_is_left_out_unless_everything_does():
    assert "fast_config_0" not in best_paths_across([SLOW, FAST], THROUGHPUT, 100)
    late = [
        found("a", (0, 90.0, 30.0), (2, 95.0, 40.0), most_ms=10.0),
        found("b", (0, 1.0, 11.0), most_ms=10.0),
    ]
    assert best_paths_across(late, THROUGHPUT, 2) == ["b_config_default", "a_config_default"]


def test_where_nothing_was_measured_there_is_no_best():
    assert best_paths_across([found("a")], THROUGHPUT, 2) == []
