# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The RPCs of trace settings, log settings and shared memory.

Triton: server/src/grpc/grpc_server.cc @e1db8a6
"""

from collections.abc import Callable
from typing import Any, Final

from deployments.data_plane.face import Plane
from deployments.grpc.codec import settings as codec
from deployments.grpc.kserve.unary_call import UnaryAnswer

_EMPTY: Final = b""


async def _trace_setting(plane: Plane, request: Any) -> bytes:
    settings = plane.settings
    # That a model does not exist is said before its settings are looked at.
    settings.trace(request.model_name)
    change = codec.read_trace_change(request)
    return codec.render_trace(await settings.change_trace(request.model_name, change))


async def _log_settings(plane: Plane, request: Any) -> bytes:
    change = codec.read_log_change(request)
    return codec.render_log(await plane.settings.change_log(change))


def _system_status(plane: Plane, request: Any) -> bytes:
    return codec.render_system_regions(plane.settings.regions(request.name))


async def _register_system(plane: Plane, request: Any) -> bytes:
    await plane.settings.register_system(
        request.name, request.key, request.offset, request.byte_size
    )
    return _EMPTY


async def _unregister_system(plane: Plane, request: Any) -> bytes:
    await plane.settings.unregister(request.name)
    return _EMPTY


def _cuda_status(plane: Plane, request: Any) -> bytes:
    return codec.render_cuda_regions(plane.settings.regions(request.name, is_cuda=True))


async def _register_cuda(plane: Plane, request: Any) -> bytes:
    await plane.settings.register_cuda(
        request.name, request.raw_handle, request.device_id, request.byte_size
    )
    return _EMPTY


async def _unregister_cuda(plane: Plane, request: Any) -> bytes:
    await plane.settings.unregister(request.name, is_cuda=True)
    return _EMPTY


SETTINGS_HANDLERS: Final[dict[str, Callable[[Plane, Any], UnaryAnswer]]] = {
    "SystemSharedMemoryStatus": _system_status,
    "SystemSharedMemoryRegister": _register_system,
    "SystemSharedMemoryUnregister": _unregister_system,
    "CudaSharedMemoryStatus": _cuda_status,
    "CudaSharedMemoryRegister": _register_cuda,
    "CudaSharedMemoryUnregister": _unregister_cuda,
    "TraceSetting": _trace_setting,
    "LogSettings": _log_settings,
}
