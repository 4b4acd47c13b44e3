# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One HTTP/1.1 connection on the event loop.

Theory of operation. Received bytes land in a buffer that all connections of a server share: a
connection has parsed them before the loop reads for another. A body whose length is known is
received straight to where it stays when it is larger than `LARGE_BODY_BYTES`, which is memory the
application provides; the parser sees only its head. Requests whose heads have come before pass the
parser by: between two messages it is in its first state, so it can go on with any later request.
Every request is an `HttpExchange`. Bad framing closes the connection without an answer, as Triton
does.
"""

import logging
import re
from collections import deque
from typing import TYPE_CHECKING, Final

import httptools
import numpy as np

from deployments.http.server.answering import AnsweringConnection
from deployments.http.server.exchange import HttpExchange
from deployments.http.server.head import HttpHead

if TYPE_CHECKING:
    from deployments.http.server.server import HttpServer

logger = logging.getLogger(__name__)

LARGE_BODY_BYTES: Final = 1 << 16

_METHOD_BYTES_LIMIT: Final = 32

_UNKNOWN_METHOD_REST = re.compile(rb"/[\x21-\x7e]* HTTP/1\.1")

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpConnection(AnsweringConnection):
    """The protocol object of one connection: what it receives. `AnsweringConnection` has the rest.

    Args:
        server: The server it belongs to.
    """

    __slots__ = (
        "_begun_count",
        "_body_bytes",
        "_body_due_bytes",
        "_chunk_count",
        "_chunk_open",
        "_head_bytes",
        "_is_before_body",
        "_is_parser_behind",
        "_overhead_bytes",
        "_parser",
        "_parts",
        "_target",
    )

    def __init__(self, server: "HttpServer") -> None:
        super().__init__(server)
        self._parser = httptools.HttpRequestParser(self)
        self._is_parser_behind = False
        # For the request being received
        self._is_before_body = False
        self._head_bytes = 0
        self._overhead_bytes = 0
        self._begun_count = 0
        self._target: memoryview | None = None
        self._parts: list[bytes] | None = None
        self._body_bytes = 0
        self._body_due_bytes = 0
        self._chunk_count = 0
        self._chunk_open = False

    # What the transport calls

    def connection_lost(self, exc: Exception | None) -> None:
        """End: whatever is not answered is cancelled."""
        self._transport = None
        self._is_stopped = True
        self._exchange = None
        self._target = None
        del self._parser  # which refers to us in turn
        exchanges, self._exchanges = self._exchanges, deque()
        for exchange in exchanges:
            exchange.disconnect()
        self._server.closed(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to receive: the rest of a large body, or the shared buffer."""
        target = self._target
        if target is not None and not self._is_stopped:
            return target[self._body_bytes :]
        return self._server.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take received bytes."""
        if self._is_stopped:
            return
        self._active_tick = self._server.tick
        if self._target is not None:
            self._body_bytes += nbytes
            if self._body_bytes == self._target.nbytes:
                self._end_direct_body()
            return
        start = self._take_due_body(nbytes) if self._body_due_bytes else 0
        if self._exchange is None and start < nbytes and not self._is_stopped:
            start = self._take_known(start, nbytes)
        if start < nbytes and not self._is_stopped:
            self._parse(start, nbytes)

    def _parse(self, start: int, stop: int) -> None:
        """Have the parser take a part of the shared buffer."""
        data = self._server.read_buffer[start:stop]
        nbytes = stop - start
        was_between = self._exchange is None
        had_body_bytes = 0 if was_between else self._body_bytes
        self._begun_count = 0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(start + upgrade.args[0], stop)
        except httptools.HttpParserInvalidMethodError:
            self._refuse_method(bytes(data))
        except httptools.HttpParserCallbackError:
            logger.exception("failed to receive a request")
            self._break_off("a request could not be received")
        except httptools.HttpParserError as error:
            self._break_off(f"a request is malformed: {error}")
        self._is_parser_behind = self._target is not None
        if self._exchange is not None and not self._is_stopped:
            # Whether the read held nothing but a part of this request, and no part of its body.
            is_alone = self._begun_count == (1 if was_between else 0)
            is_overhead = is_alone and self._body_bytes == had_body_bytes
            self._bound_overhead(nbytes if is_overhead else 0)

    # What the parser calls

    def on_message_begin(self) -> None:
        """Begin a request."""
        if self._is_stopped:
            return
        self._exchange = HttpExchange(self, HttpHead())
        tracer = self._server.tracer
        if tracer.is_on:
            self._exchange.began_ns = tracer.clock_ns()
        self._in_head = True
        self._head_tick = self._server.tick
        self._begun_count += 1
        self._head_bytes = 0
        self._overhead_bytes = 0
        self._target = None
        self._parts = None
        self._body_bytes = 0
        self._chunk_count = 0

    def on_url(self, url: bytes) -> None:
        """Take the request target, which may come in pieces."""
        if self._exchange is not None:
            self._exchange.head.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header; those nobody asks for are dropped."""
        self._head_bytes += len(name) + len(value) + 4
        # Trailers change nothing.
        if self._in_head and self._exchange is not None:
            self._exchange.head.take(name, value)

    def on_headers_complete(self) -> None:
        """Decide how the body is received."""
        exchange = self._exchange
        self._in_head = False
        if exchange is None or self._is_stopped:
            return
        head = exchange.head
        head.finish(self._parser)
        exchange.keep_alive = head.keep_alive
        # In front of the body of a request that asks for an upgrade, the parser stops.
        self._is_before_body = head.body_bytes > 0 and self._parser.should_upgrade()
        if self._head_bytes + len(head.url) > self._server.limits.head_bytes:
            self._break_off("a request's headers are too large")
            return
        self._exchanges.append(exchange)
        if head.content_length or head.transfer_encoding:
            self._expect_body(exchange)

    def on_chunk_header(self) -> None:
        """Note a chunk; an empty one, the last, is not counted."""
        self._chunk_open = True

    def on_body(self, data: bytes) -> None:
        """Take a piece of a body."""
        exchange = self._exchange
        if exchange is None or self._is_stopped:
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
        exchange = self._exchange
        if exchange is None or self._is_stopped or self._is_before_body:
            return
        self._exchange = None
        if self._target is not None:
            exchange.body, self._target = self._target, None
        elif self._parts is not None:
            exchange.body, self._parts = b"".join(self._parts), None
        if not exchange.keep_alive:
            self._stop_reading()
        elif len(self._exchanges) >= self._server.limits.pipeline_depth:
            self._pause_reading()
        try:
            self._server.application.dispatch(exchange)
        except Exception:
            logger.exception("failed to answer %s %s", exchange.head.method, exchange.head.url)
            exchange.fail_text(500, "internal error; the server's log says more")

    def _bound_overhead(self, nbytes: int) -> None:
        """Bound what the parser gathers for us: a head, a chunk's extension, a trailer.

        Args:
            nbytes: Bytes that a read has added to it; 0 when the read held other things too.
        """
        self._overhead_bytes = self._overhead_bytes + nbytes if nbytes else 0
        if self._overhead_bytes > self._server.limits.head_bytes:
            self._break_off("a request's headers, chunk extensions or trailers are too large")

    # Requests with a known head

    def _take_known(self, start: int, nbytes: int) -> int:
        """Take requests of the shared buffer whose heads are known; returns where they end."""
        server = self._server
        buffer, heads = server.read_buffer, server.heads
        while start < nbytes:
            data = bytes(buffer[start : min(nbytes, start + heads.limit_bytes)])
            head, size = heads.find(data)
            if head is None:
                if size:
                    heads.note(data[:size])
                return start
            exchange = self._exchange = HttpExchange(self, head)
            if server.tracer.is_on:
                exchange.began_ns = server.tracer.clock_ns()
            self._exchanges.append(exchange)
            begin, start = size, start + size
            size = head.body_bytes
            if size > LARGE_BODY_BYTES:
                self._expect_body(exchange)
                if self._is_stopped:
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
            if self._is_stopped:
                return nbytes
        return start

    def _take_due_body(self, nbytes: int) -> int:
        """Take the body whose head came alone; mostly it comes whole."""
        size, self._body_due_bytes = self._body_due_bytes, 0
        buffer = self._server.read_buffer
        if size > nbytes:
            self._begin_direct_body(size, buffer[:nbytes])
            return nbytes
        if self._exchange is not None:
            self._exchange.body = bytes(buffer[:size])
            self.on_message_complete()
        return size

    def _begin_direct_body(self, size: int, first: memoryview) -> None:
        """Have the rest of a body received to where it stays."""
        if self._target is None:
            self._target = memoryview(bytearray(size))
        self._body_bytes = have = first.nbytes
        self._target[:have] = first

    # Bodies

    def _decline_upgrade(self, start: int, stop: int) -> None:
        """Answer a request that asks for an upgrade as if it did not; its body begins at start."""
        exchange = self._exchange
        if not self._is_before_body or exchange is None or self._is_stopped:
            self._stop_reading()
            return
        self._is_before_body = False
        exchange.keep_alive = False
        size = exchange.head.body_bytes
        self._begin_direct_body(size, self._server.read_buffer[start : min(stop, start + size)])
        if self._body_bytes == size:
            self.on_message_complete()

    def _expect_body(self, exchange: HttpExchange) -> None:
        head = exchange.head
        size = head.body_bytes
        if size > LARGE_BODY_BYTES:
            refusal = self._refusal(exchange, size)
            if refusal:
                self._refuse(exchange, refusal)
                return
            align_at = max(head.json_bytes, 0)
            self._target = self._server.application.allocate(size, align_at)
            if self._target is None:
                # Not a bytearray: that would touch every page on a peer's mere word.
                self._target = np.empty(size, np.uint8).data
        # Behind unanswered requests it would be taken for an answer; the peer then goes on unasked.
        is_first = self._exchanges[0] is exchange
        if head.expect and head.expect.lower() == b"100-continue" and is_first:
            self._write(_CONTINUE)

    def _end_direct_body(self) -> None:
        if self._is_parser_behind:
            # It was left in the middle of the body; a new one is cheaper than feeding it.
            self._is_parser_behind = False
            self._parser = httptools.HttpRequestParser(self)
        self.on_message_complete()

    def _check_chunks(self, exchange: HttpExchange) -> None:
        limit = self._server.limits.chunk_count
        if self._chunk_count > limit:
            self._refuse(
                exchange,
                f"Chunked request body exceeds maximum of {limit} non-empty chunks. Send fewer or "
                f"larger HTTP chunks.",
            )
        elif self._body_bytes > LARGE_BODY_BYTES:
            refusal = self._refusal(exchange, self._body_bytes)
            if refusal:
                self._refuse(exchange, refusal)

    def _refusal(self, exchange: HttpExchange, size: int) -> str:
        most = self._server.limits.body_bytes
        if size > most:
            return f"request body of {size} bytes exceeds the maximum of {most} bytes"
        return self._server.application.refuse(exchange, size)

    def _refuse(self, exchange: HttpExchange, message: str) -> None:
        self._exchange = None
        self._target = self._parts = None
        exchange.body = b""
        exchange.keep_alive = False
        self._is_discarding = True
        self._stop_reading()
        exchange.fail_text(400, message)

    def _refuse_method(self, data: bytes) -> None:
        """Answer 405 to a well-formed request line with a method the parser does not know."""
        line = data.partition(b"\r\n")[0]
        method, _, rest = line.partition(b" ")
        is_token = method.isalpha() and method.isupper() and len(method) <= _METHOD_BYTES_LIMIT
        # Only if it is the first line of what was read: one behind other requests is not found.
        if not (is_token and _UNKNOWN_METHOD_REST.fullmatch(rest) and _has_unknown_method(line)):
            self._break_off("a request is malformed: no method")
            return
        exchange = HttpExchange(self, HttpHead())
        exchange.keep_alive = False
        self._exchanges.append(exchange)
        self._is_discarding = True
        self._stop_reading()
        exchange.fail_text(405, "Method Not Allowed")


def _has_unknown_method(line: bytes) -> bool:
    try:
        httptools.HttpRequestParser(object()).feed_data(line)
    except httptools.HttpParserInvalidMethodError:
        return True
    except httptools.HttpParserError:
        pass
    return False
