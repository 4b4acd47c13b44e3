# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The tensors of a ModelInferRequest: raw, as typed contents, or in a client's shared memory.

Triton: server/src/grpc/infer_handler.cc, grpc_utils.cc @e1db8a6
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from backends.api.bytes_tensor import serialize_bytes
from backends.api.datatypes import DATATYPES, numpy_dtype
from backends.api.errors import InvalidArgumentError
from backends.api.request import EMPTY, Extent, Tensor

_INVALID_DATATYPE: Final = "<invalid>"
# Field of InferTensorContents, the datatype Triton names it by, the datatypes it may fill.
_CONTENT_FIELDS: Final[tuple[tuple[str, str, frozenset[str]], ...]] = (
    ("bool_contents", "BOOL", frozenset(("BOOL",))),
    ("int_contents", "INT32", frozenset(("INT8", "INT16", "INT32"))),
    ("int64_contents", "INT64", frozenset(("INT64",))),
    ("uint_contents", "UINT32", frozenset(("UINT8", "UINT16", "UINT32"))),
    ("uint64_contents", "UINT64", frozenset(("UINT64",))),
    ("fp32_contents", "FP32", frozenset(("FP32",))),
    ("fp64_contents", "FP64", frozenset(("FP64",))),
    ("bytes_contents", "BYTES", frozenset(("BYTES",))),
)
SHARED_MEMORY_FIELDS: Final = {
    "shared_memory_region": "string_param",
    "shared_memory_offset": "int64_param",
    "shared_memory_byte_size": "int64_param",
}


def read_tensors(message: Any, raws: Sequence[memoryview]) -> list[Tensor]:
    """Build tensors from raw data, typed contents and shared memory, as each input says.

    Args:
        message: The ModelInferRequest.
        raws: Its ``raw_input_contents``.

    Raises:
        InvalidArgumentError: The data of an input is missing or given in a wrong way.
    """
    model_name = message.model_name
    unused = iter(raws)
    tensors = []
    for each in message.inputs:
        region = shared_memory_region(each)
        if region is not None:
            if each.HasField("contents"):
                raise InvalidArgumentError(
                    f"unexpected 'content' provided when using shared memory for input tensor "
                    f"'{each.name}' for model '{model_name}'"
                )
            tensors.append(Tensor(each.name, datatype_of(each), tuple(each.shape), EMPTY, region))
            continue
        if not each.HasField("contents"):
            raw = next(unused, None)
            if raw is None:
                raise no_data(each.name, model_name)
        elif raws:
            raise InvalidArgumentError(
                f"contents field must not be specified when using raw_input_contents for "
                f"'{each.name}' for model '{model_name}'"
            )
        else:
            raw = memoryview(_typed_contents(each, model_name))
        tensors.append(Tensor(each.name, datatype_of(each), tuple(each.shape), raw))
    return tensors


def _typed_contents(tensor: Any, model_name: str) -> bytes:
    unexpected = (
        f"unexpected explicit tensor data for input tensor '{tensor.name}' for model '{model_name}'"
    )
    datatype = datatype_of(tensor)
    filled: str | None = None
    for field_name, label, allowed in _CONTENT_FIELDS:
        if not getattr(tensor.contents, field_name):
            continue
        if filled is not None:
            raise InvalidArgumentError(f"{unexpected}, binary data was already supplied.")
        if datatype not in allowed:
            raise InvalidArgumentError(
                f"{unexpected} of type '{label}', expected datatype '{datatype}'"
            )
        filled = field_name
    if filled is None:
        return b""
    values = getattr(tensor.contents, filled)
    if datatype == "BYTES":
        return serialize_bytes(values)
    dtype = numpy_dtype(datatype)
    # Narrow types travel in 32-bit fields and keep the low bytes, as Triton does.
    wide = {"int_contents": np.dtype(np.int32), "uint_contents": np.dtype(np.uint32)}
    return np.array(values, dtype=wide.get(filled, dtype)).astype(dtype, copy=False).tobytes()


def shared_memory_region(tensor: Any) -> Extent | None:
    """Return where in shared memory an input or output lies, or None.

    Raises:
        InvalidArgumentError: A parameter is missing or has the wrong type.
    """
    given = SHARED_MEMORY_FIELDS.keys() & tensor.parameters.keys()
    if not given:
        return None
    for key in ("shared_memory_offset", "shared_memory_byte_size"):
        if key in given and "shared_memory_region" not in given:
            raise InvalidArgumentError(
                f"'{key}' can not be specified without 'shared_memory_region' parameter for "
                f"tensor '{tensor.name}'"
            )
    for key, kind in SHARED_MEMORY_FIELDS.items():
        if key in given and tensor.parameters[key].WhichOneof("parameter_choice") != kind:
            raise InvalidArgumentError(
                f"invalid value type for '{key}' parameter for tensor '{tensor.name}', "
                f"expected {kind}."
            )
    if "shared_memory_byte_size" not in given:
        raise InvalidArgumentError(
            f"'shared_memory_byte_size' must be specified along with 'shared_memory_region' "
            f"parameter for tensor '{tensor.name}'"
        )
    offset = 0
    if "shared_memory_offset" in given:
        offset = tensor.parameters["shared_memory_offset"].int64_param
    return Extent(
        tensor.parameters["shared_memory_region"].string_param,
        offset,
        tensor.parameters["shared_memory_byte_size"].int64_param,
    )


def datatype_of(tensor: Any) -> str:
    """Return an input's datatype, with one name for all that do not exist."""
    return tensor.datatype if tensor.datatype in DATATYPES else _INVALID_DATATYPE


def no_data(input_name: str, model_name: str) -> InvalidArgumentError:
    """Return the error of an input without data."""
    return InvalidArgumentError(
        f"unable to find data for input tensor '{input_name}' for model '{model_name}' in request."
    )
