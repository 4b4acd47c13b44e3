# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads what an ONNX file tells of its tensors, without ONNX Runtime.

Graph and weights are skipped unread. What a runtime infers from the graph is not told: shapes that
the file leaves out, and dimensions of outputs that it does not number.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from backends.api.errors import InternalError, UnsupportedError
from backends.framework.signature import Signature, TensorInfo
from backends.framework.wire import last_signed, messages, numbers, text

# By number of ONNX's TensorProto.DataType.
_DATATYPES = {
    1: "FP32",
    2: "UINT8",
    3: "INT8",
    4: "UINT16",
    5: "INT16",
    6: "INT32",
    7: "INT64",
    8: "BYTES",
    9: "BOOL",
    10: "FP16",
    11: "FP64",
    12: "UINT32",
    13: "UINT64",
}
_KINDS = {4: "ONNX_TYPE_SEQUENCE", 5: "ONNX_TYPE_MAP", 8: "ONNX_TYPE_SPARSETENSOR"}

# Field numbers of ModelProto, GraphProto, ValueInfoProto, TypeProto, TensorShapeProto, TensorProto
# and StringStringEntryProto.
_GRAPH = 7
_INITIALIZERS, _INPUTS, _OUTPUTS = 5, 11, 12
_NAME, _TYPE = 1, 2
_TENSOR_TYPE = 1
_ELEMENT_TYPE, _SHAPE = 1, 2
_DIMS, _DIM_VALUE = 1, 1
_WEIGHT_NAME, _EXTERNAL_DATA = 8, 13
_KEY, _VALUE = 1, 2


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """What an ONNX file tells.

    Attributes:
        signature: Its inputs and outputs; shape None where it names none.
        external: Files beside it that hold weights.
    """

    signature: Signature
    external: tuple[str, ...] = ()


def read_model_file(path: str, model: str) -> OnnxFile:
    """Read an ONNX file.

    Args:
        path: The file.
        model: The model's name, for errors.

    Raises:
        InternalError: It is no ONNX file, or is cut short.
        UnsupportedError: It has inputs or outputs that are no tensors, or of a datatype that V2
            lacks.
    """
    try:
        with Path(path).open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        graphs = list(messages(data, _GRAPH))
        if not graphs:
            raise ValueError("it has no graph")  # noqa: TRY301 - one path for all failures
        return _read(graphs[-1])
    # An empty file cannot be mapped, which is a ValueError, too.
    except (OSError, ValueError) as error:
        raise InternalError(
            f"failed to load model '{model}': '{path}' cannot be read as an ONNX model: {error}"
        ) from None


def _read(graph: memoryview) -> OnnxFile:
    weights: set[str] = set()
    external: dict[str, None] = {}
    for weight in messages(graph, _INITIALIZERS):
        weights.update(map(text, messages(weight, _WEIGHT_NAME)))
        external.update(dict.fromkeys(_locations(weight)))
    inputs, outputs = (
        tuple(_tensor_info(each) for each in messages(graph, field))
        for field in (_INPUTS, _OUTPUTS)
    )
    given = tuple(info for info in inputs if info.name not in weights)
    return OnnxFile(Signature(given, outputs), tuple(external))


def _locations(weight: memoryview) -> Iterator[str]:
    for entry in messages(weight, _EXTERNAL_DATA):
        if any(text(key) == "location" for key in messages(entry, _KEY)):
            yield from map(text, messages(entry, _VALUE))


def _tensor_info(value: memoryview) -> TensorInfo:
    name = "".join(map(text, messages(value, _NAME)))
    for kind in messages(value, _TYPE):
        for tensor in messages(kind, _TENSOR_TYPE):
            return _described(name, tensor)
        found = next((_KINDS[number] for number in _KINDS if any(messages(kind, number))), "")
        if found:
            raise UnsupportedError(
                f"Unsupported ONNX Type '{found}' for I/O '{name}', expected 'ONNX_TYPE_TENSOR'. "
                "Models converted from scikit-learn need the option zipmap=False"
            )
    return TensorInfo(name)


def _described(name: str, tensor: memoryview) -> TensorInfo:
    number = last_signed(tensor, _ELEMENT_TYPE)
    if number and number not in _DATATYPES:
        raise UnsupportedError(
            f"unsupported datatype {number} of ONNX for I/O '{name}', supported are "
            f"{', '.join(_DATATYPES.values())}"
        )
    for shape in messages(tensor, _SHAPE):
        dims = tuple(_dim(dim) for dim in messages(shape, _DIMS))
        return TensorInfo(name, _DATATYPES.get(number), dims)
    return TensorInfo(name, _DATATYPES.get(number))


def _dim(dim: memoryview) -> int:
    values = list(numbers(dim, _DIM_VALUE))
    return max(last_signed(dim, _DIM_VALUE), -1) if values else -1
