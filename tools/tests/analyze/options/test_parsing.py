# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Model Analyzer's files and command lines are read; what is wrong in them is named."""

from pathlib import Path

import pytest

from backends.api.errors import InvalidArgumentError
from manta_tools.analyze.objectives import Bound
from manta_tools.analyze.options.models import ProfiledModel
from manta_tools.analyze.options.parsing import options_table, parse, usage
from manta_tools.analyze.options.table import OPTIONS

# Of the forms that Model Analyzer's documentation shows.
COMPLETE = """
model_repository: /models
run_config_search_disable: true
triton_launch_mode: docker
concurrency: {start: 2, stop: 8, step: 3}
batch_sizes: 1, 2,4
perf_analyzer_flags: {percentile: 95, shape: [IN:3]}
triton_server_flags: {log_verbose: True}
objectives: {perf_throughput: 10, perf_latency_p99: 5}
constraints: {gpu_used_memory: {max: 500}, perf_throughput: {min: 20}}
plots:
  my_plot: {title: T, x_axis: perf_latency_p99, y_axis: perf_throughput, monotonic: True}
profile_models:
  one:
    weighting: 3
    cpu_only: true
    parameters: {batch_sizes: [8, 16], concurrency: "1:5:2"}
    objectives: [perf_latency_p99]
    constraints: {perf_latency: {max: 15}}
    perf_analyzer_flags: {measurement-interval: 1000}
    model_config_parameters: {max_batch_size: [2, 4]}
    triton_docker_args: {image: x}
  two:
"""


def parsed(text="", *arguments):
    return parse(["profile", "-f", "c.yaml", *arguments], lambda _: text)


def refusal(text="", *arguments):
    with pytest.raises(InvalidArgumentError) as caught:
        parsed("model_repository: /m\nprofile_models: m\n" + text, *arguments)
    return caught.value.message


def test_a_complete_file_is_read():
    options = parsed(COMPLETE).options
    one, two = options.profile_models
    assert one == ProfiledModel(
        "one",
        cpu_only=True,
        batch_sizes=(8, 16),
        concurrency=(1, 3, 5),
        objectives=(("perf_latency_p99", 1.0),),
        constraints=(Bound("perf_latency_p99", "max", 15.0),),
        weighting=3.0,
        config_parameters={"max_batch_size": [2, 4]},
        perf_analyzer_flags={"measurement-interval": 1000},
        server_flags={"log-verbose": True},
    )
    assert (two.batch_sizes, two.concurrency) == ((1, 2, 4), (2, 5, 8))
    assert two.objectives == (("perf_throughput", 10.0), ("perf_latency_p99", 5.0))
    assert two.constraints == (
        Bound("gpu_used_memory", "max", 500.0), Bound("perf_throughput", "min", 20.0))  # fmt: skip
    assert options.plots[0].monotonic


def test_what_has_no_effect_is_named():
    text = "triton_docker_image: x\ngenai_perf_flags: {a: 1}\ndcgm_disable: true\n" + COMPLETE
    warnings = "\n".join(parsed(text).warnings)
    for key in ("triton_docker_image", "genai_perf_flags", "dcgm_disable", "triton_docker_args"):
        assert f"'{key}'" in warnings
    assert "'triton_launch_mode' docker" in warnings


def test_the_command_line_comes_before_the_file():
    options = parsed(COMPLETE, "--batch-sizes", "3", "--export-path=/out").options
    assert (options.batch_sizes, options.export_path) == ((3,), "/out")


def test_shorthands_replace_constraints():
    options = parsed(COMPLETE, "--latency-budget", "7", "--min-throughput", "9").options
    assert options.profile_models[0].constraints == (
        Bound("perf_latency_p99", "max", 7.0), Bound("perf_throughput", "min", 9.0))  # fmt: skip


def test_a_model_may_stand_in_place_of_a_subcommand():
    found = parse(["resnet", "-m", "/models", "-f", "c"], lambda _: "profile_models: [resnet, b]")
    assert (found.command, [m.name for m in found.options.profile_models]) == (
        "profile", ["resnet"])  # fmt: skip


def test_a_model_in_place_of_a_subcommand_keeps_its_keys():
    found = parse(["one", "-f", "c.yaml"], lambda _: COMPLETE)
    assert [(m.name, m.weighting) for m in found.options.profile_models] == [("one", 3.0)]


def test_a_report_is_asked_for():
    found = parse(["-q", "report", "-n", "m_config_0,m_config_default", "-e", "/out"], str)
    assert (found.command, found.verbosity, found.options.export_path) == ("report", -1, "/out")
    assert [each.name for each in found.options.report_model_configs] == [
        "m_config_0", "m_config_default"]  # fmt: skip


def test_configurations_to_report_may_have_plots():
    text = """
report_model_configs:
  m_config_0: {plots: {p: {title: T, x_axis: perf_latency_p99, y_axis: cpu_used_ram}}}
"""
    (config,) = parse(["report", "-f", "c"], lambda _: text).options.report_model_configs
    assert (config.name, config.plots[0].y_axis) == ("m_config_0", "cpu_used_ram")


def test_one_file_may_serve_both_subcommands():
    assert parsed(COMPLETE + "report_model_configs: [one_config_0]\n").options.profile_models


def test_offline_is_said_before_the_subcommand():
    assert not parse(["-m", "offline", "profile", "-f", "c"], lambda _: COMPLETE).is_online


def test_request_rates_change_the_columns():
    columns = parsed(COMPLETE, "--request-rate-search-enable").options.inference_output_fields
    assert "request_rate" in columns
    assert "concurrency" not in columns


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("latncy_budget: 3", "did you mean 'latency_budget'"),
        ("constraints: {perf_latency_p9: {max: 1}}", "did you mean 'perf_latency_p99'"),
        ("constraints: {perf_latency_p99: {most: 1}}", "'most' is unknown"),
        ("objectives: [perf_thruput]", "did you mean 'perf_throughput'"),
        ("objectives: {perf_throughput: 0}", "weight above 0"),
        ("concurrency: {start: 2}", "both start and stop"),
        ("concurrency: {start: 2, stop: 4, stride: 2}", "did you mean 'step'"),
        ("concurrency: {start: 4, stop: 2}", "not below the start"),
        ("concurrency: 0", "from 1 on"),
        ("batch_sizes: [a]", "'batch_sizes' got 'a', expected a whole number"),
        ("profile_models: {m: {parameter: {}}}", "did you mean 'parameters'"),
        ("profile_models: {m: {parameters: {concurency: 1}}}", "did you mean 'concurrency'"),
        (
            "profile_models: {m: {parameters: {concurrency: 1, request_rate: 2}}}",
            "either concurrency or request_rate",
        ),
        ("profile_models: [m, m]", "names a model twice"),
        ("weighting: 2", "keys of single models"),
        ("run_config_search_mode: fast", "one of brute, quick, optuna, halving"),
        ("run_config_search_min_concurrency: 4096", "expected at most"),
        ("concurrency: 1\nrequest_rate: 5", "got both 'concurrency' and 'request_rate'"),
        ("inference_output_fields: [model_nam]", "did you mean 'model_name'"),
        ("plots: {p: {x_axis: perf_latency_p99}}", "its y_axis"),
        ("plots: {p: {x_axis: latency, y_axis: perf_throughput}}", "'latency' is unknown"),
        ("num_top_model_configs: 2", "needs global 'constraints', 'latency_budget' or"),
        ("collect_cpu_metrics: maybe", "true or false"),
        ("objectives: [cost_per_million_inferences]", "--price-per-node-hour"),
        ("nodes: 2\ntriton_launch_mode: remote", "expected one of them"),
        ("nodes: some", "a whole number from 0 on, or auto"),
        ("nodes: -1", "a whole number from 0 on, or auto"),
        ("a: [", "is no YAML"),
    ],
)
def test_what_is_wrong_is_named(text, expected):
    assert expected in refusal(text)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--latncy-budget", "3"], "did you mean '--latency-budget'"),
        (["--plots", "x"], "with -f"),
        (["--concurrency"], "'--concurrency' has no value"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_named(arguments, expected):
    assert expected in refusal("", *arguments)


def test_a_model_and_profile_models_do_not_go_together():
    with pytest.raises(InvalidArgumentError, match="expected one of them"):
        parse(["a", "-m", "x", "--profile-models", "b"], str)


def test_a_repository_is_needed_unless_the_server_is_remote():
    with pytest.raises(InvalidArgumentError, match="model-repository"):
        parse(["m"], str)
    assert parse(["m", "--triton-launch-mode", "remote"], str).options.profile_models


def test_nodes_are_none_a_number_or_all_that_there_are():
    found = [parsed(COMPLETE, *given).options.nodes for given in ([], ["--nodes=3"])]
    assert found == [0, 3]
    assert parsed(COMPLETE, "--nodes", "auto").options.nodes > 10**9


def test_help_and_documentation_have_every_option():
    text, table = usage() + usage("report"), options_table()
    page = Path("docs/analyze.md").read_text()
    for option in OPTIONS.values():
        flag = f"--{option.name.replace('_', '-')}"
        assert flag in text
        assert f"`{option.name}`" in table
        assert f"`{option.name}`" in page or flag in page
