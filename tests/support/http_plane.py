# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A data plane of a few models that live in the test, and a client that speaks raw bytes."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig, ModelInput, ModelOutput
from backends.api.request import (
    InferenceRequest,
    InferenceResponse,
    Tensor,
    tensor_as_numpy,
    tensor_from_numpy,
)
from deployments.contracts.sinks import ResponseSink
from deployments.http.kserve.application import HttpIngress
from deployments.http.kserve.compression import Compression
from deployments.http.server.host import HttpLimits
from deployments.http.server.server import HttpServer
from deployments.shared_memory.regions import place_outputs
from deployments.supervision.memory_budget import MemoryBudget
from tests.support.memory_plane import FakeModel, MemoryPlane

Model = Callable[[InferenceRequest], list[Tensor]]


def add_sub(request: InferenceRequest) -> list[Tensor]:
    first, second = (tensor_as_numpy(each) for each in request.inputs)
    return [
        tensor_from_numpy("OUTPUT0", np.add(first, second)),
        tensor_from_numpy("OUTPUT1", np.subtract(first, second)),
    ]


def identity(request: InferenceRequest) -> list[Tensor]:
    given = request.inputs[0]
    return [Tensor("OUTPUT0", given.datatype, given.shape, given.data)]


def simple_config() -> ModelConfig:
    return ModelConfig(
        "simple",
        platform="python",
        max_batch_size=8,
        input=tuple(ModelInput(f"INPUT{i}", "INT32", (16,)) for i in range(2)),
        output=tuple(ModelOutput(f"OUTPUT{i}", "INT32", (16,)) for i in range(2)),
    )


def identity_config(datatype: str) -> ModelConfig:
    return ModelConfig(
        f"id_{datatype.lower()}",
        platform="python",
        max_batch_size=8,
        input=(ModelInput("INPUT0", datatype, (-1,)),),
        output=(ModelOutput("OUTPUT0", datatype, (-1,)),),
    )


class Slabs:
    """Hands out ordinary memory and remembers it."""

    def __init__(self) -> None:
        self.allocated: list[tuple[int, int]] = []
        self.is_full = False

    def allocate(self, size_bytes: int, align_at: int = 0) -> memoryview | None:
        self.allocated.append((size_bytes, align_at))
        return None if self.is_full else memoryview(bytearray(size_bytes))


class Pending:
    """A request the plane holds until the test lets it go."""

    def __init__(self, plane: "FakePlane", served: FakeModel, request: InferenceRequest, sink: Any):
        self.plane = plane
        self.served = served
        self.request = request
        self.sink: ResponseSink = sink
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True
        self.plane.changed.set()

    def finish(self) -> None:
        try:
            outputs = self.served.execute(self.request)
        except TritonError as error:
            self.sink.fail(error)
            return
        if self.request.outputs:
            outputs = [each for each in outputs if each.name in self.request.outputs]
        response = InferenceResponse(self.served.name, "1", self.request.id, outputs)
        try:
            place_outputs(response, self.request.regions or {}, self.plane.memory)
        except TritonError as error:
            self.sink.fail(error)
        else:
            self.sink.respond(response, final=True)


class FakePlane(MemoryPlane):
    """The plane; ``is_holding`` keeps requests in ``pending`` until `release`."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ready = True
        self.is_holding = False
        self.slabs = Slabs()
        self.pending: list[Pending] = []
        self.requests: list[InferenceRequest] = []
        self.changed = asyncio.Event()
        self.add(simple_config(), add_sub)
        for datatype in ("FP32", "FP64", "FP16", "BYTES", "INT8", "UINT8", "BOOL", "INT64"):
            self.add(identity_config(datatype), identity)

    def add(self, config: ModelConfig, run: Model) -> FakeModel:
        served = self.models[config.name] = FakeModel(config, run)
        return served

    def server_ready(self) -> bool:
        return self.is_ready

    def server_metadata(self) -> dict[str, Any]:
        return {"name": "triton", "version": "2.73.0", "extensions": []}

    async def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        return {"model_stats": [{"name": name, "version": version}]}

    async def metrics_text(self) -> bytes:
        return b"# TYPE nv_inference_count counter\n"

    async def recent_metrics_text(self) -> bytes:
        return await self.metrics_text()

    def _begin(self, model: Any, request: InferenceRequest, sink: ResponseSink) -> Pending:
        pending = Pending(self, model, request, sink)
        self.requests.append(request)
        if self.is_holding:
            self.pending.append(pending)
            self.changed.set()
        else:
            pending.finish()
        return pending

    async def wait_pending(self, count: int) -> None:
        while len(self.pending) < count:
            self.changed.clear()
            await self.changed.wait()

    async def wait_cancelled(self, pending: Pending) -> None:
        while not pending.is_cancelled:
            self.changed.clear()
            await self.changed.wait()


class Answer:
    """One parsed response."""

    def __init__(self, status: int, version: str, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.version = version
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"])


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes, piece_bytes: int = 0) -> None:
        step = piece_bytes or max(len(data), 1)
        for start in range(0, len(data), step):
            self.writer.write(data[start : start + step])
            with contextlib.suppress(ConnectionError):
                await self.writer.drain()
            if piece_bytes:
                await asyncio.sleep(0)

    async def answer(self, *, is_head: bool = False) -> Answer:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        status_line, *lines = head.rstrip().split("\r\n")
        version, status, _ = status_line.split(" ", 2)
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        length = 0 if is_head else int(headers.get("content-length", 0))
        return Answer(int(status), version, headers, await self.reader.readexactly(length))

    async def rest(self) -> bytes:
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""

    async def call(self, data: bytes) -> Answer:
        await self.send(data)
        return await self.answer()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


class Running:
    """A listening server."""

    def __init__(self, plane: FakePlane, server: HttpServer, port: int) -> None:
        self.plane = plane
        self.server = server
        self.port = port
        self.clients: list[Client] = []

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        return client


@contextlib.asynccontextmanager
async def running(
    limits: HttpLimits | None = None,
    max_input_bytes: int = 1 << 26,
    budget: MemoryBudget | None = None,
    threads: Executor | None = None,
    plane: FakePlane | None = None,
) -> AsyncIterator[Running]:
    plane = plane or FakePlane()
    budget = budget or MemoryBudget(1 << 32)
    compression = Compression(budget, max_input_bytes, threads)
    ingress = HttpIngress(plane, max_input_bytes, compression=compression)
    server = HttpServer(ingress, limits, budget=budget)
    here = Running(plane, server, await server.start("127.0.0.1", 0))
    try:
        yield here
    finally:
        for client in here.clients:
            await client.close()
        server.close()
        await server.wait_drained(5)


def request(
    method: str, path: str, body: bytes = b"", headers: tuple[str, ...] = (), version: str = "1.1"
) -> bytes:
    lines = [f"{method} {path} HTTP/{version}", "Host: test", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def simple_body(**extra: Any) -> dict[str, Any]:
    inputs = [
        {"name": f"INPUT{i}", "datatype": "INT32", "shape": [1, 16], "data": list(range(16))}
        for i in range(2)
    ]
    return {"inputs": inputs, **extra}


def post(path: str, body: Any, headers: tuple[str, ...] = ()) -> bytes:
    return request("POST", path, json.dumps(body).encode(), headers)


def binary_request(path: str, header: Any, *tensors: bytes, extra: tuple[str, ...] = ()) -> bytes:
    text = json.dumps(header).encode()
    length = f"Inference-Header-Content-Length: {len(text)}"
    return request("POST", path, text + b"".join(tensors), (length, *extra))


INFER = "/v2/models/simple/infer"
LIVE = request("GET", "/v2/health/live")
LARGE = 300_000


def chunked(body: bytes, chunk_bytes: int) -> bytes:
    pieces = [body[i : i + chunk_bytes] for i in range(0, len(body), chunk_bytes)]
    coded = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return request("POST", INFER, headers=("Transfer-Encoding: chunked",)) + coded + b"0\r\n\r\n"


def large_request(count: int = LARGE // 4, extra: tuple[str, ...] = ()) -> tuple[bytes, bytes]:
    tensor = bytes(range(256)) * (count * 4 // 256 + 1)
    tensor = tensor[: count * 4]
    header = {
        "inputs": [
            {
                "name": "INPUT0",
                "datatype": "FP32",
                "shape": [1, count],
                "parameters": {"binary_data_size": len(tensor)},
            }
        ],
        "parameters": {"binary_data_output": True},
    }
    return binary_request("/v2/models/id_fp32/infer", header, tensor, extra=extra), tensor
