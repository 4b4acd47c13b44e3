# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

import pytest

from manta_tools.perf.genai.console import cell, rows, system_rows, table, title
from manta_tools.perf.genai.metrics import spread

STATISTICS = {
    "time_to_first_token": spread([10.0, 20.0], "ms"),
    "request_latency": spread([1234.567], "ms"),
    "output_sequence_length": spread([3], "tokens"),
    "input_sequence_length": spread([4], "tokens"),
    "request_throughput": {"unit": "requests/sec", "avg": 0.5},
    "request_count": {"unit": "count", "avg": 2.0},
}


@pytest.mark.parametrize(
    ("value", "text"), [(1234.567, "1,234.57"), (2, "2.00"), (None, "N/A"), (0.004, "0.00")]
)
def test_values_have_two_digits(value, text):
    assert cell(value) == text


def test_titles_are_genai_perfs():
    assert title("time_to_first_token", "ms") == "Time To First Token (ms)"
    assert title("request_goodput", "per sec") == "Request Goodput (per sec)"


def test_metrics_of_tokens_are_those_of_streams():
    def titles(*, is_streaming):
        return [row[0] for row in rows(STATISTICS, ("avg",), is_streaming=is_streaming)]

    assert titles(is_streaming=False) == [
        "Request Latency (ms)",
        "Output Sequence Length (tokens)",
        "Input Sequence Length (tokens)",
    ]
    assert len(titles(is_streaming=True)) == 7


def test_what_no_request_has_is_shown_as_such():
    shown = {row[0]: row[1] for row in rows(STATISTICS, ("avg",), is_streaming=True)}
    assert shown["Inter Token Latency (ms)"] == "N/A"
    assert shown["Time To First Token (ms)"] == "15.00"


def test_the_run_has_one_value_each_and_goodput_where_it_was_asked_for():
    assert list(system_rows(STATISTICS)) == [
        ["Request Throughput (per sec)", "0.50"],
        ["Request Count (count)", "2.00"],
    ]


def test_the_table_is_as_wide_in_every_line():
    _, *lines = table(STATISTICS, is_streaming=True).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1].split() == [
        *("┃", "Statistic", "┃", "avg", "┃", "min", "┃", "max"),
        *("┃", "p99", "┃", "p90", "┃", "p75", "┃"),
    ]
    assert lines[-2].split()[-3:] == ["│", "N/A", "│"]
