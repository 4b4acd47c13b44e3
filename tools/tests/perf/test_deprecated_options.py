# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from manta_tools.perf.command import main
from manta_tools.perf.options.parsing import UsageError, parse_options
from manta_tools.perf.options.values import Range


@pytest.mark.parametrize(
    ("old", "field", "value"),
    [
        (("-t", "4"), "concurrency_range", Range(4, 1, 1)),
        (("-t4",), "concurrency_range", Range(4, 1, 1)),
        (("-d", "-c", "8"), "concurrency_range", Range(1, 8, 1)),
        (("-dt2", "-c", "8"), "concurrency_range", Range(2, 8, 1)),
        (("-c", "8"), "concurrency_range", Range(1, 1, 1)),
        (("-d", "-l", "5"), "concurrency_range", Range(1, 0, 1)),
        (("-z",), "input_data", ("zero",)),
        (("-zv",), "verbose", 1),
        (("--data-directory", "tests"), "input_data", ("tests",)),
    ],
)
def test_old_options_mean_what_they_meant(old, field, value):
    assert getattr(parse_options(["-m", "m", *old]), field) == value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-t", "2", "--concurrency-range", "3"), "Cannot use deprecated options with --conc"),
        (("-d", "--request-rate-range", "3"), "Cannot use concurrency options with --request-r"),
        (("-t", "0"), "The start of the search range must be > 0"),
        (("-t", "x"), "Failed to parse -t. Invalid value provided: x"),
        (("-d",), "The end of the search range and the latency limit can not be both 0"),
        (("-z", "--input-data", "tests"), "The -z flag cannot be set"),
        (("-z", "--data-directory", "tests"), "The -z flag cannot be set"),
    ],
)
def test_old_options_that_do_not_go_are_refused_in_perf_analyzer_s_words(arguments, message):
    with pytest.raises(UsageError) as caught:
        parse_options(["-m", "m", *arguments])
    assert str(caught.value).startswith(message)


def test_each_old_option_has_a_warning_that_names_today_s(capsys):
    assert main(["-m", "m", "-u", "127.0.0.1:1", "-dz", "-t", "1", "-c", "2"]) == 99
    warnings = capsys.readouterr().err.splitlines()[:-1]
    assert warnings == [
        "WARNING: -t is deprecated; give --concurrency-range",
        "WARNING: -c is deprecated; give --concurrency-range",
        "WARNING: -d is deprecated; give --concurrency-range",
        "WARNING: -z is deprecated; give --input-data zero",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--trace-level", "ALL"),
            "Failed to parse --trace-level. Unsupported type provided: 'ALL'. The available "
            "options are 'OFF', 'TIMESTAMPS', or 'TENSORS'.",
        ),
        (
            ("--trace-count", "-2"),
            "Failed to parse --trace-count. The value must be >= 0 or set to -1 (default).",
        ),
        (("--log-frequency", "-1"), "Failed to parse --log-frequency. The value must be >= 0."),
    ],
)
def test_settings_of_traces_that_are_none_are_refused_in_perf_analyzer_s_words(arguments, message):
    with pytest.raises(UsageError) as caught:
        parse_options(["-m", "m", *arguments])
    assert str(caught.value).splitlines()[0] == message
