# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that stands for the network between two nodes, on its bad days."""

import asyncio
import contextlib
from typing import Self


class BadNetwork:
    """Carries connections to one address; what it has taken it does not lose.

    Args:
        target: Where connections go.

    Attributes:
        address: Where they come.
        piece_bytes: How much it carries at a time.
        connection_count: How many have come.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self.piece_bytes = 1 << 16
        self.connection_count = 0
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []
        self._pumps: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address: tuple[str, int] = (host, port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for pump in list(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        for writer in [each for pair in self._writers for each in pair]:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def cut(self) -> None:
        """Let nothing through from now on, not even that a connection ends."""
        self._flows.clear()

    def heal(self) -> None:
        """Let everything through again."""
        self._flows.set()

    def end_towards_router(self) -> None:
        """Tell the routers that the instance sends no more; the other way stays open."""
        for router, _ in self._writers:
            router.write_eof()

    def end_towards_instance(self) -> None:
        """Tell the instance that the routers send no more; the other way stays open."""
        for _, instance in self._writers:
            instance.write_eof()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        there, back = await asyncio.open_connection(*self._target)
        self._writers.append((writer, back))
        for source, sink in ((reader, back), (there, writer)):
            pump = asyncio.create_task(self._pump(source, sink))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while True:
                await self._flows.wait()
                data = await source.read(self.piece_bytes)
                await self._flows.wait()
                if not data:
                    break
                sink.write(data)
                await sink.drain()
        sink.close()
