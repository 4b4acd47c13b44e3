# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Captures what its rules want, on the way of a request. Pure but for the clocks it is given."""

from collections.abc import Callable
from typing import Final, Protocol

from mypy_extensions import mypyc_attr

from backends.api.errors import TritonError
from backends.api.request import InferenceRequest, InferenceResponse
from deployments.captures.records import CaptureRecord
from deployments.captures.rules import CaptureRule, CaptureRules, Outcomes, Part
from deployments.captures.sampling import EvenSampler
from deployments.contracts.sinks import ResponseSink
from deployments.tracing.passing_sink import PassingSink

_NS_PER_US: Final = 1000


class CapturedModel(Protocol):
    """What a record tells of who answers; `deployments.routing.served_model.ServedModel` has it."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def version_text(self) -> str: ...  # noqa: D102


class RecordQueue(Protocol):
    """Where records go; `deployments.captures.writing.CaptureWriter` is one."""

    def offer(self, record: CaptureRecord) -> bool:
        """Take a record, without waiting; False when it is dropped."""


class Captures:
    """Captures requests.

    Args:
        rules: What is captured.
        queue: Where records go.
        now_s: The wall clock.
        clock_ns: A monotonic clock.
        make_id: Returns an id for a record, unique in the cluster.
        sampler: Chooses requests.
    """

    def __init__(
        self,
        rules: CaptureRules,
        queue: RecordQueue,
        now_s: Callable[[], float],
        clock_ns: Callable[[], int],
        make_id: Callable[[], str],
        sampler: EvenSampler | None = None,
    ) -> None:
        self._rules = rules
        self._limits = rules.limits
        self._queue = queue
        self._now_s = now_s
        self._clock_ns = clock_ns
        self._make_id = make_id
        self._sampler = sampler or EvenSampler()

    def watch(
        self,
        model: CapturedModel,
        request: InferenceRequest,
        sink: ResponseSink,
        digest: str = "",
        arm: str = "",
        tenant: str = "",
    ) -> ResponseSink:
        """Return the sink that a request is sent on with: its own, unless it is captured.

        Args:
            model: Who answers.
            request: The request, with its tensors in place.
            sink: Its own.
            digest: Of what the version was loaded from.
            arm: Of a rollout.
            tenant: Whom the request counts for.
        """
        rule = self._rules.rule_of(model.name)
        if rule is None or not self._sampler.takes(model.name, rule.fraction):
            return sink
        record = CaptureRecord(
            self._make_id(), self._now_s(), model.name, model.version_text, digest, arm, tenant
        )
        if Part.REQUEST in rule.parts:
            record.keep_request(request, rule.redaction, self._limits)
        return CapturingSink(self, record, rule, sink, self._clock_ns())

    def responded(
        self, record: CaptureRecord, rule: CaptureRule, response: InferenceResponse
    ) -> None:
        """Take a response to a captured request."""
        if Part.RESPONSE in rule.parts:
            record.keep_response(response, rule.redaction, self._limits)

    def ended(
        self, record: CaptureRecord, rule: CaptureRule, error: TritonError | None, began_ns: int
    ) -> None:
        """Take the terminal outcome of a captured request."""
        if rule.outcomes is (Outcomes.ANSWERED if error is not None else Outcomes.FAILED):
            return
        record.latency_us = (self._clock_ns() - began_ns) // _NS_PER_US
        if error is not None:
            record.outcome = error.code
            record.message = "" if rule.redaction.hides_values else error.message
        self._queue.offer(record)


@mypyc_attr(allow_interpreted_subclasses=True)
class CapturingSink(PassingSink):
    """Passes a request's outcomes on and keeps them.

    Args:
        captures: What keeps them.
        record: What is kept so far.
        rule: Of its model.
        sink: Takes the outcomes.
        began_ns: When the request was sent on.
    """

    __slots__ = ("_began_ns", "_captures", "_record", "_rule")

    def __init__(
        self,
        captures: Captures,
        record: CaptureRecord,
        rule: CaptureRule,
        sink: ResponseSink,
        began_ns: int,
    ) -> None:
        super().__init__(sink)
        self._captures = captures
        self._record = record
        self._rule = rule
        self._began_ns = began_ns

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Keep a response and pass it on."""
        if response is not None:
            self._captures.responded(self._record, self._rule, response)
        if final:
            self._captures.ended(self._record, self._rule, None, self._began_ns)
        self.sink.respond(response, final=final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Keep an error and pass it on."""
        if final:
            self._captures.ended(self._record, self._rule, error, self._began_ns)
        self.sink.fail(error, final=final)
