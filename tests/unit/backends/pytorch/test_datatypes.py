# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays as tensors, and back."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.datatypes import numpy_dtype
from backends.api.request import tensor_as_numpy, tensor_from_numpy

torch = pytest.importorskip("torch")

from backends.pytorch.datatypes import TORCH_DTYPE, as_array, as_tensor  # noqa: E402 - needs PyTorch


@st.composite
def arrays(draw):
    datatype = draw(st.sampled_from(sorted(TORCH_DTYPE)))
    dtype = numpy_dtype(datatype)
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    size_bytes = math.prod(shape) * dtype.itemsize
    raw = draw(st.binary(min_size=size_bytes, max_size=size_bytes))
    array = np.frombuffer(bytes(byte & 1 for byte in raw) if datatype == "BOOL" else raw, dtype)
    return datatype, array.reshape(shape)


@given(arrays())
def test_an_array_is_the_same_as_a_tensor_and_back(given_array):
    datatype, array = given_array
    tensor = as_tensor(array)
    assert tensor.dtype is TORCH_DTYPE[datatype]
    assert tuple(tensor.shape) == array.shape
    back = as_array(tensor)
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()
    # On the wire, too.
    assert tensor_as_numpy(tensor_from_numpy("x", back)).tobytes() == array.tobytes()


@pytest.mark.parametrize("datatype", sorted(TORCH_DTYPE))
def test_neither_way_copies(datatype):
    array = np.zeros((3, 2), numpy_dtype(datatype))
    tensor = as_tensor(array)
    assert np.shares_memory(as_array(tensor).view(np.uint8), array.view(np.uint8))


def test_what_has_gradients_or_is_turned_becomes_an_array_too():
    tensor = torch.arange(6.0).reshape(2, 3).requires_grad_()
    assert as_array(tensor.T).tolist() == [[0, 3], [1, 4], [2, 5]]
