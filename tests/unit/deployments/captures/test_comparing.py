# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from deployments.captures.comparing import Tolerance, difference
from deployments.captures.records import KeptTensor


def _floats(*values: float, name: str = "Y") -> KeptTensor:
    return KeptTensor(name, "FP32", (len(values),), np.array(values, np.float32).tobytes())


def _ints(*values: int) -> KeptTensor:
    return KeptTensor("Y", "INT32", (len(values),), np.array(values, np.int32).tobytes())


LOOSE = Tolerance(rtol=0.01)


@pytest.mark.parametrize(
    ("wanted", "given", "text"),
    [
        ([_floats(1, 2)], [_floats(1, 2.01)], ""),
        ([_floats(float("nan"))], [_floats(float("nan"))], ""),
        ([_floats(1, 2, 3)], [_floats(1, 2.1, 3)], "differs in 1 of 3 values, first in value 1"),
        ([_ints(100)], [_ints(101)], "output 'Y' has other values"),
        ([_ints(1)], [_floats(1)], "has datatype FP32, expected INT32"),
        ([_ints(1)], [_ints(1, 1)], "has shape [2], expected [1]"),
        ([_ints(1)], [], "output 'Y' is missing"),
        ([], [_ints(1)], "output 'Y' is not among those expected"),
        ([_floats(1, name="A"), _floats(2)], [_floats(2), _floats(1, name="A")], ""),
    ],
)
def test_a_difference_is_named(
    wanted: list[KeptTensor], given: list[KeptTensor], text: str
) -> None:
    found = difference(wanted, given, LOOSE)
    assert text in found
    assert bool(found) is bool(text)
