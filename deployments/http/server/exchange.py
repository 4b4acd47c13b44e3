# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A request and its answer, between a connection and an application.

An exchange gets at most one answer. When its peer goes first, who handles it is told through
``on_disconnect`` and an answer that still comes is dropped.
"""

import math
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final, Protocol

from backends.api.errors import HTTP_STATUS, TritonError, UnauthenticatedError
from deployments.http.codec import openai_errors
from deployments.http.codec.json_text import error_body
from deployments.http.server.head import HttpHead

JSON: Final = b"application/json"
EVENTS: Final = b"text/event-stream; charset=utf-8"
# Values of Content-Encoding that leave a body as it is.
UNENCODED: Final = frozenset((b"", b"identity"))
TEXT: Final = b"text/plain"
BINARY: Final = b"application/octet-stream"

# Of every answer but tensors: browsers take it for what it says it is, and nobody keeps it.
PROTECTION: Final = b"X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n"
# Of a 401 (RFC 9110 section 11.6.1); API keys come as bearer tokens too.
_CHALLENGE: Final = b'WWW-Authenticate: Bearer realm="manta"\r\n'

# Answers up to this size are joined and written in one call; copying them costs less than a second
# entry in the write queue.
_JOIN_BELOW_BYTES: Final = 1 << 16


class Answering(Protocol):
    """Where the answer of an exchange goes."""

    def is_last(self, exchange: "HttpExchange") -> bool:
        """Whether the connection shall end with this exchange."""

    def answered(self, exchange: "HttpExchange") -> None:
        """Write the answers that are due."""

    def write_early(self, exchange: "HttpExchange", pieces: list[bytes], size_bytes: int) -> bool:
        """Write a part of an unfinished answer, or return False: it is not this exchange's turn."""


class HttpExchange:
    """A request and its answer.

    Args:
        queue: Where the answer goes.
        head: Request line and headers.

    Attributes:
        extra_headers: Complete header lines of a streamed answer.
        began_ns: When its first bytes were read, by the monotonic clock; 0 unless tracing is on.
        head: Request line and headers; not complete before the request is dispatched.
        held_bytes: What was taken from the server's memory budget for the exchange; given back when
            the answer is written or the peer goes.
        keep_alive: Whether the connection goes on behind the exchange.
        body: The body once complete; who has taken what it needs of it may empty it.
        on_disconnect: Called when the peer goes before the answer; set by who can cancel.
    """

    __slots__ = (
        "_answer",
        "_closes",
        "_pieces",
        "_queue",
        "_waiting_bytes",
        "began_ns",
        "body",
        "extra_headers",
        "head",
        "held_bytes",
        "keep_alive",
        "on_disconnect",
    )

    def __init__(self, queue: Answering, head: HttpHead) -> None:
        self._queue: Answering | None = queue
        self._answer: list[bytes | memoryview] | None = None
        # What a streamed answer could not write yet; None unless one has begun.
        self._pieces: list[bytes] | None = None
        self._waiting_bytes = 0
        self._closes = False
        self.held_bytes = 0
        self.began_ns = 0
        self.extra_headers = b""
        self.head = head
        self.body: bytes | bytearray | memoryview = b""
        self.keep_alive = head.keep_alive
        self.on_disconnect: Callable[[], None] | None = None

    def reply(
        self,
        status: int,
        content_type: bytes,
        body: Iterable[bytes | memoryview] = (),
        body_bytes: int = 0,
        extra_headers: bytes = b"",
    ) -> None:
        """Answer; does nothing when the peer has gone or has its answer.

        Args:
            status: Status code.
            content_type: Value of Content-Type.
            body: The body's parts.
            body_bytes: Their total size.
            extra_headers: Complete header lines.
        """
        queue = self._queue
        if queue is None or self._answer is not None:
            return
        if not self.keep_alive or queue.is_last(self):
            self._closes = True
            if not self.head.is_http10:
                extra_headers += b"Connection: close\r\n"
        elif self.head.is_http10:
            extra_headers += b"Connection: keep-alive\r\n"
        head = b"%sContent-Type: %s\r\n%sContent-Length: %d\r\n\r\n" % (
            _status_line(status),
            content_type,
            extra_headers,
            body_bytes,
        )
        if self.head.is_http10:
            head = head.replace(b"HTTP/1.1", b"HTTP/1.0", 1)
        if self.head.method == b"HEAD":
            body, body_bytes = (), 0
        if body_bytes <= _JOIN_BELOW_BYTES:
            self._answer = [b"".join((head, *body))]
        else:
            self._answer = [head, *body]
        queue.answered(self)

    def begin_stream(self, status: int, content_type: bytes) -> None:
        """Begin an answer of unknown length; `write` and `end_stream` follow."""
        queue = self._queue
        if queue is None or self._answer is not None or self._pieces is not None:
            return
        framing = b"" if self.head.is_http10 else b"Transfer-Encoding: chunked\r\n"
        if self.head.is_http10 or not self.keep_alive or queue.is_last(self):
            self.end_connection()
            framing += b"Connection: close\r\n"
        head = b"%sContent-Type: %s\r\n%s%s\r\n" % (
            _status_line(status),
            content_type,
            PROTECTION + self.extra_headers,
            framing,
        )
        if self.head.is_http10:
            head = head.replace(b"HTTP/1.1", b"HTTP/1.0", 1)
        self._pieces = [head]
        self._push()

    def write(self, piece: bytes) -> None:
        """Send a part of a streamed answer, behind the answers that are due first."""
        if self._pieces is None or self._queue is None or not piece:
            return
        self._pieces.append(piece if self.head.is_http10 else b"%x\r\n%s\r\n" % (len(piece), piece))
        self._waiting_bytes += len(piece)
        self._push()

    def end_stream(self) -> None:
        """End a streamed answer."""
        queue, pieces = self._queue, self._pieces
        if pieces is None or queue is None:
            return
        if not self.head.is_http10:
            pieces.append(b"0\r\n\r\n")
        self._pieces = None
        self._answer = [b"".join(pieces)]
        queue.answered(self)

    def _push(self) -> None:
        queue, pieces = self._queue, self._pieces
        if pieces and queue is not None and queue.write_early(self, pieces, self._waiting_bytes):
            pieces.clear()
            self._waiting_bytes = 0

    def reply_json(self, body: bytes, status: int = 200) -> None:
        """Answer with JSON."""
        self.reply(status, JSON, (body,), len(body), PROTECTION)

    def fail(self, error: TritonError, content_type: bytes = JSON, extra: bytes = b"") -> None:
        """Answer with an error's status and text, in the form that its route's clients read."""
        if isinstance(error, UnauthenticatedError):
            extra += _CHALLENGE
        if error.retry_after_s:
            extra += b"Retry-After: %d\r\n" % math.ceil(error.retry_after_s)
        if openai_errors.has_openai_form(self.head.url):
            status, body = openai_errors.failure(error, self.head.url)
            self.reply(status, JSON, (body,), len(body), PROTECTION + extra)
            return
        self.fail_text(HTTP_STATUS[error.code], error.message, content_type, extra)

    def fail_text(
        self, status: int, message: str, content_type: bytes = JSON, extra: bytes = b""
    ) -> None:
        """Answer with an error that has no Triton code."""
        if openai_errors.has_openai_form(self.head.url):
            content_type = JSON
            body = openai_errors.failure_of_status(status, message, self.head.url)
        else:
            body = error_body(message)
        self.reply(status, content_type, (body,), len(body), PROTECTION + extra)

    @property
    def is_answered(self) -> bool:
        """Whether there is an answer, or nobody left to take it."""
        return self._answer is not None or self._queue is None

    @property
    def answer_bytes(self) -> int:
        """Size of the complete answer; 0 while there is none."""
        return sum(map(len, self._answer or ()))

    @property
    def closes(self) -> bool:
        """Whether the connection ends with this exchange."""
        return self._closes

    def end_connection(self) -> None:
        """Have the connection closed behind this exchange."""
        self.keep_alive = False
        self._closes = True

    def take_answer(self) -> list[bytes | memoryview] | None:
        """Return the answer's parts, or None while there is none."""
        if self._pieces:
            self._push()
        return self._answer

    def detach(self) -> None:
        """Let the connection go: the answer has been written."""
        self._queue = None
        self.on_disconnect = None

    def disconnect(self) -> None:
        """Drop the exchange: its peer has gone."""
        self._queue = None
        cancel, self.on_disconnect = self.on_disconnect, None
        if cancel is not None and self._answer is None:
            cancel()


_status_lines: dict[int, bytes] = {}


def _status_line(status: int) -> bytes:
    line = _status_lines.get(status)
    if line is None:
        phrase = HTTPStatus(status).phrase
        line = _status_lines[status] = f"HTTP/1.1 {status} {phrase}\r\n".encode()
    return line
