# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A client's end for tests: frames to send, frames that came, and a service that records."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, NamedTuple

import hpack

from deployments.grpc.rpc.compression import ResponseCompression
from deployments.grpc.rpc.connection import GrpcConnection
from deployments.grpc.rpc.deadlines import Deadlines
from deployments.grpc.rpc.service import RpcReply
from deployments.http2 import frames
from deployments.http2.connection import Http2Connection
from deployments.http2.events import DataReceived, Event, RequestReceived
from deployments.http2.frames import Buffer
from deployments.http2.limits import Http2Limits
from deployments.supervision.memory_budget import MemoryBudget

REQUEST = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/test.Service/Echo"),
    (b":authority", b"test"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
)
START = frames.PREFACE + frames.settings({})


class Frame(NamedTuple):
    kind: int
    flags: int
    stream_id: int
    payload: bytes


def request(**changes: bytes | None) -> list[tuple[bytes, bytes]]:
    """The headers of a request; names with _ for -, pseudo headers without the colon."""
    headers = dict(REQUEST)
    for key, value in changes.items():
        name = key.replace("_", "-").encode()
        name = b":" + name if b":" + name in headers else name
        if value is None:
            headers.pop(name, None)
        else:
            headers[name] = value
    return list(headers.items())


def literal_block(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A header block that uses no table."""
    return bytes(hpack.Encoder().encode([(n, v, True) for n, v in headers], huffman=False))


def headers_frame(
    stream_id: int, headers: Iterable[tuple[bytes, bytes]] = REQUEST, *, end: bool = False
) -> bytes:
    flags = frames.END_HEADERS | (frames.END_STREAM if end else 0)
    return frames.frame(frames.HEADERS, flags, stream_id, literal_block(headers))


def data_frame(
    stream_id: int, payload: bytes, *, end: bool = False, padding: int | None = None
) -> bytes:
    flags = frames.END_STREAM if end else 0
    if padding is not None:
        flags |= frames.PADDED
        payload = bytes((padding,)) + payload + bytes(padding)
    return frames.frame(frames.DATA, flags, stream_id, payload)


def grpc_message(payload: bytes, *, compressed: bool = False) -> bytes:
    return struct.pack(">BI", compressed, len(payload)) + payload


def call(
    stream_id: int, payload: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = REQUEST
) -> bytes:
    """A whole unary call."""
    return headers_frame(stream_id, headers) + data_frame(
        stream_id, grpc_message(payload), end=True
    )


def parse_frames(data: bytes) -> list[Frame]:
    found = []
    while data:
        word, flags, stream_id = frames.HEADER.unpack_from(data)
        end = frames.HEADER_BYTES + (word >> 8)
        assert end <= len(data), "output ends within a frame"
        found.append(Frame(word & 0xFF, flags, stream_id, data[frames.HEADER_BYTES : end]))
        data = data[end:]
    return found


def output(connection: Http2Connection[Any]) -> list[Frame]:
    """All frames the connection has to send, up to what the windows allow."""
    data = b""
    while connection.out.pending:
        data += b"".join(connection.take_output())
    return parse_frames(data)


def error_code(connection: Http2Connection[Any]) -> int | None:
    """The code the connection was ended with, as its GOAWAY says."""
    if connection.lifecycle.terminated is None:
        return None
    last = [frame for frame in output(connection) if frame.kind == frames.GOAWAY][-1]
    return int.from_bytes(last.payload[4:8], "big")


def normalised(events: Iterable[Event[Any]]) -> list[tuple[Any, ...]]:
    """Events without what depends on how the bytes were cut: parts of a body are joined."""
    out: list[tuple[Any, ...]] = []
    for event in events:
        stream_id = event.stream.id
        if isinstance(event, RequestReceived):
            out.append(("request", stream_id, tuple(event.head), event.ended))
        elif not isinstance(event, DataReceived):
            out.append(("reset", stream_id, int(event.code)))
        elif out and out[-1][:2] == ("data", stream_id) and not out[-1][3]:
            out[-1] = ("data", stream_id, out[-1][2] + bytes(event.data), event.ended)
        elif event.data or event.ended:
            out.append(("data", stream_id, bytes(event.data), event.ended))
    return out


class RecordingCall:
    """Echoes (path /Echo), echoes each message (/Bidi) or waits for the test (/Wait)."""

    def __init__(
        self, path: bytes, metadata: Sequence[tuple[bytes, bytes]], reply: RpcReply
    ) -> None:
        self.path = path
        self.metadata = metadata
        self.reply = reply
        self.messages: list[bytes] = []
        self.half_closed_count = 0
        self.cancelled_count = 0

    def message(self, data: bytes | memoryview) -> None:
        self.messages.append(bytes(data))
        if self.path.endswith(b"/Bidi"):
            self.reply.send(bytes(data))
            self.reply.let_go(len(data))
        elif self.path.endswith(b"/Crash"):
            raise ValueError("a bug")

    def refuse_message(self, first: bytes | memoryview, details: str) -> bool:
        return False

    def half_closed(self) -> None:
        self.half_closed_count += 1
        if self.path.endswith(b"/Bidi"):
            self.reply.finish()
        elif self.path.endswith(b"/Echo"):
            self.reply.complete(self.messages[0] if self.messages else b"")

    def cancelled(self) -> None:
        self.cancelled_count += 1


class RecordingService:
    def __init__(self) -> None:
        self.calls: list[RecordingCall] = []
        self.allocated: list[tuple[bytes, int, int]] = []
        self.has_memory = True

    def allocate(self, path: bytes, size_bytes: int, first: memoryview) -> memoryview | None:
        self.allocated.append((path, size_bytes, len(first)))
        has_memory = self.has_memory and size_bytes <= 1 << 26
        return memoryview(bytearray(size_bytes)) if has_memory else None

    def start(
        self, path: bytes, metadata: Sequence[tuple[bytes, bytes]], reply: RpcReply
    ) -> RecordingCall | None:
        if path.endswith(b"/Unknown"):
            return None
        if path.endswith(b"/CrashAtStart"):
            raise ValueError("a bug")
        self.calls.append(RecordingCall(path, metadata, reply))
        return self.calls[-1]


class Client:
    """A gRPC connection under test with a clock that stands still until told otherwise."""

    def __init__(
        self,
        limits: Http2Limits | None = None,
        *,
        start: bool = True,
        compression: ResponseCompression | None = None,
        budget: MemoryBudget | None = None,
    ) -> None:
        self.budget = budget or MemoryBudget(1 << 40)
        self.offloaded: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []
        self.now_ns = 1_000_000_000_000
        self.service = RecordingService()
        self.timers: list[int] = []
        self.wakes = 0
        self.deadlines = Deadlines(self.timers.append)
        self.grpc = GrpcConnection(
            self.service,
            limits or Http2Limits(),
            self.deadlines,
            self._wake,
            self.now_ns,
            compression,
            budget=self.budget,
            offload=self._offload,
        )
        self.h2 = self.grpc.h2
        self._decoder = hpack.Decoder()
        if start:
            self.send(START)
            output(self.h2)

    def _wake(self) -> None:
        self.wakes += 1

    def _offload(
        self, work: Callable[[], None], done: Callable[[BaseException | None], None]
    ) -> None:
        self.offloaded.append((work, done))

    def run_offloaded(self) -> None:
        """Do one piece of what is to be done on a thread."""
        work, done = self.offloaded.pop(0)
        error: BaseException | None = None
        try:
            work()
        except Exception as caught:
            error = caught
        done(error)

    def send(self, data: bytes) -> None:
        self.grpc.receive(data, self.now_ns)

    def received(self) -> list[Frame]:
        return output(self.h2)

    def raw(self) -> list[Buffer]:
        return self.h2.take_output()

    def headers(self, frame: Frame) -> dict[bytes, bytes]:
        return dict(self._decoder.decode(frame.payload, raw=True))

    def answer(self, stream_id: int) -> tuple[dict[bytes, bytes], bytes]:
        """The trailers (with the headers) and the body of one stream, from all output so far."""
        headers: dict[bytes, bytes] = {}
        body = b""
        for frame in self.received():
            if frame.stream_id == stream_id and frame.kind == frames.HEADERS:
                headers |= self.headers(frame)
            elif frame.stream_id == stream_id and frame.kind == frames.DATA:
                body += frame.payload
        return headers, body

    def status(self, stream_id: int) -> tuple[int, str]:
        headers, _ = self.answer(stream_id)
        return int(headers[b"grpc-status"]), headers.get(b"grpc-message", b"").decode()


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


@contextlib.asynccontextmanager
async def connected(port: int) -> AsyncIterator[Peer]:
    """Have a client's end of a connection to a port of this machine."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()
