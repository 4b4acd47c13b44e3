# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether two answers are alike."""

import numpy as np
import pytest

from backends.api.request import Tensor, tensor_from_numpy
from deployments.rollouts.comparing import Mismatch, Tolerance, compare

_TOLERANCE = Tolerance(absolute=1e-6, relative=0.01)


def _tensor(values: object, dtype: str = "float32", name: str = "OUT") -> Tensor:
    return tensor_from_numpy(name, np.array(values, dtype=dtype))


def test_floats_within_the_tolerance_are_alike() -> None:
    assert compare([_tensor([100.0, 0.0])], [_tensor([100.9, 1e-7])], _TOLERANCE) is None


def test_floats_beyond_the_tolerance_differ_and_are_counted() -> None:
    found = compare([_tensor([100.0, 1.0, 2.0])], [_tensor([102.0, 1.0, 3.0])], _TOLERANCE)
    assert found is not None
    assert (found.output, found.count, found.largest) == ("OUT", 2, 2.0)
    assert "element 0: expected 100, got 102" in found.reason


def test_nan_is_like_nan_and_an_infinity_like_itself() -> None:
    values = [float("nan"), float("inf"), float("-inf")]
    other = [float("nan"), float("inf"), float("inf")]
    assert compare([_tensor(values)], [_tensor(values, "float64")], _TOLERANCE) is not None
    assert compare([_tensor(values)], [_tensor([*values])], _TOLERANCE) is None
    found = compare([_tensor(values)], [_tensor(other)], _TOLERANCE)
    assert found is not None
    assert found.count == 1


@pytest.mark.parametrize(("dtype", "one", "other"), [("int32", [1, 2], [1, 3]), ("bool", [1], [0])])
def test_integers_and_flags_have_to_be_equal(dtype: str, one: object, other: object) -> None:
    assert compare([_tensor(one, dtype)], [_tensor(one, dtype)], _TOLERANCE) is None
    assert compare([_tensor(one, dtype)], [_tensor(other, dtype)], _TOLERANCE) is not None


def test_bytes_have_to_be_equal_and_a_long_text_is_cut() -> None:
    one = _tensor([b"a" * 1000, b"b"], "object")
    other = _tensor([b"c" * 1000, b"b"], "object")
    found = compare([one], [other], _TOLERANCE)
    assert found is not None
    assert found.count == 1
    assert len(found.reason) < 200


def test_a_missing_output_and_another_shape_are_differences() -> None:
    one, other = _tensor([1.0]), _tensor([1.0], name="OTHER")
    missing = compare([one, other], [one], _TOLERANCE)
    assert missing is not None
    assert missing.reason == "outputs differ: missing ['OTHER'], unexpected []"
    shape = compare([one], [_tensor([1.0, 1.0])], _TOLERANCE)
    assert shape is not None
    assert shape.reason == "expected FP32[1], got FP32[2]"


def test_the_order_of_outputs_is_of_no_consequence() -> None:
    one, other = _tensor([1.0]), _tensor([2.0], name="OTHER")
    assert compare([one, other], [other, one], _TOLERANCE) is None


def test_a_number_is_infinitely_far_from_nan_and_from_an_infinity() -> None:
    for other in ("nan", "inf"):
        found = compare([_tensor([1.0, 2.0])], [_tensor([float(other), 2.0])], _TOLERANCE)
        assert found is not None
        assert (found.count, found.largest) == (1, float("inf"))


def test_a_text_of_sixty_four_characters_is_shown_whole() -> None:
    for length, shown in ((61, repr(b"a" * 61)), (62, "b'" + "a" * 62 + "...")):
        found = compare(
            [_tensor([b"a" * length], "object")], [_tensor([b"b"], "object")], _TOLERANCE
        )
        assert found is not None
        assert found.reason == f"element 0: expected {shown}, got b'b'"


def test_a_mismatch_reads_as_a_line() -> None:
    assert str(Mismatch("OUT", "element 0", 3, 1.0)) == "output 'OUT': element 0; 3 differ"
    assert str(Mismatch("", "outputs differ")) == "outputs differ"
