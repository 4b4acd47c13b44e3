# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether two answers are the same, within a tolerance. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from backends.api.request import Tensor, tensor_as_numpy
from deployments.captures.records import KeptTensor

_FLOATS: Final = frozenset({"FP16", "BF16", "FP32", "FP64"})


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far floating-point numbers may be apart: ``atol + rtol * abs(wanted)``.

    Attributes:
        rtol: Relative.
        atol: Absolute.
    """

    rtol: float = 0.0
    atol: float = 0.0


def difference(
    wanted: Sequence[KeptTensor], given: Sequence[KeptTensor], tolerance: Tolerance
) -> str:
    """Return how the outputs of one response differ from those wanted; empty when they do not.

    Outputs may stand in any order. What is compared bit by bit unless it is a float: integers,
    booleans and BYTES. Two NaN are equal.
    """
    found = {each.name: each for each in given}
    for one in wanted:
        other = found.pop(one.name, None)
        if other is None:
            return f"output '{one.name}' is missing"
        text = _difference(one, other, tolerance)
        if text:
            return f"output '{one.name}' {text}"
    return f"output '{next(iter(found))}' is not among those expected" if found else ""


def _difference(one: KeptTensor, other: KeptTensor, tolerance: Tolerance) -> str:
    if one.datatype != other.datatype:
        return f"has datatype {other.datatype}, expected {one.datatype}"
    if one.shape != other.shape:
        return f"has shape {list(other.shape)}, expected {list(one.shape)}"
    if one.data == other.data:
        return ""
    if one.datatype not in _FLOATS:
        return "has other values"
    wanted, given = _floats(one), _floats(other)
    is_close = np.isclose(given, wanted, rtol=tolerance.rtol, atol=tolerance.atol, equal_nan=True)
    if is_close.all():
        return ""
    at = int(np.argmin(is_close))
    count = int(is_close.size - np.count_nonzero(is_close))
    return (
        f"differs in {count} of {is_close.size} values, first in value {at}: {given[at]:.9g},"
        f" expected {wanted[at]:.9g}"
    )


def _floats(tensor: KeptTensor) -> npt.NDArray[Any]:
    array = tensor_as_numpy(
        Tensor(tensor.name, tensor.datatype, tensor.shape, memoryview(tensor.data))
    )
    return array.reshape(-1).astype(np.float64)
