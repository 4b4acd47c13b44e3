# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Server reflection: which services there are and what their messages look like.

Triton has none; tools such as grpcurl need it. Requests and responses of v1 and v1alpha differ in
the name of their package only, so one codec serves both.
"""

import functools
from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf import struct_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError

from backends.api.errors import GRPC_STATUS, InternalError, InvalidArgumentError, NotFoundError
from deployments.grpc.codec.messages import model_config_pb2, reflection_pb2, service_pb2
from deployments.grpc.codec.request import MALFORMED
from deployments.grpc.codec.rollouts import FILE as ROLLOUTS

_OLD_PACKAGE: Final = "grpc.reflection.v1alpha"
_NEW_PACKAGE: Final = "grpc.reflection.v1"

# https://github.com/grpc/grpc-proto/blob/master/grpc/health/v1/health.proto
_STATUS_TYPE: Final = ".grpc.health.v1.HealthCheckResponse.ServingStatus"
_HEALTH: Final = FileDescriptorProto(
    name="grpc/health/v1/health.proto",
    package="grpc.health.v1",
    syntax="proto3",
    message_type=[
        {
            "name": "HealthCheckRequest",
            "field": [
                {
                    "name": "service",
                    "number": 1,
                    "type": FieldDescriptorProto.TYPE_STRING,
                    "label": FieldDescriptorProto.LABEL_OPTIONAL,
                }
            ],
        },
        {
            "name": "HealthCheckResponse",
            "enum_type": [
                {
                    "name": "ServingStatus",
                    "value": [
                        {"name": "UNKNOWN", "number": 0},
                        {"name": "SERVING", "number": 1},
                        {"name": "NOT_SERVING", "number": 2},
                        {"name": "SERVICE_UNKNOWN", "number": 3},
                    ],
                }
            ],
            "field": [
                {
                    "name": "status",
                    "number": 1,
                    "type": FieldDescriptorProto.TYPE_ENUM,
                    "type_name": _STATUS_TYPE,
                    "label": FieldDescriptorProto.LABEL_OPTIONAL,
                }
            ],
        },
    ],
    service=[
        {
            "name": "Health",
            "method": [
                {
                    "name": name,
                    "input_type": ".grpc.health.v1.HealthCheckRequest",
                    "output_type": ".grpc.health.v1.HealthCheckResponse",
                    "server_streaming": name == "Watch",
                }
                for name in ("Check", "Watch")
            ],
        }
    ],
)


class _Index:
    """The files by their names and by the symbols they define."""

    def __init__(self, files: Iterable[FileDescriptorProto]) -> None:
        self.by_name = {file.name: file for file in files}
        self.by_symbol = {
            symbol: file for file in self.by_name.values() for symbol in _symbols(file)
        }
        self.messages = {
            full
            for file in self.by_name.values()
            for full, _ in _nested(file.package, file.message_type)
        }
        self.services = sorted(
            f"{file.package}.{service.name}"
            for file in self.by_name.values()
            for service in file.service
        )

    def with_imports(self, file: FileDescriptorProto) -> list[bytes]:
        """Return a file and all it imports, serialised, each before what it imports."""
        found = {file.name: file}
        waiting = list(file.dependency)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = self.by_name[name]
                waiting += found[name].dependency
        return [each.SerializeToString() for each in found.values()]


def _symbols(file: FileDescriptorProto) -> Iterator[str]:
    for service in file.service:
        full = f"{file.package}.{service.name}"
        yield full
        yield from (f"{full}.{method.name}" for method in service.method)
    for enum in file.enum_type:
        yield f"{file.package}.{enum.name}"
    for full, message in _nested(file.package, file.message_type):
        yield full
        yield from (f"{full}.{each.name}" for each in (*message.field, *message.enum_type))


def _nested(scope: str, messages: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield messages, and those defined within them, with their full names."""
    for message in messages:
        full = f"{scope}.{message.name}"
        yield full, message
        yield from _nested(full, message.nested_type)


def _file_of(module: Any) -> FileDescriptorProto:
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file


def _newer(old: FileDescriptorProto) -> FileDescriptorProto:
    """Return v1 of the reflection service, given v1alpha."""
    new = FileDescriptorProto()
    new.CopyFrom(old)
    new.name = "grpc/reflection/v1/reflection.proto"
    new.package = _NEW_PACKAGE
    for message in new.message_type:
        for field in message.field:
            if field.type_name:
                field.type_name = field.type_name.replace(_OLD_PACKAGE, _NEW_PACKAGE)
    for method in new.service[0].method:
        method.input_type = method.input_type.replace(_OLD_PACKAGE, _NEW_PACKAGE)
        method.output_type = method.output_type.replace(_OLD_PACKAGE, _NEW_PACKAGE)
    return new


@functools.cache
def _index() -> _Index:
    old = _file_of(reflection_pb2)
    inference = (_file_of(service_pb2), _file_of(model_config_pb2))
    rollouts = (ROLLOUTS, _file_of(struct_pb2))
    return _Index((*inference, _HEALTH, old, _newer(old), *rollouts))


def answer(data: bytes | memoryview) -> bytes:
    """Answer a ServerReflectionRequest with a ServerReflectionResponse.

    Raises:
        InternalError: The request is malformed.
        InvalidArgumentError: It asks for nothing.
    """
    try:
        request = reflection_pb2.ServerReflectionRequest.FromString(bytes(data))
    except DecodeError:
        raise InternalError(MALFORMED) from None
    kind = request.WhichOneof("message_request")
    if kind is None:
        raise InvalidArgumentError(
            "ServerReflectionRequest without message_request, expected one of its five fields"
        )
    response = reflection_pb2.ServerReflectionResponse(
        valid_host=request.host, original_request=request
    )
    try:
        _ANSWERS[kind](response, getattr(request, kind))
    except NotFoundError as error:
        response.error_response.error_code = GRPC_STATUS[NotFoundError.code]
        response.error_response.error_message = error.message
    encoded: bytes = response.SerializeToString()
    return encoded


def _list_services(response: Any, _asked: str) -> None:
    for name in _index().services:
        response.list_services_response.service.add(name=name)


def _file_by_name(response: Any, name: str) -> None:
    _add_files(response, _index().by_name.get(name), f"file '{name}'")


def _file_of_symbol(response: Any, symbol: str) -> None:
    _add_files(response, _index().by_symbol.get(symbol), f"symbol '{symbol}'")


def _add_files(response: Any, file: FileDescriptorProto | None, what: str) -> None:
    if file is None:
        raise NotFoundError(f"{what} is not known to this server")
    response.file_descriptor_response.file_descriptor_proto.extend(_index().with_imports(file))


def _file_of_extension(response: Any, asked: Any) -> None:
    del response
    raise NotFoundError(
        f"extension {asked.extension_number} of '{asked.containing_type}': no message here has any"
    )


def _extension_numbers(response: Any, name: str) -> None:
    if name not in _index().messages:
        raise NotFoundError(f"message '{name}' is not known to this server")
    response.all_extension_numbers_response.base_type_name = name


_ANSWERS: Final = {
    "list_services": _list_services,
    "file_by_filename": _file_by_name,
    "file_containing_symbol": _file_of_symbol,
    "file_containing_extension": _file_of_extension,
    "all_extension_numbers_of_type": _extension_numbers,
}
