# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a trace is made of: one record for each model that a traced request ran through.

Pure data. Instants are nanoseconds of the monotonic clock of the process that records them.

Triton: core/src/infer_trace.h, core/include/triton/core/tritonserver.h @73aad7c
"""

from typing import Final, Protocol, runtime_checkable

import msgspec

from backends.api.request import TraceContext
from deployments.contracts.sinks import ResponseSink
from deployments.metrics.counters import ExecutionTimes

REQUEST_START: Final = "REQUEST_START"
QUEUE_START: Final = "QUEUE_START"
COMPUTE_START: Final = "COMPUTE_START"
COMPUTE_INPUT_END: Final = "COMPUTE_INPUT_END"
COMPUTE_OUTPUT_START: Final = "COMPUTE_OUTPUT_START"
COMPUTE_END: Final = "COMPUTE_END"
REQUEST_END: Final = "REQUEST_END"

QUEUE_INPUT: Final = "TENSOR_QUEUE_INPUT"
BACKEND_OUTPUT: Final = "TENSOR_BACKEND_OUTPUT"

Activity = tuple[str, int]


class TracedTensor(msgspec.Struct, array_like=True):
    """A tensor's values at one point of a trace.

    Attributes:
        activity: Which point: QUEUE_INPUT or BACKEND_OUTPUT.
        name: Tensor name.
        datatype: V2 datatype name.
        shape: Full shape.
        data: The elements as text, separated by commas.
    """

    activity: str
    name: str
    datatype: str
    shape: tuple[int, ...]
    data: str


class TracedModel(msgspec.Struct, array_like=True):
    """One model's part of a trace.

    Attributes:
        id: Number of the record; see `TraceContext`.
        model_name: Model.
        model_version: Version number.
        parent_id: Record of the request that asked for this one; 0 when a client did.
        request_id: The request's id, empty when none.
        span_id: Its span in OpenTelemetry mode, else 0.
        activities: Names and instants, in the order they were noted.
        tensors: Tensors, if they are recorded.
    """

    id: int
    model_name: str
    model_version: int
    parent_id: int = 0
    request_id: str = ""
    span_id: int = 0
    activities: list[Activity] = []
    tensors: list[TracedTensor] = []


class TraceReport(msgspec.Struct, array_like=True):
    """What an instance says of a traced request, just before it ends it.

    Attributes:
        activities: When it was queued and executed, by the instance's clock.
        children: Requests that the model made itself and that joined the trace.
    """

    activities: list[Activity]
    children: list[TracedModel] = []


def execution_activities(enqueue_ns: int, times: ExecutionTimes) -> list[Activity]:
    """Return the activities of a request that was executed."""
    return [
        (QUEUE_START, enqueue_ns),
        (COMPUTE_START, times.start_ns),
        (COMPUTE_INPUT_END, times.input_end_ns),
        (COMPUTE_OUTPUT_START, times.output_start_ns),
        (COMPUTE_END, times.end_ns),
    ]


def aligned(activities: list[Activity], sent_ns: int, received_ns: int) -> list[Activity]:
    """Return an instance's activities by the caller's clock.

    On one machine both clocks are the same and nothing changes. Instants of another machine, which
    cannot lie between sending and receiving, are moved there as if both ways took equally long.

    Args:
        activities: As the instance reported them.
        sent_ns: When the request was sent.
        received_ns: When its last answer came.
    """
    if not activities:
        return activities
    first = min(ns for _, ns in activities)
    last = max(ns for _, ns in activities)
    if sent_ns <= first and last <= received_ns:
        return activities
    shift = (sent_ns + received_ns - first - last) // 2
    return [(name, ns + shift) for name, ns in activities]


def child_of(context: TraceContext, model: TracedModel) -> TraceContext:
    """Return the context of a request made on behalf of a traced one.

    Args:
        context: The context of the request that asks.
        model: The record of the request that is made; its ``parent_id`` is set.
    """
    model.parent_id = context.id
    return TraceContext(model.id, context.id, context.has_tensors, context.context)


@runtime_checkable
class TracedSink(ResponseSink, Protocol):
    """The sink of a traced request."""

    def traced(self, report: TraceReport) -> None:
        """Take what the instance says of the request; the terminal call follows."""
