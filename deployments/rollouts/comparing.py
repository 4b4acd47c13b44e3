# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether two versions have given the same answer, within a tolerance; pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from backends.api.request import Tensor, tensor_as_numpy

# Of a text in a report, for example of an element that is BYTES.
_MOST_SHOWN: Final = 64
_FLOATS: Final = frozenset(("FP16", "FP32", "FP64", "BF16"))


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far the elements of two floating-point outputs may be apart.

    Two elements are alike if they differ by no more than ``absolute + relative * |expected|``;
    NaN is like NaN, and an infinity like itself. Other datatypes have to be equal.

    Attributes:
        absolute: See above.
        relative: See above.
    """

    absolute: float = 1e-6
    relative: float = 1e-3


@dataclass(frozen=True, slots=True)
class Mismatch:
    """In what an answer differs from the one that was expected.

    Attributes:
        output: Name of the output; empty where the answers differ as a whole.
        reason: In words.
        count: How many elements differ; 0 where that is not the point.
        largest: The largest difference of two elements; 0 where that is not the point.
    """

    output: str
    reason: str
    count: int = 0
    largest: float = 0.0

    def __str__(self) -> str:
        """Return all of it but the largest difference, in a line."""
        where = f"output '{self.output}': " if self.output else ""
        return where + self.reason + (f"; {self.count} differ" if self.count else "")


def compare(
    expected: Sequence[Tensor], given: Sequence[Tensor], tolerance: Tolerance
) -> Mismatch | None:
    """Compare the outputs of two answers; their order is of no consequence.

    Args:
        expected: What the client had.
        given: What the other version says.
        tolerance: How far floating-point elements may be apart.

    Returns:
        The first difference; None when there is none.
    """
    others = {tensor.name: tensor for tensor in given}
    wanted = {tensor.name for tensor in expected}
    if others.keys() != wanted:
        missing, extra = sorted(wanted - others.keys()), sorted(others.keys() - wanted)
        return Mismatch("", f"outputs differ: missing {missing}, unexpected {extra}")
    for tensor in expected:
        found = _compare_tensors(tensor, others[tensor.name], tolerance)
        if found is not None:
            return found
    return None


def _compare_tensors(expected: Tensor, given: Tensor, tolerance: Tolerance) -> Mismatch | None:
    name = expected.name
    if (expected.datatype, tuple(expected.shape)) != (given.datatype, tuple(given.shape)):
        return Mismatch(
            name,
            f"expected {expected.datatype}{[*expected.shape]},"
            f" got {given.datatype}{[*given.shape]}",
        )
    if expected.data == given.data:
        return None
    if expected.datatype in _FLOATS:
        return _compare_floats(expected, given, tolerance)
    one, other = tensor_as_numpy(expected), tensor_as_numpy(given)
    differs: Any = one != other
    count = int(np.count_nonzero(differs))
    if not count:
        return None
    at = int(np.flatnonzero(differs)[0])
    shown = [_shown(array.reshape(-1)[at]) for array in (one, other)]
    return Mismatch(name, f"element {at}: expected {shown[0]}, got {shown[1]}", count)


def _compare_floats(expected: Tensor, given: Tensor, tolerance: Tolerance) -> Mismatch | None:
    one = tensor_as_numpy(expected).astype(np.float64).reshape(-1)
    other = tensor_as_numpy(given).astype(np.float64).reshape(-1)
    alike = np.isclose(other, one, rtol=tolerance.relative, atol=tolerance.absolute, equal_nan=True)
    count = int(alike.size - np.count_nonzero(alike))
    if not count:
        return None
    with np.errstate(invalid="ignore"):
        apart = np.abs(other - one)[~alike]
    largest = float(np.max(np.nan_to_num(apart, nan=math.inf, posinf=math.inf)))
    at = int(np.flatnonzero(~alike)[0])
    return Mismatch(
        expected.name,
        f"element {at}: expected {one[at]:g}, got {other[at]:g}",
        count,
        largest,
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
