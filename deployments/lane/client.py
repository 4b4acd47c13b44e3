# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The router's end of a lane: submits requests to one instance and hands back what it answers."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Self

from mypy_extensions import mypyc_attr

from backends.api.errors import UnavailableError, error_from_code
from backends.api.request import InferenceRequest, InferenceResponse
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.contracts.sinks import ResponseSink
from deployments.lane.connection import LaneConnection
from deployments.lane.crash_report import Crash, CrashReport, open_report
from deployments.lane.dial import dial, open_end
from deployments.lane.frames import (
    CALL_ERROR,
    CALL_RESULT,
    CANCEL,
    ERROR,
    FLAG_EXTENTS,
    FLAG_FINAL,
    GOAWAY,
    INFER,
    PONG,
    RESPONSE,
    SETUP,
    TRACE,
    Frame,
    FrameError,
)
from deployments.lane.handshake import ClientHandshake
from deployments.lane.inflight import LaneInflight
from deployments.lane.messages import (
    DEFAULT_LIMITS,
    LaneLimits,
    Setup,
    UnsendableError,
    decode_error,
    decode_report,
    decode_response,
    encode,
)
from deployments.lane.pool_client import PoolClient, unsendable_error
from deployments.lane.silence import SILENT_PERIODS, Silence
from deployments.slabs.extents import attach
from deployments.slabs.pool import SlabPool, SlabUnavailableError
from deployments.tracing.record import TracedSink

__all__ = ["SILENT_PERIODS", "LaneClient", "LaneInflight"]

logger = logging.getLogger(__name__)


@mypyc_attr(allow_interpreted_subclasses=True)
class LaneClient(PoolClient):
    """A lane to one instance. Everything happens on the event loop on which it was made.

    Args:
        endpoint: The instance; its Unix socket is used on the same node, TCP otherwise.
        same_node: Whether the instance is on this node.
        secret: The cluster's lane secret.
        slabs: The slabs of this process.
        on_lost: Called exactly once when the open lane ends, for whatever reason, with the
            requests that have no terminal outcome; the lane has forgotten their sinks.
        limits: Bounds of the lane.

    Attributes:
        is_local: Whether the instance is on this node.
        crash: How a crash has ended the instance's process; None before the lane is lost.
    """

    def __init__(
        self,
        endpoint: InstanceEndpoint,
        *,
        same_node: bool,
        secret: bytes,
        slabs: SlabPool,
        on_lost: Callable[["LaneClient", list[LaneInflight]], None],
        limits: LaneLimits = DEFAULT_LIMITS,
    ) -> None:
        loop = asyncio.get_running_loop()
        connection = LaneConnection(
            self, loop, ClientHandshake, secret, slabs, limits, offers_slabs=same_node
        )
        super().__init__(loop, connection, endpoint, limits.max_message_bytes)
        self.is_local = same_node
        self._report_lost = on_lost
        self._timeout_s = limits.handshake_timeout_s
        # Until the lane is handed out a loss is an error of `open`.
        self._is_handed_out = False
        self._closes_when_idle = False
        self._silence = Silence(self._connection)
        self._report: CrashReport | None = None
        self.crash: Crash | None = None
        self._connection.control |= {
            TRACE: self._on_trace,
            # Any byte shows that the instance turns.
            PONG: lambda _: None,
            GOAWAY: self._on_goaway,
        }

    async def open(self, tls: ssl.SSLContext | None = None) -> Self:
        """Connect with the instance, and return the lane.

        Args:
            tls: Context of TCP; None leaves it in clear text.

        Raises:
            UnavailableError: The instance cannot be reached, or is not the one expected.
        """
        end, endpoint = self._connection, self.endpoint
        dialling = dial(endpoint, end, same_node=self.is_local, tls=tls)
        await open_end(end, dialling, self._timeout_s, f"instance '{endpoint.name}'")
        self._is_handed_out = True
        return self

    @property
    def is_open(self) -> bool:
        """Whether requests can be submitted."""
        return not self._connection.is_lost

    def submit(self, request: InferenceRequest, sink: ResponseSink) -> LaneInflight:
        """Send a request; never raises. See `start`."""
        inflight = LaneInflight(request, sink)
        self.start(inflight)
        return inflight

    def start(self, inflight: LaneInflight) -> None:
        """Send a request that is new, or that another lane has lost; never raises.

        The request and its tensors' buffers must stay as they are until the terminal outcome. On a
        lane that is already lost, and for a request that cannot be encoded, ``inflight.fail``
        comes in the next tick of the loop.
        """
        inflight.lane = self
        inflight.has_responded = False
        connection = self._connection
        if connection.is_lost:
            self._refuse_later(inflight, self._closed_error())
            return
        request = inflight.request
        try:
            prepared = connection.prepare(request, request.inputs)
        except UnsendableError as error:
            self._refuse_later(inflight, unsendable_error(request, error))
            return
        inflight.id = request_id = self._next_id()
        self._pending[request_id] = inflight
        self.outstanding += 1
        self.request_count += 1
        connection.send_prepared(INFER, request_id, prepared)
        if self.outstanding == 1 and connection.was_single:
            # One at a time: whoever waits for this has sent nothing that could share its write.
            connection.flush()

    async def call(self, method: str, payload: bytes, timeout_s: float) -> bytes:
        """Call a control method of the instance; see `PendingCalls.make`."""
        if not self.is_open:
            raise self._closed_error()
        try:
            return await self._calls.make(self._next_id(), method, payload, timeout_s)
        finally:
            if self._closes_when_idle:
                self._close_if_idle()

    def is_unresponsive(self) -> bool:
        """Note that a period of the router's check has passed; see `Silence.pass_period`."""
        return self._silence.pass_period(is_owed=bool(self._pending or self._calls.answers))

    def break_off(self, reason: str) -> None:
        """Close the lane to an instance that does not answer, without waiting for it."""
        self._connection.break_off(reason)

    def close(self) -> None:
        """Close the lane; requests without an outcome go to ``on_lost`` before this returns."""
        self._connection.close("closed here")

    def close_when_idle(self) -> None:
        """Close the lane as soon as nothing is outstanding on it, perhaps now."""
        self._closes_when_idle = True
        self._close_if_idle()

    def stay_open(self) -> None:
        """Take back that the lane is to close when it is idle."""
        self._closes_when_idle = False

    def _close_if_idle(self) -> None:
        if not (self._pending or self._calls.answers):
            self.close()

    # What the connection calls: `deployments.lane.connection.LaneRole`

    def connected(self, *, is_proved: bool) -> None:
        """Begin the set-up after the handshake."""
        if is_proved:
            self._connection.send(SETUP, 0, encode(self._connection.slabs.own_setup()))

    def take_setup(self, setup: Setup) -> None:
        """Take the instance's part of the set-up, and complete it."""
        expected = self.endpoint.incarnation
        if setup.incarnation and expected and setup.incarnation != expected:
            # A port or a name was taken over by another process.
            raise FrameError(f"incarnation '{setup.incarnation}' answers, not '{expected}'")
        connection = self._connection
        slabs = connection.slabs
        slabs.peer_maps(setup)
        connection.send(SETUP, 0, encode(Setup(maps_yours=slabs.maps_slabs_of(setup))))
        self._report = open_report(slabs.peer_pid, setup)
        connection.set_up_done()

    def _on_goaway(self, _: Frame) -> None:
        self.draining = True
        if self.events is not None:
            self.events.draining()

    def lost(self, reason: str) -> None:
        """Hand over what has no outcome."""
        self._calls.fail_all(reason)
        report, self._report = self._report, None
        if report is not None:
            if self._pending:
                self.crash = report.read()
            # A lane is in circles of references: the page would wait for the collector.
            report.close()
        if not self._is_handed_out:
            return
        orphans = list(self._pending.values())
        self._pending.clear()
        self.outstanding = 0
        try:
            self._report_lost(self, orphans)
        except Exception:
            logger.exception("%s: on_lost raised", self.describe())

    # Reading

    def take_frames(self, frames: list[Frame]) -> None:
        """Take responses, errors and answers, and what else the instance has to say."""
        for frame in frames:
            kind = frame.kind
            if kind == RESPONSE:
                self._on_response(frame)
            elif kind == ERROR:
                self._on_error(frame)
            elif kind in {CALL_RESULT, CALL_ERROR}:
                self._calls.take_answer(frame)
            else:
                self._connection.take_control(frame)
        if self._closes_when_idle:
            self._close_if_idle()

    def _on_response(self, frame: Frame) -> None:
        final = frame.flags & FLAG_FINAL != 0
        error: SlabUnavailableError | None = None
        response: InferenceResponse | None = None
        if frame.message:
            response = decode_response(frame.message)
            if frame.flags & FLAG_EXTENTS:
                try:
                    attach(response.outputs, frame.tail, self._connection.slabs.reader)
                except SlabUnavailableError as unavailable:
                    error = unavailable
            elif frame.tail:
                raise FrameError("a tail that no extent speaks of")
        elif not final:
            raise FrameError("an empty response that is not final")
        inflight = self._pending.get(frame.request_id)
        if inflight is None:
            return
        if error is not None:
            self._drop_unreadable(inflight, error, final=final)
            return
        if final:
            del self._pending[frame.request_id]
            self.outstanding -= 1
        inflight.has_responded = True
        try:
            inflight.sink.respond(response, final=final)
        except Exception:
            logger.exception("%s: a sink raised", self.describe())

    def _drop_unreadable(
        self, inflight: LaneInflight, error: SlabUnavailableError, *, final: bool
    ) -> None:
        del self._pending[inflight.id]
        self.outstanding -= 1
        if not final:
            # What else it answers finds no request any more.
            self._connection.send(CANCEL, inflight.id)
        name = self.endpoint.name
        self._fail(inflight, UnavailableError(f"answer of instance '{name}' lost: {error}"))

    def _on_error(self, frame: Frame) -> None:
        described = decode_error(frame.message)
        inflight = self._pending.get(frame.request_id)
        if inflight is None:
            return
        final = frame.flags & FLAG_FINAL != 0
        if final:
            del self._pending[frame.request_id]
            self.outstanding -= 1
        error = error_from_code(described.code, described.message, described.phase)
        self._fail(inflight, error, final=final)

    def _on_trace(self, frame: Frame) -> None:
        inflight = self._pending.get(frame.request_id)
        if inflight is not None and isinstance(inflight.sink, TracedSink):
            inflight.sink.traced(decode_report(frame.message))
