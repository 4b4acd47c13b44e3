# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.settings.server_settings import TraceSettings
from deployments.tracing.sampling import RemoteSpan, Sampler, remote_span

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SPAN = RemoteSpan(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)


def sampled(times: int, **settings: object) -> list[int]:
    sampler = Sampler(TraceSettings(("TIMESTAMPS",), **settings))  # type: ignore[arg-type]
    return [number for number in range(1, times + 1) if sampler.sample()]


def test_every_rate_th_request_is_traced():
    assert sampled(10, rate=3) == [3, 6, 9]
    assert sampled(3, rate=1) == [1, 2, 3]
    assert sampled(10, rate=0) == []


def test_no_more_than_count_are_traced():
    assert sampled(10, rate=2, count=3) == [2, 4, 6]
    assert sampled(10, rate=1, count=0) == []


def test_what_other_replicas_took_is_not_taken_again():
    sampler = Sampler(TraceSettings(("TIMESTAMPS",), rate=1, count=5))
    sampler.used_elsewhere = 3
    assert [sampler.sample() for _ in range(4)] == [True, True, False, False]
    assert (sampler.used, sampler.left) == (2, 0)


def test_nothing_is_traced_while_the_level_is_off():
    sampler = Sampler(TraceSettings((), rate=1))
    assert not sampler.sample()
    assert not sampler.sample(forced=True)


def test_a_forced_request_is_traced_whatever_rate_and_count_say():
    sampler = Sampler(TraceSettings(("TIMESTAMPS",), rate=2, count=1))
    assert [sampler.sample(forced=True) for _ in range(3)] == [True] * 3
    assert sampler.left == 0
    assert Sampler(TraceSettings(("TIMESTAMPS",), rate=0)).sample(forced=True)


@given(st.integers(1, 20), st.integers(-1, 20), st.integers(0, 200))
def test_the_number_of_traces_follows_rate_and_count(rate, count, times):
    hits = times // rate
    expected = hits if count < 0 else min(hits, count)
    assert len(sampled(times, rate=rate, count=count)) == expected


def test_a_caller_s_span_is_found_among_the_headers():
    headers = [(b"Accept", b"*/*"), (b"TraceParent", PARENT), (b"tracestate", b"a=1")]
    assert remote_span(headers) == RemoteSpan(SPAN.trace_id, SPAN.span_id, "a=1")
    assert remote_span([(b"traceparent", PARENT)]) == SPAN
    assert remote_span([(b"traceparent", b"cc" + PARENT[2:] + b"-more")]) == SPAN


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"ff" + PARENT[2:],
        PARENT.upper(),
        PARENT.replace(b"0af7651916cd43dd8448eb211c80319c", b"0" * 32),
        PARENT.replace(b"b7ad6b7169203331", b"0" * 16),
        PARENT[:-1],
        b"cc" + PARENT[2:] + b"-" + b"x" * 600,
    ],
)
def test_a_wrong_traceparent_is_none(value):
    assert remote_span([(b"traceparent", value), (b"tracestate", b"a=1")]) is None


@given(st.lists(st.tuples(st.binary(), st.binary())))
def test_no_header_makes_an_error(headers):
    remote_span(headers)
    remote_span([(b"traceparent", value) for _, value in headers])
