# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Traces requests: samples them, follows them, and hands finished traces to a writer.

A traced request goes with a sink that notes instants and passes everything on to the sink of the
protocol; a request that is not traced goes with that sink itself. Whoever takes requests asks
`Tracer.is_on` first, so that tracing costs nothing while it is off.

Triton: server/src/tracer.cc @e1db8a6, core/src/infer_trace.h @73aad7c
"""

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import orjson

from backends.api.errors import TritonError
from backends.api.request import InferenceRequest, InferenceResponse, TraceContext
from deployments.contracts.sinks import ResponseSink
from deployments.settings.server_settings import TRITON_MODE, ServerSettings, TraceSettings
from deployments.tracing.call import Recorder, TracedCall
from deployments.tracing.record import (
    Activity,
    TracedModel,
)
from deployments.tracing.sampling import RemoteSpan, Sampler, remote_span

_log = logging.getLogger(__name__)

_SAMPLED: Final = 1


@dataclass(frozen=True, slots=True)
class Front:
    """How a protocol's activities are called."""

    receive_start: str
    receive_end: str
    send_start: str
    send_end: str


HTTP: Final = Front("HTTP_RECV_START", "HTTP_RECV_END", "HTTP_SEND_START", "HTTP_SEND_END")
GRPC: Final = Front("GRPC_WAITREAD_START", "GRPC_WAITREAD_END", "GRPC_SEND_START", "GRPC_SEND_END")
_RESPONSE_COMPLETE: Final = "INFER_RESPONSE_COMPLETE"


@dataclass(frozen=True, slots=True)
class Arrival:
    """How a request came.

    Attributes:
        front: Names of the protocol's activities.
        began_ns: When receiving began, or waiting for the message in gRPC.
        received_ns: When the request was there.
        headers: Its headers or metadata.
    """

    front: Front
    began_ns: int
    received_ns: int
    headers: Sequence[tuple[bytes, bytes]] = ()


@dataclass(slots=True)
class Trace:
    """One traced request of a client, and all that was done for it.

    Attributes:
        sampler: What picked it.
        started_ns: When it was picked.
        has_timestamps: Whether activities are recorded.
        has_tensors: Whether tensors are recorded.
        models: Its records; the first is that of the client's request.
        front: The protocol's activities.
        trace_id: W3C trace id in OpenTelemetry mode, else 0.
        span_id: Its root span there.
        parent: The caller's span there, if the caller has one.
    """

    sampler: Sampler
    started_ns: int
    has_timestamps: bool
    has_tensors: bool
    models: list[TracedModel]
    front: list[Activity]
    trace_id: int = 0
    span_id: int = 0
    parent: RemoteSpan | None = None


class TraceWriter(Protocol):
    """Takes finished traces."""

    def write(self, trace: Trace) -> None:
        """Take a trace; returns at once."""

    def settle(self, sampler: Sampler) -> None:
        """Write what was taken under settings that no longer hold."""

    async def close(self) -> None:
        """Write everything."""


class ClientCall(TracedCall):
    """The sink of a client's traced request: notes the sending too, and ends the trace."""

    __slots__ = ("_front", "_trace", "_tracer")

    def __init__(
        self,
        tracer: "Tracer",
        trace: Trace,
        record: TracedModel,
        request: InferenceRequest,
        sink: ResponseSink,
        arrival: Arrival,
    ) -> None:
        front = self._front = arrival.front
        trace.front.append((front.receive_start, arrival.began_ns))
        trace.front.append((front.receive_end, arrival.received_ns))
        context = TraceContext(record.id, 0, trace.has_tensors, _propagated(trace, record))
        super().__init__(tracer.recorder, trace.models, record, request, sink, context)
        self._tracer = tracer
        self._trace = trace

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Note a response, and how long passing it on took."""
        self._take(response, final=final)
        self._note(_RESPONSE_COMPLETE)
        self._note(self._front.send_start)
        self._sink.respond(response, final=final)
        self._note(self._front.send_end)
        if final:
            self._tracer.finished(self._trace)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Note an error, and how long passing it on took."""
        self._take(None, final=final)
        self._note(self._front.send_start)
        self._sink.fail(error, final=final)
        self._note(self._front.send_end)
        if final:
            self._tracer.finished(self._trace)

    def refused(self) -> None:
        """Note the end of a request that was not sent on, and end the trace."""
        self._take(None, final=True)
        self._tracer.finished(self._trace)

    def _note(self, name: str) -> None:
        self._trace.front.append((name, self._clock_ns()))


class Tracer:
    """Traces the requests of one ingress.

    Args:
        report_use: Told of traces taken off a finite count: whose settings, how many by now, and
            the settings' revision.
        make_writer: Makes what takes traces, once there are settings that trace.
        clock_ns: Monotonic clock, the one of the instances.

    Attributes:
        is_on: Whether any request may be traced; asked before anything else.
    """

    def __init__(
        self,
        report_use: Callable[[str, int, int], None] | None = None,
        make_writer: Callable[[ServerSettings], TraceWriter] | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.is_on = False
        self.recorder = Recorder(clock_ns)
        self.clock_ns = clock_ns
        self._report_use = report_use
        self._make_writer = make_writer
        self._writer: TraceWriter | None = None
        self._settings = ServerSettings()
        self._samplers: dict[str, Sampler] = {}
        self._replica = ""

    def apply(self, settings: ServerSettings, replica: str = "") -> None:
        """Trace from now on as the settings say.

        Args:
            settings: The settings.
            replica: The name this ingress has among ``trace_uses``.
        """
        self._settings = settings
        self._replica = replica
        for key, sampler in list(self._samplers.items()):
            if self._is_current(key, sampler.settings):
                uses = settings.trace_uses.get(key, {})
                sampler.used_elsewhere = sum(uses.values()) - uses.get(replica, 0)
            else:
                del self._samplers[key]
                if self._writer is not None:
                    self._writer.settle(sampler)
        keys = {"", *map(settings.trace_key, settings.trace_overrides)}
        is_on = any(settings.configured_trace(key).level for key in keys)
        if is_on and self._writer is None and self._make_writer is not None:
            try:
                self._writer = self._make_writer(settings)
            except TritonError as error:
                # Requests go on without traces; the driver checks the same before it starts.
                _log.error("no traces: %s", error.message)
                self._make_writer = None
        self.is_on = is_on and self._writer is not None

    def _is_current(self, key: str, held: TraceSettings) -> bool:
        settings = self._settings
        if key and settings.trace_key(key) != key:
            return False
        now = settings.configured_trace(key)
        return now == held and now.revision == held.revision

    def traced(
        self,
        model_name: str,
        model_version: int,
        request: InferenceRequest,
        sink: ResponseSink,
        arrival: Arrival,
    ) -> ResponseSink:
        """Return the sink a client's request goes with: ``sink`` itself unless it is traced."""
        key = self._settings.trace_key(model_name)
        sampler = self._samplers.get(key)
        if sampler is None:
            sampler = self._samplers[key] = Sampler(self._settings.configured_trace(key))
            uses = self._settings.trace_uses.get(key, {})
            sampler.used_elsewhere = sum(uses.values()) - uses.get(self._replica, 0)
        settings = sampler.settings
        is_otel = settings.mode != TRITON_MODE
        parent = remote_span(arrival.headers) if is_otel else None
        used_before = sampler.used
        if not sampler.sample(forced=parent is not None):
            return sink
        if sampler.used != used_before and self._report_use is not None:
            self._report_use(key, sampler.used, settings.revision)
        trace = Trace(
            sampler,
            self.clock_ns(),
            "TIMESTAMPS" in settings.level,
            "TENSORS" in settings.level,
            [],
            [],
            parent=parent,
        )
        if is_otel:
            trace.trace_id = random.getrandbits(128) if parent is None else parent.trace_id
            trace.span_id = random.getrandbits(64)
        record = self.recorder.record(
            model_name, model_version, request.id, has_span=bool(trace.trace_id)
        )
        return ClientCall(self, trace, record, request, sink, arrival)

    def finished(self, trace: Trace) -> None:
        """Hand a trace to the writer."""
        if self._writer is not None:
            self._writer.write(trace)
            if trace.sampler not in self._samplers.values():
                # Its settings were replaced while it ran.
                self._writer.settle(trace.sampler)

    async def close(self) -> None:
        """Write what is left."""
        self.is_on = False
        if self._writer is not None:
            await self._writer.close()


def _propagated(trace: Trace, record: TracedModel) -> str:
    """Return what backends pass on to whom they call, as Triton's trace contexts have it."""
    if not trace.trace_id:
        return ""
    context = {"traceparent": f"00-{trace.trace_id:032x}-{record.span_id:016x}-{_SAMPLED:02x}"}
    if trace.parent is not None and trace.parent.state:
        context["tracestate"] = trace.parent.state
    return orjson.dumps(context).decode()
