# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A small load generator over HTTP and gRPC, for what perf_analyzer cannot do.

perf_analyzer reports one distribution for all of its requests. Where short and long requests or two
priorities are mixed, the latency of one kind is what matters. And it sends neither gRPC's explicit
contents nor compressed bodies over HTTP. Each client is one connection with one request in flight.
"""

import asyncio
import itertools
import json
import time
import zlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import grpc.aio
import numpy as np
from tritonclient.grpc import service_pb2

OK: Final = 200
HOST: Final = "127.0.0.1"
# The period of the compressible floats.
RAMP: Final = 100
# Longer than any of the loads takes.
PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of request.

    Attributes:
        name: By which its latencies are reported.
        http: The bytes that are sent over HTTP, if any.
        grpc: The message that is sent over gRPC, if any.
    """

    name: str
    http: bytes = b""
    grpc: bytes = b""


def kind(name: str, model: str, shape: list[int], sleep_ms: float, priority: int = 0) -> Kind:
    """Return a request whose one input says how long the model sleeps."""
    given = {"priority": priority} if priority else {}
    tensor = {"name": "INPUT0", "shape": shape, "datatype": "FP32"}
    body = json.dumps({"inputs": [{**tensor, "data": [sleep_ms]}], "parameters": given}).encode()
    message = service_pb2.ModelInferRequest(
        model_name=model,
        inputs=[service_pb2.ModelInferRequest.InferInputTensor(**tensor)],
        raw_input_contents=[np.full(shape, sleep_ms, np.float32).tobytes()],
        parameters={
            key: service_pb2.InferParameter(uint64_param=value) for key, value in given.items()
        },
    )
    head = {"Content-Type": "application/json"}
    return Kind(name, _post(model, head, body), message.SerializeToString())


def _post(model: str, headers: dict[str, str], body: bytes) -> bytes:
    lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
    return (
        f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: {HOST}\r\n{lines}"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def explicit_integers(model: str) -> Kind:
    """Return a request of two inputs whose integers are fields of the message, not raw bytes."""
    tensors = [
        service_pb2.ModelInferRequest.InferInputTensor(
            name=name,
            datatype="INT32",
            shape=[1, 16],
            contents=service_pb2.InferTensorContents(int_contents=range(16)),
        )
        for name in ("INPUT0", "INPUT1")
    ]
    return _explicit(model, tensors)


def explicit_floats(model: str, count: int) -> Kind:
    """Return a request of one input whose floats are fields of the message, not raw bytes."""
    tensor = service_pb2.ModelInferRequest.InferInputTensor(
        name="INPUT0",
        datatype="FP32",
        shape=[count],
        contents=service_pb2.InferTensorContents(fp32_contents=range(count)),
    )
    return _explicit(model, [tensor])


def _explicit(model: str, tensors: list["service_pb2.ModelInferRequest.InferInputTensor"]) -> Kind:
    message = service_pb2.ModelInferRequest(model_name=model, inputs=tensors)
    return Kind("explicit", grpc=message.SerializeToString())


def compressed(model: str, coding: str, count: int) -> Kind:
    """Return a request of binary floats, compressed as its answer shall be.

    Args:
        model: That is asked.
        coding: ``gzip`` or ``deflate``.
        count: Floats, which count up to 99 again and again.
    """
    data = (np.arange(count, dtype=np.float32) % RAMP).tobytes()
    tensor = {"name": "INPUT0", "shape": [count], "datatype": "FP32"}
    inputs = [{**tensor, "parameters": {"binary_data_size": len(data)}}]
    header = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    # Both are zlib's format, with gzip's header or its own.
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | (16 if coding == "gzip" else 0))
    headers = {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(header)),
        "Content-Encoding": coding,
        "Accept-Encoding": coding,
    }
    body = packer.compress(header + data) + packer.flush()
    return Kind(coding, _post(model, headers, body))


class Client(Protocol):
    """One client, with a connection of its own."""

    async def ask(self, kind: Kind) -> None:
        """Send a request and read its answer; raises what went wrong."""

    async def close(self) -> None:
        """Close the connection."""


class HttpClient:
    """A client over HTTP.

    Args:
        reader: Of its connection.
        writer: Of its connection.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> "HttpClient":
        """Connect."""
        return cls(*await asyncio.open_connection(HOST, port))

    async def ask(self, kind: Kind) -> None:
        """Send a request and read its answer.

        Raises:
            RuntimeError: It was answered with an error.
        """
        self.send(kind)
        status = await self.status()
        if status != OK:
            raise RuntimeError(f"a {kind.name} request was answered with status {status}")

    def send(self, kind: Kind) -> None:
        """Send a request."""
        self._writer.write(kind.http)

    async def status(self) -> int:
        """Read an answer and return its status."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        # Not that of the header of the inference.
        length = int(head.split(b"\r\ncontent-length:", 1)[1].split(b"\r\n", 1)[0])
        await self._reader.readexactly(length)
        return int(head[9:12])

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        await self._writer.wait_closed()


class GrpcClient:
    """A client over gRPC; messages are sent as they were made, answers are not parsed.

    Args:
        channel: Its connection.
    """

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self._infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")

    @classmethod
    async def open(cls, port: int) -> "GrpcClient":
        """Connect."""
        alone = [("grpc.use_local_subchannel_pool", 1)]
        channel = grpc.aio.insecure_channel(f"{HOST}:{port}", options=alone)
        await channel.channel_ready()
        return cls(channel)

    async def ask(self, kind: Kind) -> None:
        """Send a request and read its answer; raises `grpc.aio.AioRpcError`."""
        await self._infer(kind.grpc)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()


CLIENTS: Final = {"http": HttpClient.open, "grpc": GrpcClient.open}


@dataclass(slots=True)
class Report:
    """What a load has measured.

    Attributes:
        latencies_s: By the kind's name, in the order of the answers.
        duration_s: Of the load.
    """

    latencies_s: dict[str, list[float]]
    duration_s: float

    def percentile_ms(self, name: str, share: float) -> float:
        """Return a percentile of a kind's latencies."""
        ordered = sorted(self.latencies_s[name])
        return 1e3 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    @property
    def throughput(self) -> float:
        """Answers per second."""
        return sum(map(len, self.latencies_s.values())) / self.duration_s


async def _closed_loop(
    protocol: str,
    port: int,
    clients: list[Callable[[], Kind]],
    warm_up_s: float,
    measure_s: float,
) -> Report:
    found: dict[str, list[float]] = defaultdict(list)
    begin = time.perf_counter() + warm_up_s
    end = begin + measure_s

    async def client(choose: Callable[[], Kind]) -> None:
        connection: Client = await CLIENTS[protocol](port)
        while (sent := time.perf_counter()) < end:
            chosen = choose()
            await connection.ask(chosen)
            if sent >= begin:
                found[chosen.name].append(time.perf_counter() - sent)
        await connection.close()

    async with asyncio.timeout(warm_up_s + measure_s + PATIENCE_S):
        await asyncio.gather(*map(client, clients))
    return Report(found, time.perf_counter() - begin)


def closed_loop(
    protocol: str,
    port: int,
    clients: list[Callable[[], Kind]],
    warm_up_s: float = 0.5,
    measure_s: float = 4.0,
) -> Report:
    """Load a server with clients that send as soon as they are answered.

    Args:
        protocol: A key of ``CLIENTS``.
        port: Of the server's endpoint of that protocol.
        clients: For each client, what chooses its next request.
        warm_up_s: How long requests are sent that are not counted.
        measure_s: How long requests are sent that are counted.

    Returns:
        The latencies.

    Raises:
        RuntimeError: A request failed over HTTP.
        grpc.aio.AioRpcError: A request failed over gRPC.
        TimeoutError: A request was not answered.
    """
    return asyncio.run(_closed_loop(protocol, port, clients, warm_up_s, measure_s))


def every_nth(count: int, rare: Kind, usual: Kind) -> Callable[[], Kind]:
    """Return what chooses ``rare`` for every ``count``-th request of all clients that share it."""
    numbers = itertools.count(1)
    return lambda: rare if next(numbers) % count == 0 else usual


async def _burst(port: int, asked: Kind, count: int) -> int:
    connections = [await HttpClient.open(port) for _ in range(count)]
    for connection in connections:
        connection.send(asked)
    async with asyncio.timeout(PATIENCE_S):
        statuses = await asyncio.gather(*(connection.status() for connection in connections))
    for connection in connections:
        await connection.close()
    return sum(status == OK for status in statuses)


def burst(port: int, asked: Kind, count: int) -> int:
    """Send requests at once, each on a connection of its own; return how many were accepted."""
    return asyncio.run(_burst(port, asked, count))
