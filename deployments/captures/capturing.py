# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Captures what its rules want, on the way of a request. Pure but for the clocks it is given."""

from collections.abc import Callable
from typing import Final, Protocol

from backends.api.errors import TritonError
from backends.api.request import InferenceRequest, InferenceResponse
from deployments.captures.records import CaptureRecord
from deployments.captures.rules import CaptureRule, CaptureRules, Outcomes, Part
from deployments.captures.sampling import EvenSampler
from deployments.tracing.passing_sink import Observer

_NS_PER_US: Final = 1000


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

    Attributes:
        limits: Of records.
        queue: The same.
        clock_ns: The same.
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
        self.limits = rules.limits
        self.queue = queue
        self._now_s = now_s
        self.clock_ns = clock_ns
        self._make_id = make_id
        self._sampler = sampler or EvenSampler()

    def watch(
        self,
        model: str,
        version: str,
        request: InferenceRequest,
        digest: str = "",
        arm: str = "",
        tenant: str = "",
    ) -> Observer | None:
        """Return what captures a request, or watches whether it counts; None if nothing is to.

        A rule's fraction is one of the requests that end as the rule wants it. Others are taken
        back when they end, so that they neither use the fraction up nor take wanted ones' turns.

        Args:
            model: Name of the model that answers.
            version: Its version.
            request: The request, with its tensors in place.
            digest: Of what the version was loaded from.
            arm: Of a rollout.
            tenant: Whom the request counts for.
        """
        rule = self._rules.rule_of(model)
        if rule is None:
            return None
        if not self._sampler.takes(model, rule.fraction):
            return None if rule.outcomes is Outcomes.ALL else _Passed(self, model, rule)
        record = CaptureRecord(self._make_id(), self._now_s(), model, version, digest, arm, tenant)
        if Part.REQUEST in rule.parts:
            record.keep_request(request, rule.redaction, self.limits)
        return _Captured(self, record, rule, self.clock_ns())

    def take_back(self, model: str, rule: CaptureRule, *, was_taken: bool) -> None:
        """Have a request not count in its rule's fraction."""
        self._sampler.take_back(model, rule.fraction, was_taken=was_taken)


class _Passed(Observer):
    """Sees whether a request that is not captured ends as its rule wants it."""

    __slots__ = ("_captures", "_model", "_rule")

    def __init__(self, captures: Captures, model: str, rule: CaptureRule) -> None:
        self._captures = captures
        self._model = model
        self._rule = rule

    def ended(self, error: TritonError | None, *, is_refusal: bool) -> None:
        if not _is_wanted(self._rule, error):
            self._captures.take_back(self._model, self._rule, was_taken=False)


class _Captured(Observer):
    """Keeps the outcomes of a request."""

    __slots__ = ("_began_ns", "_captures", "_record", "_rule")

    def __init__(
        self, captures: Captures, record: CaptureRecord, rule: CaptureRule, began_ns: int
    ) -> None:
        self._captures = captures
        self._record = record
        self._rule = rule
        self._began_ns = began_ns

    def responded(self, response: InferenceResponse, *, final: bool) -> None:
        rule = self._rule
        if Part.RESPONSE in rule.parts:
            self._record.keep_response(response, rule.redaction, self._captures.limits)

    def ended(self, error: TritonError | None, *, is_refusal: bool) -> None:
        rule, record, captures = self._rule, self._record, self._captures
        if not _is_wanted(rule, error):
            captures.take_back(record.model, rule, was_taken=True)
            return
        record.latency_us = (captures.clock_ns() - self._began_ns) // _NS_PER_US
        if error is not None:
            record.outcome = error.code
            record.message = "" if rule.redaction.hides_values else error.message
        captures.queue.offer(record)


def _is_wanted(rule: CaptureRule, error: TritonError | None) -> bool:
    return rule.outcomes is not (Outcomes.ANSWERED if error is not None else Outcomes.FAILED)
