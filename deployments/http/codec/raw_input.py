# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Raw binary requests: a body that is nothing but the data of the model's one input.

Triton: core/src/infer_request.cc InferenceRequest::Normalize @73aad7c
"""

from math import prod

from backends.api.datatypes import SIZE_BYTES
from backends.api.errors import InvalidArgumentError
from backends.api.request import Tensor, id_prefix
from deployments.http.codec.infer_spec import RequestedModel


def deduce(body: memoryview, model: RequestedModel) -> Tensor:
    """Return the input that a raw body is, with the shape the config and its size allow.

    Raises:
        InvalidArgumentError: Config and size do not tell one shape.
    """
    config = model.config
    prefix = id_prefix("")
    if len(config.input) != 1:
        raise InvalidArgumentError(
            f"{prefix}Raw request must only have 1 input (found 1) to be deduced but got "
            f"{len(config.input)} inputs in '{model.name}' model configuration"
        )
    expected = config.input[0]
    dims = list(expected.dims)
    batch = (1,) if config.max_batch_size > 0 else ()
    if expected.datatype == "BYTES":
        if prod(dims) != 1 or -1 in dims:
            raise InvalidArgumentError(
                f"{prefix}For BYTE datatype raw input '{expected.name}', the model must have input "
                f"shape [1]"
            )
        data = memoryview(body.nbytes.to_bytes(4, "little") + bytes(body))
        return Tensor(expected.name, "BYTES", (*batch, *dims), data)
    if dims.count(-1) > 1:
        raise InvalidArgumentError(
            f"{prefix}The shape of the raw input '{expected.name}' can not be deduced because "
            f"there are more than one variable-sized dimension"
        )
    item_bytes = SIZE_BYTES[expected.datatype] * prod(dim for dim in dims if dim != -1)
    if -1 in dims:
        dims[dims.index(-1)] = body.nbytes // item_bytes if item_bytes else 0
    wanted_bytes = SIZE_BYTES[expected.datatype] * prod(dims)
    if wanted_bytes != body.nbytes:
        raise InvalidArgumentError(
            f"{prefix}input byte size mismatch for input 'raw_input' for model '{model.name}'. "
            f"Expected {wanted_bytes}, got {body.nbytes}"
        )
    return Tensor(expected.name, expected.datatype, (*batch, *dims), body)
