# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Options become searches, and searches measure what they should."""

import pytest

from backends.api.errors import InvalidArgumentError
from manta_tools.analyze.options.parsing import parse
from manta_tools.analyze.searching.choosing import choose
from tests.support.analyzed_servers import Model, Server, config_of, run

ADD_SUB = Server({"m": Model(fixed_ms=0.1, row_ms=0.01)}, noise=0.0)
ENSEMBLE = """
platform: "ensemble" max_batch_size: 8
ensemble_scheduling { step [ { model_name: "a" model_version: -1 }, { model_name: "b" } ] }
"""


def chosen(*arguments, text="", configs=None, width=1):
    argv = [*arguments, "-m", "models"] + (["-f", "c.yaml"] if text else [])
    options = parse(argv, lambda _: text).options
    return choose(options, configs or {"m": config_of("m")}, width=width)


def levels(results):
    return [each.trial.loads[0].level for each in results]


def values(result, model="m"):
    settings = result.trial.candidate.settings
    return next(dict(each.values) for each in settings if each.model == model)


def test_brute_measures_the_default_first():
    first = chosen("m").search().ask()
    assert [each.values for each in first[0].candidate.settings] == [()]


def test_brute_tries_every_count_of_instances_with_every_batch():
    found = run(chosen("m").search(), ADD_SUB)
    tried = {(v["instance_group.count"], v["max_batch_size"]) for v in map(values, found) if v}
    assert tried == {(i, 1 << b) for i in range(1, 6) for b in range(8)}
    assert all(v["dynamic_batching"] is True for v in map(values, found) if v)


def test_brute_stops_at_the_plateau():
    found = run(chosen("m", "--run-config-search-max-instance-count", "1").search(), ADD_SUB)
    of_default = [each for each in found if not values(each)]
    assert levels(of_default)[:5] == [1, 2, 4, 8, 16]
    assert max(levels(of_default)) < 1024


def test_a_latency_limit_is_halved_towards():
    found = run(chosen("m", "--latency-budget", "0.7").search(), ADD_SUB)
    of_default = [each for each in found if not values(each)]
    p99 = {each.trial.loads[0].level: each.metrics["m"]["perf_latency_p99"] for each in of_default}
    assert set(p99) - {1 << exponent for exponent in range(11)}
    highest = max(level for level in p99 if p99[level] <= 0.7)
    assert p99[min(level for level in p99 if level > highest)] > 0.7
    assert highest + 1 in p99


def test_listed_levels_and_batches_are_measured_alone():
    found = run(
        chosen("m", "-c", "3,5", "-b", "1,2", "--run-config-search-disable").search(), ADD_SUB
    )
    assert {(t.level, t.batch_size) for each in found for t in each.trial.loads} == {
        (3, 1), (5, 1), (3, 2), (5, 2)}  # fmt: skip
    assert all(not values(each) for each in found)


def test_a_batch_larger_than_the_models_is_not_sent():
    found = run(chosen("m", "-c", "1", "-b", "64").search(), ADD_SUB)
    assert found
    assert all(values(each).get("max_batch_size", 8) >= 64 for each in found)


def test_listed_parameters_are_all_that_brute_tries():
    text = """
profile_models:
  m:
    model_config_parameters:
      max_batch_size: [2, 4]
      instance_group: [{kind: KIND_CPU, count: [1, 3]}]
    parameters: {concurrency: 4}
"""
    found = run(chosen("profile", text=text).search(), ADD_SUB)
    tried = [(v["max_batch_size"], v["instance_group.0.count"]) for v in map(values, found) if v]
    assert sorted(tried) == [(2, 1), (2, 3), (4, 1), (4, 3)]


def test_quick_searches_what_is_not_listed_too():
    text = """
run_config_search_mode: quick
profile_models:
  m:
    model_config_parameters: {dynamic_batching: {max_queue_delay_microseconds: 100}}
"""
    (task,) = chosen("profile", text=text).tasks
    assert [each.name for each in task.space.dimensions] == [
        "dynamic_batching", "instance_group.count", "max_batch_size"]  # fmt: skip


def test_an_ensemble_is_searched_by_its_steps_and_quickly():
    configs = {name: config_of(name) for name in "ab"} | {"e": config_of("e", ENSEMBLE)}
    chose = chosen("e", configs=configs)
    assert chose.mode == "quick"
    found = run(
        chose.search(),
        Server({"a": Model(0.2, 0.05), "b": Model(1, 0.5)}, {"e": ("a", "b")}),
    )
    tried = [each for each in found if values(each, "e")]
    assert tried
    for each in tried:
        batches = [values(each, name)["max_batch_size"] for name in "ab"]
        assert values(each, "e") == {"max_batch_size": min(batches)}


def test_models_that_a_bls_model_calls_are_searched_with_it():
    configs = {name: config_of(name) for name in "ma"}
    chose = chosen("m", "--bls-composing-models", "a", configs=configs)
    assert chose.mode == "quick"
    (task,) = chose.tasks
    assert {each.model for each in task.space.dimensions} == {"m", "a"}
    assert [each.model for each in task.asked] == ["m"]


def test_composing_models_may_be_kept_on_cpus():
    configs = {name: config_of(name) for name in "ma"}
    (task,) = chosen(
        "m", "--bls-composing-models", "a", "--cpu-only-composing-models", "a", configs=configs
    ).tasks
    kinds = [each for each in task.space.dimensions if each.name == "instance_group.kind"]
    assert [each.model for each in kinds] == ["a"]


def test_models_at_once_are_loaded_together():
    configs = {name: config_of(name) for name in "ab"}
    chose = chosen(
        "profile", "--profile-models", "a,b", "--run-config-profile-models-concurrently-enable",
        configs=configs,
    )  # fmt: skip
    found = run(chose.search(), Server({"a": Model(0.2, 0.05), "b": Model(1, 0.5)}))
    assert all([load.model for load in each.trial.loads] == ["a", "b"] for each in found)


def test_models_in_turn_are_alone():
    configs = {name: config_of(name) for name in "ab"}
    chose = chosen("profile", "--profile-models", "a,b", "-c", "1", configs=configs)
    found = run(chose.search(), Server({"a": Model(0.2, 0.05), "b": Model(1, 0.5)}))
    asked = [each.trial.loads[0].model for each in found]
    assert asked == sorted(asked)
    assert set(asked) == {"a", "b"}


def test_request_rates_are_searched_instead():
    first = chosen("m", "--request-rate-search-enable").search().ask()
    assert (first[0].loads[0].kind, first[0].loads[0].level) == ("request_rate", 16)


def test_several_nodes_are_asked_for_trials_at_once():
    search = chosen("m", "-c", "1", width=3).search()
    for trial in search.ask():
        search.tell(ADD_SUB.measure(trial))
    assert len(search.ask()) == 3


def test_early_exit_leaves_out_larger_batches():
    server = Server({"m": Model(fixed_ms=0.0, row_ms=1.0)}, noise=0.0)
    all_of_it = run(chosen("m").search(), server)
    short = run(chosen("m", "--early-exit-enable").search(), server)
    largest = max(values(each).get("max_batch_size", 0) for each in short)
    assert largest < 128
    assert len(short) < len(all_of_it)


def test_a_model_without_a_config_is_refused():
    with pytest.raises(InvalidArgumentError, match="config of model 'm'"):
        chosen("m", configs={"other": config_of("other")})
