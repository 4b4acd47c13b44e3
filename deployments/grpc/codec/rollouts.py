# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The messages of manta.v1.Rollouts; docs/rollouts.proto says what they are.

A rollout travels as a google.protobuf.Struct, so that HTTP and gRPC have one document, and what one
release adds to it an older client shows.
"""

import functools
from typing import Any, Final

from google.protobuf import descriptor_pool, message_factory, struct_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import DecodeError

from backends.api.errors import InternalError
from deployments.grpc.codec.request import MALFORMED

_PACKAGE: Final = "manta.v1"

RPCS: Final = (
    "GetRollout",
    "SetRollout",
    "EndRollout",
    "PromoteRollout",
    "PauseRollout",
    "ResumeRollout",
    "RollBackRollout",
)


def _field(name: str, number: int, kind: int, type_name: str = "") -> dict[str, Any]:
    field = {
        "name": name,
        "number": number,
        "type": kind,
        "label": FieldDescriptorProto.LABEL_OPTIONAL,
    }
    return field | ({"type_name": type_name} if type_name else {})


_STRUCT: Final = ".google.protobuf.Struct"

FILE: Final = FileDescriptorProto(
    name="manta/v1/rollouts.proto",
    package=_PACKAGE,
    syntax="proto3",
    dependency=["google/protobuf/struct.proto"],
    message_type=[
        {
            "name": "RolloutRequest",
            "field": [
                _field("model_name", 1, FieldDescriptorProto.TYPE_STRING),
                _field("rollout", 2, FieldDescriptorProto.TYPE_MESSAGE, _STRUCT),
            ],
        },
        {
            "name": "RolloutResponse",
            "field": [_field("rollout", 1, FieldDescriptorProto.TYPE_MESSAGE, _STRUCT)],
        },
    ],
    service=[
        {
            "name": "Rollouts",
            "method": [
                {
                    "name": name,
                    "input_type": f".{_PACKAGE}.RolloutRequest",
                    "output_type": f".{_PACKAGE}.RolloutResponse",
                }
                for name in RPCS
            ],
        }
    ],
)


@functools.cache
def message(name: str) -> Any:
    """Return the class of a message, for example ``RolloutRequest``."""
    pool = descriptor_pool.DescriptorPool()
    for file in (struct_pb2.DESCRIPTOR.serialized_pb, FILE.SerializeToString()):
        pool.AddSerializedFile(file)
    descriptor = pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")
    return message_factory.GetMessageClass(descriptor)


def parse(data: bytes | memoryview) -> tuple[str, dict[str, Any]]:
    """Return the model and the rollout of a RolloutRequest; numbers that are whole as int.

    Raises:
        InternalError: The bytes are no such message.
    """
    try:
        request = message("RolloutRequest").FromString(bytes(data))
    except DecodeError:
        raise InternalError(MALFORMED) from None
    document = MessageToDict(request, preserving_proto_field_name=True).get("rollout", {})
    return request.model_name, _whole(document)


def render(rollout: dict[str, Any]) -> bytes:
    """Render a RolloutResponse."""
    return bytes(ParseDict({"rollout": rollout}, message("RolloutResponse")()).SerializeToString())


def _whole(value: Any) -> Any:
    """Undo that a Struct knows no integers."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
