# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

from pathlib import Path

import pytest

from manta_tools.perf.genai.files import input_config
from manta_tools.perf.genai.parsing import options_table, parse_profile, usage
from manta_tools.perf.genai.perf_options import artifact_name, endpoint_of, perf_options
from manta_tools.perf.options.parsing import UsageError

CHAT = ("-m", "m", "--endpoint-type", "chat")


def options_of(*arguments):
    return parse_profile(["-m", "m", *arguments])[0]


def perf_of(tmp_path, *arguments):
    inputs = tmp_path / "inputs.json"
    inputs.write_text("{}")
    options, passed = parse_profile(["-m", "m", *arguments])
    return perf_options(options, inputs, passed)


def test_defaults_are_genai_perfs():
    options = options_of()
    assert options.models == ("m",)
    assert (options.endpoint_type, options.backend) == ("kserve", "tensorrtllm")
    assert (options.num_dataset_entries, options.synthetic_input_tokens_mean) == (100, 550)
    assert (options.prefix_prompt_length, options.stability_percentage) == (100, 999.0)
    assert options.profile_export_file == "profile_export.json"
    assert options.artifact_dir == Path("artifacts")


def test_options_are_genai_perfs(tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("")
    options = parse_profile(
        [
            *("--model", "a", "b"),
            *("--model-selection-strategy", "random", "--endpoint-type", "chat"),
            *("--streaming", "--url", "host:1", "--endpoint", "/v2/chat"),
            *("--extra-inputs", "a:1", "--extra-inputs", '{"b": [2]}'),
            *("--goodput", "time_to_first_token:75", "inter_token_latency:19.75"),
            *("-H", "Authorization: Bearer x", "--input-file", str(prompts)),
            *("--num-prompts", "5", "--num-prefix-prompts", "2", "--prefix-prompt-length", "9"),
            *("--isl", "50", "--synthetic-input-tokens-stddev", "3", "--osl", "20"),
            *("--output-tokens-stddev", "4", "--random-seed", "3", "--num-warmup-requests", "2"),
            *("--concurrency", "8", "-p", "1000", "-s", "50"),
        ]
    )[0]
    assert options.models == ("a", "b")
    assert options.extra_inputs == ((("a", 1),), (("b", [2]),))
    assert options.goodput == (("time_to_first_token", 75.0), ("inter_token_latency", 19.75))
    assert options.header == ("Authorization: Bearer x",)
    assert (options.synthetic_input_tokens_mean, options.output_tokens_mean) == (50, 20)
    assert options.measurement_interval == 1000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n:5", 5),
        ("n:0.5", 0.5),
        ("n:True", True),
        ("n:null", None),
        ("n:text", "text"),
        ("n:a:b", "a:b"),
        ("n", True),
    ],
)
def test_extra_inputs_have_the_value_that_they_look_like(text, value):
    assert options_of("--extra-inputs", text).extra_inputs == ((("n", value),),)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ((), "the following arguments are required: -m/--model"),
        (("-m", "m", "--concurrency", "0"), "got 0, expected a number from 1 on"),
        (("-m", "m", "--concurrency", "x"), "got 'x', expected a whole number"),
        (("-m", "m", "--request-rate", "-1"), "got -1, expected a number above 0"),
        (("-m", "m", "--endpoint-type", "rankings"), "only language models are measured here"),
        (("-m", "m", "--backend", "x"), "expected one of tensorrtllm, vllm"),
        (("-m", "m", "--goodput", "latency:1"), "with a metric of time_to_first_token"),
        (("-m", "m", "-g", "request_latency:-1"), "expected <metric>:<number from 0 on>"),
        (("-m", "m", "--input-file", "/no/such"), "is not a valid file or directory"),
        (("-m", "m", "--input-file", "synthetic:a,b"), "leave --input-file out"),
        (("-m", "m", "--extra-inputs", "{"), "which is no JSON"),
        (("-m", "m", "--extra-inputs", "a:"), "expected <name>:<value>"),
        (("-m", "m", "--profile-export-file", "a/b"), "give its folder as --artifact-dir"),
        (("-m", "m", "--no-such"), "unrecognized arguments: --no-such"),
        (("-m", "m", "--generate-plots"), "--generate-plots is not supported: there are no plots"),
        (("-m", "m", "--batch-size=2"), "--batch-size is not supported"),
        (("-m", "m", "--tokenizer-revision", "x"), "nothing is downloaded"),
        (("-m", "m", "--concurrency", "1", "--request-rate", "1"), "exclude each other"),
        (("-m", "m", "--request-count", "1", "-p", "1"), "exclude each other"),
        ((*CHAT, "--backend", "vllm"), "--backend is of models behind --endpoint-type kserve"),
        (("-m", "m", "--endpoint", "v1"), "does not go with --endpoint-type kserve"),
        (("-m", "a", "b"), "--endpoint-type kserve takes one model"),
        ((*CHAT, "--output-tokens-mean-deterministic"), "only supported with --endpoint-type"),
        (("-m", "m", "--session-concurrency", "1"), "give --endpoint-type chat"),
        ((*CHAT, "--num-sessions", "1"), "give that too"),
        ((*CHAT, "--session-concurrency", "1"), "takes --num-sessions, or --input-file payload:"),
        (
            (*CHAT, "--session-concurrency", "1", "--num-sessions", "2", "--request-count", "3"),
            "which are as long as their data",
        ),
        ((*CHAT, "--fixed-schedule"), "--fixed-schedule takes --input-file payload:FILE"),
    ],
)
def test_options_that_are_wrong_are_refused(arguments, part):
    with pytest.raises(UsageError) as caught:
        parse_profile(arguments)
    assert part in str(caught.value)


def test_kserve_is_a_stream_of_grpc(tmp_path):
    options = perf_of(tmp_path, "--concurrency", "7", "--warmup-request-count", "3")
    assert (options.protocol, options.streaming, options.service_kind) == ("grpc", True, "triton")
    assert options.url == "localhost:8001"
    assert options.request_count == 14
    assert options.warmup_request_count == 3


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (("--endpoint-type", "chat"), "v1/chat/completions"),
        (("--endpoint-type", "completions"), "v1/completions"),
        (("--endpoint-type", "generate"), "v2/models/m/generate"),
        (("--endpoint-type", "generate", "--streaming"), "v2/models/m/generate_stream"),
        (("--endpoint-type", "chat", "--endpoint", "/api/chat"), "api/chat"),
    ],
)
def test_endpoints_have_their_paths(tmp_path, arguments, path):
    options = perf_of(tmp_path, *arguments)
    assert (options.endpoint, options.service_kind) == (path, "openai")
    assert (options.url, options.request_count) == ("localhost:8000", 10)


def test_a_run_is_as_long_as_it_is_told(tmp_path):
    assert perf_of(tmp_path, "--request-count", "33").request_count == 33
    assert perf_of(tmp_path, "--request-rate", "40.5").request_count == 40
    windows = perf_of(tmp_path, "-p", "250", "--request-rate", "5")
    assert (windows.request_count, windows.measurement_interval) == (0, 250)
    assert windows.measurement_mode == "time_windows"
    with pytest.raises(UsageError) as caught:
        perf_of(tmp_path, "--request-count", "3", "--concurrency", "4")
    assert str(caught.value) == "--request-count can not be less than concurrency"


def test_options_after_two_dashes_are_manta_perfs(tmp_path):
    load = ("--request-rate", "5")
    passed = ("--", "--request-distribution", "poisson", "--ssl-https-verify-peer", "0")
    options = perf_of(tmp_path, *load, *passed)
    assert (options.request_distribution, options.ssl_https_verify_peer) == ("poisson", 0)
    with pytest.raises(UsageError, match="after -- there is an option that sets batch_size"):
        perf_of(tmp_path, *load, "--", "-b", "3")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("--concurrency", "4"), "m-triton-tensorrtllm-concurrency4"),
        (("--backend", "vllm"), "m-triton-vllm-concurrency1"),
        (("--endpoint-type", "chat", "--request-rate", "5"), "m-openai-chat-request_rate5.0"),
        (
            ("--endpoint-type", "chat", "--session-concurrency", "2", "--num-sessions", "2"),
            "m-openai-chat-session_concurrency2",
        ),
    ],
)
def test_files_lie_where_genai_perf_puts_them(arguments, name):
    assert artifact_name(options_of(*arguments)) == name


def test_a_models_name_may_have_slashes():
    options = parse_profile(["-m", "org/a", "b", "--endpoint-type", "chat"])[0]
    assert artifact_name(options) == "org_a_multi-openai-chat-concurrency1"


def test_the_json_file_has_the_options_in_genai_perfs_sections():
    options = options_of("--goodput", "request_latency:1", "--extra-inputs", "a:2")
    found = input_config(options, endpoint_of(options), Path("x"))
    assert found["input"]["goodput"] == {"request_latency": 1.0}
    assert found["input"]["extra"] == {"a": 2}
    assert found["perf_analyzer"]["stimulus"] == {"concurrency": 1}
    assert found["input"]["synthetic_tokens"] == {"mean": 550, "stddev": 0}
    assert found["endpoint"]["service_kind"] == "triton"


def test_the_help_and_the_page_have_every_option():
    text, page = usage(), Path("docs/genai-perf.md").read_text()
    assert options_table() in page
    for flag in ("--model", "--session-turn-delay-mean", "--text-output-name"):
        assert flag in text
