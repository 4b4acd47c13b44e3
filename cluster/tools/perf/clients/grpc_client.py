# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The client over gRPC: unary calls, bidirectional streams, and what is asked besides.

Messages of requests are bytes that were encoded before; grpcio sends them as they are.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.json_format import MessageToDict
from tritonclient.grpc import service_pb2

from backends.api.errors import UnavailableError
from cluster.tools.perf.clients.grpc_encoding import GrpcEncoder, id_message, outputs_of
from cluster.tools.perf.clients.http_encoding import mismatch
from cluster.tools.perf.clients.payload import Form, Payload, Places
from cluster.tools.perf.data.model import Model
from cluster.tools.perf.data.rows import Row
from cluster.tools.perf.data.sequences import SequencePart
from cluster.tools.perf.records import Listener, Request

_SERVICE: Final = "/inference.GRPCInferenceService/"
_UNLIMITED: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
)
# Requests go round the streams by their slot, so that a sequence stays on one.
MAX_STREAMS: Final = 16
_FINAL: Final = "triton_final_response"

COMPRESSION: Final = {
    "none": grpc.Compression.NoCompression,
    "gzip": grpc.Compression.Gzip,
    "deflate": grpc.Compression.Deflate,
}


def credentials(
    roots: bytes | None, key: bytes | None, chain: bytes | None
) -> grpc.ChannelCredentials:
    """Return how a server is trusted: roots, and the client's own key and certificates, in PEM."""
    return grpc.ssl_channel_credentials(roots, key, chain)


class GrpcClient:
    """A server's gRPC port."""

    def __init__(
        self,
        url: str,
        clock: Callable[[], int],
        *,
        credentials: grpc.ChannelCredentials | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        compression: str = "none",
        is_streaming: bool = False,
    ) -> None:
        """Make a client, within a running loop.

        Args:
            url: Host and port.
            clock: The time, in nanoseconds.
            credentials: How the server is trusted; None for plain text.
            headers: Metadata of every request.
            compression: A key of `COMPRESSION`.
            is_streaming: Whether requests go over streams.
        """
        self._url, self._clock = url, clock
        self._metadata = tuple((name.lower(), value) for name, value in headers)
        options = {"options": _UNLIMITED, "compression": COMPRESSION[compression]}
        self._channel = (
            grpc.aio.secure_channel(url, credentials, **options)
            if credentials
            else grpc.aio.insecure_channel(url, **options)
        )
        self._infer = self._channel.unary_unary(f"{_SERVICE}ModelInfer")
        self._is_streaming = is_streaming
        self._is_decoupled = False
        self._streams: dict[int, _Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._encoder: GrpcEncoder | None = None

    async def open(self, count: int) -> None:
        """Connect; one connection serves any number of requests.

        Raises:
            UnavailableError: The server cannot be reached.
        """
        del count
        await self._ask("ServerLive", service_pb2.ServerLiveRequest(), "ServerLiveResponse")

    async def close(self) -> None:
        """End streams and the connection."""
        for stream in self._streams.values():
            await stream.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._channel.close()

    def encode(self, form: Form, row: Row, places: Places, part: SequencePart | None) -> Payload:
        """Encode a request."""
        if self._encoder is None:
            self._is_decoupled = form.model.is_decoupled
            asks_for_final = self._is_streaming and self._is_decoupled
            self._encoder = GrpcEncoder(form, asks_for_final=asks_for_final)
        return self._encoder.encode(row, places, part)

    def send(self, request: Request, listener: Listener) -> None:
        """Send a request."""
        if self._is_streaming:
            self._stream(request.slot % MAX_STREAMS).send(request, listener)
        else:
            task = asyncio.get_running_loop().create_task(self._call(request, listener))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        request.send_ns = self._clock() - request.start_ns

    async def _call(self, request: Request, listener: Listener) -> None:
        raw = b""
        try:
            raw = await self._infer(request.payload.wire, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            request.error = f"{error.code().name}: {error.details()}"
        now_ns = self._clock()
        if not request.error:
            if request.payload.expected:
                response = service_pb2.ModelInferResponse.FromString(raw)
                request.error = mismatch(request.payload.expected, outputs_of(response))
            listener.responded(request, now_ns)
        listener.ended(request, now_ns)

    def _stream(self, number: int) -> "_Stream":
        stream = self._streams.get(number)
        if stream is None or stream.is_broken:
            method = self._channel.stream_stream(f"{_SERVICE}ModelStreamInfer")
            stream = self._streams[number] = _Stream(
                method, self._metadata, self._clock, is_decoupled=self._is_decoupled
            )
        return stream

    async def metadata(self, model: Model) -> Mapping[str, Any]:
        """Return the model's metadata.

        Raises:
            UnavailableError: The server refuses, or cannot be reached.
        """
        question = service_pb2.ModelMetadataRequest(name=model.name, version=model.version)
        return await self._ask("ModelMetadata", question, "ModelMetadataResponse")

    async def config(self, model: Model) -> Mapping[str, Any]:
        """Return the model's config; raises as `metadata` does."""
        question = service_pb2.ModelConfigRequest(name=model.name, version=model.version)
        answer = await self._ask("ModelConfig", question, "ModelConfigResponse")
        config: Mapping[str, Any] = answer.get("config", {})
        return config

    async def statistics(self) -> Mapping[str, Any]:
        """Return the statistics of all models; raises as `metadata` does."""
        question = service_pb2.ModelStatisticsRequest()
        return await self._ask("ModelStatistics", question, "ModelStatisticsResponse")

    async def register_memory(self, name: str, key: str, size_bytes: int) -> None:
        """Register a region of system shared memory; raises as `metadata` does."""
        question = service_pb2.SystemSharedMemoryRegisterRequest(
            name=name, key=key, offset=0, byte_size=size_bytes
        )
        await self._ask(
            "SystemSharedMemoryRegister", question, "SystemSharedMemoryRegisterResponse"
        )

    async def unregister_memory(self, name: str) -> None:
        """Unregister a region; raises as `metadata` does."""
        question = service_pb2.SystemSharedMemoryUnregisterRequest(name=name)
        await self._ask(
            "SystemSharedMemoryUnregister", question, "SystemSharedMemoryUnregisterResponse"
        )

    async def _ask(self, method: str, question: Any, answer: str) -> dict[str, Any]:
        call = self._channel.unary_unary(
            f"{_SERVICE}{method}",
            request_serializer=type(question).SerializeToString,
            response_deserializer=getattr(service_pb2, answer).FromString,
        )
        try:
            message = await call(question, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise UnavailableError(
                f"{method} at {self._url}: {error.code().name}: {error.details()}"
            ) from None
        found: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
        return found


class _Stream:
    """One bidirectional stream; responses find their requests by their ids."""

    def __init__(
        self,
        method: Any,
        metadata: tuple[tuple[str, str], ...],
        clock: Callable[[], int],
        *,
        is_decoupled: bool,
    ) -> None:
        self._clock, self._is_decoupled = clock, is_decoupled
        self._ids = itertools.count(1)
        self._open: dict[str, tuple[Request, Listener]] = {}
        self._outgoing: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._call = method(self._messages(), metadata=metadata)
        self._reading = asyncio.get_running_loop().create_task(self._read())
        self.is_broken = False

    def send(self, request: Request, listener: Listener) -> None:
        """Send a request."""
        request_id = str(next(self._ids))
        self._open[request_id] = (request, listener)
        self._outgoing.put_nowait(request.payload.wire + id_message(request_id))

    async def close(self) -> None:
        """End the stream."""
        self._outgoing.put_nowait(None)
        self._call.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _messages(self) -> AsyncIterator[bytes]:
        while (message := await self._outgoing.get()) is not None:
            yield message

    async def _read(self) -> None:
        reason = "the stream was closed by the server"
        try:
            async for raw in self._call:
                self._take(service_pb2.ModelStreamInferResponse.FromString(raw))
        except grpc.aio.AioRpcError as error:
            reason = f"{error.code().name}: {error.details()}"
        except asyncio.CancelledError:
            reason = "the stream was closed"
        self.is_broken = True
        while self._open:
            self._end(next(iter(self._open)), self._clock(), reason)

    def _take(self, message: Any) -> None:
        now_ns = self._clock()
        response = message.infer_response
        request_id = response.id
        if request_id not in self._open:
            # An error without an id is of whoever waits longest.
            if not (message.error_message and self._open) or request_id:
                return
            request_id = next(iter(self._open))
        request, listener = self._open[request_id]
        if message.error_message:
            self._end(request_id, now_ns, message.error_message)
            return
        is_final = not self._is_decoupled or response.parameters[_FINAL].bool_param
        if response.outputs or not self._is_decoupled:
            if request.payload.expected and not request.error:
                request.error = mismatch(request.payload.expected, outputs_of(response))
            listener.responded(request, now_ns)
        if is_final:
            self._end(request_id, now_ns, request.error)

    def _end(self, request_id: str, now_ns: int, error: str) -> None:
        request, listener = self._open.pop(request_id)
        request.error = error
        listener.ended(request, now_ns)
