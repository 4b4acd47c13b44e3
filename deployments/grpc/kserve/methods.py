# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The RPCs that ask about the server or change it: everything but inference.

Triton: server/src/grpc/grpc_server.cc @e1db8a6
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from backends.api.errors import (
    GRPC_STATUS,
    InternalError,
    NotFoundError,
    TritonError,
    UnavailableError,
)
from deployments.data_plane.face import Plane
from deployments.grpc.codec import control as codec
from deployments.grpc.kserve.settings import SETTINGS_HANDLERS
from deployments.grpc.rpc.service import RpcReply

logger = logging.getLogger(__name__)

Handler = Callable[[Plane, Any], bytes | Coroutine[Any, Any, bytes]]

# The messages of these RPCs have no fields, or none that need to be set.
_EMPTY: Final = b""


def _refuse_when_exiting(plane: Plane) -> None:
    if plane.exiting:
        raise UnavailableError("Server exiting")


def _check(plane: Plane, _request: Any) -> bytes:
    _refuse_when_exiting(plane)
    return codec.SERVING if plane.server_ready() else codec.NOT_SERVING


def _server_live(plane: Plane, _request: Any) -> bytes:
    _refuse_when_exiting(plane)
    return codec.render_flag(value=plane.server_live())


def _server_ready(plane: Plane, _request: Any) -> bytes:
    _refuse_when_exiting(plane)
    return codec.render_flag(value=plane.server_ready())


async def _model_ready(plane: Plane, request: Any) -> bytes:
    _refuse_when_exiting(plane)
    try:
        is_ready = plane.model_ready(request.name, request.version) and (
            await plane.says_ready(request.name, request.version)
        )
    except (NotFoundError, UnavailableError):
        # Where HTTP answers with an error, gRPC has a field to say it in.
        is_ready = plane.is_unread(request.name)
    return codec.render_flag(value=is_ready)


def _server_metadata(plane: Plane, _request: Any) -> bytes:
    return codec.render_server_metadata(plane.server_metadata())


def _model_metadata(plane: Plane, request: Any) -> bytes:
    return codec.render_model_metadata(plane.model_metadata(request.name, request.version))


def _model_config(plane: Plane, request: Any) -> bytes:
    config = plane.model_config(request.name, request.version)
    return codec.render_model_config(config.message)


async def _model_statistics(plane: Plane, request: Any) -> bytes:
    return codec.render_statistics(await plane.statistics(request.name, request.version))


async def _repository_index(plane: Plane, request: Any) -> bytes:
    codec.check_repository(request)
    return codec.render_index(await plane.repository.index(ready_only=request.ready))


async def _repository_load(plane: Plane, request: Any) -> bytes:
    codec.check_repository(request)
    await plane.repository.load(request.model_name, codec.load_parameters(request))
    return _EMPTY


async def _repository_unload(plane: Plane, request: Any) -> bytes:
    codec.check_repository(request)
    await plane.repository.unload(
        request.model_name, unload_dependents=codec.unload_dependents(request)
    )
    return _EMPTY


HANDLERS: Final[dict[str, Handler]] = {
    "Check": _check,
    "ServerLive": _server_live,
    "ServerReady": _server_ready,
    "ModelReady": _model_ready,
    "ServerMetadata": _server_metadata,
    "ModelMetadata": _model_metadata,
    "ModelConfig": _model_config,
    "ModelStatistics": _model_statistics,
    "RepositoryIndex": _repository_index,
    "RepositoryModelLoad": _repository_load,
    "RepositoryModelUnload": _repository_unload,
    **SETTINGS_HANDLERS,
}


# What they answer with is known once the model was loaded.
_OF_CONFIGS: Final = frozenset(("ModelMetadata", "ModelConfig"))


class ControlCall:
    """One call of a unary RPC other than ModelInfer.

    Args:
        plane: What the handlers ask.
        rpc: Name of the RPC, a key of `HANDLERS`.
        reply: Where the answer goes.
        tasks: Holds the tasks of calls that have to wait; a client that leaves does not stop them,
            so a load runs to its end.
    """

    __slots__ = ("_ended", "_plane", "_reply", "_rpc", "_started", "_tasks")

    def __init__(
        self, plane: Plane, rpc: str, reply: RpcReply, tasks: set[asyncio.Task[None]]
    ) -> None:
        self._plane = plane
        self._rpc = rpc
        self._reply = reply
        self._tasks = tasks
        self._started = False
        self._ended = False

    def message(self, data: bytes | memoryview) -> None:
        """Run the handler."""
        if self._started or self._ended:
            return
        self._started = True
        try:
            answer = HANDLERS[self._rpc](self._plane, codec.parse(self._rpc, data))
        except TritonError as error:
            first_use = self._first_use(data, error)
            if first_use is None:
                self._fail(error)
                return
            answer = self._after(first_use, data)
        except Exception as cause:
            self._fail(self._fault(cause))
            return
        if isinstance(answer, bytes):
            self._complete(answer)
            return
        task = asyncio.get_running_loop().create_task(self._wait(answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _first_use(self, data: bytes | memoryview, error: TritonError) -> Awaitable[None] | None:
        """Return what loads the model that is asked about, if it is loaded by its first use."""
        if self._rpc not in _OF_CONFIGS or not isinstance(error, NotFoundError | UnavailableError):
            return None
        return self._plane.first_use(codec.parse(self._rpc, data).name)

    async def _after(self, first_use: Awaitable[None], data: bytes | memoryview) -> bytes:
        await first_use
        answer = HANDLERS[self._rpc](self._plane, codec.parse(self._rpc, data))
        return answer if isinstance(answer, bytes) else await answer

    def half_closed(self) -> None:
        """A unary call without a request is an error, as it is in gRPC's own servers."""
        if not self._started:
            self._fail(InternalError("the call ended without a request message"))

    def cancelled(self) -> None:
        """The answer is no longer wanted."""
        self._ended = True

    async def _wait(self, answer: Coroutine[Any, Any, bytes]) -> None:
        try:
            self._complete(await answer)
        except TritonError as error:
            self._fail(error)
        except Exception as cause:
            self._fail(self._fault(cause))

    def _complete(self, answer: bytes) -> None:
        if not self._ended:
            self._ended = True
            self._reply.complete(answer)

    def _fail(self, error: TritonError) -> None:
        if not self._ended:
            self._ended = True
            self._reply.finish(GRPC_STATUS[error.code], error.message)

    def _fault(self, error: Exception) -> TritonError:
        logger.error("gRPC call %s failed", self._rpc, exc_info=error)
        return InternalError(f"{type(error).__name__}: {error}")
