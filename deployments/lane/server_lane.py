# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One lane at the instance's end, and the requests it brings."""

import logging
from dataclasses import dataclass, field
from typing import Protocol

from backends.api.errors import InternalError, TritonError, UnavailableError
from backends.api.request import Extent, InferenceResponse
from deployments.lane.batches import Bounce
from deployments.lane.connection import LaneConnection
from deployments.lane.crash_report import ID_BITS, CrashPlace
from deployments.lane.frames import (
    BOUNCE,
    CALL,
    CANCEL,
    CREDIT,
    ERROR,
    FLAG_EXTENTS,
    FLAG_FINAL,
    GOAWAY,
    INFER,
    PING,
    PONG,
    RESPONSE,
    SETUP,
    TRACE,
    Frame,
    FrameError,
)
from deployments.lane.handshake import ServerHandshake
from deployments.lane.messages import (
    ErrorMessage,
    LaneLimits,
    Setup,
    UnsendableError,
    decode_request,
    encode,
)
from deployments.lane.server_calls import CallAnswers, CallHandler
from deployments.lane.server_pool import Holding, PoolHandler, PoolServer
from deployments.lane.server_request import ServerRequest
from deployments.reactor.reactor import Reactor
from deployments.shared_memory.objects import RegionMemory
from deployments.shared_memory.regions import place_outputs, read_inputs
from deployments.slabs.extents import Detached, attach
from deployments.slabs.pool import SlabPool, SlabUnavailableError
from deployments.tracing.record import TraceReport

logger = logging.getLogger(__name__)


class LaneHandler(PoolHandler, CallHandler, Protocol):
    """What stands behind a server: the instance's executor. Called on the reactor's thread."""

    def received(self, requests: list[ServerRequest]) -> None:
        """Take all requests of one read."""

    def cancelled(self, request: ServerRequest) -> None:
        """Learn that an unfinished request was cancelled, or that its router is gone."""


@dataclass(slots=True, eq=False)
class ServerState:
    """What the lanes of one server share; see `deployments.lane.server.LaneServer`.

    Attributes:
        is_draining: Whether routers shall send no more requests.
        holding: Who holds the queue of the instance's pool, and the connections.
        lane_count: Lanes there have been.
    """

    reactor: Reactor
    handler: LaneHandler
    slabs: SlabPool
    incarnation: str
    limits: LaneLimits
    memory: RegionMemory
    crash_place: CrashPlace
    is_draining: bool = False
    holding: Holding = field(default_factory=Holding)
    lane_count: int = 0


class ServerLane:
    """A router's connection.

    Args:
        server: What the lanes of one server share.
        secret: The cluster's lane secret.
        offers_slabs: Whether the router may be on this node.

    Attributes:
        connection: What its transport talks to.
    """

    def __init__(self, server: ServerState, secret: bytes, *, offers_slabs: bool) -> None:
        self.connection = LaneConnection(
            self,
            server.reactor,
            ServerHandshake,
            secret,
            server.slabs,
            server.limits,
            offers_slabs=offers_slabs,
        )
        self._limits = server.limits
        self._server = server
        self._handler = server.handler
        self._unanswered: dict[int, ServerRequest] = {}
        self._has_setup = False
        server.lane_count += 1
        self._number = server.lane_count
        self.connection.control[PING] = self._on_ping
        self._calls = CallAnswers(
            self.connection, server.reactor, server.handler, server.limits.max_message_bytes
        )
        self._pool = PoolServer(self.connection, server.handler, server.holding, server.limits)

    # What the connection calls: `deployments.lane.connection.LaneRole`

    def describe(self) -> str:
        """Return what the lane is called in the log."""
        return "lane from a router"

    def connected(self, *, is_proved: bool) -> None:
        """Give the stranger the time of a handshake, unless too many are at it."""
        connections = self._server.holding.connections
        connections.add(self.connection)
        if not is_proved:
            self.connection.admit(connections)

    def take_setup(self, setup: Setup) -> None:
        """Answer the router's part of the set-up; its second message completes it."""
        slabs = self.connection.slabs
        if self._has_setup:
            slabs.peer_maps(setup)
            self.connection.set_up_done()
            self._pool.set_up()
            if self._server.is_draining:
                self.connection.send(GOAWAY, 0)
            return
        self._has_setup = True
        reply = slabs.own_setup(self._server.incarnation)
        reply.maps_yours = slabs.maps_slabs_of(setup)
        if slabs.offers_slabs:
            place = self._server.crash_place
            reply.page_fd, reply.crash_log = place.fd, place.log
            reply.lane_number = self._number
        self.connection.send(SETUP, 0, encode(reply))

    def lost(self, reason: str) -> None:
        """Cancel what it has brought."""
        self._server.holding.connections.discard(self.connection)
        orphans = list(self._unanswered.values())
        self._unanswered.clear()
        if orphans:
            logger.info("%s lost with %d requests: %s", self.describe(), len(orphans), reason)
        for request in orphans:
            request.abandon()
        for request in orphans:
            self._report_cancelled(request)
        self._pool.lost()

    # Reading

    def take_frames(self, frames: list[Frame]) -> None:
        """Take requests, all of one read together, and what else the router has to say."""
        batch: list[ServerRequest] = []
        later: list[Frame] = []
        pool = self._pool
        for frame in frames:
            kind = frame.kind
            if kind == INFER:
                if pool.is_collecting:
                    self._on_infer(frame, pool.requests)
                    pool.came()
                else:
                    self._on_infer(frame, batch)
            elif kind in {CANCEL, CALL}:
                later.append(frame)
            elif kind == CREDIT:
                self._on_credit(frame.request_id)
            else:
                self.connection.take_control(frame)
        if batch:
            self._deliver(batch)
        # Only now does the handler know the requests that came in the same read.
        for frame in later:
            if frame.kind == CALL:
                self._calls.take(frame)
            else:
                self._on_cancel(frame.request_id)

    def _on_ping(self, frame: Frame) -> None:
        self.connection.send(PONG, frame.request_id)

    def _on_cancel(self, request_id: int) -> None:
        request = self._unanswered.get(request_id)
        if request is not None and not request.is_cancelled:
            request.cancel()
            self._report_cancelled(request)

    def _on_credit(self, request_id: int) -> None:
        request = self._unanswered.get(request_id)
        if request is not None:
            request.credit()

    def _on_infer(self, frame: Frame, batch: list[ServerRequest]) -> None:
        request_id = frame.request_id
        if request_id in self._unanswered:
            raise FrameError(f"request {request_id} sent again while in flight")
        request = decode_request(frame.message)
        accepted = ServerRequest(self, request_id, request, self._number << ID_BITS | request_id)
        self._unanswered[request_id] = accepted
        if frame.flags & FLAG_EXTENTS:
            try:
                attach(request.inputs, frame.tail, self.connection.slabs.reader)
            except SlabUnavailableError as gone:
                accepted.fail(UnavailableError(f"request for '{request.model_name}': {gone}"))
                return
        elif frame.tail:
            raise FrameError("a tail that no extent speaks of")
        if request.regions is not None:
            try:
                read_inputs(request, self._server.memory)
            except TritonError as error:
                accepted.fail(error)
                return
        if len(self._unanswered) > self._limits.max_inflight_count:
            accepted.fail(
                UnavailableError(
                    f"request for '{request.model_name}': the router has "
                    f"{self._limits.max_inflight_count} requests in flight on this lane"
                )
            )
            return
        batch.append(accepted)

    def _deliver(self, batch: list[ServerRequest]) -> None:
        try:
            self._handler.received(batch)
        except Exception:
            logger.exception("the handler raised on %d requests", len(batch))
            for request in batch:
                if not request.is_finished:
                    request.fail(InternalError("the instance could not take the request"))

    def _report_cancelled(self, request: ServerRequest) -> None:
        try:
            self._handler.cancelled(request)
        except Exception:
            logger.exception("the handler raised on a cancel")

    # Answering

    def place_outputs(
        self, response: InferenceResponse, regions: dict[str, Extent]
    ) -> TritonError | None:
        """Write outputs to clients' shared memory, or return why that cannot be."""
        try:
            place_outputs(response, regions, self._server.memory)
        except TritonError as error:
            return error
        return None

    def respond(
        self,
        request: ServerRequest,
        request_id: int,
        response: InferenceResponse | None,
        *,
        final: bool,
    ) -> None:
        """Send a response of an unfinished request."""
        prepared: tuple[bytes, Detached | None] = (b"", None)
        if response is not None:
            try:
                prepared = self.connection.prepare(response, response.outputs)
            except UnsendableError as error:
                name = response.model_name
                unsendable = InternalError(f"response of model '{name}' cannot be sent: {error}")
                self.fail(request, request_id, unsendable)
                return
        elif not final:
            raise ValueError("a response of None must be final")
        if final:
            self._finish(request, request_id)
        self.connection.send_prepared(RESPONSE, request_id, prepared, FLAG_FINAL if final else 0)

    def fail(
        self, request: ServerRequest, request_id: int, error: TritonError, *, final: bool = True
    ) -> None:
        """Send an error of an unfinished request."""
        if final:
            self._finish(request, request_id)
        message = encode(ErrorMessage(error.code, error.message, error.phase))
        self.connection.send(ERROR, request_id, message, FLAG_FINAL if final else 0)

    def bounce(self, request: ServerRequest, request_id: int, waited_ns: int) -> None:
        """Have an unfinished request sent by way of the pool's queue."""
        self._finish(request, request_id)
        self.connection.send(BOUNCE, request_id, encode(Bounce(waited_ns)) if waited_ns else b"")

    def send_report(self, request_id: int, report: TraceReport) -> None:
        """Send what a trace is to know of a request that is about to end."""
        self.connection.send(TRACE, request_id, encode(report))

    def _finish(self, request: ServerRequest, request_id: int) -> None:
        request.is_finished = True
        del self._unanswered[request_id]
