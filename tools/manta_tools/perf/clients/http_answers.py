# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Answers of HTTP/1.1 read from bytes as they come: with a length, or in chunks. Pure.

Answers of one model have the same head again and again, which is read once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_KNOWN_HEADS: Final = 64
_LINE_END: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_MAX_HEAD_BYTES: Final = 1 << 16
_MAX_CHUNK_LINE_BYTES: Final = 1 << 12
_SUCCESS: Final = range(200, 300)


@dataclass(frozen=True, slots=True)
class Head:
    """What a head says; a length of -1 is one in chunks."""

    status: int
    length: int
    closes: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, or why there is none.

    Attributes:
        status: Of HTTP; 0 when there is no answer.
        head: The bytes before the body.
        body: The body; without an answer what went wrong.
        first_ns: When its first byte came.
        end_ns: When its last byte came.
    """

    status: int
    head: bytes
    body: bytes
    first_ns: int
    end_ns: int

    @property
    def error(self) -> str:
        """Why this is no success; empty for one."""
        if self.status in _SUCCESS:
            return ""
        text = self.body.decode(errors="replace")
        return f"HTTP {self.status}: {text}" if self.status else text


def read_head(head: bytes) -> Head:
    """Read a head.

    Raises:
        ValueError: It is none of HTTP/1, or does not say how long the body is.
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    protocol, _, rest = first.partition(" ")
    if not protocol.startswith("HTTP/1."):
        raise ValueError(f"the answer is not HTTP/1: {first[:80]!r}")
    fields = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields[name.strip().lower()] = value.strip()
    closes = fields.get("connection", "").lower() == "close"
    if fields.get("transfer-encoding", "").lower() == "chunked":
        return Head(int(rest[:3]), -1, closes)
    if "content-length" not in fields:
        raise ValueError("the answer has neither a Content-Length nor chunks")
    return Head(int(rest[:3]), int(fields["content-length"]), closes)


class AnswerReader:
    """Reads one answer after the other.

    Attributes:
        head: What the answer's head says; None while it has not come.
        raw_head: The head's bytes.
        body: The body as far as it has come; of one with a length all or nothing.
    """

    def __init__(self, known: dict[bytes, Head]) -> None:
        """Make a reader.

        Args:
            known: Heads that were read before, shared by connections to one server.
        """
        self._known = known
        self._buffer = bytearray()
        self.restart()

    def restart(self) -> None:
        """Begin with the next answer."""
        self.head: Head | None = None
        self.raw_head = b""
        self.body = b""

    def feed(self, data: bytes, on_part: Callable[[bytes], None] | None = None) -> bool:
        """Take bytes, and return whether the answer is complete.

        Args:
            data: The bytes.
            on_part: Called with each chunk; of an answer with a length it is not called.

        Raises:
            ValueError: They are no answer.
        """
        buffer = self._buffer
        buffer += data
        if self.head is None and not self._take_head():
            return False
        assert self.head is not None  # noqa: S101 - it has been taken
        if self.head.length < 0:
            return self._take_chunks(on_part)
        if len(buffer) < self.head.length:
            return False
        self.body = bytes(buffer[: self.head.length])
        del buffer[: self.head.length]
        return True

    def _take_head(self) -> bool:
        end = self._buffer.find(_HEAD_END)
        if end < 0:
            if len(self._buffer) > _MAX_HEAD_BYTES:
                raise ValueError("the answer's head is too long")
            return False
        raw = self.raw_head = bytes(self._buffer[:end])
        self.head = self._known.get(raw)
        if self.head is None:
            self.head = read_head(raw)
            if len(self._known) < _KNOWN_HEADS:
                self._known[raw] = self.head
        del self._buffer[: end + len(_HEAD_END)]
        return True

    def _take_chunks(self, on_part: Callable[[bytes], None] | None) -> bool:
        buffer = self._buffer
        while (end := buffer.find(_LINE_END)) >= 0:
            size = int(bytes(buffer[:end]).partition(b";")[0], 16)
            start = end + len(_LINE_END)
            if size == 0:
                # Trailers may follow; the last line is empty.
                last = buffer.find(_HEAD_END, end)
                if last < 0:
                    return False
                del buffer[: last + len(_HEAD_END)]
                return True
            if len(buffer) < start + size + len(_LINE_END):
                return False
            part = bytes(buffer[start : start + size])
            del buffer[: start + size + len(_LINE_END)]
            self.body += part
            if on_part is not None:
                on_part(part)
        if len(buffer) > _MAX_CHUNK_LINE_BYTES:
            raise ValueError("a chunk of the answer has no length")
        return False


class EventReader:
    """Reads server-sent events (WHATWG HTML, 9.2), of which only the data is looked at."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, part: bytes) -> list[bytes]:
        """Take bytes, and return the data of the events that are complete."""
        events = []
        *lines, self._rest = (self._rest + part).split(b"\n")
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data.clear()
        return events
