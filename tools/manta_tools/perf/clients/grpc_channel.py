# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Connections to one gRPC server, and the calls that go over them."""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final

from manta_tools.perf.clients import http2_frames as h2
from manta_tools.perf.clients.closing import close_all
from manta_tools.perf.clients.http2_connection import UNAVAILABLE, Call, Http2Connection

MAX_CONNECTIONS: Final = 256
# How long a server may take to say its settings.
_SETTINGS_TIMEOUT_S: Final = 30.0
_STATUS_NAMES: Final = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)


def status_text(status: int, text: str) -> str:
    """Return a status as errors name it; empty for OK."""
    if status == 0:
        return ""
    name = _STATUS_NAMES[status] if status < len(_STATUS_NAMES) else str(status)
    return f"{name}: {text}"


class Stream:
    """A bidirectional stream; messages that come before it is open wait."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._connection: Http2Connection | None = None
        self._early: list[bytes] = []

    def opened(self, connection: Http2Connection) -> None:
        """Send what waits."""
        self._connection = connection
        for each in self._early:
            connection.send(self._call, each)
        self._early.clear()

    def send(self, framed: bytes) -> None:
        """Send a message, with gRPC's head."""
        if self._connection is None:
            self._early.append(framed)
        else:
            self._connection.send(self._call, framed)


class GrpcChannel:
    """Calls to one server; another connection is opened when those there have no room."""

    def __init__(
        self, host: str, port: int, clock: Callable[[], int], tls: ssl.SSLContext | None = None
    ) -> None:
        self._host, self._port, self._clock, self._tls = host, port, clock, tls
        self._reader = h2.HeaderReader()
        self._connections: list[Http2Connection] = []
        self._waiting: deque[tuple[Call, bytes, bytes, Stream | None]] = deque()
        self._opening: set[asyncio.Task[None] | None] = set()
        self._is_closed = False

    def block(self, method: str, fields: tuple[tuple[str, str], ...] = ()) -> bytes:
        """Return the headers of calls of a method."""
        return h2.header_block(
            [
                (":method", "POST"),
                (":scheme", "https" if self._tls else "http"),
                (":path", method),
                (":authority", f"{self._host}:{self._port}"),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", "manta-perf"),
                *fields,
            ]
        )

    def unary(self, block: bytes, framed: bytes, call: Call) -> None:
        """Begin a call with one message; nothing of it is told before this returns."""
        call.request = (block, framed)
        self._waiting.append((call, block, framed, None))
        self._dispatch()

    def stream(self, block: bytes, call: Call) -> Stream:
        """Begin a call whose messages follow."""
        stream = Stream(call)
        self._waiting.append((call, block, b"", stream))
        self._dispatch()
        return stream

    async def open(self) -> None:
        """Connect.

        Raises:
            OSError: The server cannot be reached, or speaks something else.
        """
        if not any(each.has_room for each in self._connections):
            await self._connect()

    async def close(self) -> None:
        """Close all connections; calls under way end."""
        self._is_closed = True
        await close_all(self._opening, self._connections)

    def _dispatch(self) -> None:
        while self._waiting:
            connection = next((each for each in self._connections if each.has_room), None)
            if connection is None:
                self._open_more()
                return
            call, block, framed, stream = self._waiting.popleft()
            connection.begin(call, block, framed, is_last=stream is None)
            if stream is not None:
                stream.opened(connection)

    def _freed(self) -> None:
        if any(each.is_closed for each in self._connections):
            self._connections = [each for each in self._connections if not each.is_closed]
        if self._waiting and not self._is_closed:
            self._dispatch()

    def _refused(self, call: Call) -> None:
        if call.request is not None:
            self._waiting.appendleft((call, *call.request, None))
        self._freed()

    def _open_more(self) -> None:
        if not self._opening and len(self._connections) < MAX_CONNECTIONS:
            task = asyncio.get_running_loop().create_task(self._open_one())
            self._opening.add(task)

    async def _open_one(self) -> None:
        try:
            await self._connect()
        except OSError as error:
            message = f"cannot connect to {self._host}:{self._port}: {error}"
            for _ in range(len(self._waiting)):
                self._waiting.popleft()[0].on_end(UNAVAILABLE, message)
        finally:
            # Here, not when the task has ended: what still waits may open another one.
            self._opening.discard(asyncio.current_task())
        if not self._is_closed:
            self._dispatch()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: Http2Connection(self._clock, self._reader, self._freed, self._refused),
            self._host,
            self._port,
            ssl=self._tls,
        )
        try:
            # Its settings say how many calls it takes.
            async with asyncio.timeout(_SETTINGS_TIMEOUT_S):
                await connection.ready
        except BaseException:
            connection.close()
            raise
        self._connections.append(connection)
