# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What drives the gRPC service as a transport does."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tritonclient.grpc import service_pb2

from deployments.grpc.kserve.service import INFERENCE_PATHS, PATHS, STREAM_PATHS
from deployments.grpc.rpc.service import RpcService
from deployments.grpc.server.grpcio_server import GrpcioServer


def grpcio_server(
    service: RpcService, options: Mapping[str, int] | None = None, **more: Any
) -> GrpcioServer:
    return GrpcioServer(
        service,
        options,
        paths=PATHS,
        stream_paths=STREAM_PATHS,
        compressed_paths=INFERENCE_PATHS,
        **more,
    )


ZEROS = np.zeros(16, np.int32).tobytes()


class RecordedReply:
    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.status: int | None = None
        self.details = ""
        self.timeout_ns, self.retry_s = 0, 0.0
        self.done = asyncio.Event()

    def send(self, message: bytes | Sequence[bytes]) -> None:
        assert self.status is None
        self.messages.append(message if isinstance(message, bytes) else b"".join(message))

    def finish(self, status: int = 0, details: str = "", retry_s: float = 0.0) -> None:
        assert self.status is None, "finished twice"
        self.status, self.details, self.retry_s = status, details, retry_s
        self.done.set()

    def hold(self, count_bytes: int) -> None:
        """What an answer holds is nothing to it."""

    def let_go(self, count_bytes: int) -> None:
        """Nor is what it lets go."""

    def complete(self, message: bytes | Sequence[bytes]) -> None:
        self.send(message)
        self.finish()

    @property
    def streamed(self) -> list[Any]:
        return [service_pb2.ModelStreamInferResponse.FromString(each) for each in self.messages]


def rpc_path(rpc: str) -> bytes:
    return b"/inference.GRPCInferenceService/" + rpc.encode()


async def ask(service: Any, rpc: str, request: Any) -> tuple[int | None, str, Any]:
    """Run a unary RPC; return its status, details and parsed response."""
    reply = RecordedReply()
    call = service.start(rpc_path(rpc), [], reply)
    call.message(request.SerializeToString())
    call.half_closed()
    await reply.done.wait()
    kind = getattr(service_pb2, type(request).__name__.replace("Request", "Response"))
    return reply.status, reply.details, kind.FromString(b"".join(reply.messages))


def infer_request(
    model: str = "simple",
    rid: str = "",
    outputs: Sequence[tuple[str, int]] = (),
    parameters: Mapping[str, bool] | None = None,
    raw: Sequence[bytes] = (ZEROS, ZEROS),
) -> Any:
    request = service_pb2.ModelInferRequest(model_name=model, id=rid, raw_input_contents=list(raw))
    names = {"simple": ("INPUT0", "INPUT1"), "decoupled": ("COUNT",)}.get(model, ("IN",))
    for name in names:
        request.inputs.add(name=name, datatype="INT32", shape=[1, 16] if model == "simple" else [1])
    for name, classes in outputs:
        output = request.outputs.add(name=name)
        if classes:
            output.parameters["classification"].int64_param = classes
    for key, value in (parameters or {}).items():
        request.parameters[key].bool_param = value
    return request


def counted(model: str, number: int, rid: str = "", **keywords: Any) -> Any:
    raw = [np.array([number], np.int32).tobytes()]
    return infer_request(model, rid, raw=raw, **keywords)
