# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""ModelInferRequest to `InferenceRequest`.

Theory of operation. A client that sends the same kind of request again and again sends the same
bytes but for the id and the tensors. So those two are cut out of the message, and what remains, the
head, is decoded once and looked up by its bytes from then on. Tensors become views of the message;
those that are fields of it, `explicit_contents` reads. A head that names shared memory or breaks a
rule is decoded anew each time: such requests are rare or wrong.

Triton: server/src/grpc/infer_handler.cc, grpc_utils.cc @e1db8a6
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.message import DecodeError

from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from backends.api.request import (
    SEQUENCE_END,
    SEQUENCE_START,
    Extent,
    InferenceRequest,
    ParameterValue,
    Tensor,
    checked_correlation_id,
)
from deployments.grpc.codec.explicit_contents import Contents, cut_contents
from deployments.grpc.codec.messages import service_pb2
from deployments.grpc.codec.request_tensors import (
    SHARED_MEMORY_FIELDS,
    datatype_of,
    no_data,
    read_tensors,
    shared_memory_region,
)
from deployments.grpc.codec.wire import MalformedMessageError, find_content, split_fields

MALFORMED: Final = "Unable to parse request"
# Where the id of a message is looked for that is not read otherwise.
_ID_WITHIN_BYTES: Final = 1024
EMPTY_FINAL_KEY: Final = "triton_enable_empty_final_response"

_RAW_TAG: Final = 7 << 3 | 2
_ID_TAG: Final = 3 << 3 | 2
_RESERVED_PREFIX: Final = "triton_"
_UINT64_MASK: Final = 2**64 - 1

# Heads kept, and the largest kept: a cluster serves some hundred kinds of requests, a client that
# makes up new ones all the time must not cost memory.
_HEAD_COUNT_LIMIT: Final = 1024
_HEAD_SIZE_LIMIT_BYTES: Final = 4096
# Inputs of a message that are read before its model is known.
_EARLY_INPUT_COUNT: Final = 1024

_SEQUENCE_FLAGS: Final = {"sequence_start": SEQUENCE_START, "sequence_end": SEQUENCE_END}
_CUSTOM_KINDS: Final = frozenset(("int64_param", "bool_param", "string_param", "double_param"))


@dataclass(slots=True)
class _Head:
    """Everything in a message but id and raw tensors.

    Attributes:
        inputs: Name, datatype and shape of each input.
        message: The message, when inputs need more than their elements, or are very many.
        classes: Classification counts by output name.
        regions: Where outputs shall be written, by output name.
        problem: The rule the request breaks, raised once the model is known to exist.
    """

    model_name: str
    model_version: str
    inputs: list[tuple[str, str, tuple[int, ...]]] = field(default_factory=list)
    message: Any = None
    outputs: list[str] = field(default_factory=list)
    classes: dict[str, int] = field(default_factory=dict)
    regions: dict[str, Extent] = field(default_factory=dict)
    parameters: dict[str, ParameterValue] = field(default_factory=dict)
    priority: int = 0
    timeout_us: int = 0
    correlation_id: int | str = 0
    flags: int = 0
    wants_empty_final: bool = False
    problem: TritonError | None = None


class DecodedRequest:
    """A parsed ModelInferRequest whose model has not been looked up yet.

    Attributes:
        id: The client's request id.
    """

    __slots__ = ("_contents", "_head", "_raws", "id")

    def __init__(
        self,
        head: _Head,
        request_id: str,
        raws: Sequence[memoryview],
        contents: Sequence[Contents | None] = (),
    ) -> None:
        self._head = head
        self._raws = raws
        self._contents = contents
        self.id = request_id

    @property
    def model_name(self) -> str:
        """Model asked for."""
        return self._head.model_name

    @property
    def model_version(self) -> str:
        """Version asked for, as the client wrote it; empty lets the version policy choose."""
        return self._head.model_version

    @property
    def classes(self) -> Mapping[str, int]:
        """Classification counts by output name."""
        return self._head.classes

    @property
    def wants_empty_final(self) -> bool:
        """Whether a stream shall also carry a final response without tensors."""
        return self._head.wants_empty_final

    @property
    def input_count(self) -> int:
        """Number of inputs."""
        head = self._head
        return len(head.inputs) if head.message is None else len(head.message.inputs)

    def build(self, model_version: int) -> InferenceRequest:
        """Return the request; its tensors are views of the message.

        Args:
            model_version: The version that was chosen.

        Raises:
            InvalidArgumentError: A parameter or the data of an input is wrong.
        """
        head, raws = self._head, self._raws
        if head.problem is not None:
            raise head.problem
        regions: dict[str, Extent] | None = None
        if head.message is not None:
            tensors = read_tensors(head.message, raws)
            if head.regions or any(each.extent is not None for each in tensors):
                regions = head.regions
        elif self._contents:
            tensors = self._explicit_tensors()
        elif len(raws) < len(head.inputs):
            raise no_data(head.inputs[len(raws)][0], head.model_name)
        else:
            tensors = [
                Tensor(name, datatype, shape, raw)
                for (name, datatype, shape), raw in zip(head.inputs, raws, strict=False)
            ]
        return InferenceRequest(
            head.model_name,
            model_version,
            self.id,
            tensors,
            head.outputs.copy(),
            head.parameters.copy(),
            head.priority,
            head.timeout_us,
            head.correlation_id,
            head.flags,
            regions,
        )

    def _explicit_tensors(self) -> list[Tensor]:
        head = self._head
        tensors: list[Tensor] = []
        for (name, datatype, shape), contents in zip(head.inputs, self._contents, strict=True):
            if contents is None:
                raise no_data(name, head.model_name)
            data = contents.wire_bytes(name, datatype, head.model_name)
            tensors.append(Tensor(name, datatype, shape, data))
        return tensors


class RequestDecoder:
    """Decodes ModelInferRequest messages and remembers their heads."""

    __slots__ = ("_explicit_heads", "_heads", "_last_head", "_last_key")

    def __init__(self) -> None:
        self._heads: dict[bytes, _Head] = {}
        # By messages whose contents are emptied.
        self._explicit_heads: dict[bytes, _Head] = {}
        # A head that lay whole at the beginning of its message; mostly the next one does too.
        self._last_key = b""
        self._last_head: _Head | None = None

    def decode(self, data: bytes | memoryview) -> DecodedRequest:
        """Parse a message.

        Args:
            data: The message; must stay unchanged as long as the request lives.

        Raises:
            InternalError: The bytes are no ModelInferRequest.
        """
        try:
            last = self._last_head
            if last is not None and bytes(data[: len(self._last_key)]) == self._last_key:
                parts = split_fields(data, _RAW_TAG, _ID_TAG, len(self._last_key))
                if parts is not None and not parts[1] and not parts[2]:
                    return DecodedRequest(last, "", parts[0])
            parts = split_fields(data, _RAW_TAG, _ID_TAG)
            if parts is None:
                message = service_pb2.ModelInferRequest.FromString(bytes(data))
                raws = [memoryview(raw) for raw in message.raw_input_contents]
                return DecodedRequest(_head(message), message.id, raws)
            views, raw_id, key = parts
            request_id = str(raw_id, "utf-8") if raw_id else ""
            head = self._heads.get(key) if len(key) <= _HEAD_SIZE_LIMIT_BYTES else None
            if head is None:
                explicit = None if views else self._explicit(key, request_id)
                if explicit is not None:
                    return explicit
                head = _head(service_pb2.ModelInferRequest.FromString(key))
                _remember(self._heads, key, head)
            elif not request_id and bytes(data[: len(key)]) == key:
                self._last_key, self._last_head = key, head
        except (DecodeError, MalformedMessageError, UnicodeDecodeError):
            raise InternalError(MALFORMED) from None
        return DecodedRequest(head, request_id, views)

    def _explicit(self, message: bytes, request_id: str) -> DecodedRequest | None:
        cut = cut_contents(message)
        if cut is None:
            return None
        key, contents = cut
        head = self._explicit_heads.get(key)
        if head is None:
            head = _head(service_pb2.ModelInferRequest.FromString(key), are_contents_cut=True)
            if head.message is not None:
                return None
            _remember(self._explicit_heads, key, head)
        return DecodedRequest(head, request_id, (), contents)


def _remember(heads: dict[bytes, _Head], key: bytes, head: _Head) -> None:
    if head.message is not None or head.problem is not None or len(key) > _HEAD_SIZE_LIMIT_BYTES:
        return
    if len(heads) >= _HEAD_COUNT_LIMIT:
        heads.clear()
    heads[key] = head


def tensor_offset(first: memoryview) -> int:
    """Return where the first tensor begins in a message whose first part this is; 0 if beyond."""
    return find_content(first, _RAW_TAG)[0]


def request_id_of(first: bytes | memoryview) -> str:
    """Return the id in a message whose first part this is; empty if it is not near there."""
    first = first[:_ID_WITHIN_BYTES]
    start, stop = find_content(first, _ID_TAG)
    return "" if stop > len(first) else str(first[start:stop], "utf-8", "replace")


def _head(message: Any, *, are_contents_cut: bool = False) -> _Head:
    head = _Head(message.model_name, message.model_version)
    try:
        for key, value in message.parameters.items():
            _take_parameter(head, key, value)
        for output in message.outputs:
            _take_output(head, output)
    except InvalidArgumentError as error:
        head.problem = error.with_traceback(None)
        return head
    if head.regions:
        head.message = message
    if len(message.inputs) > _EARLY_INPUT_COUNT:
        # Most likely the model has not so many, and it takes microseconds to read one.
        head.message = message
        return head
    for each in message.inputs:
        head.inputs.append((each.name, datatype_of(each), tuple(each.shape)))
        is_plain = (are_contents_cut or not each.HasField("contents")) and not (
            each.parameters and SHARED_MEMORY_FIELDS.keys() & each.parameters.keys()
        )
        if not is_plain:
            head.message = message
    return head


def _take_parameter(head: _Head, key: str, value: Any) -> None:
    kind = value.WhichOneof("parameter_choice")
    if key == "sequence_id":
        if kind == "int64_param":
            # Triton keeps correlation ids unsigned; a negative one wraps.
            head.correlation_id = value.int64_param & _UINT64_MASK
        elif kind == "string_param":
            head.correlation_id = checked_correlation_id(value.string_param)
        else:
            raise _wrong_kind(key, "int64_param or string_param.")
    elif key in _SEQUENCE_FLAGS:
        if kind != "bool_param":
            raise _wrong_kind(key, "bool_param.")
        head.flags |= _SEQUENCE_FLAGS[key] if value.bool_param else 0
    elif key == "priority":
        head.priority = _priority(kind, value)
    elif key == "timeout":
        if kind != "int64_param":
            raise _wrong_kind(key, "int64_param.")
        head.timeout_us = value.int64_param & _UINT64_MASK
    elif key.startswith(_RESERVED_PREFIX):
        _take_reserved(head, key, kind, value)
    elif kind not in _CUSTOM_KINDS:
        raise _wrong_kind(key, "int64_param, bool_param, or string_param.")
    else:
        head.parameters[key] = getattr(value, kind)


def _priority(kind: str | None, value: Any) -> int:
    if kind == "uint64_param":
        return int(value.uint64_param)
    if kind != "int64_param":
        raise _wrong_kind("priority", "int64_param or uint64_param.")
    if value.int64_param < 0:
        raise InvalidArgumentError("invalid value for 'priority', expected value >= 0.")
    return int(value.int64_param)


def _take_reserved(head: _Head, key: str, kind: str | None, value: Any) -> None:
    if key != EMPTY_FINAL_KEY:
        raise InvalidArgumentError(
            "parameter keys starting with 'triton_' are reserved for Triton usage. Only the "
            "following keys starting with 'triton_' are allowed: " + EMPTY_FINAL_KEY
        )
    if kind != "bool_param":
        raise _wrong_kind(key, "bool_param.")
    head.wants_empty_final = value.bool_param


def _take_output(head: _Head, output: Any) -> None:
    head.outputs.append(output.name)
    if not output.parameters:
        return
    region = shared_memory_region(output)
    if "classification" in output.parameters:
        value = output.parameters["classification"]
        if value.WhichOneof("parameter_choice") != "int64_param":
            raise InvalidArgumentError(
                "invalid value type for 'classification' parameter, expected int64_param"
            )
        if value.int64_param <= 0:
            raise InvalidArgumentError(
                "invalid value for 'classification' parameter, expected >= 0"
            )
        if region is not None:
            raise InvalidArgumentError(
                "output can't set both 'shared_memory_region' and 'classification'"
            )
        head.classes[output.name] = value.int64_param
    if region is not None:
        head.regions[output.name] = region


def _wrong_kind(key: str, expected: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"invalid value type for '{key}' parameter, expected {expected}")
