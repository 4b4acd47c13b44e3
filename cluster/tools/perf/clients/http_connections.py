# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Connections of HTTP/1.1 that stay open, one exchange at a time on each.

Answers of one model have the same head again and again, which is read once.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

# More at once wait for a connection; their wait is part of their latency.
MAX_CONNECTIONS: Final = 4096
_KNOWN_HEADS: Final = 64
_HEAD_END: Final = b"\r\n\r\n"
_MAX_HEAD_BYTES: Final = 1 << 16
_CREATED: Final = 300


@dataclass(frozen=True, slots=True)
class _Head:
    """What a head says."""

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
        if 200 <= self.status < _CREATED:  # noqa: PLR2004 - success begins there
            return ""
        text = self.body.decode(errors="replace")
        return f"HTTP {self.status}: {text}" if self.status else text


Done = Callable[[Answer], None]


def _read_head(head: bytes) -> _Head:
    """Read a head.

    Raises:
        ValueError: It is none of HTTP/1, or the body's length is not said.
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    protocol, _, rest = first.partition(" ")
    if not protocol.startswith("HTTP/1."):
        raise ValueError(f"the answer is not HTTP/1: {first[:80]!r}")
    fields = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields[name.strip().lower()] = value.strip()
    if "content-length" not in fields:
        raise ValueError("the answer has no Content-Length")
    closes = fields.get("connection", "").lower() == "close"
    return _Head(int(rest[:3]), int(fields["content-length"]), closes)


class _Connection(asyncio.Protocol):
    """One connection."""

    def __init__(self, pool: "HttpConnections") -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._done: Done | None = None
        self._buffer = bytearray()
        self._head: _Head | None = None
        self._head_bytes = b""
        self._first_ns = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Those of uvloop are not derived from asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def exchange(self, data: bytes, done: Done) -> None:
        """Send a request; the answer goes to ``done``."""
        self._done = done
        assert self._transport is not None  # noqa: S101 - it is in the pool once it is open
        self._transport.write(data)

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        if not self._first_ns:
            self._first_ns = self._pool.clock()
        self._buffer += data
        try:
            self._read()
        except ValueError as error:
            self._fail(str(error))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.lost(self)
        self._fail(f"the connection was closed: {exc or 'by the server'}")

    def _read(self) -> None:
        buffer = self._buffer
        if self._head is None:
            end = buffer.find(_HEAD_END)
            if end < 0:
                if len(buffer) > _MAX_HEAD_BYTES:
                    raise ValueError("the answer's head is too long")
                return
            self._head_bytes = bytes(buffer[:end])
            self._head = self._pool.head(self._head_bytes)
            del buffer[: end + len(_HEAD_END)]
        if len(buffer) < self._head.length:
            return
        body = bytes(buffer[: self._head.length])
        del buffer[: self._head.length]
        self._finish(body, self._head)

    def _finish(self, body: bytes, head: _Head) -> None:
        answer = Answer(head.status, self._head_bytes, body, self._first_ns, self._pool.clock())
        done = self._reset()
        if head.closes:
            self.close()
        else:
            self._pool.freed(self)
        if done:
            done(answer)

    def _fail(self, message: str) -> None:
        done = self._reset()
        if done:
            now_ns = self._pool.clock()
            done(Answer(0, b"", message.encode(), now_ns, now_ns))

    def _reset(self) -> Done | None:
        done, self._done = self._done, None
        self._head, self._first_ns = None, 0
        return done


class HttpConnections:
    """Connections to one server; a new one is opened when all are busy."""

    def __init__(
        self,
        host: str,
        port: int,
        clock: Callable[[], int],
        tls: ssl.SSLContext | None = None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self.clock = clock
        self._host, self._port, self._tls = host, port, tls
        self._max_connections = max_connections
        self._free: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._opening: set[asyncio.Task[None] | None] = set()
        self._waiting: deque[tuple[bytes, Done]] = deque()
        self._heads: dict[bytes, _Head] = {}
        self._is_closed = False

    def exchange(self, data: bytes, done: Done) -> None:
        """Send a request; the answer goes to ``done``, never before this returns."""
        if self._free:
            self._free.pop().exchange(data, done)
            return
        self._waiting.append((data, done))
        self._open_more()

    async def open(self, count: int) -> None:
        """Open connections before they are needed.

        Raises:
            OSError: The server cannot be reached.
        """
        for _ in range(count - len(self._all)):
            self._free.append(await self._connect())

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        opening = [task for task in self._opening if task is not None]
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for connection in list(self._all):
            connection.close()
        # Transports close in the loop's next turn.
        await asyncio.sleep(0)

    def head(self, raw: bytes) -> _Head:
        """Return what a head says.

        Raises:
            ValueError: It is none.
        """
        known = self._heads.get(raw)
        if known is None:
            known = _read_head(raw)
            if len(self._heads) < _KNOWN_HEADS:
                self._heads[raw] = known
        return known

    def freed(self, connection: _Connection) -> None:
        """Use a connection for what waits, or keep it."""
        if self._waiting:
            connection.exchange(*self._waiting.popleft())
        else:
            self._free.append(connection)

    def lost(self, connection: _Connection) -> None:
        """Forget a connection that is closed."""
        self._all.discard(connection)
        if connection in self._free:
            self._free.remove(connection)
        if self._waiting and not self._is_closed:
            self._open_more()

    def _open_more(self) -> None:
        opening = len(self._opening)
        if opening < len(self._waiting) and len(self._all) + opening < self._max_connections:
            task = asyncio.get_running_loop().create_task(self._open_one())
            self._opening.add(task)

    async def _open_one(self) -> None:
        try:
            connection = await self._connect()
        except OSError as error:
            if self._waiting:
                now_ns = self.clock()
                message = f"cannot connect to {self._host}:{self._port}: {error}"
                self._waiting.popleft()[1](Answer(0, b"", message.encode(), now_ns, now_ns))
        else:
            self.freed(connection)
        finally:
            # Here, not when the task has ended: what still waits may open another one.
            self._opening.discard(asyncio.current_task())
        if self._waiting and not self._is_closed:
            self._open_more()

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: _Connection(self), self._host, self._port, ssl=self._tls
        )
        self._all.add(connection)
        return connection
