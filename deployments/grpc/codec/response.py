# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""`InferenceResponse` to ModelInferResponse and ModelStreamInferResponse.

Fields of a protobuf message may come in any order and messages may be concatenated. So names and
shapes, which repeat from response to response, are serialised once, and id, parameters and tensors
are appended to them. Tensors of large responses are handed on as they are.

Triton: server/src/grpc/infer_handler.cc, stream_infer_handler.cc @e1db8a6
"""

from collections.abc import Mapping
from typing import Final

from backends.api.errors import InvalidArgumentError, TritonError
from backends.api.quoting import MOST_TEXT_CHARACTERS, shorten
from backends.api.request import InferenceResponse, ParameterValue
from deployments.grpc.codec.messages import service_pb2
from deployments.grpc.codec.wire import varint
from deployments.http2.frames import Buffer

FINAL_KEY: Final = "triton_final_response"

# gRPC's own bound on a message.
_SIZE_LIMIT_BYTES: Final = 2**31 - 1
# Below this, joining costs less than the system call per buffer that it saves.
_JOIN_BELOW_BYTES: Final = 65536
_HEAD_COUNT_LIMIT: Final = 1024
_INT64_MAX: Final = 2**63 - 1

_ID_TAG: Final = bytes((3 << 3 | 2,))
_RAW_TAG: Final = bytes((6 << 3 | 2,))
_STREAMED_TAG: Final = bytes((2 << 3 | 2,))


def _parameters(parameters: Mapping[str, ParameterValue]) -> bytes:
    message = service_pb2.ModelInferResponse()
    for key, value in parameters.items():
        target = message.parameters[key]
        if isinstance(value, bool):
            target.bool_param = value
        elif isinstance(value, int) and value > _INT64_MAX:
            target.uint64_param = value
        elif isinstance(value, int):
            target.int64_param = value
        elif isinstance(value, float):
            target.double_param = value
        else:
            target.string_param = value
    return bytes(message.SerializeToString())


_FINAL: Final = {flag: _parameters({FINAL_KEY: flag}) for flag in (False, True)}


class ResponseEncoder:
    """Encodes responses and remembers the parts of them that repeat.

    Args:
        max_bytes: Bound on a message, by default gRPC's own.
    """

    __slots__ = ("_heads", "_max_bytes", "_tags")

    def __init__(self, max_bytes: int = _SIZE_LIMIT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._heads: dict[tuple[object, ...], bytes] = {}
        # Tag and length of a tensor, by its size.
        self._tags: dict[int, bytes] = {}

    def encode(self, response: InferenceResponse) -> bytes | list[Buffer]:
        """Return a ModelInferResponse, whole or as buffers to be sent one behind the other.

        Raises:
            InvalidArgumentError: The message would be larger than gRPC can carry.
        """
        parts: list[Buffer] = []
        size = self._append(parts, response)
        return b"".join(parts) if size < _JOIN_BELOW_BYTES else parts

    def encode_streamed(self, response: InferenceResponse, *, final: bool) -> bytes | list[Buffer]:
        """Return a ModelStreamInferResponse that says whether it is its request's last.

        Raises:
            InvalidArgumentError: The message would be larger than gRPC can carry.
        """
        mark = _FINAL[final]
        parts: list[Buffer] = [b"", mark]
        size = self._append(parts, response) + len(mark)
        parts[0] = _STREAMED_TAG + varint(size)
        return b"".join(parts) if size < _JOIN_BELOW_BYTES else parts

    def _append(self, parts: list[Buffer], response: InferenceResponse) -> int:
        head = self._head(response)
        parts.append(head)
        size = len(head)
        if response.id:
            raw_id = response.id.encode()
            raw_id = _ID_TAG + varint(len(raw_id)) + raw_id
            parts.append(raw_id)
            size += len(raw_id)
        if response.parameters:
            parameters = _parameters(response.parameters)
            parts.append(parameters)
            size += len(parameters)
        for output in response.outputs:
            data = output.data
            length = data.nbytes
            prefix = self._tags.get(length) or self._tag(length)
            parts.append(prefix)
            parts.append(data)
            size += len(prefix) + length
        if size > self._max_bytes:
            raise InvalidArgumentError(
                f"Response has byte size {size} which exceeds gRPC's byte size limit "
                f"{self._max_bytes}."
            )
        return size

    def _tag(self, length: int) -> bytes:
        if len(self._tags) >= _HEAD_COUNT_LIMIT:
            self._tags.clear()
        tag = self._tags[length] = _RAW_TAG + varint(length)
        return tag

    def _head(self, response: InferenceResponse) -> bytes:
        key: list[object] = [response.model_name, response.model_version]
        for output in response.outputs:
            key += (output.name, output.datatype, output.shape)
        known = tuple(key)
        head = self._heads.get(known)
        if head is None:
            message = service_pb2.ModelInferResponse(
                model_name=response.model_name, model_version=response.model_version
            )
            for output in response.outputs:
                message.outputs.add(name=output.name, datatype=output.datatype, shape=output.shape)
            head = bytes(message.SerializeToString())
            if len(self._heads) >= _HEAD_COUNT_LIMIT:
                self._heads.clear()
            self._heads[known] = head
        return head


def encode_empty_final(request_id: str, model_name: str) -> bytes:
    """Return the streamed response that only says that a request has no further ones."""
    message = service_pb2.ModelStreamInferResponse()
    message.infer_response.id = request_id
    message.infer_response.model_name = model_name
    message.infer_response.parameters[FINAL_KEY].bool_param = True
    return bytes(message.SerializeToString())


def _text(error: TritonError) -> str:
    return shorten(error.message, MOST_TEXT_CHARACTERS)


def encode_rejection(error: TritonError, request_id: str) -> bytes:
    """Return the streamed error of a request that was not accepted."""
    message = service_pb2.ModelStreamInferResponse(error_message=_text(error))
    message.infer_response.id = request_id
    return bytes(message.SerializeToString())


def encode_failure(
    error: TritonError, request_id: str, model_name: str, *, final: bool = True
) -> bytes:
    """Return a streamed error of a request that was accepted."""
    message = service_pb2.ModelStreamInferResponse(error_message=_text(error))
    message.infer_response.id = request_id
    message.infer_response.model_name = model_name
    message.infer_response.parameters[FINAL_KEY].bool_param = final
    return bytes(message.SerializeToString())
