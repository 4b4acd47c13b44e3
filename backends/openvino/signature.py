# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a model read by OpenVINO takes and gives.

Triton: openvino_backend/src/openvino_utils.cc ConvertToOpenVINOElement,
openvino.cc ModelState::AutoCompleteBatching
"""

from collections.abc import Collection
from typing import Any

from backends.api.errors import UnsupportedError
from backends.framework.signature import Signature, TensorInfo
from backends.framework.validation import Rules

_ELEMENTS = {
    "BOOL": "boolean",
    "UINT8": "u8",
    "UINT16": "u16",
    "UINT32": "u32",
    "UINT64": "u64",
    "INT8": "i8",
    "INT16": "i16",
    "INT32": "i32",
    "INT64": "i64",
    "FP16": "f16",
    "FP32": "f32",
}
_READ_ONLY = {"FP64": "f64", "BF16": "bf16", "BYTES": "string"}
_DATATYPES = {element: name for name, element in (_ELEMENTS | _READ_ONLY).items()}

RULES = Rules(frozenset(_ELEMENTS))


def element_of(datatype: str) -> str | None:
    """Return OpenVINO's name of a datatype; None for one that its models cannot be fed."""
    return _ELEMENTS.get(datatype)


def read_signature(model: Any, names: Collection[str] = ()) -> Signature:
    """Return the signature of an ``openvino.Model``.

    Args:
        model: The model.
        names: Names in the config: of a tensor with several names, the one that is among these.

    Raises:
        UnsupportedError: A tensor is of a datatype that V2 lacks.
    """
    inputs = tuple(_tensor_info(port, names) for port in model.inputs)
    outputs = tuple(_tensor_info(port, names) for port in model.outputs)
    return Signature(inputs, outputs)


def _tensor_info(port: Any, names: Collection[str]) -> TensorInfo:
    name = port_name(port, names)
    element = port.get_element_type().get_type_name()
    if element not in _DATATYPES:
        raise UnsupportedError(
            f"unsupported datatype {element} for I/O '{name}', supported are {', '.join(_ELEMENTS)}"
        )
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic:
        return TensorInfo(name, _DATATYPES[element])
    dims = tuple(-1 if dim.is_dynamic else dim.get_length() for dim in shape)
    return TensorInfo(name, _DATATYPES[element], dims)


def port_name(port: Any, names: Collection[str] = ()) -> str:
    """Return the name of a tensor: one of ``names`` if it has such, else its first.

    An output without names of its own, which a file then has under a number that differs from
    reading to reading, goes by the name of the operation that makes it.
    """
    own: set[str] = port.get_names()
    node = port.get_node()
    if own.isdisjoint(names) and own <= {node.get_friendly_name()} and node.inputs():
        node = node.input_value(0).get_node()
        own = {node.get_friendly_name()}
    found: str = min(own.intersection(names) or own or {node.get_friendly_name()})
    return found


def has_batch_layout(model: Any) -> bool:
    """Whether the layout of every input and output says that its first dimension is the batch."""
    layouts = [port.get_node().get_layout() for port in (*model.inputs, *model.outputs)]
    return all(layout.has_name("N") and layout.get_index_by_name("N") == 0 for layout in layouts)
