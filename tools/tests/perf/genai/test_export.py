# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""From requests to metrics, with a server that sends its tokens at known instants."""

import json

import pytest

from backends.api.errors import UnavailableError
from manta_tools.perf.clients.payload import Payload
from manta_tools.perf.genai.answers import Memory, Transcript
from manta_tools.perf.genai.dataset import Turn
from manta_tools.perf.genai.endpoints import ENDPOINTS, TensorNames
from manta_tools.perf.genai.export import document, outcome, reported
from manta_tools.perf.genai.metrics import summarise
from manta_tools.perf.genai.reporting import Reading, measured
from manta_tools.perf.genai.tokenizing import ApproximateTokenizer
from manta_tools.perf.load.loops import ClosedLoop
from manta_tools.perf.measuring.windows import Window
from manta_tools.perf.profiler import Measurement, Pass
from manta_tools.perf.records import Request
from tests.support.simulated_clock import Clock

MS = 1_000_000
EPOCH_NS = 1_700_000_000_000_000_000
CHAT = ENDPOINTS["chat"]
PROMPT = "how are you"
BODY = {"model": "m", "messages": [{"role": "user", "content": PROMPT}], "stream": True}


def chunk(text, **more):
    return json.dumps({"choices": [{"delta": {"content": text}}], **more}).encode()


# A role, three tokens of which two come together, and usage.
TIMELINE = (
    (20, chunk("")),
    (50, chunk(" one")),
    (80, chunk(" two three")),
    (90, json.dumps({"choices": [], "usage": {"completion_tokens": 3}}).encode()),
)


class TimedServer:
    """Answers each request with these responses at these instants after it."""

    def __init__(self, clock, timeline, errors=()):
        self._clock, self._timeline, self._errors = clock, timeline, list(errors)

    def send(self, request, listener):
        for after_ms, raw in self._timeline:
            self._clock.after(after_ms * MS, self._respond, request, listener, raw)
        self._clock.after(100 * MS, self._end, request, listener)

    def _respond(self, request, listener, raw):
        request.contents.append(raw)
        listener.responded(request, self._clock.now_ns)

    def _end(self, request, listener):
        request.error = self._errors.pop(0) if self._errors else ""
        listener.ended(request, self._clock.now_ns)


class Source:
    def __init__(self, memory):
        self._memory = memory

    def next(self, slot):
        wire = b"POST / HTTP/1.1\r\n\r\n" + json.dumps(BODY).encode()
        request = Request(Payload(wire, {}), slot=slot)
        request.contents = Transcript(self._memory)
        return request

    def closing(self, slot):
        return None


def run(timeline=TIMELINE, *, count=4, concurrency=2, limit_bytes=1 << 20, errors=(), turn=None):
    clock = Clock()
    server = TimedServer(clock, timeline, errors)
    source = Source(Memory(limit_bytes, lambda: None))
    loop = ClosedLoop(server, source, lambda: clock.now_ns, concurrency=concurrency, limit=count)
    loop.start()
    clock.run()
    return outcome(
        loop.take(),
        CHAT,
        [turn or Turn(PROMPT)],
        [BODY],
        TensorNames(),
        epoch_ns=EPOCH_NS,
        is_streaming=True,
    )


def reading(**more):
    return Reading(CHAT, TensorNames(), ApproximateTokenizer(), True, **more)


def test_known_token_times_make_known_metrics():
    requests, tally = measured(run().rows, reading())
    assert len(requests) == 4
    assert {each.first_token_ns for each in requests} == {50 * MS}
    assert {each.second_token_ns for each in requests} == {30 * MS}
    assert {each.latency_ns for each in requests} == {80 * MS}
    assert {each.inter_token_ns for each in requests} == {15 * MS}
    assert {(each.input_tokens, each.output_tokens) for each in requests} == {(3, 3)}
    assert (tally.by_server, tally.by_tokenizer) == (4, 0)
    found = summarise(requests, {"time_to_first_token": 50.0}).statistics
    # Two at a time: the last token comes 180 ms after the first start.
    assert found["request_throughput"]["avg"] == pytest.approx(4 / 0.18)
    assert found["output_token_throughput"]["avg"] == pytest.approx(12 / 0.18)
    assert found["request_goodput"]["avg"] == pytest.approx(4 / 0.18)


def test_the_tokenizer_counts_where_the_server_shall_not():
    timeline = (*TIMELINE[:3], (90, json.dumps({"usage": {"completion_tokens": 99}}).encode()))
    requests, tally = measured(run(timeline).rows, reading(ignores_server=True))
    assert {each.output_tokens for each in requests} == {3}
    assert (tally.by_server, tally.by_tokenizer) == (0, 4)
    assert "counted by the tokenizer approximate (built in)" in next(tally.lines())


def test_requests_that_failed_are_no_rows():
    found = run(errors=["first", "second"])
    assert (len(found.rows), found.failures, found.first_error) == (2, 2, "first")


def test_answers_that_were_not_kept_are_no_rows():
    size_bytes = sum(len(raw) for _, raw in TIMELINE)
    found = run(limit_bytes=2 * size_bytes)
    assert (len(found.rows), found.cut, found.failures) == (2, 2, 0)


def test_answers_without_text_and_of_other_endpoints_are_left_out():
    rows = [*run().rows, *run(((10, chunk("")),), count=1).rows, *run(((10, b"?"),), count=2).rows]
    requests, tally = measured(rows, reading())
    assert (len(requests), tally.empty, tally.unread) == (4, 1, 2)
    lines = list(tally.lines())
    assert lines[1:2] == ["Left out: 1 answers without a text."]
    assert lines[2].startswith("Left out: 2 answers; the first: the response b'?' is no JSON")


def test_a_run_without_any_text_is_a_failure():
    with pytest.raises(UnavailableError, match="none of 2 answers has a text"):
        measured(run(((10, b"{}"),), count=2).rows, reading())


def test_only_requests_of_the_last_windows_are_reported():
    requests = [Request() for _ in range(5)]
    for request, end_ns in zip(requests, (9, 10, 20, 30, 31), strict=True):
        request.end_ns = end_ns
    passes = tuple(Pass(Window(start, start + 10), None, 0.0, 0.0) for start in (10, 20))
    found = Measurement(1, passes[-1], passes, True, True, tuple(requests))
    assert reported(found) == requests[1:4]


def test_the_file_is_perf_analyzers():
    found = run(count=1, turn=Turn(PROMPT, session_id="s", delay_ms=5))
    written = json.loads(
        document(
            found.rows,
            mode=("concurrency", 1),
            service_kind="openai",
            endpoint="v1/chat/completions",
            boundaries_ns=[1, 2],
            release="9",
        )
    )
    (experiment,) = written.pop("experiments")
    assert written == {
        "version": "9",
        "service_kind": "openai",
        "endpoint": "v1/chat/completions",
    }
    assert experiment["experiment"] == {"mode": "concurrency", "value": 1}
    assert experiment["window_boundaries"] == [1, 2]
    (row,) = experiment["requests"]
    assert row["timestamp"] == EPOCH_NS
    assert json.loads(row["request_inputs"]["payload"]) == BODY
    assert (row["request_inputs"]["session_id"], row["request_inputs"]["delay"]) == ("s", 5)
    assert row["response_timestamps"] == [EPOCH_NS + ms * MS for ms, _ in TIMELINE]
    assert row["response_outputs"][1] == {"response": f"data: {chunk(' one').decode()}\n\n"}
