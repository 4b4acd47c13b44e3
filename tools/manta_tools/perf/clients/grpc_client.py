# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The client over gRPC: unary calls, bidirectional streams, and what is asked besides."""

import asyncio
import gzip
import itertools
import ssl
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from tritonclient.grpc import service_pb2

from backends.api.errors import UnavailableError
from manta_tools.perf.clients.grpc_channel import GrpcChannel, Stream, status_text
from manta_tools.perf.clients.grpc_encoding import GrpcEncoder, id_message, outputs_of
from manta_tools.perf.clients.http2_connection import Call
from manta_tools.perf.clients.http2_frames import message
from manta_tools.perf.clients.http_encoding import mismatch
from manta_tools.perf.clients.payload import Form, Payload, Places
from manta_tools.perf.data.model import Model
from manta_tools.perf.data.rows import Row
from manta_tools.perf.data.sequences import SequencePart
from manta_tools.perf.records import Listener, Request

_SERVICE: Final = "/inference.GRPCInferenceService/"
# Requests go round the streams by their slot, so that a sequence stays on one.
MAX_STREAMS: Final = 16
_FINAL: Final = "triton_final_response"

_COMPRESS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
}


class GrpcClient:
    """A server's gRPC port."""

    def __init__(
        self,
        address: tuple[str, int],
        clock: Callable[[], int],
        *,
        tls: ssl.SSLContext | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        compression: str = "none",
        is_streaming: bool = False,
    ) -> None:
        """Make a client, within a running loop; it connects when it is used.

        Args:
            address: Host and port.
            clock: The time, in nanoseconds.
            tls: How the server is trusted; None for plain text.
            headers: Metadata of every request.
            compression: Of requests: gzip, deflate or none.
            is_streaming: Whether requests go over streams.
        """
        self._url, self._clock = f"{address[0]}:{address[1]}", clock
        self._headers = tuple((name.lower(), value) for name, value in headers)
        self._channel = GrpcChannel(*address, clock, tls)
        self._compress = _COMPRESS.get(compression)
        encoding = (("grpc-encoding", compression),) if self._compress else ()
        method = "ModelStreamInfer" if is_streaming else "ModelInfer"
        self._block = self._channel.block(_SERVICE + method, (*encoding, *self._headers))
        self._is_streaming = is_streaming
        self._is_decoupled = False
        self._streams: dict[int, _InferStream] = {}
        self._encoder: GrpcEncoder | None = None

    async def open(self, count: int) -> None:
        """Connect; one connection serves as many requests as the server takes at once.

        Raises:
            UnavailableError: The server cannot be reached.
        """
        del count
        try:
            await self._channel.open()
        except OSError as error:
            raise UnavailableError(f"cannot connect to {self._url}: {error}") from None

    async def close(self) -> None:
        """End calls and connections."""
        await self._channel.close()

    def encode(self, form: Form, row: Row, places: Places, part: SequencePart | None) -> Payload:
        """Encode a request; one that goes over a stream still lacks its id."""
        if self._encoder is None:
            self._is_decoupled = form.model.is_decoupled
            asks_for_final = self._is_streaming and self._is_decoupled
            self._encoder = GrpcEncoder(form, asks_for_final=asks_for_final)
        payload = self._encoder.encode(row, places, part)
        return payload if self._is_streaming else Payload(self._framed(payload.wire), row.expected)

    def send(self, request: Request, listener: Listener) -> None:
        """Send a request."""
        if self._is_streaming:
            self._stream(request.slot % MAX_STREAMS).send(request, listener)
        else:
            call = _Unary(self._clock, request, listener)
            self._channel.unary(self._block, request.payload.wire, call.call)
        request.send_ns = self._clock() - request.start_ns

    def _framed(self, raw: bytes) -> bytes:
        if self._compress:
            return message(self._compress(raw), is_compressed=True)
        return message(raw)

    def _stream(self, number: int) -> "_InferStream":
        stream = self._streams.get(number)
        if stream is None or stream.is_broken:
            stream = self._streams[number] = _InferStream(
                self._framed, self._clock, is_decoupled=self._is_decoupled
            )
            stream.wire = self._channel.stream(self._block, stream.call)
        return stream

    async def metadata(self, model: Model) -> Mapping[str, Any]:
        """Return the model's metadata.

        Raises:
            UnavailableError: The server refuses, or cannot be reached.
        """
        return await self._ask("ModelMetadata", name=model.name, version=model.version)

    async def config(self, model: Model) -> Mapping[str, Any]:
        """Return the model's config; raises as `metadata` does."""
        answer = await self._ask("ModelConfig", name=model.name, version=model.version)
        config: Mapping[str, Any] = answer.get("config", {})
        return config

    async def statistics(self, model: Model | None = None) -> Mapping[str, Any]:
        """Return the statistics of a model or of all; raises as `metadata` does."""
        which = {"name": model.name, "version": model.version} if model else {}
        return await self._ask("ModelStatistics", **which)

    async def set_tracing(self, model: Model, settings: Mapping[str, str]) -> None:
        """Change settings of the model's traces; raises as `metadata` does."""
        value = service_pb2.TraceSettingRequest.SettingValue
        changed = {name: value(value=[text]) for name, text in settings.items()}
        await self._ask("TraceSetting", model_name=model.name, settings=changed)

    async def register_memory(self, name: str, key: str, size_bytes: int) -> None:
        """Register a region of system shared memory; raises as `metadata` does."""
        await self._ask(
            "SystemSharedMemoryRegister", name=name, key=key, offset=0, byte_size=size_bytes
        )

    async def unregister_memory(self, name: str) -> None:
        """Unregister a region; raises as `metadata` does."""
        await self._ask("SystemSharedMemoryUnregister", name=name)

    async def _ask(self, method: str, **fields: Any) -> dict[str, Any]:
        """Call a method of the service with a message of these fields."""
        question = getattr(service_pb2, f"{method}Request")(**fields)
        came: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        answers: list[bytes] = []
        call = Call(
            lambda _, raw: answers.append(raw),
            lambda status, text: came.set_result(status_text(status, text)),
        )
        block = self._channel.block(_SERVICE + method, self._headers)
        self._channel.unary(block, message(question.SerializeToString()), call)
        error = await came
        if error or not answers:
            raise UnavailableError(f"{method} at {self._url}: {error or 'there is no answer'}")
        answer = getattr(service_pb2, f"{method}Response").FromString(answers[0])
        found: dict[str, Any] = MessageToDict(answer, preserving_proto_field_name=True)
        return found


class _Unary:
    """A request under way in a call of its own."""

    __slots__ = ("_clock", "_listener", "_request", "call")

    def __init__(self, clock: Callable[[], int], request: Request, listener: Listener) -> None:
        self._clock, self._request, self._listener = clock, request, listener
        self.call = Call(self._message, self._end)

    def _message(self, call: Call, raw: bytes) -> None:
        request, now_ns = self._request, self._clock()
        request.receive_ns = now_ns - call.first_ns
        if request.payload.expected:
            response = service_pb2.ModelInferResponse.FromString(raw)
            request.error = mismatch(request.payload.expected, outputs_of(response))
        self._listener.responded(request, now_ns)

    def _end(self, status: int, text: str) -> None:
        request = self._request
        request.error = request.error or status_text(status, text)
        self._listener.ended(request, self._clock())


class _InferStream:
    """One bidirectional stream; responses find their requests by their ids."""

    def __init__(
        self,
        framed: Callable[[bytes], bytes],
        clock: Callable[[], int],
        *,
        is_decoupled: bool,
    ) -> None:
        self._framed, self._clock, self._is_decoupled = framed, clock, is_decoupled
        self._ids = itertools.count(1)
        self._open: dict[str, tuple[Request, Listener]] = {}
        self.call = Call(self._message, self._broken)
        self.wire: Stream
        self.is_broken = False

    def send(self, request: Request, listener: Listener) -> None:
        """Send a request."""
        request_id = str(next(self._ids))
        self._open[request_id] = (request, listener)
        self.wire.send(self._framed(request.payload.wire + id_message(request_id)))

    def _broken(self, status: int, text: str) -> None:
        self.is_broken = True
        reason = status_text(status, text) or "the stream was closed by the server"
        for request_id in list(self._open):
            self._end(request_id, self._clock(), reason)

    def _message(self, call: Call, raw: bytes) -> None:
        del call
        now_ns = self._clock()
        answer = service_pb2.ModelStreamInferResponse.FromString(raw)
        response = answer.infer_response
        request_id = response.id
        if request_id not in self._open:
            # An error without an id is of whoever waits longest.
            if not (answer.error_message and self._open) or request_id:
                return
            request_id = next(iter(self._open))
        request, listener = self._open[request_id]
        if answer.error_message:
            self._end(request_id, now_ns, answer.error_message)
            return
        is_final = not self._is_decoupled or response.parameters[_FINAL].bool_param
        if response.outputs or not self._is_decoupled:
            if request.payload.expected and not request.error:
                request.error = mismatch(request.payload.expected, outputs_of(response))
            if request.contents is not None:
                request.contents.append(raw)
            listener.responded(request, now_ns)
        if is_final:
            self._end(request_id, now_ns, request.error)

    def _end(self, request_id: str, now_ns: int, error: str) -> None:
        request, listener = self._open.pop(request_id)
        request.error = error
        listener.ended(request, now_ns)
