# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The tensors of a ModelInferRequest: raw, as typed contents, or in a client's shared memory.

Triton: server/src/grpc/infer_handler.cc, grpc_utils.cc @e1db8a6
"""

from collections.abc import Sequence
from typing import Any, Final

from backends.api.datatypes import DATATYPES
from backends.api.errors import InvalidArgumentError
from backends.api.request import EMPTY, Extent, Tensor
from deployments.grpc.codec.explicit_contents import message_bytes

_INVALID_DATATYPE: Final = "<invalid>"
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
            raw = memoryview(message_bytes(each.contents, each.name, datatype_of(each), model_name))
        tensors.append(Tensor(each.name, datatype_of(each), tuple(each.shape), raw))
    return tensors


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
