# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Connections of HTTP/1.1 that stay open, one exchange at a time on each."""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from manta_tools.perf.clients.closing import close_all
from manta_tools.perf.clients.http_answers import Answer, AnswerReader, Head

# More at once wait for a connection; their wait is part of their latency.
MAX_CONNECTIONS: Final = 4096

Done = Callable[[Answer], None]
# Takes each chunk of an answer that comes in chunks.
OnPart = Callable[[bytes], None]


class _Connection(asyncio.Protocol):
    """One connection."""

    def __init__(self, pool: "HttpConnections") -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._reader = AnswerReader(pool.heads)
        self._done: Done | None = None
        self._on_part: OnPart | None = None
        self._first_ns = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Those of uvloop are not derived from asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def exchange(self, data: bytes, done: Done, on_part: OnPart | None) -> None:
        """Send a request; the answer goes to ``done``."""
        self._done, self._on_part = done, on_part
        assert self._transport is not None  # noqa: S101 - it is in the pool once it is open
        self._transport.write(data)

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self._done is None:
            # Nothing was asked: whatever it is, the next answer would be taken for another.
            self.close()
            return
        if not self._first_ns:
            self._first_ns = self._pool.clock()
        try:
            if self._reader.feed(data, self._on_part):
                self._finish()
        except ValueError as error:
            self._fail(str(error))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.lost(self)
        self._fail(f"the connection was closed: {exc or 'by the server'}")

    def _finish(self) -> None:
        reader, head = self._reader, self._reader.head
        assert head is not None  # noqa: S101 - the answer is complete
        end_ns = self._pool.clock()
        answer = Answer(head.status, reader.raw_head, reader.body, self._first_ns, end_ns)
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
        done, self._done, self._on_part = self._done, None, None
        self._reader.restart()
        self._first_ns = 0
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
        self._waiting: deque[tuple[bytes, Done, OnPart | None]] = deque()
        self.heads: dict[bytes, Head] = {}
        self._is_closed = False

    def exchange(self, data: bytes, done: Done, on_part: OnPart | None = None) -> None:
        """Send a request; the answer goes to ``done``, never before this returns."""
        if self._free:
            self._free.pop().exchange(data, done, on_part)
            return
        self._waiting.append((data, done, on_part))
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
        await close_all(self._opening, self._all)

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
