# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""GRPCInferenceService over the data plane, whatever transport carries it.

A transport calls `GrpcService.start` for each call, drives the `RpcCall` it gets and gives an
`RpcReply` that takes the answer. Everything happens on one event loop and by plain calls: a task
per request would cost more than the rest of the request.
"""

import asyncio
from functools import partial
from typing import Final

from deployments.data_plane.face import Plane
from deployments.grpc.codec.request import tensor_offset
from deployments.grpc.kserve.health import WATCH_PATH, WatchCall
from deployments.grpc.kserve.infer import InferCall, InferContext
from deployments.grpc.kserve.methods import HANDLERS, control
from deployments.grpc.kserve.reflection import REFLECTION_PATHS, ReflectionCall
from deployments.grpc.kserve.rollouts import ROLLOUT_PATHS, rollout
from deployments.grpc.kserve.stream_infer import StreamCall
from deployments.grpc.kserve.unary_call import UnaryCall
from deployments.grpc.rpc.service import Metadata, RpcCall, RpcReply, RpcService
from deployments.security.restrictions import (
    RESTRICTED_PREFIX,
    RestrictedRoutes,
    Restrictions,
)
from deployments.supervision.supervisor import Supervisor

_PREFIX: Final = b"/inference.GRPCInferenceService/"

INFER_PATH: Final = _PREFIX + b"ModelInfer"
STREAM_PATH: Final = _PREFIX + b"ModelStreamInfer"
# Methods with tensors in their messages.
INFERENCE_PATHS: Final = frozenset((INFER_PATH, STREAM_PATH))
HEALTH_PATH: Final = b"/grpc.health.v1.Health/Check"

_CONTROL: Final = {
    HEALTH_PATH if rpc == "Check" else _PREFIX + rpc.encode(): rpc for rpc in HANDLERS
}
# Paths whose calls have more than one message.
STREAM_PATHS: Final = frozenset((STREAM_PATH, WATCH_PATH, *REFLECTION_PATHS))
PATHS: Final = frozenset((INFER_PATH, *STREAM_PATHS, *_CONTROL, *ROLLOUT_PATHS))

# The restricted category of each RPC.
_CATEGORIES: Final = {
    **dict.fromkeys(("ModelInfer", "ModelStreamInfer"), "inference"),
    **dict.fromkeys(("Check", "Watch", "ServerLive", "ServerReady", "ModelReady"), "health"),
    **dict.fromkeys(("ServerMetadata", "ModelMetadata", "ServerReflectionInfo"), "metadata"),
    "ModelConfig": "model-config",
    "ModelStatistics": "statistics",
    "TraceSetting": "trace",
    "LogSettings": "logging",
}
_UNAVAILABLE: Final = 14


def category_of(path: bytes) -> str:
    """Return the restricted category of an RPC."""
    rpc = path.rpartition(b"/")[2].decode("ascii", "replace")
    if rpc.startswith("Repository") or path in ROLLOUT_PATHS:
        return "model-repository"
    if "SharedMemory" in rpc:
        return "shared-memory"
    return _CATEGORIES.get(rpc, "")


class RunningCalls:
    """What holds the tasks of calls, also of a caller whose service is kept no more.

    Attributes:
        control: Of calls that ask or change something.
        inference: Of calls that wait for a model.
    """

    def __init__(self) -> None:
        self.control: set[asyncio.Task[None]] = set()
        self.inference = Supervisor("gRPC inference")


class GrpcService:
    """The RPCs, by path.

    Args:
        plane: What they ask.
        header_forward_pattern: ``--grpc-header-forward-pattern``.
        hidden: Names of metadata that are never forwarded.
        running: What outlives calls; shared by the services of one port's callers.

    Attributes:
        context: What its inference calls share.

    Raises:
        InvalidArgumentError: The pattern is no regular expression.
    """

    def __init__(
        self,
        plane: Plane,
        *,
        header_forward_pattern: str = "",
        hidden: frozenset[bytes] = frozenset(),
        running: "RunningCalls | None" = None,
    ) -> None:
        running = running or RunningCalls()
        self.context = InferContext(
            plane, header_forward_pattern, hidden=hidden, tasks=running.inference
        )
        self._tasks = running.control

    def start(self, path: bytes, metadata: Metadata, reply: RpcReply) -> RpcCall | None:
        """Begin a call; see `RpcService`."""
        if path == INFER_PATH:
            return InferCall(self.context, metadata, reply)
        if path == STREAM_PATH:
            return StreamCall(self.context, metadata, reply)
        rpc = _CONTROL.get(path)
        if rpc is not None:
            return UnaryCall(rpc, partial(control, self.context.plane, rpc), reply, self._tasks)
        action = ROLLOUT_PATHS.get(path)
        if action is not None:
            handle = partial(rollout, self.context.plane, action)
            return UnaryCall(f"{action} of a rollout", handle, reply, self._tasks)
        if path == WATCH_PATH:
            return WatchCall(self.context.plane, reply)
        return ReflectionCall(reply) if path in REFLECTION_PATHS else None

    def allocate(self, path: bytes, size_bytes: int, first: memoryview) -> memoryview | None:
        """Return slab memory for a large message; see `RpcService`."""
        if path not in INFERENCE_PATHS:
            return None
        return self.context.plane.slabs.allocate(size_bytes, tensor_offset(first))


class RestrictedService:
    """A service some of whose RPCs need a secret in their metadata.

    As in Triton (src/grpc/stream_infer_handler.cc and infer_handler.cc of
    triton-inference-server/server) a stream is refused when it is opened, a unary call when its
    request is there.

    Args:
        service: What calls with the secret get to.
        restrictions: ``--grpc-restricted-protocol``.
    """

    def __init__(self, service: RpcService, restrictions: Restrictions) -> None:
        self._service = service
        self._restricted = RestrictedRoutes(
            (protocols, RESTRICTED_PREFIX + key, value) for protocols, key, value in restrictions
        )

    def start(self, path: bytes, metadata: Metadata, reply: RpcReply) -> RpcCall | None:
        """Begin a call, unless it lacks the metadata its protocol asks for."""
        header = self._restricted.missing(category_of(path), metadata)
        if not header:
            return self._service.start(path, metadata, reply)
        refused = _RefusedCall(reply, f"This protocol is restricted, expecting header '{header}'")
        if path in STREAM_PATHS:
            refused.half_closed()
        return refused

    def allocate(self, path: bytes, size_bytes: int, first: memoryview) -> memoryview | None:
        """Return memory for a large message of the service."""
        return self._service.allocate(path, size_bytes, first)


def make_grpc_service(
    plane: Plane, restrictions: Restrictions = (), *, header_forward_pattern: str = ""
) -> RpcService:
    """Return the RPCs, restricted if need be.

    Raises:
        InvalidArgumentError: The pattern is no regular expression.
    """
    service = GrpcService(plane, header_forward_pattern=header_forward_pattern)
    return RestrictedService(service, restrictions) if restrictions else service


class _RefusedCall:
    """A call that ends with an error as soon as the client has asked for something."""

    __slots__ = ("_details", "_reply")

    def __init__(self, reply: RpcReply, details: str) -> None:
        self._reply: RpcReply | None = reply
        self._details = details

    def message(self, data: bytes | memoryview) -> None:
        """Refuse."""
        del data
        self.half_closed()

    def refuse_message(self, first: bytes | memoryview, details: str) -> bool:
        """End with the refusal."""
        del first, details
        return False

    def half_closed(self) -> None:
        """Refuse."""
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.finish(_UNAVAILABLE, self._details)

    def cancelled(self) -> None:
        """Nobody waits for the refusal."""
        self._reply = None
