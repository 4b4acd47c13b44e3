# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The messages of all RPCs but inference: parsed, checked and rendered.

Triton: server/src/grpc/grpc_server.cc @e1db8a6
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError

from backends.api.errors import InternalError, InvalidArgumentError, UnsupportedError
from backends.api.request import ParameterValue
from deployments.grpc.codec.messages import service_pb2
from deployments.grpc.codec.request import MALFORMED
from deployments.grpc.codec.wire import varint

# grpc.health.v1.HealthCheckResponse with field 1, an enum, set.
SERVING: Final = b"\x08\x01"
NOT_SERVING: Final = b"\x08\x02"

_CONFIG_TAG: Final = bytes((1 << 3 | 2,))
_CONFIG_KEY: Final = "config"
_FILE_PREFIX: Final = "file:"

# Health's request has one string field of no consequence, as ModelReadyRequest's name is.
_REQUESTS: Final = {
    "Check": service_pb2.ModelReadyRequest,
    **{
        name: getattr(service_pb2, f"{name}Request")
        for name in (
            "ServerLive",
            "ServerReady",
            "ModelReady",
            "ServerMetadata",
            "ModelMetadata",
            "ModelConfig",
            "ModelStatistics",
            "RepositoryIndex",
            "RepositoryModelLoad",
            "RepositoryModelUnload",
            "SystemSharedMemoryStatus",
            "SystemSharedMemoryRegister",
            "SystemSharedMemoryUnregister",
            "CudaSharedMemoryStatus",
            "CudaSharedMemoryRegister",
            "CudaSharedMemoryUnregister",
            "TraceSetting",
            "LogSettings",
        )
    },
}


def parse(rpc: str, data: bytes | memoryview) -> Any:
    """Parse the request of an RPC.

    Raises:
        InternalError: The bytes are no such message.
    """
    try:
        return _REQUESTS[rpc].FromString(bytes(data))
    except DecodeError:
        raise InternalError(MALFORMED) from None


def render_flag(*, value: bool) -> bytes:
    """Render ServerLiveResponse, ServerReadyResponse or ModelReadyResponse: all have one bool."""
    return bytes(service_pb2.ServerLiveResponse(live=value).SerializeToString())


def render_server_metadata(metadata: Mapping[str, Any]) -> bytes:
    """Render ServerMetadataResponse from the HTTP endpoint's JSON."""
    return bytes(ParseDict(metadata, service_pb2.ServerMetadataResponse()).SerializeToString())


def render_model_metadata(metadata: Mapping[str, Any]) -> bytes:
    """Render ModelMetadataResponse from the HTTP endpoint's JSON."""
    message = ParseDict(metadata, service_pb2.ModelMetadataResponse(), ignore_unknown_fields=True)
    return bytes(message.SerializeToString())


def render_model_config(config: bytes) -> bytes:
    """Render ModelConfigResponse around a serialised `inference.ModelConfig`."""
    return b"".join((_CONFIG_TAG, varint(len(config)), config))


def render_statistics(statistics: Mapping[str, Any]) -> bytes:
    """Render ModelStatisticsResponse from the HTTP endpoint's JSON."""
    message = ParseDict(
        statistics, service_pb2.ModelStatisticsResponse(), ignore_unknown_fields=True
    )
    return bytes(message.SerializeToString())


def render_index(index: Sequence[Mapping[str, str]]) -> bytes:
    """Render RepositoryIndexResponse."""
    message = service_pb2.RepositoryIndexResponse()
    for row in index:
        message.models.add(
            name=row["name"],
            version=row.get("version", ""),
            state=row.get("state", ""),
            reason=row.get("reason", ""),
        )
    return bytes(message.SerializeToString())


def check_repository(request: Any) -> None:
    """Refuse a repository name, which Triton's API has and nobody implements.

    Raises:
        UnsupportedError: The request names a repository.
    """
    if request.repository_name:
        raise UnsupportedError("'repository_name' specification is not supported")


def load_parameters(request: Any) -> dict[str, ParameterValue | bytes]:
    """Return the parameters of a RepositoryModelLoadRequest.

    Returns:
        ``config`` as str and each ``file:<path>`` as bytes.

    Raises:
        InvalidArgumentError: A parameter is unknown or has the wrong type.
    """
    parameters: dict[str, ParameterValue | bytes] = {}
    for key, value in request.parameters.items():
        if key == _CONFIG_KEY:
            expected = "string_param"
        elif key.startswith(_FILE_PREFIX):
            expected = "bytes_param"
        else:
            raise InvalidArgumentError(f"unrecognized load parameter '{key}'.")
        if value.WhichOneof("parameter_choice") != expected:
            raise InvalidArgumentError(
                f"invalid value type for load parameter '{key}', expected {expected}."
            )
        parameters[key] = getattr(value, expected)
    return parameters


def unload_dependents(request: Any) -> bool:
    """Return whether a RepositoryModelUnloadRequest asks for dependents to be unloaded too.

    Raises:
        InvalidArgumentError: The parameter is no bool.
    """
    if "unload_dependents" not in request.parameters:
        return False
    value = request.parameters["unload_dependents"]
    if value.WhichOneof("parameter_choice") != "bool_param":
        raise InvalidArgumentError(
            "invalid value type for 'unload_dependents' parameter, expected bool_param."
        )
    return bool(value.bool_param)
