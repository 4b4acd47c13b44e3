# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""In simulated servers, where the truth is known, searches find it, cheaply, and go on.

The cost of a search is the sum of its budgets, in full measurements.
"""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manta_tools.analyze.json_forms import from_json, to_json
from manta_tools.analyze.options.parsing import parse
from manta_tools.analyze.records import Measured
from manta_tools.analyze.searching.choosing import choose
from tests.support.analyzed_servers import Model, Server, config_of, run
from tests.support.examples import examples

ENSEMBLE = """
platform: "ensemble" max_batch_size: 8
ensemble_scheduling { step [ { model_name: "a" model_version: -1 }, { model_name: "b" } ] }
"""
SMALL_STEPS = ("--run-config-search-max-instance-count", "2",
               "--run-config-search-max-model-batch-size", "8")  # fmt: skip
# Shapes like those of the demo models: models, what is asked of them, and a limit in milliseconds.
WORLDS = {
    "tiny add/sub": ({"m": Model(fixed_ms=0.05, row_ms=0.002)}, (), 1),
    "convolutions on 4 cores": ({"m": Model(fixed_ms=3.0, row_ms=1.5)}, (), 60),
    "convolutions on 2 cores": (
        {"m": Model(fixed_ms=3.0, row_ms=1.5, cores=2, contention=0.15)}, (), 80),
    "identity in Python": (
        {"m": Model(fixed_ms=0.4, row_ms=0.03, cores=2, contention=0.1)}, (), 6),
    "an ensemble of two": (
        {"a": Model(fixed_ms=0.2, row_ms=0.05), "b": Model(fixed_ms=1.0, row_ms=0.5)},
        SMALL_STEPS, 30),
}  # fmt: skip


def chosen(world, mode, *arguments, seed=0, width=1):
    models, usual, _ = WORLDS[world]
    argv = ["m", "-m", "x", *usual, *arguments, "--run-config-search-mode", mode]
    options = parse([*argv, "--seed", str(seed)], str).options
    configs = {name: config_of(name) for name in models}
    configs.setdefault("m", config_of("m", ENSEMBLE))
    return choose(options, configs, width=width)


def server_of(world, seed=0, noise=0.01):
    models = WORLDS[world][0]
    pipelines = {} if "m" in models else {"m": tuple(models)}
    return Server(models, pipelines, seed=seed, noise=noise)


def best_of(world, mode, *arguments, seed=0, width=1):
    """Return what the best configuration that was found really does, and what the search cost."""
    chose = chosen(world, mode, *arguments, seed=seed, width=width)
    found = run(chose.search(), server_of(world, seed))
    best = chose.judge_of("m").best(found)
    truth = server_of(world, noise=0.0).measure(best.trial).metrics["m"]
    return truth["perf_throughput"], sum(each.trial.budget for each in found)


@pytest.mark.slow
@pytest.mark.parametrize("is_limited", [False, True], ids=["free", "limited"])
@pytest.mark.parametrize("world", WORLDS)
def test_searches_find_the_best_for_a_quarter_of_the_cost(world, is_limited):
    arguments = ("--latency-budget", str(WORLDS[world][2])) if is_limited else ()
    best, cost = best_of(world, "brute", *arguments)
    for mode in ("quick", "optuna", "halving"):
        found, its_cost = best_of(world, mode, *arguments)
        assert found >= 0.95 * best, mode
        assert its_cost <= 0.25 * cost, mode


def asked_for(search, server, order=None):
    """Return what a search asks for at once, each time, when outcomes come in some order."""
    found = []
    while trials := search.ask():
        found.append(list(trials))
        for trial in order.sample(trials, len(trials)) if order else trials:
            search.tell(server.measure(trial))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("is_limited", [False, True], ids=["free", "limited"])
@pytest.mark.parametrize("world", WORLDS)
def test_on_several_nodes_searches_find_as_good_a_configuration(world, is_limited):
    arguments = ("--latency-budget", str(WORLDS[world][2])) if is_limited else ()
    best, cost = best_of(world, "brute", *arguments)
    for mode in ("quick", "optuna", "halving"):
        found, its_cost = best_of(world, mode, *arguments, width=4)
        assert found >= 0.95 * best, mode
        assert its_cost <= 0.25 * cost, mode


@pytest.mark.parametrize("mode", ["brute", "quick", "halving"])
def test_several_nodes_measure_what_one_does_in_fewer_steps(mode):
    steps = {}
    for width in (1, 4):
        search = chosen("convolutions on 4 cores", mode, width=width).search()
        steps[width] = asked_for(search, server_of("convolutions on 4 cores"))
    one, four = ({trial for step in steps[width] for trial in step} for width in (1, 4))
    assert four == one
    assert max(map(len, steps[4])) == 4
    assert len(steps[4]) < 0.5 * len(steps[1])


@pytest.mark.parametrize("mode", ["brute", "quick", "optuna", "halving"])
def test_in_which_order_nodes_answer_changes_no_search(mode):
    world = "identity in Python"
    in_turn = asked_for(chosen(world, mode, width=3).search(), server_of(world))
    for seed in range(3):
        search = chosen(world, mode, width=3).search()
        assert asked_for(search, server_of(world), random.Random(seed)) == in_turn


def test_the_sampler_keeps_to_its_trials_on_several_nodes():
    limits = ("--optuna-min-trials", "5", "--optuna-max-trials", "8", "--concurrency-sweep-disable")
    search = chosen("tiny add/sub", "optuna", *limits, width=3).search()
    steps = asked_for(search, server_of("tiny add/sub"))
    assert max(map(len, steps)) == 3
    assert sum(trial.budget == 1 for step in steps for trial in step) <= 11


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("mode", ["quick", "halving"])
@pytest.mark.parametrize("world", [name for name in WORLDS if name != "an ensemble of two"])
def test_noise_misleads_a_search_by_a_tenth_at_most(world, mode, seed):
    limit = ("--latency-budget", str(WORLDS[world][2]))
    best, _ = best_of(world, "brute", *limit, seed=seed)
    assert best_of(world, mode, *limit, seed=seed)[0] >= 0.9 * best


@pytest.mark.parametrize("mode", ["brute", "quick", "optuna", "halving"])
def test_finalists_are_measured_again_and_one_of_them_is_the_best(mode):
    chose = chosen("convolutions on 4 cores", mode)
    found = run(chose.search(), server_of("convolutions on 4 cores", noise=0.1))
    finals = [each for each in found if each.trial.budget > 1]
    assert len(finals) == 5
    assert chose.judge_of("m").best(found) in finals
    # Right after each other: what a machine does meanwhile is the same for all.
    numbers = [found.index(each) for each in finals]
    assert numbers == list(range(numbers[0], numbers[0] + 5))


def test_brute_has_no_final_of_a_few():
    few = ("--run-config-search-max-instance-count", "5",
           "--run-config-search-min-model-batch-size", "8",
           "--run-config-search-max-model-batch-size", "8")  # fmt: skip
    found = run(chosen("tiny add/sub", "brute", *few).search(), server_of("tiny add/sub"))
    assert {each.trial.budget for each in found} == {1.0}


@pytest.mark.slow
def test_finals_make_less_of_luck():
    """With noise of a tenth; a search without finals is off by more in four times as many runs."""
    missed = 0
    for mode in ("quick", "optuna", "halving"):
        for world in ("tiny add/sub", "convolutions on 4 cores", "convolutions on 2 cores"):
            best, _ = best_of(world, "brute")
            for seed in range(4):
                chose = chosen(world, mode, seed=seed)
                found = run(chose.search(), server_of(world, seed, noise=0.1))
                trial = chose.judge_of("m").best(found).trial
                truth = server_of(world, noise=0.0).measure(trial).metrics["m"]
                missed += truth["perf_throughput"] < 0.95 * best
    assert missed <= 4


@pytest.mark.parametrize("mode", ["brute", "quick", "optuna", "halving"])
def test_a_search_is_the_same_for_the_same_seed(mode):
    def trials():
        search = chosen("tiny add/sub", mode, seed=4).search()
        return [each.trial for each in run(search, server_of("tiny add/sub"))]

    assert trials() == trials()


@settings(max_examples=examples(12), deadline=None)
@given(
    mode=st.sampled_from(["brute", "quick", "halving"]),
    is_limited=st.booleans(),
    part=st.floats(0, 1),
)
def test_a_search_that_is_told_a_checkpoint_asks_for_the_rest(mode, is_limited, part):
    world = "identity in Python"
    arguments = ("--latency-budget", "6") if is_limited else ()
    whole = run(chosen(world, mode, *arguments).search(), server_of(world))
    kept = whole[: int(part * len(whole))]
    resumed = chosen(world, mode, *arguments).search()
    for each in kept:
        resumed.tell(from_json(json.loads(json.dumps(to_json(each)))))
    rest = run(resumed, server_of(world))
    assert [each.trial for each in rest] == [each.trial for each in whole[len(kept) :]]


def test_a_checkpoint_of_the_sampler_is_gone_on_from():
    world = "tiny add/sub"
    whole = run(chosen(world, "optuna").search(), server_of(world))
    resumed = chosen(world, "optuna").search()
    for each in whole[:20]:
        resumed.tell(each)
    assert [each.trial for each in run(resumed, server_of(world))] == [
        each.trial for each in whole[20:]]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), 27),
        (("--run-config-search-max-instance-count", "50"), 40),
        (("--run-config-search-max-instance-count", "50",
          "--min-percentage-of-search-space", "15", "--max-percentage-of-search-space", "20"), 80),
        (("--run-config-search-max-model-batch-size", "2"), 10),
    ],
)  # fmt: skip
def test_halving_draws_the_share_of_candidates_that_is_asked_for(arguments, expected):
    world = "tiny add/sub"
    chose = chosen(world, "halving", *arguments)
    default = chose.tasks[0].space.default()
    found = run(chose.search(), server_of(world))
    shortest = min(each.trial.budget for each in found)
    drawn = {each.trial.candidate for each in found if each.trial.budget == shortest} - {default}
    assert len(drawn) == expected


@pytest.mark.parametrize("mode", ["quick", "halving"])
def test_a_limit_on_memory_is_kept(mode):
    world = "convolutions on 4 cores"
    limit = ("--constraints", "cpu_used_ram<=260")
    best, _ = best_of(world, "brute", *limit)
    assert best_of(world, mode, *limit)[0] >= 0.95 * best


def test_the_sampler_keeps_to_its_trials():
    limits = ("--optuna-min-trials", "5", "--optuna-max-trials", "8", "--concurrency-sweep-disable")
    found = run(chosen("tiny add/sub", "optuna", *limits).search(), server_of("tiny add/sub"))
    assert sum(each.trial.budget == 1 for each in found) <= 9
    assert len(found) <= 17


@pytest.mark.parametrize("limit", [(), ("--latency-budget", "60")], ids=["free", "limited"])
def test_the_sampler_measures_what_looks_bad_only_shortly(limit):
    world = "convolutions on 4 cores"
    chose = chosen(world, "optuna", "--concurrency-sweep-disable", *limit)
    found = run(chose.search(), server_of(world))
    full = {each.trial.candidate for each in found if each.trial.budget == 1}
    short = {each.trial.candidate for each in found if each.trial.budget < 1}
    pruned = short - full
    assert pruned
    truth = server_of(world, noise=0.0)
    best = chose.judge_of("m").best([each for each in found if each.trial.budget == 1])
    for candidate in pruned:
        at_its_best = max(
            truth.measure(each.trial).metrics["m"]["perf_throughput"]
            for each in found
            if each.trial.candidate == candidate
        )
        assert at_its_best <= 1.05 * best.metrics["m"]["perf_throughput"]


def test_the_sampler_looks_for_a_front_of_several_objectives():
    objectives = ("--objectives", "perf_throughput,cpu_used_ram")
    world = "convolutions on 4 cores"
    chose = chosen(world, "optuna", *objectives)
    found = run(chose.search(), server_of(world))
    memory = {each.metrics["m"]["cpu_used_ram"] for each in found}
    assert len(memory) > 2


@pytest.mark.parametrize("mode", ["brute", "quick", "optuna", "halving"])
def test_a_search_ends_where_everything_fails(mode):
    search = chosen("tiny add/sub", mode).search()
    count = 0
    while trials := search.ask():
        for trial in trials:
            search.tell(Measured(trial, {}, error="the process has died"))
        count += len(trials)
    assert 0 < count < 600


@pytest.mark.parametrize(
    ("mode", "budgets"), [("halving", {1 / 9, 1 / 3, 1.0, 2.0}), ("optuna", {1 / 9, 1.0, 2.0})]
)
def test_a_short_measurement_is_never_taken_for_a_full_one(mode, budgets):
    chose = chosen("tiny add/sub", mode)
    found = run(chose.search(), server_of("tiny add/sub"))
    assert {each.trial.budget for each in found} == budgets
    assert chose.judge_of("m").best(found).trial.budget == 2
