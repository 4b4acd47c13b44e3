# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A client's end of a real connection that reads HTTP/2 frame by frame."""

import asyncio
import contextlib

from deployments.http2 import frames
from tests.support.http2_peer import Frame


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def frame(self, kind: int) -> Frame:
        """The next frame of a kind that is no acknowledgement."""
        while True:
            head = await self._reader.readexactly(frames.HEADER_BYTES)
            word, flags, stream_id = frames.HEADER.unpack(head)
            payload = await self._reader.readexactly(word >> 8)
            is_acknowledgement = word & 0xFF != frames.HEADERS and flags & frames.ACK
            if word & 0xFF == kind and not is_acknowledgement:
                return Frame(kind, flags, stream_id, payload)

    async def rest(self) -> bytes:
        with contextlib.suppress(ConnectionResetError):
            return await self._reader.read()
        return b""
