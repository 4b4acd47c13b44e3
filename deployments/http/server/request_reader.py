# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The requests of one HTTP/1.1 connection, read from what it receives.

Theory of operation. Received bytes land in a buffer that all connections of a server share: a
connection has parsed them before the loop reads for another. A body whose length is known is
received straight to where it stays when it is larger than `LARGE_BODY_BYTES`, which is memory the
application provides; the parser sees only its head. A request whose head equals an earlier one
skips the parser: between two messages the parser is in its first state, so it can go on with any
later request. Every request is an `HttpExchange`, and `AnswerQueue` answers it.

A read may hold thousands of small requests. Only some of them are begun in one turn of the loop, so
that other connections get theirs, and none while the peer does not read its answers or the queue
is full. The rest of the read waits, and the connection is not read meanwhile.

A request that cannot be understood is refused with a reason, behind the answers to those before it;
nothing that follows it is read as a request (RFC 9112 sections 6.3 and 11.2).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import httptools

from deployments.http.server.answer_queue import AnswerQueue
from deployments.http.server.exchange import HttpExchange
from deployments.http.server.head import (
    FOREIGN,
    MALFORMED,
    HttpHead,
    framing_fault,
    method_fault,
    new_chunk_parser,
    new_parser,
)
from deployments.http.server.host import ConnectionHost
from deployments.http.server.request_state import (
    HEAD_TOO_LARGE,
    LARGE_BODY_BYTES,
    RequestState,
)

logger = logging.getLogger(__name__)

# How many requests a connection begins in one turn of the loop when there are more: each may take
# a millisecond. The parser does not stop within what it is given, so that is small, too; a chunked
# body comes in larger pieces, of which each costs some microseconds.
_TURN_REQUESTS: Final = 32
_SLICE_BYTES: Final = 1024
_CHUNKED_SLICE_BYTES: Final = 8192


class ChunkCallbacks:
    """What a parser calls that reads a chunked body and has not seen the request's own head.

    Args:
        reader: Takes the body.
    """

    def __init__(self, reader: "RequestReader") -> None:
        self.on_chunk_header: Callable[[], None] = reader.on_chunk_header
        self.on_body: Callable[[bytes], None] = reader.on_body
        self.on_message_complete: Callable[[], None] = reader.on_message_complete


class RequestReader(RequestState):
    """Makes exchanges of received bytes and hands them to the application.

    Args:
        host: The server.
        answers: The exchanges of the connection.
    """

    __slots__ = (
        "_begun_count",
        "_body_due_bytes",
        "_chunk_open",
        "_head_bytes",
        "_is_before_body",
        "_is_parser_behind",
        "_is_turn_due",
        "_parser",
        "_turn_count",
    )

    __deletable__ = ("_parser",)

    def __init__(self, host: ConnectionHost, answers: AnswerQueue) -> None:
        super().__init__(host, answers)
        self._parser = new_parser(self)
        self._is_parser_behind = False
        self._is_before_body = False
        self._head_bytes = 0
        self._begun_count = 0
        self._body_due_bytes = 0
        self._chunk_open = False
        # Whether a turn of the loop is asked for, and the requests taken whole in this one.
        self._is_turn_due = False
        self._turn_count = 0

    # What the connection calls

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to receive: the rest of a large body, or the shared buffer."""
        target = self._target
        if target is not None and not self._answers.is_stopped:
            return target[self._body_bytes :]
        return self._host.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take received bytes."""
        self.active_tick = self._host.tick
        answers = self._answers
        if answers.is_stopped:
            return
        if self._target is not None:
            self._body_bytes += nbytes
            if self._body_bytes == self._target.nbytes:
                self._end_direct_body()
            return
        self._take(nbytes)

    def lost(self) -> None:
        """End."""
        self.exchange = None
        self._target = self._parts = None
        self._keep(b"")
        del self._parser  # which refers to us in turn

    # Turns

    def go_on(self) -> bool:
        """Take what was left for later, in the next turn; False when there is nothing left."""
        if self._rest and not self._is_turn_due:
            self._is_turn_due = True
            asyncio.get_running_loop().call_soon(self._begin_turn)
        return bool(self._rest)

    def _begin_turn(self) -> None:
        self._is_turn_due = False
        answers, rest = self._answers, self._rest
        self._keep(b"")
        if rest and not answers.is_stopped:
            self._host.read_buffer[: len(rest)] = rest
            self._take(len(rest))
        if answers.is_stopped or not (self._rest or answers.is_paused or self._is_blocked()):
            answers.resume_reading()

    def _take(self, nbytes: int) -> None:
        """Take what the shared buffer holds, as far as one turn goes."""
        answers = self._answers
        self._turn_count = 0
        start = self._take_due_body(nbytes) if self._body_due_bytes else 0
        while start < nbytes and not answers.is_stopped:
            if self.exchange is None and not self._is_turn_over():
                start = self._take_known(start, nbytes)
                if start == nbytes or answers.is_stopped:
                    return
            if self._is_turn_over():
                self._keep(bytes(self._host.read_buffer[start:nbytes]))
                answers.pause_reading()
                if not self._is_blocked():
                    self.go_on()
                return
            target = self._target
            if target is not None:
                start = self._fill(target, start, nbytes)
            else:
                start = self._parse(start, min(nbytes, start + self._slice_bytes()))

    def _is_turn_over(self) -> bool:
        return self._turn_count >= _TURN_REQUESTS or self._is_blocked()

    def _slice_bytes(self) -> int:
        """What the parser may take at once: a slice, or a body with a length to its end."""
        exchange = self.exchange
        if exchange is None or self.in_head:
            return _SLICE_BYTES
        size = exchange.head.body_bytes
        return size - self._body_bytes if size else _CHUNKED_SLICE_BYTES

    # The parser

    def _parse(self, start: int, stop: int) -> int:
        """Have the parser take a part of the shared buffer; returns its end."""
        was_between = self.exchange is None
        had_body_bytes = 0 if was_between else self._body_bytes
        self._begun_count = 0
        self._feed(start, stop)
        self._is_parser_behind = self._target is not None
        if self.exchange is not None and not self._answers.is_stopped:
            # Whether the read held nothing but a part of this request, and no part of its body.
            is_alone = self._begun_count == (1 if was_between else 0)
            is_overhead = is_alone and self._body_bytes == had_body_bytes
            self._bound_overhead(stop - start if is_overhead else 0)
        return stop

    def _feed(self, start: int, stop: int) -> None:
        data = self._host.read_buffer[start:stop]
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(start + upgrade.args[0], stop)
        except httptools.HttpParserInvalidMethodError:
            self._break_off(*method_fault(bytes(data)))
        except httptools.HttpParserCallbackError:
            logger.exception("failed to receive a request")
            self._break_off(500, "internal error; the server's log says more")
        except httptools.HttpParserError as error:
            self._break_off(400, f"{MALFORMED}: {error}")

    # What the parser calls

    def on_message_begin(self) -> None:
        """Begin a request."""
        if self._answers.is_stopped:
            return
        self.exchange = HttpExchange(self._answers, HttpHead())
        tracer = self._host.tracer
        if tracer.is_on:
            self.exchange.began_ns = tracer.clock_ns()
        self.in_head = True
        self.head_tick = self._host.tick
        self._begun_count += 1
        self._head_bytes = 0
        self._overhead_bytes = 0
        self._target = None
        self._parts = None
        self._body_bytes = 0
        self._chunk_count = 0

    def on_url(self, url: bytes) -> None:
        """Take the request target, which may come in pieces."""
        if self.exchange is not None:
            self.exchange.head.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header; those nobody asks for are dropped."""
        self._head_bytes += len(name) + len(value) + 4
        # Trailers change nothing.
        if self.in_head and self.exchange is not None:
            self.exchange.head.take(name, value)

    def on_headers_complete(self) -> None:
        """Decide how the body is received."""
        exchange = self.exchange
        self.in_head = False
        if exchange is None or self._answers.is_stopped:
            return
        head = exchange.head
        head.finish(self._parser)
        exchange.keep_alive = head.keep_alive
        if self._head_bytes + len(head.url) > self._host.limits.head_bytes:
            self._break_off(431, HEAD_TOO_LARGE.format(self._host.limits.head_bytes))
            return
        if head.is_foreign:
            self._break_off(505, FOREIGN)
            return
        if head.transfer_encoding:
            status, fault = framing_fault(head)
            if status:
                self._break_off(status, fault)
                return
        if self._parser.should_upgrade():
            # In front of the body of a request that asks for an upgrade, the parser stops.
            self._is_before_body = head.body_bytes > 0 or bool(head.transfer_encoding)
            exchange.keep_alive = False
        self._exchanges.append(exchange)
        if self.entrance is not None and not self._enters(self.entrance, exchange):
            return
        if head.content_length or head.transfer_encoding:
            self._expect_body(exchange)

    def on_chunk_header(self) -> None:
        """Note a chunk; an empty one, the last, is not counted."""
        self._chunk_open = True

    def on_body(self, data: bytes) -> None:
        """Take a piece of a body."""
        exchange = self.exchange
        if exchange is None or self._answers.is_stopped or exchange.is_answered:
            return
        start = self._body_bytes
        self._body_bytes = start + len(data)
        target = self._target
        if target is not None:
            target[start : self._body_bytes] = data
            return
        if self._chunk_open:
            self._chunk_open = False
            self._chunk_count += 1
        if not start:
            exchange.body = data
        elif self._parts is None:
            self._parts = [exchange.body, data]  # type: ignore[list-item]
        else:
            self._parts.append(data)
        if exchange.head.transfer_encoding:
            self._check_chunks(exchange)

    def on_message_complete(self) -> None:
        """Hand the request to the application."""
        exchange = self.exchange
        if exchange is None or self._answers.is_stopped or self._is_before_body:
            return
        self.exchange = None
        if self._target is not None:
            exchange.body, self._target = self._target, None
        elif self._parts is not None:
            exchange.body, self._parts = b"".join(self._parts), None
        self._turn_count += 1
        if not exchange.keep_alive:
            self._answers.stop()
        elif self._answers.is_full:
            self._answers.pause_reading()
        if exchange.is_answered:
            # Refused at its head.
            return
        if not exchange.held_bytes and exchange.body and not self._holds_body(exchange):
            return
        try:
            self._application.dispatch(exchange)
        except Exception:
            logger.exception("failed to answer %s %s", exchange.head.method, exchange.head.url)
            exchange.fail_text(500, "internal error; the server's log says more")

    # Requests with a known head

    def _take_known(self, start: int, nbytes: int) -> int:
        """Take requests of the shared buffer whose heads are known; returns where they end."""
        server = self._host
        buffer, heads = server.read_buffer, server.heads
        while start < nbytes:
            data = bytes(buffer[start : min(nbytes, start + heads.limit_bytes)])
            head, size = heads.find(data)
            if head is None:
                if size:
                    heads.note(data[:size])
                return start
            exchange = self.exchange = HttpExchange(self._answers, head)
            if server.tracer.is_on:
                exchange.began_ns = server.tracer.clock_ns()
            self._exchanges.append(exchange)
            begin, start = size, start + size
            size = head.body_bytes
            if not self._begins(exchange, size):
                return nbytes
            if start == nbytes and 0 < size <= LARGE_BODY_BYTES:
                self._body_due_bytes = size
                return nbytes
            if start + size > nbytes:
                self._begin_direct_body(size, buffer[start:nbytes])
                return nbytes
            if self._target is not None:
                self._target[:] = buffer[start : start + size]
            elif begin + size <= len(data):
                exchange.body = data[begin : begin + size]
            else:
                exchange.body = bytes(buffer[start : start + size])
            start += size
            self.on_message_complete()
            if self._answers.is_stopped:
                return nbytes
            if self._is_turn_over():
                return start
        return start

    def _begins(self, exchange: HttpExchange, size: int) -> bool:
        """Ask whether a request with a known head, and its body, may come; False to read no on."""
        is_in = self.entrance is None or self._enters(self.entrance, exchange)
        if is_in and size > LARGE_BODY_BYTES:
            self._expect_body(exchange)
        return not self._answers.is_stopped

    def _take_due_body(self, nbytes: int) -> int:
        """Take the body whose head came alone; mostly it comes whole."""
        size, self._body_due_bytes = self._body_due_bytes, 0
        buffer = self._host.read_buffer
        if size > nbytes:
            self._begin_direct_body(size, buffer[:nbytes])
            return nbytes
        if self.exchange is not None:
            self.exchange.body = bytes(buffer[:size])
            self.on_message_complete()
        return size

    # Bodies

    def _decline_upgrade(self, start: int, stop: int) -> None:
        """Answer a request that asks for an upgrade as if it did not; its body begins at start."""
        exchange = self.exchange
        if not self._is_before_body or exchange is None or self._answers.is_stopped:
            self._answers.stop()
            return
        self._is_before_body = False
        if exchange.head.transfer_encoding:
            self._parser = new_chunk_parser(ChunkCallbacks(self))
            if start < stop:
                self._feed(start, stop)
            return
        size = exchange.head.body_bytes
        self._begin_direct_body(size, self._host.read_buffer[start : min(stop, start + size)])
        if self._body_bytes == size:
            self.on_message_complete()

    def _fill(self, target: memoryview, start: int, stop: int) -> int:
        """Have a body take its part of the shared buffer to where it stays; returns its end."""
        have = self._body_bytes
        stop = min(stop, start + target.nbytes - have)
        self._body_bytes = have + stop - start
        target[have : self._body_bytes] = self._host.read_buffer[start:stop]
        if self._body_bytes == target.nbytes:
            self._end_direct_body()
        return stop

    def _end_direct_body(self) -> None:
        if self._is_parser_behind:
            # It was left in the middle of the body; a new one is cheaper than feeding it.
            self._is_parser_behind = False
            self._parser = new_parser(self)
        self.on_message_complete()
