# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A request of this process that may wait in the queue of a pool, and is its own ticket there."""

from typing import Protocol

from backends.api.request import InferenceRequest
from deployments.contracts.sinks import ResponseSink
from deployments.lane.inflight import LaneInflight


class WaitingPlace(Protocol):
    """Where a request waits."""

    def cancelled(self, request: "OwnRequest") -> None:
        """End a request that waits here."""


class OwnRequest(LaneInflight):
    """A request of a router; implements `deployments.pool_queue.queued_request.QueuedTicket`.

    All but ``queue`` is set by the queue that takes it.

    Attributes:
        queue: Where it waits; None while it does not.
        batch_size: Leading dimension of its inputs; 1 when the model does not batch.
        enqueue_ns: When it was queued.
        signature: What must be equal among requests that share a batch.
        number: Its ticket's number at another process's queue.
        avoid: Incarnation of an instance that is not to get it.
        party: None: this process has it.
        is_rescheduled: Whether it is to be executed once more.
        is_kept: Whether its instance keeps it for that.
    """

    __slots__ = (
        "avoid",
        "batch_size",
        "enqueue_ns",
        "is_kept",
        "is_rescheduled",
        "number",
        "party",
        "queue",
        "signature",
    )

    def __init__(self, request: InferenceRequest, sink: ResponseSink) -> None:
        super().__init__(request, sink)
        self.queue: WaitingPlace | None = None

    def queued(self, queue: WaitingPlace, now_ns: int, signature: object, *, batches: bool) -> None:
        """Take what the request is to a queue.

        Args:
            queue: Where it waits from now on.
            now_ns: Now.
            signature: What must be equal among requests that share a batch.
            batches: Whether the model batches.
        """
        self.lane = None
        self.queue = queue
        self.party: None = None
        self.avoid = ""
        self.number = 0
        self.enqueue_ns = now_ns
        self.signature = signature
        self.is_rescheduled = False
        self.is_kept = False
        self.batch_size = 1
        inputs = self.request.inputs
        if batches and inputs and inputs[0].shape:
            self.batch_size = max(1, inputs[0].shape[0])

    @property
    def request_id(self) -> str:
        """The client's id."""
        return self.request.id

    @property
    def timeout_us(self) -> int:
        """Queue timeout the client asked for."""
        return self.request.timeout_us

    @property
    def priority(self) -> int:
        """Level the client asked for."""
        return self.request.priority

    @property
    def correlation_id(self) -> int | str:
        """The sequence it belongs to."""
        return self.request.correlation_id

    @correlation_id.setter
    def correlation_id(self, value: int | str) -> None:
        self.request.correlation_id = value

    @property
    def flags(self) -> int:
        """SEQUENCE_START | SEQUENCE_END."""
        return self.request.flags

    @flags.setter
    def flags(self, value: int) -> None:
        self.request.flags = value

    @property
    def is_cancelled(self) -> bool:
        """Whether the queue is to forget it; once it has begun, that is its instance's to do."""
        return self.cancelled and not self.is_kept
