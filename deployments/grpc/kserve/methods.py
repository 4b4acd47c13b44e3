# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The RPCs that ask about the server or change it: everything but inference.

Triton: server/src/grpc/grpc_server.cc @e1db8a6
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from backends.api.errors import NotFoundError, UnavailableError
from deployments.data_plane.face import Plane
from deployments.grpc.codec import control as codec
from deployments.grpc.kserve.settings import SETTINGS_HANDLERS
from deployments.grpc.kserve.unary_call import UnaryAnswer

Handler = Callable[[Plane, Any], UnaryAnswer]

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


def control(plane: Plane, rpc: str, data: bytes | memoryview) -> UnaryAnswer:
    """Answer a call of an RPC, a key of `HANDLERS`.

    Raises:
        TritonError: What the RPC says.
    """
    try:
        return HANDLERS[rpc](plane, codec.parse(rpc, data))
    except (NotFoundError, UnavailableError):
        if rpc not in _OF_CONFIGS:
            raise
        first_use = plane.first_use(codec.parse(rpc, data).name)
        if first_use is None:
            raise
    return _after(first_use, plane, rpc, data)


async def _after(
    first_use: Awaitable[None], plane: Plane, rpc: str, data: bytes | memoryview
) -> bytes:
    """Answer once a model is loaded that is loaded by its first use."""
    await first_use
    answer = HANDLERS[rpc](plane, codec.parse(rpc, data))
    return answer if isinstance(answer, bytes) else await answer
