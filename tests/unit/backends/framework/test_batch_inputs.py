# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Batch inputs of every kind, and outputs split by an input's shapes."""

import numpy as np
import pytest

from backends.api.model_config import BatchInput
from backends.framework.batch_inputs import batch_input_array, scattered

SHAPES = [(1, 2, 3), (2, 1, 3), (1, 4, 1)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("BATCH_ELEMENT_COUNT", [6, 6, 4]),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT", [6, 12, 16]),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", [0, 6, 12, 16]),
        ("BATCH_ITEM_SHAPE", [[2, 3], [1, 3], [1, 3], [4, 1]]),
        ("BATCH_ITEM_SHAPE_FLATTEN", [2, 3, 1, 3, 1, 3, 4, 1]),
    ],
)
@pytest.mark.parametrize(("datatype", "dtype"), [("INT32", np.int32), ("FP32", np.float32)])
def test_a_batch_input_tells_the_shapes_of_its_source(kind, expected, datatype, dtype):
    array = batch_input_array(BatchInput(kind, ("T",), datatype, ("X",)), SHAPES)
    assert array.tolist() == expected
    assert array.dtype == dtype


def test_a_batch_input_may_tell_by_its_shape():
    kind = "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE"
    assert batch_input_array(BatchInput(kind, ("T",), "FP32", ("X",)), SHAPES).shape == (6,)


def test_an_output_is_split_by_its_inputs_shapes():
    parts = scattered(np.arange(16), (-1, -1, -1), SHAPES)
    assert [part.shape for part in parts] == SHAPES
    assert [int(part.ravel()[0]) for part in parts] == [0, 6, 12]


def test_fixed_dims_of_an_output_stay():
    parts = scattered(np.arange(10), (-1, 2), [(2, 7), (3, 7)])
    assert [part.shape for part in parts] == [(2, 2), (3, 2)]


def test_an_output_that_is_too_short_cannot_be_split():
    with pytest.raises(ValueError, match="cannot reshape"):
        scattered(np.arange(5), (-1, -1), [(1, 3), (1, 3)])
