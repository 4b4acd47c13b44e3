# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The HTTP/2 server on loopback with stock clients."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import grpc.aio
import numpy as np
import pytest
import tritonclient.grpc as triton
import uvloop
from tritonclient.grpc import service_pb2

from deployments.grpc.rpc.service import RpcReply
from deployments.grpc.server.http2_server import Http2Server
from deployments.http2.limits import Http2Limits
from deployments.security.tls import TlsFiles
from tests.support.certificates import make_certificates
from tests.support.http2_peer import (
    RecordingCall,
    RecordingService,
)

TRITON = b"/inference.GRPCInferenceService/"
UNLIMITED = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
]
SIZES = [0, 1, 250, 16_379, 16_384, 65_535, 1_000_003, 32 << 20]


class _TritonCall(RecordingCall):
    """A server with one model that gives back its first input."""

    def message(self, data: bytes | memoryview) -> None:
        request = service_pb2.ModelInferRequest.FromString(bytes(data))
        response = service_pb2.ModelInferResponse(model_name=request.model_name, id=request.id)
        for tensor in request.inputs:
            response.outputs.add(name="OUT", datatype=tensor.datatype, shape=tensor.shape)
        response.raw_output_contents.extend(request.raw_input_contents)
        if self.path.endswith(b"ModelStreamInfer"):
            stream_response = service_pb2.ModelStreamInferResponse(infer_response=response)
            self.reply.send(stream_response.SerializeToString())
        else:
            self.reply.complete(response.SerializeToString())

    def half_closed(self) -> None:
        if self.path.endswith(b"ModelStreamInfer"):
            self.reply.finish()


class _LiveCall(RecordingCall):
    def half_closed(self) -> None:
        self.reply.complete(service_pb2.ServerLiveResponse(live=True).SerializeToString())


class _Service(RecordingService):
    def __init__(self) -> None:
        super().__init__()
        self.cancelled = threading.Event()

    def start(self, path: bytes, metadata, reply: RpcReply) -> RecordingCall | None:
        if path == TRITON + b"ServerLive":
            return _LiveCall(path, metadata, reply)
        if path.startswith(TRITON):
            return _TritonCall(path, metadata, reply)
        rpc = super().start(path, metadata, reply)
        if rpc is not None:
            rpc.cancelled = self.cancelled.set
        return rpc


class _Running:
    """A server on a uvloop in a thread of its own, for clients that block."""

    def __init__(self, limits: Http2Limits | None = None, tls: TlsFiles | None = None) -> None:
        self.service = _Service()
        self.server: Http2Server
        self.port = 0
        self._limits = limits
        self._tls = tls
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: uvloop.run(self._main()))

    def __enter__(self) -> "_Running":
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.server = Http2Server(self.service, limits=self._limits, tls=self._tls)
        self.port = await self.server.start("127.0.0.1", 0)
        self._ready.set()
        await self._stop.wait()
        self.server.close()
        await self.server.wait_drained(5)


@pytest.fixture(scope="module")
def running() -> Iterator[_Running]:
    with _Running() as server:
        yield server


@pytest.fixture
def channel(running: _Running) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(running.address, UNLIMITED) as opened:
        yield opened


def _payload(size: int) -> bytes:
    return (bytes(range(251)) * (size // 251 + 1))[:size]


@pytest.mark.parametrize("size", SIZES)
def test_grpcio_gets_messages_of_any_size_back(channel: grpc.Channel, size: int) -> None:
    payload = _payload(size)
    assert channel.unary_unary("/test.Service/Echo")(payload) == payload


def test_grpcio_streams_both_ways(channel: grpc.Channel) -> None:
    sent = [_payload(size) for size in (0, 1, 100_000, 5, 3_000_000, 70_000) * 5]
    assert list(channel.stream_stream("/test.Service/Bidi")(iter(sent))) == sent


@pytest.mark.parametrize("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_grpcio_may_compress(channel: grpc.Channel, algorithm: grpc.Compression) -> None:
    echo = channel.unary_unary("/test.Service/Echo")
    payload = b"text " * 100_000
    assert echo(payload, compression=algorithm) == payload


def test_grpcio_sees_the_status_of_an_unknown_method(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/test.Service/Unknown")(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_many_threads_share_a_channel(channel: grpc.Channel) -> None:
    echo = channel.unary_unary("/test.Service/Echo")
    payloads = [b"%d" % number * (number % 50) for number in range(400)]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(echo, payloads)) == payloads


def test_a_deadline_ends_the_call_on_both_sides(running: _Running, channel: grpc.Channel) -> None:
    running.service.cancelled.clear()
    # Of a busy machine the first may not reach the server in time.
    for timeout_s in (0.05, 0.5, 20):
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/test.Service/Wait")(b"", timeout=timeout_s)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        if running.service.cancelled.wait(timeout_s):
            return
    pytest.fail("the service's side goes on")


def test_a_cancel_reaches_the_service(running: _Running, channel: grpc.Channel) -> None:
    running.service.cancelled.clear()
    answers = channel.stream_stream("/test.Service/Bidi")(iter([b"x"] * 3))
    assert next(answers) == b"x"
    waiting = channel.unary_unary("/test.Service/Wait").future(b"")
    # A call that is answered later has reached the server later.
    channel.unary_unary("/test.Service/Echo")(b"")
    waiting.cancel()
    assert running.service.cancelled.wait(20)


def test_a_message_over_the_limit_is_resource_exhausted() -> None:
    with (
        _Running(Http2Limits(max_receive_message_bytes=1000)) as server,
        grpc.insecure_channel(server.address, UNLIMITED) as channel,
    ):
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/test.Service/Echo")(bytes(1_000_000))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert caught.value.details() == (
            "SERVER: Received message larger than max (1000000 vs. 1000)"
        )
        assert channel.unary_unary("/test.Service/Echo")(b"ok") == b"ok"


def test_more_calls_than_streams_all_succeed() -> None:
    with (
        _Running(Http2Limits(max_concurrent_streams=3)) as server,
        grpc.insecure_channel(server.address, UNLIMITED) as channel,
    ):
        echo = channel.unary_unary("/test.Service/Echo")
        futures = [echo.future(b"%d" % number) for number in range(200)]
        assert [future.result() for future in futures] == [b"%d" % n for n in range(200)]


async def test_grpc_aio_runs_many_calls_over_several_connections(running: _Running) -> None:
    async def client(number: int) -> None:
        async with grpc.aio.insecure_channel(running.address, UNLIMITED) as channel:
            echo = channel.unary_unary("/test.Service/Echo")
            payloads = [_payload(1000 * n + number) for n in range(100)]
            assert await asyncio.gather(*map(echo, payloads)) == payloads

    await asyncio.gather(*map(client, range(4)))


async def test_grpc_aio_streams_with_the_answers_setting_the_pace(running: _Running) -> None:
    async with grpc.aio.insecure_channel(running.address, UNLIMITED) as channel:
        stream = channel.stream_stream("/test.Service/Bidi")()
        for number in range(50):
            await stream.write(b"%d" % number)
            assert await stream.read() == b"%d" % number
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF
        assert await stream.code() is grpc.StatusCode.OK


def _infer_input(values: np.ndarray) -> list[triton.InferInput]:
    tensor = triton.InferInput("IN", list(values.shape), "FP32")
    tensor.set_data_from_numpy(values)
    return [tensor]


@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_the_triton_client_infers(running: _Running, compression: str | None) -> None:
    values = np.arange(150_528, dtype=np.float32)
    with triton.InferenceServerClient(running.address) as client:
        assert client.is_server_live()
        result = client.infer(
            "m", _infer_input(values), compression_algorithm=compression, client_timeout=20
        )
    np.testing.assert_array_equal(result.as_numpy("OUT"), values)


def test_the_triton_client_streams(running: _Running) -> None:
    results: list[str] = []
    done = threading.Event()

    def callback(result: triton.InferResult, error: Exception | None) -> None:
        assert error is None
        results.append(result.get_response().id)
        if len(results) == 20:
            done.set()

    with triton.InferenceServerClient(running.address) as client:
        client.start_stream(callback)
        for number in range(20):
            values = np.zeros(3, np.float32)
            client.async_stream_infer("m", _infer_input(values), request_id=str(number))
        assert done.wait(20)
        client.stop_stream()
    assert results == [str(number) for number in range(20)]


@pytest.mark.parametrize("size", [1, 1_000_003, 32 << 20])
def test_tls_with_alpn(tmp_path: Path, size: int) -> None:
    pems = make_certificates(tmp_path)
    certificate, key = map(str, pems.server)
    credentials = grpc.ssl_channel_credentials(pems.root.read_bytes())
    with (
        _Running(tls=TlsFiles("grpc", certificate, key)) as server,
        grpc.secure_channel(server.address, credentials, UNLIMITED) as channel,
    ):
        payload = _payload(size)
        assert channel.unary_unary("/test.Service/Echo")(payload) == payload
