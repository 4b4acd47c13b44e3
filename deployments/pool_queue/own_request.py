# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A request of this process that may wait in the queue of a pool, and is its own ticket there."""

import time
from collections.abc import Callable
from typing import Protocol

from mypy_extensions import mypyc_attr

from backends.api.errors import RequestCancelledError
from backends.api.model_config import ModelConfig
from backends.api.request import SEQUENCE_START, InferenceRequest
from deployments.contracts.sinks import ResponseSink
from deployments.lane.inflight import LaneInflight
from deployments.pool_queue.messages import Ticket
from deployments.scheduling.factory import make_signature
from deployments.scheduling.shape_buckets import shape_buckets_of


class WaitingPlace(Protocol):
    """Where a request waits."""

    def cancelled(self, request: "OwnRequest") -> None:
        """End a request that waits here."""


@mypyc_attr(allow_interpreted_subclasses=True)
class OwnRequest(LaneInflight):
    """A request of a router; its own ticket in the queue of this process.

    A `TicketMaker` sets all but ``queue``, ``avoid``, ``enqueue_ns``, ``local_only``,
    ``has_given_id`` and ``refusal_count``.

    Attributes:
        queue: Where it waits; None while it does not.
        batch_size: Leading dimension of its inputs; 1 when the model does not batch.
        enqueue_ns: Since when it waits, wherever it has waited; 0 before.
        signature: What must be equal among requests that share a batch.
        local_only: Whether only an instance on this node can serve it.
        number: Its ticket's number at another process's queue.
        avoid: Incarnation of an instance that is not to get it; empty for none.
        party: None: this process has it.
        is_rescheduled: Whether it is to be executed once more.
        is_kept: Whether its instance keeps it for that.
        has_given_id: Whether its correlation id is one that a queue has given it.
        refusal_count: How often it was refused where its sequence was thought to be.
    """

    __slots__ = (
        "avoid",
        "batch_size",
        "enqueue_ns",
        "has_given_id",
        "is_kept",
        "is_rescheduled",
        "local_only",
        "number",
        "party",
        "queue",
        "refusal_count",
        "signature",
    )

    batch_size: int
    is_kept: bool
    is_rescheduled: bool
    number: int
    party: None
    signature: object

    def __init__(self, request: InferenceRequest, sink: ResponseSink) -> None:
        super().__init__(request, sink)
        self.queue: WaitingPlace | None = None
        self.local_only = False
        self.avoid = ""
        self.enqueue_ns = 0
        self.has_given_id = False
        self.refusal_count = 0

    def _belong_to(self, correlation_id: int | str) -> None:
        super()._belong_to(correlation_id)
        self.has_given_id = True

    @property
    def is_movable(self) -> bool:
        """Whether it may as well be executed on another node."""
        return not (self.local_only or self.correlation_id)

    @property
    def may_start_elsewhere(self) -> bool:
        """Whether it begins a sequence, which may as well be on another node."""
        is_start = bool(self.correlation_id) and self.flags & SEQUENCE_START != 0
        return is_start and not (self.has_given_id or self.local_only or self.cancelled)

    def wait_from(self, now_ns: int) -> None:
        """Note that it waits from now on, unless it has waited before."""
        if not self.enqueue_ns:
            self.enqueue_ns = now_ns

    def count_wait(self) -> None:
        """Tell an instance that gets it by itself how long it has waited."""
        if self.enqueue_ns:
            self.request.waited_ns = time.monotonic_ns() - self.enqueue_ns

    def forget_given_id(self) -> None:
        """Belong to no sequence again, if a queue had made the request one of its own."""
        if self.has_given_id:
            self.has_given_id = False
            self.request.correlation_id = 0
            self.request.flags = 0

    def come_back(self) -> None:
        """Go elsewhere, as no queue and no lane has it any more; end it if it was cancelled."""
        self.queue = None
        if self.cancelled:
            self.sink.fail(RequestCancelledError(""))
        else:
            self.send_again()

    def send_again(self) -> None:
        """Send it once more, to wherever it belongs now; whoever routes it says how."""
        raise NotImplementedError

    def moved(self) -> "OwnRequest":
        """Return what goes on in this one's place, which lies in a queue yet and is not to run."""
        raise NotImplementedError

    @property
    def is_cancelled(self) -> bool:
        """Whether the queue is to forget it; once it has begun, that is its instance's to do."""
        return self.cancelled and not self.is_kept


def ticket_of(request: OwnRequest, model_name: str, version: int, *, now_ns: int) -> Ticket:
    """Return the ticket of a request for another process's queue.

    ``now_ns`` is for a holder on another node, whose clock is another one; 0 for one here.
    """
    return Ticket(
        model_name,
        version,
        request.batch_size,
        0 if now_ns else request.enqueue_ns,
        request.signature,
        request.timeout_us,
        request.priority,
        request.correlation_id,
        request.flags,
        request.request_id,
        request.avoid,
        now_ns - request.enqueue_ns if now_ns else 0,
        request.tenant,
        request.weight,
    )


# Learns what became of a request that was withdrawn: it is back, or None.
Taken = Callable[[OwnRequest | None], None]


class TicketMaker:
    """Makes the requests for one model version tickets of its queue."""

    __slots__ = ("_clock_ns", "_is_batching", "_signature")

    def __init__(self, config: ModelConfig) -> None:
        self._signature = make_signature(config, shape_buckets_of(config))
        self._is_batching = config.max_batch_size > 0
        self._clock_ns = time.monotonic_ns

    def make(self, request: OwnRequest, queue: WaitingPlace) -> None:
        """Have a request wait in a queue, which has to be told."""
        request.forget_given_id()
        request.lane = None
        request.queue = queue
        request.party = None
        request.number = 0
        if not request.enqueue_ns:
            request.enqueue_ns = self._clock_ns()
        request.is_rescheduled = request.is_kept = False
        request.batch_size = 1
        inference = request.request
        inputs = inference.inputs
        if self._is_batching and inputs and inputs[0].shape:
            request.batch_size = max(1, inputs[0].shape[0])
        signature = self._signature
        request.signature = None if signature is None else signature(inference)
