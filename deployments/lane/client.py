# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The router's end of a lane: submits requests to one instance and hands back what it answers."""

import asyncio
import logging
import secrets
import socket
import ssl
from collections.abc import Callable
from typing import Final

from backends.api.errors import (
    InvalidArgumentError,
    TritonError,
    UnavailableError,
    error_from_code,
)
from backends.api.request import InferenceRequest, InferenceResponse
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.contracts.sinks import ResponseSink, TracedSink
from deployments.lane.connection import LaneConnection
from deployments.lane.frames import (
    CALL,
    CALL_ERROR,
    CALL_RESULT,
    CANCEL,
    CREDIT,
    ERROR,
    FLAG_EXTENTS,
    FLAG_FINAL,
    INFER,
    PING,
    PONG,
    RESPONSE,
    SETUP,
    TRACE,
    Frame,
    FrameError,
)
from deployments.lane.handshake import NONCE_BYTES, ClientHandshake
from deployments.lane.messages import (
    DEFAULT_LIMITS,
    CallMessage,
    LaneLimits,
    Setup,
    UnsendableError,
    decode_error,
    decode_report,
    decode_response,
    encode,
)
from deployments.slabs.extents import attach
from deployments.slabs.pool import SlabPool, SlabUnavailableError

logger = logging.getLogger(__name__)

_MAX_ID: Final = 0xFFFFFFFF

# How many periods without a byte an instance that owes an answer is given.
SILENT_PERIODS: Final = 4


class LaneInflight:
    """A request on a lane; implements `deployments.contracts.sinks.Inflight`.

    Attributes:
        request: The request as it was submitted.
        sink: Its sink, which still expects one terminal call.
        lane: The lane that has it, or the last one that had it; None before it was sent.
        id: Its number on that lane.
        has_responded: Whether the sink has had a response, so that a retry would repeat it.
        cancelled: Whether it was cancelled.
    """

    __slots__ = ("cancelled", "has_responded", "id", "lane", "request", "sink")

    def __init__(self, request: InferenceRequest, sink: ResponseSink) -> None:
        self.request = request
        self.sink = sink
        self.lane: LaneClient | None = None
        self.id = 0
        self.has_responded = False
        self.cancelled = False

    def cancel(self) -> None:
        """Ask the instance to drop the request; its answer is still the terminal outcome."""
        if not self.cancelled:
            self.cancelled = True
            if self.lane is not None:
                self.lane.send_cancel(self)

    def credit(self) -> None:
        """Ask for one response more of a request with a window."""
        if self.lane is not None:
            self.lane.send_credit(self)

    def fail(self, error: TritonError) -> None:
        """Take the error that ends the request."""
        self.sink.fail(error)


class LaneClient(LaneConnection):
    """A lane to one instance. Everything happens on the event loop that connected it.

    Attributes:
        endpoint: The instance.
        is_local: Whether it is on this node.
        outstanding: Requests without a terminal outcome.
        draining: Whether the instance has asked for no more requests.
        is_writable: False while more bytes wait to be sent than is sensible.
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
        handshake = ClientHandshake(secret, secrets.token_bytes(NONCE_BYTES))
        loop = asyncio.get_running_loop()
        super().__init__(loop, handshake, slabs, limits, offers_slabs=same_node)
        self._asyncio = loop
        self.endpoint = endpoint
        self.is_local = same_node
        self.outstanding = 0
        self.draining = False
        self._report_lost = on_lost
        self._last_id = 0
        self._pending: dict[int, LaneInflight] = {}
        self._calls: dict[int, asyncio.Future[bytes]] = {}
        # Until the lane is handed out a loss is an error of `connect`.
        self._ready: asyncio.Future[None] = loop.create_future()
        self._is_handed_out = False
        self._lost_reason = ""
        self._closes_when_idle = False
        self._unsent_bytes = 0
        self._control[TRACE] = self._on_trace
        self._control[PONG] = self._on_pong

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
            tls: Context for lanes to other nodes; None leaves them in clear text.

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
                await lane._open(same_node, tls)
        except (OSError, TimeoutError) as error:
            lane._abandon()
            reason = str(error) or f"no answer within {limits.handshake_timeout_s} s"
            raise UnavailableError(f"no lane to instance '{endpoint.name}': {reason}") from error
        except BaseException:
            lane._abandon()
            raise
        return lane

    async def _open(self, same_node: bool, tls: ssl.SSLContext | None) -> None:
        if same_node:
            # Connected here because uvloop cannot connect to abstract paths.
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            try:
                await self._asyncio.sock_connect(sock, self.endpoint.uds)
                await self._asyncio.create_unix_connection(lambda: self, sock=sock)
            except BaseException:
                sock.close()
                raise
        else:
            host, port = self.endpoint.tcp
            await self._asyncio.create_connection(lambda: self, host, port, ssl=tls)
        await self._ready
        if self._is_lost:
            raise ConnectionError(self._lost_reason)
        self._is_handed_out = True

    def _abandon(self) -> None:
        if self._is_connected:
            self._lose("given up")
            self._transport.abort()

    @property
    def is_open(self) -> bool:
        """Whether requests can be submitted."""
        return not self._is_lost

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
        if self._is_lost:
            self._fail_soon(
                inflight, UnavailableError(f"the lane to instance '{self.endpoint.name}' is closed")
            )
            return
        request = inflight.request
        try:
            prepared = self._prepare(request, request.inputs)
        except UnsendableError as error:
            self._fail_soon(
                inflight,
                InvalidArgumentError(
                    f"request for model '{request.model_name}' cannot be sent: {error}"
                ),
            )
            return
        inflight.id = request_id = self._next_id()
        self._pending[request_id] = inflight
        self.outstanding += 1
        self._send_prepared(INFER, request_id, prepared)
        if self.outstanding == 1 and self._was_single:
            # One at a time: whoever waits for this has sent nothing that could share its write.
            self._flush()

    def send_cancel(self, inflight: LaneInflight) -> None:
        """Tell the instance of a cancel, unless the request has ended; `LaneInflight` calls it."""
        if self._pending.get(inflight.id) is inflight:
            self._send(CANCEL, inflight.id)

    def send_credit(self, inflight: LaneInflight) -> None:
        """Let the instance send one response more; `LaneInflight` calls it."""
        if self._pending.get(inflight.id) is inflight:
            self._send(CREDIT, inflight.id)

    async def call(self, method: str, payload: bytes, timeout_s: float) -> bytes:
        """Call a control method of the instance.

        Raises:
            UnavailableError: The lane is lost or there was no answer in time.
            TritonError: The instance's own error.
        """
        if self._is_lost:
            raise UnavailableError(f"the lane to instance '{self.endpoint.name}' is closed")
        message = encode(CallMessage(method, memoryview(payload)))
        if len(message) > self._limits.max_message_bytes:
            raise InvalidArgumentError(f"call of '{method}' has {len(message)} bytes")
        call_id = self._next_id()
        answer: asyncio.Future[bytes] = self._asyncio.create_future()
        self._calls[call_id] = answer
        self._send(CALL, call_id, message)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise UnavailableError(
                f"instance '{self.endpoint.name}' did not answer '{method}' within {timeout_s} s"
            ) from None
        finally:
            self._calls.pop(call_id, None)
            if self._closes_when_idle:
                self._close_if_idle()

    def is_unresponsive(self) -> bool:
        """Note that a period of the router's check has passed; a silent instance gets a PING.

        Periods are counted rather than timed: of a process that was stopped itself only one passes.

        Returns:
            Whether the instance owes an answer and has given no sign of life for
            `SILENT_PERIODS` whole periods.
        """
        if self._is_lost or not (self._pending or self._calls):
            self._silent_periods = 0
            return False
        before, self._unsent_bytes = self._unsent_bytes, self._transport.get_write_buffer_size()
        if self._unsent_bytes < before:
            # It reads, perhaps gigabytes: what it says next may wait for their end.
            self._silent_periods = 0
        # The period in which something came last is not a silent one.
        silent_periods = self._silent_periods
        self._silent_periods += 1
        if silent_periods:
            self._send(PING, 0)
        return silent_periods >= SILENT_PERIODS

    def break_off(self, reason: str) -> None:
        """Close the lane to an instance that does not answer, without waiting for it."""
        self._break(reason)

    def close(self) -> None:
        """Close the lane; requests without an outcome go to ``on_lost`` before this returns."""
        self._close("closed here")

    def close_when_idle(self) -> None:
        """Close the lane as soon as nothing is outstanding on it, perhaps now."""
        self._closes_when_idle = True
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if not self._pending and not self._calls:
            self.close()

    def _next_id(self) -> int:
        request_id = self._last_id
        while True:
            request_id = request_id % _MAX_ID + 1
            if request_id not in self._pending and request_id not in self._calls:
                self._last_id = request_id
                return request_id

    def _fail_soon(self, inflight: LaneInflight, error: TritonError) -> None:
        self._loop.call_soon(self._fail, inflight, error)

    def _fail(self, inflight: LaneInflight, error: TritonError, *, final: bool = True) -> None:
        try:
            if final:
                inflight.fail(error)
            else:
                inflight.has_responded = True
                inflight.sink.fail(error, final=False)
        except Exception:
            logger.exception("%s: a sink raised", self._describe())

    # Phases

    def _describe(self) -> str:
        return f"lane to instance '{self.endpoint.name}'"

    def _on_authenticated(self) -> None:
        self._send(SETUP, 0, encode(self._own_setup()))

    def _on_setup(self, setup: Setup) -> None:
        expected = self.endpoint.incarnation
        if setup.incarnation and expected and setup.incarnation != expected:
            # A port or a name was taken over by another process.
            raise FrameError(f"incarnation '{setup.incarnation}' answers, not '{expected}'")
        self._extents.uses_slabs = setup.maps_yours and self._offers_slabs
        self._send(SETUP, 0, encode(Setup(maps_yours=self._maps_slabs_of(setup))))
        self._set_up_done()
        self._set_ready()

    def _set_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def _on_goaway(self, _: Frame) -> None:
        self.draining = True

    def _on_lost(self, reason: str) -> None:
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(
                    UnavailableError(f"the lane to instance '{self.endpoint.name}' broke: {reason}")
                )
        self._calls.clear()
        self._lost_reason = reason
        self._set_ready()
        if not self._is_handed_out:
            return
        orphans = list(self._pending.values())
        self._pending.clear()
        self.outstanding = 0
        try:
            self._report_lost(self, orphans)
        except Exception:
            logger.exception("%s: on_lost raised", self._describe())

    # Reading

    def _take_frames(self, frames: list[Frame]) -> None:
        if not self._is_set_up:
            frames = self._take_setup(frames)
        for frame in frames:
            kind = frame.kind
            if kind == RESPONSE:
                self._on_response(frame)
            elif kind == ERROR:
                self._on_error(frame)
            elif kind in {CALL_RESULT, CALL_ERROR}:
                self._on_call_answer(frame)
            else:
                self._take_control(frame)
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
                    attach(response.outputs, frame.tail, self._slab_reader)
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
            logger.exception("%s: a sink raised", self._describe())

    def _drop_unreadable(
        self, inflight: LaneInflight, error: SlabUnavailableError, *, final: bool
    ) -> None:
        del self._pending[inflight.id]
        self.outstanding -= 1
        if not final:
            # What else it answers finds no request any more.
            self._send(CANCEL, inflight.id)
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
        self._fail(inflight, error_from_code(described.code, described.message), final=final)

    def _on_trace(self, frame: Frame) -> None:
        inflight = self._pending.get(frame.request_id)
        if inflight is not None and isinstance(inflight.sink, TracedSink):
            inflight.sink.traced(decode_report(frame.message))

    def _on_pong(self, _: Frame) -> None:
        """Do nothing: any byte shows that the instance turns."""

    def _on_call_answer(self, frame: Frame) -> None:
        answer = self._calls.get(frame.request_id)
        if answer is None or answer.done():
            return
        if frame.kind == CALL_RESULT:
            answer.set_result(bytes(frame.message))
        else:
            described = decode_error(frame.message)
            answer.set_exception(error_from_code(described.code, described.message))
