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
from typing import Final

from backends.api.errors import RequestCancelledError, UnavailableError, error_from_code
from backends.api.model_config import ModelConfig
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
from deployments.pool_queue.connection import (
    epoch_of,
    hand_out,
    holder_name,
    ticket_connection,
)
from deployments.pool_queue.messages import (
    LeaseEnd,
    SequenceQuestion,
    decode_grant,
    decode_lease,
    decode_lease_end,
    decode_load,
)
from deployments.pool_queue.own_request import OwnRequest
from deployments.pool_queue.sequence_questions import SequenceQuestions
from deployments.pool_queue.ticket_queue import TicketQueue
from deployments.pool_queue.waiting_ticket import TicketLaneOptions, WaitingTicket
from deployments.reactor.transport import Cancellable

__all__ = ["TicketLane", "TicketLaneOptions"]

logger = logging.getLogger(__name__)

_MAX_NUMBER: Final = 0xFFFFFFFF


class TicketLane:
    """A lane to one holder; implements `deployments.pool_queue.waiting_ticket.TicketSender`.

    Everything happens on the event loop that connected it.

    Args:
        options: What it has in common with others.
        is_local: Whether the holder is on this node.
        epoch: Epoch that the holder is to have; 0 for any.

    Attributes:
        owner: The router.
        is_local: Whether the holder is on this node.
        epoch: Of the holder.
        max_message_bytes: Longest message.
        waiting: What the holder has not decided on, by number.
        lost_reason: Why it ended; empty before.
        was_silent: Whether it ended because the holder said nothing.
        on_ended: Called when it has ended, before what waited comes back; None for nobody.
    """

    def __init__(self, options: TicketLaneOptions, *, is_local: bool, epoch: int = 0) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._connection = ticket_connection(self, ClientHandshake, options.secret, options.limits)
        self._timeout_s = options.limits.handshake_timeout_s
        self._silence = Silence(self._connection)
        self._period_s = options.silence_s / SILENT_PERIODS
        self._timer: Cancellable | None = None
        self.owner = options.owner
        self.is_local = is_local
        self.epoch = epoch
        self.max_message_bytes = options.limits.max_message_bytes
        self.waiting: dict[int, WaitingTicket] = {}
        self._questions = SequenceQuestions(self)
        self.lost_reason = ""
        self.was_silent = False
        self.on_ended: Callable[[], None] | None = None
        self._queues: dict[tuple[str, int], TicketQueue] = {}
        self._last_number = 0
        self._ready: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._handlers: dict[int, Callable[[Frame], None]] = {
            GRANT: self._on_grant,
            ERROR: self._on_error,
            WITHDRAW: self._on_withdrawn,
            LOAD: self._on_load,
            LEASE: self._on_lease,
            LEASE_END: self._on_lease_end,
            # Any byte shows that the holder turns.
            PONG: lambda _: None,
            SEQUENCE: self._questions.answered,
        }

    @classmethod
    async def connect_unix(cls, sock: socket.socket, options: TicketLaneOptions) -> "TicketLane":
        """Open a lane to the holder of this node.

        Args:
            sock: A Unix socket that is connected with the holder's; it is the lane's.
            options: What the lane has in common with others.

        Raises:
            UnavailableError: There is no holder behind it, or it says nothing.
        """
        lane = cls(options, is_local=True)

        async def connect() -> None:
            try:
                made = await lane._loop.create_unix_connection(lambda: lane._connection, sock=sock)
            except BaseException:
                sock.close()
                raise
            if not lane.is_open and type(made[0]).__module__.startswith("uvloop"):
                # Lost before uvloop took the socket: libuv has closed the descriptor, or will.
                sock.detach()

        await lane._open(connect)
        return lane

    @classmethod
    async def connect_tcp(
        cls,
        address: tuple[str, int],
        epoch: int,
        options: TicketLaneOptions,
        *,
        tls: ssl.SSLContext | None,
    ) -> "TicketLane":
        """Open a lane to the holder of another node.

        Args:
            address: Host and port.
            epoch: Of the holder that listens there.
            options: What the lane has in common with others.
            tls: Context of TCP; None leaves it in clear text.

        Raises:
            UnavailableError: The holder cannot be reached, or another one listens there.
        """
        lane = cls(options, is_local=False, epoch=epoch)
        host, port = address

        async def connect() -> None:
            await lane._loop.create_connection(lambda: lane._connection, host, port, ssl=tls)

        await lane._open(connect)
        return lane

    async def _open(self, connect: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await connect()
                await self._wait_ready()
        except BaseException as error:
            if self._connection.is_connected:
                self._connection.lose("given up")
                self._connection.transport.abort()
            if not isinstance(error, OSError | TimeoutError):
                raise
            reason = str(error) or f"no answer within {self._timeout_s} s"
            raise UnavailableError(f"no lane to the holder of a node: {reason}") from error

    async def _wait_ready(self) -> None:
        await self._ready
        if not self.is_open:
            raise ConnectionError(self.lost_reason)

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

    # What its queues call: `deployments.pool_queue.waiting_ticket.TicketSender`

    def write_down(self, waiting: WaitingTicket) -> int:
        """Give a request its number."""
        number, known = self._last_number, self.waiting
        while True:
            number = number % _MAX_NUMBER + 1
            if number not in known:
                break
        self._last_number = number
        known[number] = waiting
        waiting.queue.tickets.add(waiting)
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
        asked = SequenceQuestion(model_name, version, correlation_id)
        return await self._questions.ask(asked)

    def send(self, kind: int, number: int, message: bytes = b"", flags: int = 0) -> None:
        """Send a frame, if the lane is open."""
        if not self._connection.is_lost:
            self._connection.send(kind, number, message, flags)

    # What the connection calls: `deployments.lane.connection.LaneRole`

    def describe(self) -> str:
        """Return what the lane is called in the log."""
        return f"lane of tickets to {holder_name(self.epoch)}"

    def connected(self) -> None:
        """Do nothing: the handshake is under way."""

    def authenticated(self) -> None:
        """Begin the set-up."""
        self._connection.send(SETUP, 0, encode(Setup()))

    def take_setup(self, setup: Setup) -> None:
        """Make sure that this is the holder, and be ready."""
        epoch = epoch_of(setup.incarnation)
        if not epoch or self.epoch not in {0, epoch}:
            # A port was taken over by another process.
            raise FrameError(f"'{setup.incarnation}' answers, not '{holder_name(self.epoch)}'")
        self.epoch = epoch
        self._connection.set_up_done()
        if not self._ready.done():
            self._ready.set_result(None)
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
        hand_out(frames, self._handlers)

    def lost(self, reason: str) -> None:
        """Hand back what waits."""
        self.lost_reason = reason
        for future in (self._ready, self._ended):
            if not future.done():
                future.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
        self._questions.lost()
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

    def _on_load(self, frame: Frame) -> None:
        load = decode_load(frame.message)
        queue = self._queues.get((load.model_name, load.version))
        if queue is not None:
            queue.told(load)

    def _on_lease(self, frame: Frame) -> None:
        lease = decode_lease(frame.message)
        queue = self._queues.get((lease.model_name, lease.version))
        if queue is not None and queue.on_lease is not None:
            queue.on_lease(lease)
        elif not self.is_local:
            end = LeaseEnd(lease.model_name, lease.version, lease.number)
            self.send(LEASE_END, 0, encode(end))

    def _on_lease_end(self, frame: Frame) -> None:
        """Give back what a holder of an earlier release keeps free in vain for a router here.

        Not before it wants that: it would be kept free again at once.
        """
        if self.is_local:
            self.send(LEASE_END, 0, encode(decode_lease_end(frame.message)))
