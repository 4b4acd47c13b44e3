# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The answering side of an HTTP/1.1 connection, and its life.

Theory of operation. Exchanges stand in a queue in the order of the requests; an answer is written
once its exchange is first in the queue, so that pipelined answers keep their order whatever order
they become ready in.

Reading stops while too many exchanges wait or the peer does not take what is written, so a peer
cannot make the server hold more than the queue and one read's worth of requests. A peer that closes
its sending side counts as gone: what is still in the queue is cancelled.

No timer runs per request: the server sweeps its connections each second and compares ticks.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from deployments.http.server.exchange import HttpExchange

if TYPE_CHECKING:
    from deployments.http.server.server import HttpServer


class AnsweringConnection(asyncio.BufferedProtocol):
    """What a connection does with exchanges once they have begun.

    Args:
        server: The server it belongs to.
    """

    __slots__ = (
        "_active_tick",
        "_exchange",
        "_exchanges",
        "_head_tick",
        "_in_head",
        "_is_discarding",
        "_is_paused",
        "_is_stopped",
        "_server",
        "_stall_tick",
        "_transport",
    )

    def __init__(self, server: "HttpServer") -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._exchanges: deque[HttpExchange] = deque()
        self._is_stopped = False
        self._is_discarding = False
        self._is_paused = False
        self._active_tick = server.tick
        self._stall_tick = 0
        # The request that is being received.
        self._exchange: HttpExchange | None = None
        self._in_head = False
        self._head_tick = 0

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport  # type: ignore[assignment]
        if not self._server.opened(self):
            self._abort()

    def eof_received(self) -> bool:
        """Close: half-closed connections are not kept."""
        return False

    def pause_writing(self) -> None:
        """Stop reading while the peer does not read."""
        self._stall_tick = self._server.tick
        self._is_paused = True
        self._pause_reading()

    def resume_writing(self) -> None:
        """Read again."""
        self._is_paused = False
        if len(self._exchanges) < self._server.limits.pipeline_depth:
            self._resume_reading()

    # Answers

    def is_last(self, exchange: HttpExchange) -> bool:
        """Whether a draining connection shall end with this exchange."""
        return (
            self._server.is_draining and self._exchange is None and self._exchanges[-1] is exchange
        )

    def answered(self, exchange: HttpExchange) -> None:
        """Write the answers that are due."""
        exchanges = self._exchanges
        if exchanges[0] is not exchange:
            return
        while exchanges:
            first = exchanges[0]
            answer = first.take_answer()
            if answer is None:
                break
            exchanges.popleft()
            if len(answer) == 1:
                self._write(answer[0])
            elif self._transport is not None:
                self._transport.writelines(answer)
            first.detach()
            if first.closes:
                self._finish()
                return
        if self._server.is_draining and self.is_idle:
            self._finish()
        elif not self._is_paused and len(exchanges) < self._server.limits.pipeline_depth:
            self._resume_reading()

    def write_early(self, exchange: HttpExchange, pieces: list[bytes], size_bytes: int) -> bool:
        """Write a part of an unfinished answer, or return False: it is not this exchange's turn."""
        is_due = self._exchanges[0] is exchange
        if is_due:
            self._write(b"".join(pieces))
            size_bytes = self._unread_bytes()
        if size_bytes > self._server.limits.unread_bytes:
            # The model goes on answering a peer that does not read.
            self._abort()
        return is_due

    def _unread_bytes(self) -> int:
        if self._is_paused and self._transport is not None:
            return self._transport.get_write_buffer_size()
        return 0

    def _write(self, data: bytes | memoryview) -> None:
        if self._transport is not None:
            self._transport.write(data)

    # Life

    @property
    def is_idle(self) -> bool:
        """Whether no request is being received or answered."""
        return not self._exchanges and self._exchange is None

    @property
    def exchange_count(self) -> int:
        """Requests not yet answered."""
        return len(self._exchanges)

    def sweep(self, tick: int) -> None:
        """Close the connection if its peer has been too slow."""
        limits = self._server.limits
        if self._transport is None:
            return
        if self._is_discarding and not self._exchanges:
            is_late = tick - self._active_tick > limits.linger_s
        elif self._is_paused:
            is_late = tick - self._stall_tick > limits.write_idle_timeout_s
        elif self._in_head:
            is_late = tick - self._head_tick > limits.head_timeout_s
        else:
            is_late = (
                self._exchange is not None and tick - self._active_tick > limits.body_idle_timeout_s
            )
        if is_late:
            self._server.note_closed("a peer was too slow")
            self._abort()

    def close(self) -> None:
        """Close at once."""
        self._abort()

    def close_idle(self) -> None:
        """Close if nothing is going on."""
        if self.is_idle:
            self._finish()

    def _finish(self) -> None:
        self._is_stopped = True
        transport = self._transport
        if transport is None:
            return
        if self._is_discarding:
            # Closing with unread data resets the connection, and the peer might lose the answer.
            self._active_tick = self._server.tick
            if transport.can_write_eof():  # not over TLS, whose peer has Connection: close to go by
                transport.write_eof()
            self._resume_reading()
        else:
            transport.close()

    def _break_off(self, reason: str) -> None:
        """Close without an answer to what is being received; what came before is answered."""
        if self._is_stopped:
            return
        self._server.note_closed(reason)
        self._is_stopped = True
        unfinished, self._exchange = self._exchange, None
        if unfinished is not None and self._exchanges and self._exchanges[-1] is unfinished:
            self._exchanges.pop().disconnect()
        if self._exchanges:
            self._exchanges[-1].end_connection()
        else:
            self._finish()

    def _abort(self) -> None:
        self._is_stopped = True
        if self._transport is not None:
            self._transport.abort()

    def _stop_reading(self) -> None:
        """Take no further request; bytes that still come are dropped."""
        self._is_stopped = True

    def _pause_reading(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()
