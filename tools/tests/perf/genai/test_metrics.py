# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

"""Against values computed by hand; instants are in milliseconds."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta_tools.perf.genai.metrics import (
    METRICS,
    Exchange,
    RequestMetrics,
    is_good,
    request_metrics,
    spread,
    summarise,
)

MS = 1_000_000


def words(text):
    return len(text.split())


def exchange(start_ms, *parts, prompt="one two three", usage=None, session_id=""):
    return Exchange(
        start_ms * MS, tuple((came * MS, text) for came, text in parts), prompt, usage, session_id
    )


def measured(*arguments, **options):
    return request_metrics(exchange(*arguments, **options), words)


def test_a_streams_times_are_those_of_its_tokens():
    found = measured(100, (150, "a "), (160, "b "), (180, "c d "), (210, "e"))
    assert found.first_token_ns == 50 * MS
    assert found.second_token_ns == 10 * MS
    assert found.latency_ns == 110 * MS
    # 60 ms after the first token for the four others.
    assert found.inter_token_ns == 15 * MS
    assert found.tokens_per_s == pytest.approx(1000 / 15)
    assert (found.input_tokens, found.output_tokens) == (3, 5)


def test_responses_without_text_are_no_tokens():
    found = measured(0, (10, ""), (50, "a "), (60, ""), (70, "b"), (500, ""))
    assert (found.first_token_ns, found.second_token_ns) == (50 * MS, 20 * MS)
    assert found.latency_ns == 70 * MS
    assert measured(0, (10, ""), (20, "")) is None
    assert measured(0) is None


def test_the_server_knows_better_how_many_tokens_there_were():
    found = measured(0, (50, "a "), (70, "b"), usage=11)
    assert found.output_tokens == 11
    assert found.inter_token_ns == 2 * MS


def test_an_answer_in_one_piece_has_no_time_between_tokens():
    found = measured(0, (50, "a b c"))
    assert found.second_token_ns is None
    assert found.inter_token_ns is None
    assert found.tokens_per_s is None
    assert found.first_token_ns == found.latency_ns == 50 * MS


def test_one_token_in_two_parts_has_no_time_between_tokens():
    assert measured(0, (50, "a"), (60, "b")).inter_token_ns is None


def test_tokens_that_came_at_once_have_no_throughput():
    found = measured(0, (50, "a "), (50, "b"))
    assert found.inter_token_ns == 0
    assert found.tokens_per_s is None


def test_the_runs_rates_go_from_the_first_start_to_the_last_token():
    requests = [
        measured(1000, (1500, "a "), (2000, "b c")),
        measured(1200, (1600, "a "), (5000, "b")),
    ]
    found = summarise(requests, {}).statistics
    assert found["request_count"] == {"unit": "count", "avg": 2.0}
    assert found["request_throughput"] == {"unit": "requests/sec", "avg": 0.5}
    assert found["output_token_throughput"] == {"unit": "tokens/sec", "avg": 1.25}
    assert found["time_to_first_token"]["avg"] == 450.0
    assert found["time_to_first_token"]["p50"] == 450.0
    assert found["time_to_first_token"]["p25"] == 425.0
    assert found["time_to_first_token"]["std"] == 50.0
    assert found["inter_token_latency"]["max"] == 3400.0
    assert found["output_sequence_length"]["min"] == 2.0
    assert "request_goodput" not in found


def test_goodput_counts_requests_that_keep_all_limits():
    requests = [
        measured(0, (50, "a "), (60, "b")),
        measured(0, (80, "a "), (90, "b")),
        measured(0, (50, "a "), (1000, "b")),
    ]
    limits = {"time_to_first_token": 60.0, "inter_token_latency": 20.0}
    assert [is_good(each, limits) for each in requests] == [True, False, False]
    found = summarise(requests, limits).statistics
    assert found["request_goodput"] == {"unit": "requests/sec", "avg": 1.0}


def test_a_limit_of_throughput_is_the_least():
    request = measured(0, (50, "a "), (60, "b"))
    assert is_good(request, {"output_token_throughput_per_user": 100.0})
    assert not is_good(request, {"output_token_throughput_per_user": 100.1})
    assert is_good(request, {"request_latency": 60.0})
    assert not is_good(request, {"request_latency": 59.9})


def test_what_a_request_does_not_have_keeps_any_limit():
    request = measured(0, (50, "a"))
    assert is_good(request, {"inter_token_latency": 0.0, "output_token_throughput_per_user": 9e9})


def test_sessions_have_metrics_of_their_own():
    requests = [
        measured(0, (10, "a"), session_id="x"),
        measured(0, (30, "a"), session_id="x"),
        measured(0, (50, "a"), session_id="y"),
    ]
    sessions = summarise(requests, {"request_latency": 1.0}).sessions
    assert sessions["x"]["request_latency"]["avg"] == 20.0
    assert sessions["y"]["request_count"]["avg"] == 1.0
    assert "request_goodput" not in sessions["x"]


@given(st.lists(st.floats(0, 1e9), min_size=1))
def test_statistics_are_those_of_the_values(values):
    found = spread(values, "ms")
    assert found["avg"] == pytest.approx(statistics.fmean(values))
    assert found["std"] == pytest.approx(statistics.pstdev(values), abs=1e-3)
    assert (found["min"], found["max"]) == (min(values), max(values))
    assert found["p50"] == pytest.approx(statistics.median(values))
    keys = ("p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99")
    assert [found[key] for key in keys] == [np.percentile(values, int(key[1:])) for key in keys]


@given(
    st.integers(0, 10**12),
    st.lists(st.integers(0, 10**10), min_size=2, max_size=30),
    st.integers(2, 500),
)
def test_first_token_and_all_gaps_make_the_latency(start_ns, gaps_ns, usage):
    came_ns, parts = start_ns, []
    for gap_ns in gaps_ns:
        came_ns += gap_ns
        parts.append((came_ns, "a "))
    found = request_metrics(Exchange(start_ns, tuple(parts), "", usage), words)
    assert isinstance(found, RequestMetrics)
    whole_ns = found.first_token_ns + found.inter_token_ns * (usage - 1)
    assert math.isclose(whole_ns, found.latency_ns, abs_tol=usage)


def test_metrics_are_in_genai_perfs_order():
    assert list(METRICS) == [
        "time_to_first_token",
        "time_to_second_token",
        "request_latency",
        "inter_token_latency",
        "output_token_throughput_per_user",
        "output_sequence_length",
        "input_sequence_length",
    ]
