# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Values of the parameters of an infer request.

Triton: server/src/http_server.cc ParseJsonTritonParams @e1db8a6
"""

from typing import Final

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.request import ParameterValue, checked_correlation_id
from deployments.http.codec.infer_header import INT64_MAX
from deployments.http.codec.json_text import as_bool, as_string, as_uint, labelled

_INT64_MIN: Final = -(2**63)
_UINT64_MAX: Final = 2**64 - 1


def correlation_id(value: object) -> int | str:
    """Return a sequence's id.

    Raises:
        InternalError: It is no unsigned 64-bit integer and no string.
        UnsupportedError: It is too long a string.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _UINT64_MAX:
        return value
    with labelled("Unable to parse 'sequence_id'"):
        text = as_string(value)
    return checked_correlation_id(text)


def flag(key: str, value: object) -> bool:
    """Return a parameter that is a boolean.

    Raises:
        InternalError: It is none.
    """
    with labelled(f"Unable to parse '{key}'"):
        return as_bool(value)


def number(key: str, value: object) -> int:
    """Return a parameter that is an unsigned 64-bit integer.

    Raises:
        InternalError: It is none.
    """
    with labelled(f"Unable to parse '{key}'"):
        return as_uint(value)


def custom_parameter(key: str, value: object) -> ParameterValue:
    """Return the value of a parameter that is the model's own.

    Raises:
        InternalError: The value is a number beyond all doubles.
        InvalidArgumentError: The value has a type no parameter can have.
    """
    if isinstance(value, str):
        return as_string(value)
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        if _INT64_MIN <= value <= INT64_MAX:
            return value
        # What fits no int64 is a number all the same, and taken as a double.
        try:
            return float(value)
        except OverflowError:
            raise InternalError(
                f"Unable to parse '{key}': Number too big to be stored in double."
            ) from None
    raise InvalidArgumentError(
        f"parameter '{key}' has invalid type. It should be either 'int', 'bool', or 'string'."
    )
