# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The router's end of a lane: submits requests to one instance and hands back what it answers."""

import asyncio
import logging
import secrets
import ssl
from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

from backends.api.errors import TritonError, UnavailableError, error_from_code
from backends.api.request import InferenceRequest, InferenceResponse
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.contracts.sinks import ResponseSink
from deployments.lane.calls import PendingCalls
from deployments.lane.connection import LaneConnection
from deployments.lane.crash_report import Crash, CrashReport, open_report
from deployments.lane.dial import dial
from deployments.lane.frames import (
    CALL_ERROR,
    CALL_RESULT,
    CANCEL,
    CREDIT,
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
from deployments.lane.handshake import NONCE_BYTES, ClientHandshake
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

_MAX_ID: Final = 0xFFFFFFFF


@mypyc_attr(allow_interpreted_subclasses=True)
class LaneClient(PoolClient):
    """A lane to one instance. Everything happens on the event loop that connected it.

    Attributes:
        is_local: Whether the instance is on this node.
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
        handshake = ClientHandshake(secret, secrets.token_bytes(NONCE_BYTES), limits.versions)
        loop = asyncio.get_running_loop()
        connection = LaneConnection(self, loop, handshake, slabs, limits, offers_slabs=same_node)
        super().__init__(loop, connection, endpoint)
        self.is_local = same_node
        self._report_lost = on_lost
        self._last_id = 0
        self._calls = PendingCalls(self._connection, endpoint.name, limits.max_message_bytes)
        # Until the lane is handed out a loss is an error of `connect`.
        self._ready: asyncio.Future[None] = loop.create_future()
        self._is_handed_out = False
        self._lost_reason = ""
        self._closes_when_idle = False
        self._silence = Silence(self._connection)
        self._report: CrashReport | None = None
        self._crash: Crash | None = None
        self._connection.control |= {
            TRACE: self._on_trace,
            PONG: self._on_pong,
            GOAWAY: self._on_goaway,
        }

    @classmethod
    async def connect(
        cls,
        endpoint: InstanceEndpoint,
        *,
        same_node: bool,
        secret: bytes,
        slabs: SlabPool,
        on_lost: Callable[["LaneClient", list[LaneInflight]], None],
        limits: LaneLimits = DEFAULT_LIMITS,
        tls: ssl.SSLContext | None = None,
    ) -> "LaneClient":
        """Open a lane to an instance.

        Args:
            endpoint: The instance; its Unix socket is used on the same node, TCP otherwise.
            same_node: Whether the instance is on this node.
            secret: The cluster's lane secret.
            slabs: The slabs of this process.
            on_lost: Called exactly once when the connected lane ends, for whatever reason, with
                the requests that have no terminal outcome; the lane has forgotten their sinks.
            limits: Bounds of the lane.
            tls: Context of TCP; None leaves it in clear text.

        Raises:
            UnavailableError: The instance cannot be reached, or is not the one expected.
        """
        lane = cls(
            endpoint,
            same_node=same_node,
            secret=secret,
            slabs=slabs,
            on_lost=on_lost,
            limits=limits,
        )
        try:
            async with asyncio.timeout(limits.handshake_timeout_s):
                await dial(endpoint, lane._connection, same_node=same_node, tls=tls)
                await lane._wait_ready()
        except BaseException as error:
            if lane._connection.is_connected:
                lane._connection.lose("given up")
                lane._connection.transport.abort()
            if not isinstance(error, OSError | TimeoutError):
                raise
            reason = str(error) or f"no answer within {limits.handshake_timeout_s} s"
            raise UnavailableError(f"no lane to instance '{endpoint.name}': {reason}") from error
        lane._is_handed_out = True
        return lane

    async def _wait_ready(self) -> None:
        await self._ready
        if not self.is_open:
            raise ConnectionError(self._lost_reason)

    @property
    def is_open(self) -> bool:
        """Whether requests can be submitted."""
        return not self._connection.is_lost

    @property
    def request_count(self) -> int:
        """Requests sent until now and not sent back; begins anew where their numbers do."""
        return self._last_id - self._calls.count - self.bounce_count

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
        connection.send_prepared(INFER, request_id, prepared)
        if self.outstanding == 1 and connection.was_single:
            # One at a time: whoever waits for this has sent nothing that could share its write.
            connection.flush()

    def send_cancel(self, inflight: LaneInflight) -> None:
        """Tell the instance of a cancel, unless the request has ended; `LaneInflight` calls it."""
        if self._pending.get(inflight.id) is inflight:
            self._connection.send(CANCEL, inflight.id)

    def send_credit(self, inflight: LaneInflight) -> None:
        """Let the instance send one response more; `LaneInflight` calls it."""
        if self._pending.get(inflight.id) is inflight:
            self._connection.send(CREDIT, inflight.id)

    async def call(self, method: str, payload: bytes, timeout_s: float) -> bytes:
        """Call a control method of the instance.

        Raises:
            InvalidArgumentError: The payload is too long.
            UnavailableError: The lane is lost or there was no answer in time.
            TritonError: The instance's own error.
        """
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

    def crash(self) -> Crash | None:
        """Return how a crash has ended the instance's process; None before the lane is lost."""
        return self._crash

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

    def _next_id(self) -> int:
        request_id, calls = self._last_id, self._calls.answers
        while True:
            request_id = request_id % _MAX_ID + 1
            if request_id not in self._pending and request_id not in calls:
                self._last_id = request_id
                return request_id

    def _fail(self, inflight: LaneInflight, error: TritonError, *, final: bool = True) -> None:
        try:
            if final:
                inflight.fail(error)
            else:
                inflight.has_responded = True
                inflight.sink.fail(error, final=False)
        except Exception:
            logger.exception("%s: a sink raised", self.describe())

    # What the connection calls: `deployments.lane.connection.LaneRole`

    def describe(self) -> str:
        """Return what the lane is called in the log."""
        return f"lane to instance '{self.endpoint.name}'"

    def connected(self) -> None:
        """Do nothing: the handshake is under way."""

    def authenticated(self) -> None:
        """Begin the set-up."""
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
        self._set_ready()

    def _set_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def _on_goaway(self, _: Frame) -> None:
        self.draining = True
        if self.events is not None:
            self.events.draining()

    def lost(self, reason: str) -> None:
        """Hand over what has no outcome."""
        self._calls.fail_all(reason)
        self._lost_reason = reason
        self._set_ready()
        report, self._report = self._report, None
        if report is not None:
            if self._pending:
                self._crash = report.read()
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

    def _on_pong(self, _: Frame) -> None:
        """Do nothing: any byte shows that the instance turns."""
