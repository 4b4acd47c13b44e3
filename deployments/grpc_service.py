# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""GRPCInferenceService over the data plane, whatever transport carries it.

A transport calls `GrpcService.start` for each call, drives the `RpcCall` it gets and gives an
`RpcReply` that takes the answer. Everything happens on one event loop and by plain calls: a task
per request would cost more than the rest of the request.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from deployments.grpc_calls import Metadata, RpcCall, RpcReply
from deployments.grpc_infer import InferCall, InferContext, StreamCall
from deployments.grpc_methods import HANDLERS, ControlCall
from deployments.protocol.grpc_wire import Buffer

if TYPE_CHECKING:
    from deployments.data_plane import DataPlane

# A transport needs no other import.
__all__ = [
    "HEALTH_PATH",
    "INFER_PATH",
    "PATHS",
    "STREAM_PATH",
    "Buffer",
    "GrpcService",
    "Metadata",
    "RpcCall",
    "RpcReply",
]

_PREFIX: Final = b"/inference.GRPCInferenceService/"

INFER_PATH: Final = _PREFIX + b"ModelInfer"
STREAM_PATH: Final = _PREFIX + b"ModelStreamInfer"
HEALTH_PATH: Final = b"/grpc.health.v1.Health/Check"

_CONTROL: Final = {
    HEALTH_PATH if rpc == "Check" else _PREFIX + rpc.encode(): rpc for rpc in HANDLERS
}
PATHS: Final = frozenset((INFER_PATH, STREAM_PATH, *_CONTROL))


class GrpcService:
    """The RPCs, by path.

    Args:
        plane: What they ask.
        header_forward_pattern: ``--grpc-header-forward-pattern``.

    Raises:
        InvalidArgumentError: The pattern is no regular expression.
    """

    def __init__(self, plane: "DataPlane", *, header_forward_pattern: str = "") -> None:
        self._context = InferContext(plane, header_forward_pattern)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, path: bytes, metadata: Metadata, reply: RpcReply) -> RpcCall | None:
        """Begin a call.

        Args:
            path: The ``:path`` header, for example ``/inference.GRPCInferenceService/ModelInfer``.
            metadata: Request headers without pseudo headers, names in lower case.
            reply: Where the answer goes.

        Returns:
            The call to drive, or None when there is no such method: the transport answers
            UNIMPLEMENTED.
        """
        if path == INFER_PATH:
            return InferCall(self._context, metadata, reply)
        if path == STREAM_PATH:
            return StreamCall(self._context, metadata, reply)
        rpc = _CONTROL.get(path)
        return None if rpc is None else ControlCall(self._context.plane, rpc, reply, self._tasks)
