# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Streams over a memory budget: what came first, what was refused, and what ended first."""

import gzip

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import InternalError
from deployments.grpc.kserve.service import STREAM_PATH
from deployments.http2 import frames
from tests.support.examples import examples
from tests.support.grpc_stream import MB, held_message, opened
from tests.support.http2_peer import grpc_message, request

HEADERS = request(path=STREAM_PATH, grpc_encoding=b"gzip", grpc_timeout=b"1S")
ONE = np.array([1], np.int32)
Step = tuple[str, int]
STEPS = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from([0, 30_000, 90_000])),
    st.tuples(st.just("cut"), st.sampled_from([0, 100_000, 200_000])),
    st.tuples(st.just("zip"), st.sampled_from([500_000, 5_000_000])),
    st.tuples(st.just("inflate"), st.just(0)),
    st.tuples(st.just("answer"), st.integers(0, 9)),
    st.tuples(st.just("fail"), st.integers(0, 9)),
)
ENDS = st.sampled_from(["answers", "answers", "lost", "reset", "deadline"])


class History:
    """One stream, step by step.

    Attributes:
        asked: Ids of the requests, in order.
        answers: Ids of the answers.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.stream = opened(limit_bytes, HEADERS)
        self.asked: list[str] = []
        self.answers: list[str] = []
        # Of a message that has not come whole.
        self._rest = b""
        self._open: list[int] = []
        self._seen = 0

    @property
    def has_ended(self) -> bool:
        return not self.stream.client.h2.streams

    def take(self, step: Step) -> None:
        kind, what = step
        if kind == "inflate":
            if self.stream.client.offloaded:
                self.stream.client.run_offloaded()
        elif kind in ("answer", "fail"):
            self._answer(what, is_failure=kind == "fail")
        else:
            self._ask(kind, what)
        self.answers += [each[0] for each in self.stream.answers()]

    def _ask(self, kind: str, size: int) -> None:
        self.asked.append(str(len(self.asked)))
        message = held_message("held", self.asked[-1], size)
        if kind == "zip":
            message = gzip.compress(message)
        body = grpc_message(message, compressed=kind == "zip")
        middle = len(body) // 2 if kind == "cut" else len(body)
        self.stream.send(self._rest + body[:middle])
        self._rest = body[middle:]

    def _answer(self, which: int, *, is_failure: bool) -> None:
        jobs = self.stream.plane.jobs
        self._open += range(self._seen, len(jobs))
        self._seen = len(jobs)
        if not self._open:
            return
        job = jobs[self._open.pop(which % len(self._open))]
        if is_failure:
            job.sink.fail(InternalError("broken"))
        else:
            job.respond(OUT=ONE)

    def answer_all(self) -> None:
        self.stream.send(self._rest)
        while self.stream.client.offloaded:
            self.stream.client.run_offloaded()
        for _ in range(len(self.stream.plane.jobs) + 1):
            self.take(("answer", 0))

    def end(self, how: str) -> None:
        client = self.stream.client
        if how == "reset":
            client.send(frames.rst_stream(1, 8))
        elif how == "deadline":
            client.deadlines.expire(client.now_ns + 2_000_000_000)
        else:
            client.grpc.lost()

    def come_late(self) -> None:
        """Have everything come that nobody waits for any more."""
        for job in self.stream.plane.jobs:
            job.sink.fail(InternalError("late"))
        while self.stream.client.offloaded:
            self.stream.client.run_offloaded()
        self.stream.client.grpc.lost()


@settings(max_examples=examples(200))
@given(st.lists(STEPS, max_size=25), st.sampled_from([60_000, 250_000, 9 * MB]), ENDS)
def test_each_request_has_one_answer_in_its_turn_and_its_memory_is_given_back_once(
    steps: list[Step], limit_bytes: int, end: str
) -> None:
    history = History(limit_bytes)
    budget = history.stream.client.budget
    for step in steps:
        if not history.has_ended:
            history.take(step)
            assert budget.used_bytes <= limit_bytes + (limit_bytes >> 6) + 4096
    if end == "answers" and not history.has_ended:
        history.answer_all()
        if not history.has_ended:
            assert history.answers == history.asked
            assert budget.used_bytes == 0
    assert history.answers == history.asked[: len(history.answers)]
    history.end(end)
    assert budget.used_bytes == 0
    history.come_late()
    assert budget.used_bytes == 0
