# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instances and nodes follow from what was measured, and what was not is said."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError
from manta_tools.analyze.objectives import Bound
from manta_tools.analyze.planning import Demand, Level, Node, best_level, level_of, plan
from manta_tools.analyze.records import Candidate, Measured, Trial

SLO = (Bound("perf_latency_p99", "max", 20.0),)
NODE = Node({"CPU": 8, "memory_mb": 1000}, price_per_hour=2.0)


def level(throughput, p99, instances=1, model="m"):
    metrics = {"perf_throughput": throughput, "perf_latency_p99": p99}
    return Level(model, instances, throughput, metrics, f"{model}_config_0 at {throughput:g}")


LEVELS = [level(100, 5), level(190, 12), level(220, 40), level(300, 15, instances=2)]


def demand(rate, model="m", limits=SLO, **needs):
    return Demand(model, rate, limits, needs or {"CPU": 2})


def refusal(*arguments, **named):
    with pytest.raises(InvalidArgumentError) as caught:
        plan(*arguments, **named)
    return caught.value.message


def test_the_highest_level_that_keeps_the_limit_is_taken():
    assert best_level(demand(1), LEVELS).throughput == 190


def test_instances_carry_the_load_at_that_level():
    (share,) = plan([demand(1000)], LEVELS, NODE).shares
    assert share.instances == math.ceil(1000 / 190)
    assert share.utilisation == pytest.approx(1000 / (6 * 190))


def test_instances_are_packed_by_what_is_scarce():
    by_cpu = plan([demand(1000, CPU=2)], LEVELS, NODE)
    by_memory = plan([demand(1000, CPU=1, memory_mb=500)], LEVELS, NODE)
    assert [dict(each) for each in by_cpu.nodes] == [{"m": 4}, {"m": 2}]
    assert [dict(each) for each in by_memory.nodes] == [{"m": 2}] * 3


def test_fractions_of_gpus_share_a_gpu():
    found = plan([demand(700, GPU=0.25)], LEVELS, Node({"GPU": 1}))
    assert [dict(each) for each in found.nodes] == [{"m": 4}]


def test_small_instances_fill_what_large_ones_leave():
    levels = [*LEVELS, level(100, 5, model="small")]
    found = plan([demand(100, "small", CPU=2), demand(190, CPU=6)], levels, NODE)
    assert [dict(each) for each in found.nodes] == [{"m": 1, "small": 1}]


def test_a_lost_node_is_made_up_for_and_paid():
    found = plan([demand(1000)], LEVELS, NODE, lost_nodes=1)
    assert (len(found.nodes), found.node_count, found.price_per_hour) == (2, 3, 6.0)
    assert found.price_per_month == 6.0 * 730
    assert found.cost_per_million == pytest.approx(6.0 / 3.6)


def test_what_was_not_measured_is_said():
    alone = plan([demand(100)], LEVELS, NODE)
    many = plan([demand(1000)], LEVELS, NODE)
    assert alone.assumptions == ()
    assert any("4 instances of model 'm'" in each and "m_config_0" in each
               for each in many.assumptions)  # fmt: skip
    assert any("2 nodes" in each for each in many.assumptions)


def test_what_remains_is_told():
    assert plan([demand(95)], LEVELS, NODE).headroom["m"] == pytest.approx(1.0)


def test_a_limit_that_no_measurement_keeps_is_refused():
    text = refusal([demand(1, limits=(Bound("perf_latency_p99", "max", 1.0),))], LEVELS, NODE)
    assert "perf_latency_p99 max 1" in text
    assert "came to 5" in text


def test_a_limit_on_what_was_not_measured_is_refused():
    limits = (Bound("gpu_used_memory", "max", 1.0),)
    assert "not measured" in refusal([demand(1, limits=limits)], LEVELS, NODE)


def test_a_model_that_was_not_measured_is_refused():
    assert "manta analyze other" in refusal([demand(1, "other")], LEVELS, NODE)


def test_an_instance_larger_than_a_node_is_refused():
    assert "CPU 9" in refusal([demand(1, CPU=9)], LEVELS, NODE)
    assert "GPU 1" in refusal([demand(1, GPU=1)], LEVELS, NODE)


def test_more_nodes_than_allowed_are_refused():
    few = Node({"CPU": 2}, most=3)
    assert "6 nodes" in refusal([demand(1000)], LEVELS, few)


def test_no_load_is_refused():
    assert "above 0" in refusal([demand(0)], LEVELS, NODE)


def test_a_failed_measurement_is_no_level():
    trial = Trial(Candidate(()), ())
    assert level_of(Measured(trial, {"m": {"perf_throughput": 7.0}}), "m", 2, "x").instances == 2
    with pytest.raises(InvalidArgumentError, match="no throughput"):
        level_of(Measured(trial, {}, error="died"), "m", 1, "x")


@given(rate=st.floats(1, 1e5), cpus=st.floats(0.1, 8), lost=st.integers(0, 3))
def test_a_plan_carries_its_load_and_no_node_has_too_much(rate, cpus, lost):
    found = plan([demand(rate, CPU=cpus)], LEVELS, NODE, lost_nodes=lost)
    (share,) = found.shares
    assert sum(each["m"] for each in found.nodes) == share.instances
    assert share.utilisation <= 1.0 + 1e-6
    assert all(each["m"] * cpus <= 8 + 1e-6 for each in found.nodes)
    assert found.spares == lost
