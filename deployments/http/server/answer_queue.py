# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The answers of one HTTP/1.1 connection, in the order of their requests, and the connection's end.

Theory of operation. Exchanges stand in a queue in the order of the requests; an answer is written
once its exchange is first in the queue, so that pipelined answers keep their order whatever order
they become ready in. Reading stops while too many exchanges wait or the peer does not take what is
written, so a peer cannot make the server hold more than the queue and one read's worth of bytes.

A connection ends in one of three ways. Without unread input it is closed. Where more input may
come - the connection drains, or a request was refused before it was read - only the write side is
shut down and what comes is dropped for a while, because closing a socket with unread input resets
it and may destroy the answer on its way. A peer that breaks the rules of time is cut off.
"""

import asyncio
from collections import deque
from typing import Protocol

from deployments.http.server.exchange import HttpExchange
from deployments.http.server.host import ConnectionHost
from deployments.supervision.memory_budget import FREE_BYTES


class Reading(Protocol):
    """What makes exchanges of what a connection receives."""

    @property
    def is_receiving(self) -> bool:
        """Whether a request has come in part, or is not looked at yet."""

    def go_on(self) -> bool:
        """Take what was received and left for later; False when there is nothing of the kind."""


class AnswerQueue:
    """What a connection does with exchanges once they have begun.

    Args:
        host: The server.

    Attributes:
        reader: Where the exchanges come from; set before the first one.
        exchanges: Those not yet answered, in the order of their requests.
        is_stopped: Whether no further request is taken; what comes is dropped.
        is_discarding: Whether the end of the connection leaves time for unread input.
        is_paused: Whether the peer does not read.
    """

    __slots__ = (
        "_end_tick",
        "_host",
        "_stall_tick",
        "_transport",
        "_unread_bytes",
        "exchanges",
        "is_discarding",
        "is_paused",
        "is_stopped",
        "reader",
    )

    def __init__(self, host: ConnectionHost) -> None:
        self._host = host
        self.reader: Reading | None = None
        self._transport: asyncio.Transport | None = None
        self.exchanges: deque[HttpExchange] = deque()
        self.is_stopped = False
        self.is_discarding = False
        self.is_paused = False
        self._stall_tick = 0
        # When the write side was shut down; -1 before.
        self._end_tick = -1
        # What the transport holds because the peer does not read, as far as the budget knows.
        self._unread_bytes = 0

    # What the connection tells

    def opened(self, transport: asyncio.Transport) -> None:
        """Take the transport."""
        self._transport = transport

    def lost(self) -> None:
        """End: whatever is not answered is cancelled."""
        self._transport = None
        self.is_stopped = True
        self._count_unread()
        self.reader = None  # which refers to us in turn
        exchanges = list(self.exchanges)
        self.exchanges.clear()
        for exchange in exchanges:
            self._give_back(exchange)
            exchange.disconnect()

    def paused(self) -> None:
        """Stop reading while the peer does not read."""
        self._stall_tick = self._host.tick
        self.is_paused = True
        self.pause_reading()

    def resumed(self) -> None:
        """Read again."""
        self.is_paused = False
        self._count_unread()
        if not self.is_full:
            self.resume_reading()

    @property
    def is_full(self) -> bool:
        """Whether no further exchange may begin: the peer does not read, or too many wait."""
        return self.is_paused or len(self.exchanges) >= self._host.limits.pipeline_depth

    # What exchanges tell

    def is_last(self, exchange: HttpExchange) -> bool:
        """Whether a draining connection shall end with this exchange; no further one is taken."""
        if not self._host.is_draining or self.exchanges[-1] is not exchange:
            return False
        if self.reader is not None and self.reader.is_receiving:
            return False
        self.stop(is_discarding=True)
        return True

    def answered(self, exchange: HttpExchange) -> None:
        """Write the answers that are due."""
        exchanges = self.exchanges
        if exchanges[0] is not exchange:
            self._hold(exchange, exchange.answer_bytes)
            return
        while exchanges:
            first = exchanges[0]
            answer = first.take_answer()
            if answer is None:
                break
            exchanges.popleft()
            if len(answer) == 1:
                self.write(answer[0])
            elif self._transport is not None:
                self._transport.writelines(answer)
            if first.held_bytes:
                self._give_back(first)
            first.detach()
            if first.closes:
                self.finish()
                if self.is_paused:
                    self._count_unread()
                return
        if self.is_paused:
            self._count_unread()
        elif not self.is_full:
            self.resume_reading()

    def write_early(self, exchange: HttpExchange, pieces: list[bytes], size_bytes: int) -> bool:
        """Write a part of an unfinished answer, or return False: it is not this exchange's turn."""
        is_due = self.exchanges[0] is exchange
        if is_due:
            self.write(b"".join(pieces))
            size_bytes = self._count_unread() if self.is_paused else 0
        else:
            self._hold(exchange, size_bytes)
        if size_bytes > self._host.limits.unread_bytes:
            # The model goes on answering a peer that does not read.
            self.abort()
        return is_due

    def write(self, data: bytes | memoryview) -> None:
        """Write at once, past the queue."""
        if self._transport is not None:
            self._transport.write(data)

    # Memory

    def _hold(self, exchange: HttpExchange, size_bytes: int) -> None:
        """Count an answer that waits for those before it; its request's body is counted no more."""
        if size_bytes > FREE_BYTES or exchange.held_bytes:
            self._host.budget.take(size_bytes)
            self._give_back(exchange)
            exchange.held_bytes = size_bytes

    def _give_back(self, exchange: HttpExchange) -> None:
        self._host.budget.give_back(exchange.held_bytes)
        exchange.held_bytes = 0

    def _count_unread(self) -> int:
        """Count what the transport holds for a peer that does not read; returns the bytes."""
        unread_bytes = 0
        if self.is_paused and self._transport is not None:
            unread_bytes = self._transport.get_write_buffer_size()
        self._host.budget.take(unread_bytes)
        self._host.budget.give_back(self._unread_bytes)
        self._unread_bytes = unread_bytes
        return unread_bytes

    # The end

    def stop(self, *, is_discarding: bool = False) -> None:
        """Take no further request; bytes that still come are dropped."""
        self.is_stopped = True
        self.is_discarding = self.is_discarding or is_discarding

    def finish(self) -> None:
        """Close the connection behind what was written."""
        self.is_stopped = True
        transport = self._transport
        if transport is None or self._end_tick >= 0:
            return
        if not self.is_discarding and not self._host.is_draining:
            transport.close()
            return
        self._end_tick = self._host.tick
        if transport.can_write_eof():  # not over TLS, whose peer has Connection: close to go by
            transport.write_eof()
        self.resume_reading()

    def abort(self) -> None:
        """Close at once; what is not yet sent is dropped."""
        self.is_stopped = True
        if self._transport is not None:
            self._transport.abort()

    def end_if_late(self, tick: int, active_tick: int) -> bool:
        """Close a connection whose peer takes too long over an answer or over its own end.

        Args:
            tick: Now.
            active_tick: When the peer last sent something.

        Returns:
            Whether the peer's own requests are no longer a matter of time.
        """
        limits = self._host.limits
        if self._end_tick >= 0:
            idle_s = tick - max(active_tick, self._end_tick)
            if idle_s > limits.linger_s or tick - self._end_tick > limits.linger_total_s:
                self.abort()
        elif self.is_paused:
            if tick - self._stall_tick > limits.write_idle_timeout_s:
                self._host.note_closed("a peer does not read its answers")
                self.abort()
        else:
            return False
        return True

    # Reading

    @property
    def is_reading(self) -> bool:
        """Whether what the peer sends is taken."""
        return self._transport is not None and self._transport.is_reading()

    def pause_reading(self) -> None:
        """Leave what the peer sends in the kernel."""
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take again what the peer sends, behind what was left for later."""
        if self._transport is None or self._transport.is_reading():
            return
        if self.reader is None or not self.reader.go_on():
            self._transport.resume_reading()
