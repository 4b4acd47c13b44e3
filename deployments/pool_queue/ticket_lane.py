# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The router's end of a lane of tickets: one holder, and what waits in all its queues.

A ticket is known to the holder until it is granted, refused or withdrawn, and the lane hears which:
so what `TicketLane` has written down is what waits there. When the lane ends, all of it goes back
to the router at once, which sends it to the next holder.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Final, Self

from backends.api.errors import RequestCancelledError, error_from_code
from backends.api.model_config import ModelConfig
from deployments.lane.connection import LaneConnection
from deployments.lane.dial import open_end, take_unix
from deployments.lane.frames import (
    ERROR,
    FLAG_FINAL,
    GRANT,
    LEASE,
    LEASE_END,
    LOAD,
    PONG,
    SEQUENCE,
    SETUP,
    WITHDRAW,
    Frame,
    FrameError,
)
from deployments.lane.handshake import ClientHandshake
from deployments.lane.messages import Setup, decode_error, encode
from deployments.lane.silence import SILENT_PERIODS, Silence
from deployments.pool_queue.connection import NO_SLABS, epoch_of, holder_name
from deployments.pool_queue.messages import (
    LeaseEnd,
    SequenceQuestion,
    decode_grant,
    decode_known,
    decode_lease,
    decode_load,
)
from deployments.pool_queue.own_request import OwnRequest
from deployments.pool_queue.ticket_queue import TicketQueue
from deployments.pool_queue.waiting_ticket import TicketLaneOptions, WaitingTicket
from deployments.reactor.transport import Cancellable

logger = logging.getLogger(__name__)

_MAX_NUMBER: Final = 0xFFFFFFFF
# How long a holder has to say whether it knows a sequence.
_ANSWER_TIMEOUT_S: Final = 2.0


class TicketLane:
    """A lane to one holder.

    Everything happens on the event loop on which it was made.

    Args:
        options: What it has in common with others.
        is_local: Whether the holder is on this node.
        epoch: Epoch that the holder is to have; 0 for any.

    Attributes:
        owner: The router.
        epoch: Of the holder.
        max_message_bytes: Longest message.
        waiting: What the holder has not decided on, by number.
        was_silent: Whether it ended because the holder said nothing.
        on_ended: Called when it has ended, before what waited comes back; None for nobody.
    """

    def __init__(self, options: TicketLaneOptions, *, is_local: bool, epoch: int = 0) -> None:
        self._loop = loop = asyncio.get_running_loop()
        secret, limits = options.secret, options.limits
        self._connection = LaneConnection(
            self, loop, ClientHandshake, secret, NO_SLABS, limits, offers_slabs=False
        )
        self._timeout_s = limits.handshake_timeout_s
        self._silence = Silence(self._connection)
        self._period_s = options.silence_s / SILENT_PERIODS
        self._timer: Cancellable | None = None
        self.owner = options.owner
        self.is_local = is_local
        self.epoch = epoch
        self.max_message_bytes = limits.max_message_bytes
        self.waiting: dict[int, WaitingTicket] = {}
        # Of questions about sequences, by number.
        self._answers: dict[int, asyncio.Future[bool | None]] = {}
        self.was_silent = False
        self.on_ended: Callable[[], None] | None = None
        self._queues: dict[tuple[str, int], TicketQueue] = {}
        self._last_number = 0
        self._ended: asyncio.Future[None] = loop.create_future()
        self._connection.control = {
            GRANT: self._on_grant,
            ERROR: self._on_error,
            WITHDRAW: self._on_withdrawn,
            LOAD: self._on_load,
            LEASE: self._on_lease,
            # Any byte shows that the holder turns.
            PONG: lambda _: None,
            SEQUENCE: self._on_answer,
        }

    async def open_unix(self, sock: socket.socket) -> Self:
        """Open the lane to the holder of this node, and return it.

        Args:
            sock: A Unix socket that is connected with the holder's; it is the lane's.

        Raises:
            UnavailableError: There is no holder behind it, or it says nothing.
        """
        return await self._open(take_unix(sock, self._connection))

    async def open_tcp(self, address: tuple[str, int], tls: ssl.SSLContext | None) -> Self:
        """Open the lane to the holder of another node, and return it.

        Args:
            address: Host and port.
            tls: Context of TCP; None leaves it in clear text.

        Raises:
            UnavailableError: The holder cannot be reached, or another one listens there.
        """
        end, (host, port) = self._connection, address
        return await self._open(self._loop.create_connection(lambda: end, host, port, ssl=tls))

    async def _open(self, dialling: Coroutine[Any, Any, object]) -> Self:
        await open_end(self._connection, dialling, self._timeout_s, "the holder of a node")
        return self

    @property
    def is_open(self) -> bool:
        """Whether tickets can be sent."""
        return not self._connection.is_lost

    async def wait_ended(self) -> None:
        """Return when the lane is lost."""
        await asyncio.shield(self._ended)

    def queue_of(self, name: str, version: int, config: ModelConfig) -> TicketQueue:
        """Return the queue of a model version at this holder; it ends with the lane."""
        queue = self._queues.get((name, version))
        if queue is None:
            self._queues[name, version] = queue = TicketQueue(self, config, version)
        elif queue.config is not config:
            queue.configure(config)
        return queue

    def forget(self, model_name: str, version: int) -> None:
        """Let go of the queue of a model version; what waits there is the router's again soon."""
        queue = self._queues.get((model_name, version))
        if queue is None:
            return
        for waiting in queue.tickets.all():
            queue.withdraw(waiting.request, self._give_back)
        if not queue.waiting_count:
            del self._queues[model_name, version]
            queue.close()

    def _give_back(self, request: OwnRequest | None) -> None:
        if request is not None:
            self.owner.returned([request])

    def close(self) -> None:
        """Close the lane; what waits is the router's again before this returns."""
        self._connection.close("closed here")

    # What its queues call

    def write_down(self, waiting: WaitingTicket) -> int:
        """Give a request its number."""
        number = self._next_number()
        self.waiting[number] = waiting
        waiting.queue.tickets.add(waiting)
        return number

    def _next_number(self) -> int:
        number, waiting, answers = self._last_number, self.waiting, self._answers
        while True:
            number = number % _MAX_NUMBER + 1
            if number not in waiting and number not in answers:
                self._last_number = number
                return number

    def find(self, request: OwnRequest) -> WaitingTicket | None:
        """Return what is written down of a request that was started here."""
        waiting = self.waiting.get(request.number)
        return waiting if waiting is not None and waiting.request is request else None

    def strike_out(self, number: int) -> WaitingTicket | None:
        """Forget what is written down of a number."""
        waiting = self.waiting.pop(number, None)
        if waiting is not None:
            waiting.queue.tickets.remove(waiting)
        return waiting

    async def knows(self, model_name: str, version: int, correlation_id: int | str) -> bool | None:
        """Ask the holder whether a sequence goes on there; None when it does not say."""
        if not self.is_open:
            return None
        number = self._next_number()
        answer: asyncio.Future[bool | None] = self._loop.create_future()
        self._answers[number] = answer
        self.send(SEQUENCE, number, encode(SequenceQuestion(model_name, version, correlation_id)))
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                return await answer
        except TimeoutError:
            return None
        finally:
            del self._answers[number]

    def send(self, kind: int, number: int, message: bytes = b"", flags: int = 0) -> None:
        """Send a frame, if the lane is open."""
        if not self._connection.is_lost:
            self._connection.send(kind, number, message, flags)

    # What the connection calls: `deployments.lane.connection.LaneRole`

    def describe(self) -> str:
        """Return what the lane is called in the log."""
        return f"lane of tickets to {holder_name(self.epoch)}"

    def connected(self, *, is_proved: bool) -> None:
        """Begin the set-up after the handshake."""
        if is_proved:
            self._connection.send(SETUP, 0, encode(Setup()))

    def take_setup(self, setup: Setup) -> None:
        """Make sure that this is the holder, and be ready."""
        epoch = epoch_of(setup.incarnation)
        if not epoch or self.epoch not in {0, epoch}:
            # A port was taken over by another process.
            raise FrameError(f"'{setup.incarnation}' answers, not '{holder_name(self.epoch)}'")
        self.epoch = epoch
        self._connection.set_up_done()
        if self._period_s:
            self._timer = self._loop.call_later(self._period_s, self._check)

    def _check(self) -> None:
        """Break off with a holder that has tickets and says nothing."""
        if self._silence.pass_period(is_owed=bool(self.waiting)):
            silence_s = self._period_s * SILENT_PERIODS
            self.was_silent = True
            self._connection.break_off(f"the holder showed no progress for {silence_s:g} s")
        else:
            self._timer = self._loop.call_later(self._period_s, self._check)

    def take_frames(self, frames: list[Frame]) -> None:
        """Take grants, errors and what else the holder has to say."""
        for frame in frames:
            self._connection.take_control(frame)

    def lost(self, reason: str) -> None:
        """Hand back what waits."""
        self._ended.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(None)
        for queue in self._queues.values():
            queue.close()
            queue.tickets.clear()
        waiting = sorted(self.waiting.values(), key=lambda each: each.request.enqueue_ns)
        self.waiting.clear()
        logger.info("%s lost with %d tickets: %s", self.describe(), len(waiting), reason)
        if self.on_ended is not None:
            self._tell(self.on_ended)
        rest = [each.request for each in waiting if not each.request.is_cancelled]
        for each in waiting:
            each.request.queue = None
            each.settle(None)
            if each.request.is_cancelled:
                each.queue.refused(each, RequestCancelledError(""))
        if rest:
            self._tell(lambda: self.owner.returned(rest))

    def _tell(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:
            logger.exception("%s: the router raised on its loss", self.describe())

    # Reading

    def _on_grant(self, frame: Frame) -> None:
        grant = decode_grant(frame.message)
        count = len(grant.tickets)
        if not {len(grant.slots), len(grant.correlation_ids)} <= {0, count} or not count:
            raise FrameError(f"a grant of {count} tickets and another number of slots or sequences")
        granted: list[WaitingTicket] = []
        for number in grant.tickets:
            waiting = self.strike_out(number)
            if waiting is not None:
                granted.append(waiting)
        queue = granted[0].queue if granted else None
        if queue is None or len(granted) < count or any(x.queue is not queue for x in granted):
            # Whatever it was, the requests are the router's again.
            for waiting in granted:
                waiting.queue.tickets.add(waiting)
                self.waiting[waiting.request.number] = waiting
            raise FrameError("a grant of tickets that do not wait, or of several models")
        queue.granted(grant, granted)

    def _on_error(self, frame: Frame) -> None:
        described = decode_error(frame.message)
        error = error_from_code(described.code, described.message, described.phase)
        number = frame.request_id
        waiting = self.waiting.get(number)
        if waiting is None or waiting.is_parked:
            raise FrameError(f"an error of ticket {number}, which does not wait")
        if not frame.flags & FLAG_FINAL:
            waiting.queue.unknown(waiting, error)
            return
        self.strike_out(number)
        waiting.queue.refused(waiting, error)

    def _on_withdrawn(self, frame: Frame) -> None:
        number = frame.request_id
        waiting = self.waiting.get(number)
        if waiting is None or not waiting.is_withdrawn:
            raise FrameError(f"ticket {number} was not withdrawn")
        self.strike_out(number)
        waiting.queue.gone(waiting, RequestCancelledError(""))

    def _on_answer(self, frame: Frame) -> None:
        known = decode_known(frame.message)
        answer = self._answers.get(frame.request_id)
        # One that comes too late is nothing to anybody.
        if answer is not None and not answer.done():
            answer.set_result(known)

    def _on_load(self, frame: Frame) -> None:
        load = decode_load(frame.message)
        queue = self._queues.get((load.model_name, load.version))
        if queue is not None and queue.on_load is not None:
            queue.on_load(load)

    def _on_lease(self, frame: Frame) -> None:
        lease = decode_lease(frame.message)
        queue = self._queues.get((lease.model_name, lease.version))
        if queue is not None and queue.on_lease is not None:
            queue.on_lease(lease)
        else:
            end = LeaseEnd(lease.model_name, lease.version, lease.number)
            self.send(LEASE_END, 0, encode(end))
