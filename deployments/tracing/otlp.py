# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Exports traces as OpenTelemetry spans over OTLP/HTTP.

Needs the packages of the extra ``otel``. A trace becomes a root span, and for each model a span
with a child for the computation, named and nested as Triton's.

Triton: server/src/tracer.cc TraceManager::Trace::StartSpan, ProcessOpenTelemetryParameters @e1db8a6
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from backends.api.errors import UnavailableError
from deployments.tracing.record import (
    COMPUTE_END,
    COMPUTE_INPUT_END,
    COMPUTE_OUTPUT_START,
    COMPUTE_START,
    Activity,
    TracedModel,
)
from deployments.tracing.sampling import Sampler
from deployments.tracing.tracer import Trace

try:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, TraceFlags, TraceState
except ImportError as error:
    raise UnavailableError(
        f"--trace-config mode=opentelemetry needs packages that are not installed: {error}. "
        f"Install them on every node with: pip install 'manta-serve[otel]'"
    ) from error

_log = logging.getLogger(__name__)

_DEFAULT_URL: Final = "http://localhost:4318/v1/traces"
_DEFAULT_SERVICE: Final = "triton-inference-server"
_SCOPE: Final = InstrumentationScope("triton-server")
_COMPUTE: Final = frozenset((COMPUTE_START, COMPUTE_INPUT_END, COMPUTE_OUTPUT_START, COMPUTE_END))
# Settings of the batch span processor and its arguments.
_PROCESSOR: Final = {
    "bsp_max_queue_size": "max_queue_size",
    "bsp_schedule_delay": "schedule_delay_millis",
    "bsp_max_export_batch_size": "max_export_batch_size",
}


class OtlpWriter:
    """Implements `TraceWriter`.

    Args:
        settings: ``--trace-config opentelemetry,<key>=<value>``, in the order given.
    """

    def __init__(self, settings: Sequence[tuple[str, str]]) -> None:
        self._resource = Resource.create(
            {"service.name": _DEFAULT_SERVICE, **_attributes(settings)}
        )
        given = dict(settings)
        arguments: dict[str, Any] = {
            argument: int(given[key]) for key, argument in _PROCESSOR.items() if key in given
        }
        exporter = OTLPSpanExporter(endpoint=given.get("url", _DEFAULT_URL))
        self._processor = BatchSpanProcessor(exporter, **arguments)

    def write(self, trace: Trace) -> None:
        """Take a trace."""
        # Events of spans are in wall clock time.
        offset_ns = time.time_ns() - time.monotonic_ns()
        for span in _Spans(trace, self._resource, offset_ns).all():
            self._processor.on_end(span)

    def settle(self, sampler: Sampler) -> None:
        """Do nothing: spans wait for no settings."""

    async def close(self) -> None:
        """Export what waits."""
        await asyncio.to_thread(self._processor.shutdown)


def _attributes(settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    resources = [value for key, value in settings if key == "resource"]
    return {name: value for name, _, value in (each.partition("=") for each in resources)}


class _Spans:
    """The spans of one trace."""

    def __init__(self, trace: Trace, resource: Resource, offset_ns: int) -> None:
        self._trace = trace
        self._resource = resource
        self._offset_ns = offset_ns
        parent = trace.parent
        self._state = TraceState.from_header([parent.state]) if parent is not None else TraceState()

    def all(self) -> list[ReadableSpan]:
        """Return them, inner ones first."""
        trace = self._trace
        root = self._context(trace.span_id)
        contexts = {model.id: self._context(model.span_id) for model in trace.models}
        spans = []
        for model in trace.models:
            spans += self._model_spans(
                model, contexts[model.id], contexts.get(model.parent_id, root)
            )
        caller = None
        if trace.parent is not None:
            caller = self._context(trace.parent.span_id, is_remote=True)
        last_ns = max(ns for _, ns in trace.front)
        spans.append(
            self._span("InferRequest", root, caller, trace.started_ns, last_ns, trace.front)
        )
        return spans

    def _model_spans(
        self, model: TracedModel, context: SpanContext, parent: SpanContext
    ) -> list[ReadableSpan]:
        instants = [ns for _, ns in model.activities]
        attributes: dict[str, Any] = {
            "triton.model_name": model.model_name,
            "triton.model_version": model.model_version,
            "triton.trace_id": model.id,
            "triton.trace_parent_id": model.parent_id,
        }
        if model.request_id:
            attributes["triton.request_id"] = model.request_id
        own = [each for each in model.activities if each[0] not in _COMPUTE]
        computing = [each for each in model.activities if each[0] in _COMPUTE]
        span = self._span(
            model.model_name, context, parent, min(instants), max(instants), own, attributes
        )
        if not computing:
            return [span]
        # Any id that no other span of the trace has.
        inner = self._context(model.span_id ^ (model.id << 1 | 1) or 1)
        first, last = min(ns for _, ns in computing), max(ns for _, ns in computing)
        return [self._span("compute", inner, context, first, last, computing), span]

    def _context(self, span_id: int, *, is_remote: bool = False) -> SpanContext:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(self._trace.trace_id, span_id, is_remote, flags, self._state)

    def _span(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        start_ns: int,
        end_ns: int,
        activities: Iterable[Activity],
        attributes: dict[str, Any] | None = None,
    ) -> ReadableSpan:
        offset_ns = self._offset_ns
        events = sorted(activities, key=lambda activity: activity[1])
        return ReadableSpan(
            name=name,
            context=context,
            parent=parent,
            resource=self._resource,
            attributes=attributes,
            events=[Event(event, timestamp=ns + offset_ns) for event, ns in events],
            kind=SpanKind.SERVER,
            instrumentation_scope=_SCOPE,
            start_time=start_ns + offset_ns,
            end_time=end_ns + offset_ns,
        )
