# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N802 - methods have the service's names
"""Tiny servers of the V2 protocol, over HTTP and gRPC, that answer with what they were sent.

The model ``echo`` has the input IN and the output OUT. What they understood is kept, for tests of
clients.
"""

import asyncio
import contextlib
import json
import ssl
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2, service_pb2_grpc

METADATA: dict[str, Any] = {
    "name": "echo",
    "versions": ["1"],
    "inputs": [{"name": "IN", "datatype": "INT32", "shape": [-1, 4]}],
    "outputs": [{"name": "OUT", "datatype": "INT32", "shape": [-1, 4]}],
}


class Counters:
    """What the server counts, and what it was asked."""

    def __init__(self, **config: Any) -> None:
        self.config = {"name": "echo", "max_batch_size": 8, **config}
        self.headers: list[dict[str, Any]] = []
        self.http_headers: list[dict[str, str]] = []
        self.regions: dict[str, dict[str, Any]] = {}
        self.fails_with = self.stream_ends_with = ""
        self.served = 0
        self.traced: dict[str, Any] = {}
        self.metrics = 'nv_gpu_utilization{gpu_uuid="GPU-1"} 0.5\n'

    def statistics(self) -> dict[str, Any]:
        kinds = ("success", "queue", "compute_input", "compute_infer", "compute_output")
        row = {"count": self.served, "ns": 1000 * self.served}
        return {
            "model_stats": [
                {
                    "name": "echo",
                    "version": "1",
                    "inference_count": self.served,
                    "execution_count": self.served,
                    "inference_stats": dict.fromkeys(kinds, row),
                }
            ]
        }


class EchoHttpServer:
    """Answers over HTTP."""

    def __init__(
        self, counters: Counters, tls: ssl.SSLContext | None = None, *, closes: bool = False
    ) -> None:
        self._counters, self._tls, self._closes = counters, tls, closes
        self.connections = 0
        self._handlers: set[asyncio.Task[Any] | None] = set()

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aexit__(self, *ignored: object) -> None:
        self._server.close()
        await self._server.wait_closed()
        await asyncio.gather(*filter(None, self._handlers))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._handlers.add(asyncio.current_task())
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
                body = await reader.readexactly(int(fields["content-length"]))
                path = head[0].split(" ")[1]
                status, answer, extra = self._answer(path, fields, body)
                if self._closes:
                    extra += "Connection: close\r\n"
                start = f"HTTP/1.1 {status}\r\n{extra}Content-Length: {len(answer)}\r\n\r\n"
                writer.write(start.encode() + answer)
                if self._closes:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    def _answer(self, path: str, fields: dict[str, str], body: bytes) -> tuple[str, bytes, str]:
        counters = self._counters
        if path.endswith("/infer"):
            return self._infer(fields, body)
        if path == "/v2/models/echo/trace/setting":
            counters.traced = json.loads(body)
            return "200 OK", body, ""
        if path.startswith("/v2/systemsharedmemory/region/"):
            name, action = path.split("/")[-2:]
            if action == "register":
                counters.regions[name] = json.loads(body)
            else:
                del counters.regions[name]
            return "200 OK", b"", ""
        found = {
            "/v2/models/echo": METADATA,
            "/v2/models/echo/config": counters.config,
            "/v2/models/echo/stats": counters.statistics(),
            "/v2/models/stats": counters.statistics(),
            "/metrics": counters.metrics,
        }.get(path)
        if found is None:
            return "404 Not Found", b'{"error":"there is none"}', ""
        text = found if isinstance(found, str) else json.dumps(found)
        return "200 OK", text.encode(), ""

    def _infer(self, fields: dict[str, str], body: bytes) -> tuple[str, bytes, str]:
        counters = self._counters
        length = int(fields.get("inference-header-content-length", len(body)))
        header = json.loads(body[:length])
        counters.headers.append(header)
        counters.http_headers.append(fields)
        if counters.fails_with:
            return "400 Bad Request", json.dumps({"error": counters.fails_with}).encode(), ""
        counters.served += 1
        given = header["inputs"][0]
        output = {"name": "OUT", "datatype": "INT32", "shape": given["shape"]}
        if "data" in given:
            text = json.dumps({"outputs": [{**output, "data": given["data"]}]}).encode()
            return "200 OK", text, ""
        output["parameters"] = {"binary_data_size": len(body) - length}
        text = json.dumps({"outputs": [output]}).encode()
        extra = f"Inference-Header-Content-Length: {len(text)}\r\n"
        return "200 OK", text + body[length:], extra


class _Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    def __init__(self, counters: Counters, responses: int) -> None:
        self._counters, self._responses = counters, responses
        self.requests: list[Any] = []

    async def ServerLive(self, request: Any, context: Any) -> Any:
        return service_pb2.ServerLiveResponse(live=True)

    async def ModelMetadata(self, request: Any, context: Any) -> Any:
        answer = service_pb2.ModelMetadataResponse(name="echo", versions=["1"])
        for key, rows in (("inputs", answer.inputs), ("outputs", answer.outputs)):
            for row in METADATA[key]:
                rows.add(**row)
        return answer

    async def ModelConfig(self, request: Any, context: Any) -> Any:
        answer = service_pb2.ModelConfigResponse()
        answer.config.name, answer.config.max_batch_size = "echo", 8
        answer.config.model_transaction_policy.decoupled = self._responses != 1
        return answer

    async def ModelStatistics(self, request: Any, context: Any) -> Any:
        answer = service_pb2.ModelStatisticsResponse()
        row = answer.model_stats.add(name="echo", version="1")
        row.inference_count = row.inference_stats.success.count = self._counters.served
        return answer

    async def TraceSetting(self, request: Any, context: Any) -> Any:
        settings = request.settings.items()
        self._counters.traced = {name: list(setting.value) for name, setting in settings}
        return service_pb2.TraceSettingResponse()

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        if self._counters.fails_with:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self._counters.fails_with)
        return self._response(request)

    async def ModelStreamInfer(self, requests: Any, context: Any) -> Any:
        async for request in requests:
            self.requests.append(request)
            if self._counters.stream_ends_with:
                await context.abort(grpc.StatusCode.INTERNAL, self._counters.stream_ends_with)
            if self._counters.fails_with:
                answer = service_pb2.ModelStreamInferResponse()
                answer.error_message = self._counters.fails_with
                answer.infer_response.id = request.id
                yield answer
                continue
            for _ in range(self._responses):
                yield service_pb2.ModelStreamInferResponse(infer_response=self._response(request))
            if self._responses != 1:
                last = service_pb2.ModelInferResponse(id=request.id)
                last.parameters["triton_final_response"].bool_param = True
                yield service_pb2.ModelStreamInferResponse(infer_response=last)

    def _response(self, request: Any) -> Any:
        self._counters.served += 1
        answer = service_pb2.ModelInferResponse(id=request.id, model_name="echo")
        answer.outputs.add(name="OUT", datatype="INT32", shape=request.inputs[0].shape)
        answer.raw_output_contents.append(request.raw_input_contents[0])
        return answer


class EchoGrpcServer:
    """Answers over gRPC; with other than one response the model is decoupled."""

    def __init__(
        self,
        counters: Counters,
        responses: int = 1,
        credentials: grpc.ServerCredentials | None = None,
        options: Sequence[tuple[str, int]] = (),
    ) -> None:
        self.servicer = _Servicer(counters, responses)
        self._credentials, self._options = credentials, options

    async def __aenter__(self) -> int:
        self._server = grpc.aio.server(options=self._options)
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(self.servicer, self._server)
        if self._credentials:
            port: int = self._server.add_secure_port("127.0.0.1:0", self._credentials)
        else:
            port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return port

    async def __aexit__(self, *ignored: object) -> None:
        await self._server.stop(None)
