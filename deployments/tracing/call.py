# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of a trace: what one model's requests say of themselves.

An ingress records the requests of clients and the steps of ensembles. The process of an instance
records the calls its model makes with the trace of a request it executes: they wait here until the
instance reports that request.

Triton: core/src/infer_trace.h @73aad7c
"""

import itertools
import os
import random
import time
from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from backends.api.errors import TritonError
from backends.api.request import InferenceRequest, InferenceResponse, Tensor, TraceContext
from deployments.contracts.sinks import ResponseSink
from deployments.tracing.file import tensor_text
from deployments.tracing.record import (
    BACKEND_OUTPUT,
    QUEUE_INPUT,
    QUEUE_START,
    REQUEST_END,
    REQUEST_START,
    TracedModel,
    TracedTensor,
    TraceReport,
    aligned,
    child_of,
)

# Ids are unique among the processes of a node: a process has its own range, which JavaScript's
# numbers can still hold.
_ID_RANGE_BITS: Final = 30
_PID_MASK: Final = (1 << 22) - 1

# Of requests this process executes: what they have called so far.
_calls_of: WeakKeyDictionary[TraceContext, list[TracedModel]] = WeakKeyDictionary()


class Recorder:
    """Makes the records of one process.

    Args:
        clock_ns: Monotonic clock, the same for all processes of a node.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.clock_ns = clock_ns
        self._ids = itertools.count(((os.getpid() & _PID_MASK) << _ID_RANGE_BITS) + 1)

    def record(
        self, model_name: str, model_version: int, request_id: str, *, has_span: bool
    ) -> TracedModel:
        """Return a new record."""
        span_id = random.getrandbits(64) if has_span else 0
        return TracedModel(
            next(self._ids), model_name, model_version, request_id=request_id, span_id=span_id
        )

    def call(self, version: int, request: InferenceRequest, sink: ResponseSink) -> "TracedCall":
        """Return the sink of a request that joins the trace it carries.

        Args:
            version: Version of the model that is called.
            request: A request with the trace of the request in whose name it is made.
            sink: What everything is passed on to.
        """
        parent = request.trace
        if parent is None:
            raise ValueError("a request that belongs to no trace")
        record = self.record(request.model_name, version, request.id, has_span=bool(parent.context))
        models = _calls_of.setdefault(parent, [])
        return TracedCall(self, models, record, request, sink, child_of(parent, record))


def calls_of(context: TraceContext | None) -> list[TracedModel]:
    """Return the records of what was called in the name of a request executed here."""
    return [] if context is None else _calls_of.pop(context, [])


class TracedCall:
    """The sink of one model's part of a trace.

    Args:
        recorder: Makes records.
        models: The records of the trace so far; gets this one.
        record: The part.
        request: The request; gets the context that travels with it.
        sink: What everything is passed on to.
        context: That context.
    """

    __slots__ = (
        "_clock_ns",
        "_models",
        "_record",
        "_recorder",
        "_report",
        "_sink",
        "_start_ns",
        "context",
    )

    def __init__(
        self,
        recorder: Recorder,
        models: list[TracedModel],
        record: TracedModel,
        request: InferenceRequest,
        sink: ResponseSink,
        context: TraceContext,
    ) -> None:
        self._recorder = recorder
        self._models = models
        self._clock_ns = recorder.clock_ns
        self._record = record
        self._report: TraceReport | None = None
        self._sink = sink
        self._start_ns = self._clock_ns()
        self.context = context
        request.trace = context
        models.append(record)
        record.activities.append((REQUEST_START, self._start_ns))
        if context.has_tensors:
            record.tensors.extend(_shown(QUEUE_INPUT, request.inputs))

    def traced(self, report: TraceReport) -> None:
        """Keep what the instance says until the request ends."""
        self._report = report

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Note a response and pass it on."""
        self._take(response, final=final)
        self._sink.respond(response, final=final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Note the end and pass it on."""
        self._take(None, final=final)
        self._sink.fail(error, final=final)

    def _take(self, response: InferenceResponse | None, *, final: bool) -> None:
        if final:
            self._end(self._clock_ns())
        if response is not None and self.context.has_tensors:
            self._record.tensors.extend(_shown(BACKEND_OUTPUT, response.outputs))

    def queued(self) -> None:
        """Note that the request waits for its execution, when no instance will say so."""
        self._record.activities.append((QUEUE_START, self._clock_ns()))

    def step(
        self, model_name: str, model_version: int, request: InferenceRequest, sink: ResponseSink
    ) -> "TracedCall":
        """Return the sink of a request made on behalf of this one: its record becomes a child."""
        has_span = bool(self._record.span_id)
        record = self._recorder.record(model_name, model_version, request.id, has_span=has_span)
        context = child_of(self.context, record)
        return TracedCall(self._recorder, self._models, record, request, sink, context)

    def _end(self, now_ns: int) -> None:
        record, report = self._record, self._report
        if report is not None:
            record.activities.extend(aligned(report.activities, self._start_ns, now_ns))
            for child in report.children:
                child.activities = aligned(child.activities, self._start_ns, now_ns)
                self._models.append(child)
        record.activities.append((REQUEST_END, now_ns))


def _shown(activity: str, tensors: Sequence[Tensor]) -> list[TracedTensor]:
    return [
        TracedTensor(activity, each.name, each.datatype, tuple(each.shape), tensor_text(each))
        for each in tensors
    ]
