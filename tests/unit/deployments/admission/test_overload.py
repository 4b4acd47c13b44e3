# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Goodput, latency and recovery of real gates before a simulated model, in virtual time."""

import pytest

from deployments.admission.rules import AdmissionRules
from tests.support.overload import Load, Model, simulate

MODELS = {
    "5 ms, batches of 8": (Model(0.005, 8), 8.0),
    "5 ms, one by one": (Model(0.005, 1), 12.0),
    "1 ms, batches of 4": (Model(0.001, 4), 4.0),
    "0.2 ms, one by one": (Model(0.0002, 1), 2.5),
    "20 ms, batches of 4, two instances": (Model(0.02, 4, 2), 20.0),
    "100 ms, batches of 16": (Model(0.1, 16), 40.0),
    "5 ms with chance, batches of 8": (Model(0.005, 8, jitter=0.3), 8.0),
    "2 s, batches of 8": (Model(2.0, 8), 400.0),
    "5 ms, four instances": (Model(0.005, 1, 4), 6.0),
}
CASES = pytest.mark.parametrize(("model", "duration_s"), MODELS.values(), ids=MODELS)
INGRESSES = pytest.mark.parametrize("ingress_count", [1, 4])


def unloaded_p99_s(model):
    rate = 0.05 * model.capacity_per_s
    load = Load(lambda _: rate, 400 / rate)
    return simulate(model, load, seed=2).quantile_s(0.99, 0, 1e9)


def stepped(model, duration_s, factor=5.0):
    """Return a load of 0.3, then so many, then 0.7 times the capacity, and when they begin."""
    from_s, to_s = 0.2 * duration_s, 0.8 * duration_s
    capacity = model.capacity_per_s

    def rate(at_s):
        return capacity * (0.3 if at_s < from_s else factor if at_s < to_s else 0.7)

    return Load(rate, duration_s), from_s, to_s


@pytest.mark.slow
@CASES
@INGRESSES
def test_under_five_times_the_capacity_goodput_and_p99_hold(model, duration_s, ingress_count):
    load, from_s, to_s = stepped(model, duration_s)
    run = simulate(model, load, ingress_count=ingress_count)
    assert run.refused(0, from_s) == 0
    assert run.goodput_per_s(from_s, to_s) >= 0.9 * model.capacity_per_s
    # The queue that came before overload was seen has gone by then: docs/overload.md.
    settled_s = from_s + max(1.0, 35 * model.execution_s)
    fast = 3.0 if model.execution_s >= 0.002 else 3.6
    assert run.quantile_s(0.99, settled_s, to_s) <= fast * unloaded_p99_s(model)
    # What is held meanwhile is what the burst time allows, and one execution.
    burst_s = max(0.1, min(20 * model.execution_s, max(5.0, 4 * model.execution_s)))
    most = model.capacity_per_s * (burst_s + 2 * model.execution_s)
    assert run.most_outstanding <= 2.5 * most + 8 * ingress_count


@pytest.mark.slow
@CASES
@INGRESSES
def test_refusals_end_within_two_seconds_or_32_executions_of_overload(
    model, duration_s, ingress_count
):
    load, _, to_s = stepped(model, duration_s)
    run = simulate(model, load, ingress_count=ingress_count)
    recovered_s = to_s + max(2.0, 32 * model.execution_s)
    assert run.refused(recovered_s, 1e9) == 0


@CASES
@INGRESSES
def test_below_capacity_nothing_is_refused(model, duration_s, ingress_count):
    # Of few and slow requests, spread over ingresses, chance makes queues of several seconds.
    rate = (0.75 if model.execution_s < 1.0 else 0.5) * model.capacity_per_s
    run = simulate(model, Load(lambda _: rate, duration_s), ingress_count=ingress_count)
    assert run.refusals == []


@pytest.mark.slow
@pytest.mark.parametrize("ingress_count", [1, 4])
def test_a_sawtooth_between_idle_and_overload_keeps_its_goodput(ingress_count):
    model = Model(0.005, 8)
    capacity = model.capacity_per_s
    # From nothing to three times the capacity, every two seconds.
    load = Load(lambda at_s: capacity * (0.1 + 3 * (at_s % 2.0) / 2.0), 20.0)
    run = simulate(model, load, ingress_count=ingress_count)
    # A third of the time is below capacity, half of it on average.
    assert run.goodput_per_s(0, 20) >= 0.9 * capacity * (1 / 3 * 1 / 2 + 2 / 3)
    assert run.quantile_s(0.99, 0, 20) <= 0.15


def test_bursts_of_less_than_the_burst_time_are_not_refused():
    model = Model(0.005, 8)
    # 60 requests in 2 ms, three times a second.
    load = Load(lambda at_s: 30_000 if at_s % (1 / 3) < 0.002 else 0, 10.0, is_poisson=False)
    run = simulate(model, load)
    assert len(run.answers) > 1000
    assert run.refusals == []


def test_a_model_whose_answers_do_not_tell_their_execution_is_limited_too():
    model = Model(0.005, 8, is_silent=True, tells_queue=False)
    load, from_s, to_s = stepped(model, 12.0)
    run = simulate(model, load, rules=AdmissionRules(is_decoupled=True))
    assert run.refused(0, from_s) == 0
    assert run.goodput_per_s(from_s, to_s) >= 0.9 * model.capacity_per_s
    assert run.quantile_s(0.99, from_s + 1, to_s) <= 3 * unloaded_p99_s(model)


def test_levels_are_refused_from_the_lowest_up():
    model = Model(0.005, 8)
    # Of five times the capacity level 1 wants half of it, level 2 the whole, level 3 the rest.
    levels = (1, 2, 2, 3, 3, 3, 3, 3, 3, 3)
    load, from_s, to_s = stepped(model, 12.0)
    load = Load(load.rate_per_s, load.duration_s, lambda chance: chance.choice(levels))
    run = simulate(model, load, rules=AdmissionRules(level_count=3, default_level=2))
    from_s += 1
    parts = {
        level: run.admitted(from_s, to_s, level)
        / (run.admitted(from_s, to_s, level) + run.refused(from_s, to_s, level))
        for level in (1, 2, 3)
    }
    assert parts[1] > 0.97
    assert 0.3 < parts[2] < 0.7
    assert parts[3] < 0.02
    assert run.goodput_per_s(from_s, to_s) >= 0.9 * model.capacity_per_s


def test_a_lowest_level_alone_has_the_whole_model():
    model = Model(0.005, 8)
    load, from_s, to_s = stepped(model, 12.0)
    load = Load(load.rate_per_s, load.duration_s, lambda _: 3)
    run = simulate(model, load, rules=AdmissionRules(level_count=3, default_level=2))
    assert run.goodput_per_s(from_s, to_s) >= 0.9 * model.capacity_per_s


def test_deadlines_that_are_met_when_idle_are_refused_only_under_overload():
    model = Model(0.005, 8)
    load, from_s, to_s = stepped(model, 12.0)
    with_deadline = Load(load.rate_per_s, load.duration_s, left_s=0.012)
    run = simulate(model, with_deadline)
    assert run.refused(0, from_s) == 0
    assert run.goodput_per_s(from_s, to_s) >= 0.85 * model.capacity_per_s
    late = sum(each.took_s > 0.012 for each in run.answers)
    assert late <= 0.05 * len(run.answers)
