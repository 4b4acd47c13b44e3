# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Counts how a version that a rollout has chosen answers, and hands answers on to be mirrored."""

import time
from collections.abc import Callable
from typing import Final

from backends.api.errors import (
    InternalError,
    RequestCancelledError,
    TritonError,
    UnavailableError,
    UnknownError,
)
from backends.api.request import InferenceResponse
from deployments.contracts.arm_report import ArmReport
from deployments.contracts.sinks import ResponseSink
from deployments.metrics.distributions import class_of
from deployments.tracing.passing_sink import PassingSink

_NS_PER_US: Final = 1000
# What the version has to answer for; the rest is the request's, or its client's.
_FAULTS: Final = frozenset((InternalError.code, UnknownError.code, UnavailableError.code))

# Takes the first response of a request that had only one.
AnswerTaker = Callable[[InferenceResponse], None]


class ArmSink(PassingSink):
    """Passes a request's outcomes on, and counts its terminal one.

    Args:
        sink: Takes the outcomes.
        counts: Of the version.
        answered: Called behind the only response; None when nobody wants to know.

    Attributes:
        sink: The same.
    """

    __slots__ = ("_answered", "_counts", "_has_failed", "_start_ns")

    def __init__(
        self, sink: ResponseSink, counts: ArmReport, answered: AnswerTaker | None = None
    ) -> None:
        super().__init__(sink)
        self._counts = counts
        self._answered = answered
        self._has_failed = False
        self._start_ns = time.monotonic_ns()

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Take a response."""
        answered = self._answered
        if not final:
            # More than one: a stream, which nobody compares.
            self._answered = None
            self.sink.respond(response, final=False)
            return
        times = None if response is None else response.compute_ns
        self._count(is_fault=self._has_failed, compute_ns=times)
        if answered is None or response is None:
            self.sink.respond(response, final=True)
            return
        self._answered = None
        # Codecs may put other outputs in the place of those.
        answer = InferenceResponse(
            response.model_name, response.model_version, response.id, response.outputs
        )
        self.sink.respond(response, final=True)
        answered(answer)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Take an error."""
        is_fault = error.code in _FAULTS
        if final and error.code != RequestCancelledError.code:
            self._count(is_fault=is_fault or self._has_failed)
        self._has_failed = self._has_failed or is_fault
        self._answered = None
        self.sink.fail(error, final=final)

    def _count(self, *, is_fault: bool, compute_ns: tuple[int, int, int] | None = None) -> None:
        counts = self._counts
        counts.requests += 1
        if is_fault:
            counts.errors += 1
            return
        took_ns = time.monotonic_ns() - self._start_ns
        number = class_of(took_ns // _NS_PER_US)
        counts.latencies[number] = counts.latencies.get(number, 0) + 1
        if compute_ns is not None:
            number = class_of(max(0, took_ns - sum(compute_ns)) // _NS_PER_US)
            counts.queue[number] = counts.queue.get(number, 0) + 1
