# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Classification of outputs; the expected texts are Triton's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from backends.api.bytes_tensor import deserialize_bytes
from backends.api.errors import InvalidArgumentError
from backends.api.request import Tensor, tensor_from_numpy
from deployments.protocol.classification import classify
from tests.support.examples import examples

LABELS = ("label_0", "label_1", "label_2")


def classes(array, count, labels=LABELS, *, is_batched=True):
    result = classify(tensor_from_numpy("PROB", array), count, labels, is_batched=is_batched)
    assert (result.name, result.datatype) == ("PROB", "BYTES")
    return result.shape, [each.decode() for each in deserialize_bytes(result.data)]


def test_each_batch_item_has_its_own_highest_values():
    scores = np.array([[0.1, 0.9, 0.3, 0.8, -1.0]] * 2, np.float32)
    assert classes(scores, 2) == ((2, 2), ["0.900000:1:label_1", "0.800000:3"] * 2)


def test_equal_values_keep_index_order():
    scores = np.array([[1, 1, 2, 2, 1]], np.float32)
    expected = ["2.000000:2:label_2", "2.000000:3", "1.000000:0:label_0", "1.000000:1:label_1"]
    assert classes(scores, 5) == ((1, 5), [*expected, "1.000000:4"])
    assert classes(scores, 4) == ((1, 4), expected)


def test_integers_have_no_decimals():
    values = np.array([[5, 2**60, -5]], np.int64)
    assert classes(values, 3, ()) == ((1, 3), ["1152921504606846976:1", "5:0", "-5:2"])


def test_model_without_batching_has_no_batch_dimension():
    values = np.array([3, -7, 12, 0, 12, 5], np.int32)
    shape, elements = classes(values, 4, (), is_batched=False)
    assert (shape, elements) == ((4,), ["12:2", "12:4", "5:5", "3:0"])


def test_count_above_the_number_of_classes_is_clamped():
    assert classes(np.array([[1.0, 2.0]]), 2**40)[0] == (1, 2)


def test_further_dimensions_are_one_list_of_classes():
    assert classes(np.array([[[1, 2], [3, 4]]], np.uint8), 1, ()) == ((1, 1), ["4:3"])


def test_empty_batch_has_no_classes():
    assert classes(np.zeros((0, 5), np.float32), 2) == ((0, 0), [])


@pytest.mark.parametrize("datatype", ["BOOL", "FP16", "BF16", "BYTES", "<invalid>"])
def test_datatype_without_order_is_invalid(datatype):
    with pytest.raises(InvalidArgumentError) as caught:
        classify(Tensor("X", datatype, (1, 2)), 1, (), is_batched=True)
    assert caught.value.message == (
        f"class result not available for output due to unsupported type '{datatype}'"
    )


def test_more_than_a_million_elements_an_item_are_too_many():
    with pytest.raises(InvalidArgumentError, match="classification output tensor too large"):
        classes(np.zeros((1, 1_000_001), np.float32), 1)


@settings(max_examples=examples(50), deadline=None)
@given(
    arrays.arrays(np.float32, st.integers(1, 30), elements=st.floats(width=32)),
    st.integers(1, 40),
)
def test_highest_are_those_a_full_stable_sort_finds(values, count):
    _, elements = classes(values, count, (), is_batched=False)
    ordered = sorted(range(len(values)), key=lambda index: (np.isnan(values[index]), values[index]))
    if not np.isnan(values).any():
        ordered = sorted(range(len(values)), key=lambda index: (-float(values[index]), index))
        assert [int(each.split(":")[1]) for each in elements] == ordered[:count]
    assert len(elements) == min(count, len(values))
