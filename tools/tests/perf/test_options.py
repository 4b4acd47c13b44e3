# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

from pathlib import Path

import pytest

from manta_tools.perf.options.parsing import UsageError, options_table, parse_options, usage
from manta_tools.perf.options.table import OPTIONS
from manta_tools.perf.options.values import Range, RequestParameter


def parsed(*arguments):
    return parse_options(["-m", "simple", *arguments])


def refusal(*arguments):
    with pytest.raises(UsageError) as caught:
        parse_options(list(arguments))
    return str(caught.value).partition("\nUsage:")[0]


def test_a_model_alone_has_perf_analyzer_s_defaults():
    options = parsed()
    assert (options.url, options.protocol) == ("localhost:8000", "http")
    assert (options.measurement_interval, options.max_trials) == (5000, 10)
    assert options.stability_percentage == 10.0
    assert options.concurrency_range is None
    assert options.batch_size == 1
    assert (options.string_length, options.output_shared_memory_size) == (128, 102400)


def test_a_value_follows_its_flag_or_an_equals_sign():
    assert parsed("--max-trials", "3") == parsed("--max-trials=3")
    assert parsed("-b", "4") == parsed("-b4")


def test_a_beginning_that_one_option_has_is_that_option():
    assert parsed("--max-tr=3").max_trials == 3
    assert refusal(*M, "--ssl=1") == "Error: Invalid long option '--ssl'"


def test_letters_may_stand_together():
    options = parsed("-vab", "2")
    assert (options.verbose, options.is_async, options.batch_size) == (1, True, 2)


def test_a_letter_that_is_given_twice_counts_twice():
    assert parsed("-v", "-v").verbose == 2


def test_repeated_options_all_count():
    options = parsed("-H", "a:1", "-H", "b: 2", "--shape", "x:y:3,4", "--shape=z:5")
    assert options.header == (("a", "1"), ("b", "2"))
    assert options.shape == (("x:y", (3, 4)), ("z", (5,)))


def test_of_other_options_the_last_one_counts():
    assert parsed("-b", "2", "-b", "3").batch_size == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4", Range(4, 1, 1)), ("1:8", Range(1, 8, 1)), ("2:16:2", Range(2, 16, 2))],
)
def test_a_range_has_ones_for_what_is_left_out(text, expected):
    assert parsed("--concurrency-range", text).concurrency_range == expected


def test_grpc_has_its_own_port():
    assert parsed("-i", "gRPC").url == "localhost:8001"


def test_metrics_are_those_of_the_server_s_host():
    assert parsed("-u", "https://there:9000", "--collect-metrics").metrics_url == (
        "there:8002/metrics"
    )
    assert parsed().metrics_url == "localhost:8002/metrics"


def test_a_request_count_is_one_count_window():
    options = parsed("--request-count", "80")
    assert options.measurement_mode == "count_windows"
    assert options.measurement_request_count == 80


def test_request_parameters_have_types():
    options = parsed(
        "-i", "grpc", *("--request-parameter", "a:true:bool"), *("--request-parameter", "b:7:INT")
    )
    assert options.request_parameter == (RequestParameter("a", True), RequestParameter("b", 7))


def test_goodput_objectives_are_metrics_with_limits():
    options = parsed("--goodput", "request_latency:50 time_to_first_response:10.5")
    assert options.goodput == ((("request_latency", 50.0), ("time_to_first_response", 10.5)),)


M = ("-m", "simple")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "Failed to parse -m (model name). The value must be specified."),
        ((*M, "--nonsense", "1"), "Error: Invalid long option '--nonsense'"),
        ((*M, "-q"), "Error: Invalid short option '-q'"),
        ((*M, "-b"), "Error: Missing value for option '-b'"),
        ((*M, "word"), "Error: Unknown command-line argument. Got 'word'."),
        ((*M, "--async=1"), "Error: option '--async' takes no value"),
        ((*M, "-b", "0"), "Failed to parse -b (batch size). The value must be > 0."),
        ((*M, "-b", "two"), "Failed to parse -b. Invalid value provided: two"),
        (
            (*M, "-p", "0"),
            "Failed to parse --measurement-interval (-p). The value must be > 0 msec.",
        ),
        (
            (*M, "-s", "-1"),
            "Failed to parse --stability-percentage (-s). The value must be >= 0.0.",
        ),
        (
            (*M, "--percentile", "100"),
            "Failed to parse --percentile. The value must be -1 for not reporting or in range "
            "(0, 100).",
        ),
        ((*M, "--concurrency-range", "0"), "The start of the search range must be > 0"),
        (
            (*M, "--concurrency-range", "1:2:3:4"),
            "Failed to parse --concurrency-range. The value does not match <start:end:step>.",
        ),
        (
            (*M, "--concurrency-range", "1", "--request-rate-range", "1"),
            "Cannot use both Concurrency and RequestRate inference load modes.",
        ),
        (
            (*M, "--request-rate-range", "0"),
            "Failed to parse --request-rate-range. The start of the search range must be > 0.",
        ),
        (
            (*M, "--request-distribution", "uniform"),
            "Failed to parse --request-distribution. Unsupported type provided: 'uniform'. Choices "
            "are 'poisson' or 'constant'.",
        ),
        (
            (*M, "--measurement-mode", "x"),
            "Failed to parse --measurement-mode. Unsupported type provided: 'x'. The available "
            "options are 'time_windows' or 'count_windows'.",
        ),
        (
            (*M, "--grpc-compression-algorithm", "x"),
            "Failed to parse --grpc-compression-algorithm. Unsupported type provided: 'x'. The "
            "available options are 'gzip', 'deflate', or 'none'.",
        ),
        (
            (*M, "--shape", "x"),
            "Failed to parse --shape. There must be a colon after input name.",
        ),
        (
            (*M, "--shape", "x:3,0"),
            "Failed to parse --shape. The dimensions of input tensor must be > 0.",
        ),
        (
            (*M, "--sequence-id-range", "5:5"),
            "Failed to parse --sequence-id-range. The 'end' value must be greater than 'start' "
            "value.",
        ),
        (
            (*M, "--request-parameter", "a:b"),
            "Failed to parse --request-parameter. The value does not match <name:value:type>.",
        ),
        (
            (*M, "--request-parameter", "a:b:string"),
            "The --request-parameter option is currently only supported by gRPC protocol.",
        ),
        (
            (*M, "--metrics-interval", "5"),
            "Must specify --collect-metrics when using the --metrics-interval option.",
        ),
        ((*M, "--streaming"), "Streaming is only allowed with gRPC protocol and Triton C API."),
        ((*M, "-a", "--sync"), "Cannot specify --async and --sync simultaneously."),
        (
            (*M, "--concurrency-range", "1:0"),
            "The end of the search range and the latency limit can not be both 0 (or 0.0) "
            "simultaneously",
        ),
        (
            (*M, "--concurrency-range", "1:8", "--binary-search"),
            "The --latency-threshold cannot be 0 for binary search mode.",
        ),
        (
            (*M, "--concurrency-range", "8:1", "--binary-search", "-l", "5"),
            "The end of the range can not be less than start of the range for binary search mode.",
        ),
        (
            (*M, "--concurrency-range", "1:4", "--warmup-request-count", "9"),
            "--warmup-request-count not supported with multiple concurrency values in one run",
        ),
        (
            (*M, "--concurrency-range", "8", "--request-count", "7"),
            "--request-count can not be less than concurrency",
        ),
        (
            (*M, "--request-rate-range", "80:90", "--request-count", "81"),
            "--request-count not supported with multiple request rate values in one run",
        ),
        (
            (*M, "--input-data", "/nonexistent"),
            "Failed to parse --input-data. Unsupported type provided: '/nonexistent'. The "
            "available options are 'zero', 'random', path to a directory, or a json file.",
        ),
        (
            (*M, "--ssl-https-verify-host", "3"),
            "Failed to parse --ssl-https-verify-host. The value must be either 0, 1, or 2.",
        ),
        (
            (*M, "--periodic-concurrency-range", "1:4:2"),
            "Failed to parse --periodic-concurrency-range. The <step> value must be a factor of "
            "the range size (<end> - <start>).",
        ),
        (
            (*M, "--periodic-concurrency-range", "1:4"),
            "The --periodic-concurrency-range option requires bi-directional gRPC streaming.",
        ),
        (
            (*M, "--periodic-concurrency-range", "1:4", "-i", "grpc", "--streaming"),
            "Must provide --profile-export-file when using the --periodic-concurrency-range "
            "option.",
        ),
    ],
)
def test_what_does_not_go_is_refused_in_perf_analyzer_s_words(arguments, expected):
    assert refusal(*arguments) == expected


def test_an_export_does_not_overwrite(tmp_path):
    assert refusal(*M, "--profile-export-file", str(tmp_path)) == (
        "Failed to parse --profile-export-file. Path must not already exist."
    )


def test_the_help_names_every_option():
    text = usage()
    for option in OPTIONS.values():
        assert f"--{option.name}" in text


def test_the_documented_options_are_those_of_the_table():
    page = Path("docs/perf.md").read_text()
    assert options_table() in page
