# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""DLPack tensors in GPU memory; here it is host memory that is labelled so."""

import ctypes

import ml_dtypes
import numpy as np
import pytest

from backends.python.model_side import dlpack, pb_utils
from backends.python.model_side.device_memory import copy_to_host
from backends.python.model_side.failure import TritonModelException

CUDA = 2
ROCM = 10


def labelled(array, device=CUDA):
    """Return a capsule that says its memory is a device's, and its DLTensor."""
    capsule = dlpack.to_capsule(array)
    tensor = dlpack._tensor_of(capsule)
    tensor.device_type = device
    return capsule, tensor


def copied(array):
    """Return what `copy_to_host` makes of an array, and what it was asked to copy."""
    capsule, tensor = labelled(array)
    asked = []

    def copy(device, source, target, count_bytes):
        asked.append((device, count_bytes))
        ctypes.memmove(target, source, count_bytes)

    found = copy_to_host(tensor, copy)
    del capsule
    return found, asked


INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64", "bfloat16")


@pytest.mark.parametrize("name", ["bool", *INTEGERS, *FLOATS])
def test_elements_of_every_datatype_are_copied_in_one_piece(name):
    dtype = ml_dtypes.bfloat16 if name == "bfloat16" else name
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    found, asked = copied(array)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)
    assert asked == [(0, array.nbytes)]


def test_shapes_with_ones_with_nothing_and_without_dimensions():
    for shape in ((1, 3, 1), (3, 0), ()):
        array = np.zeros(shape, np.float32)
        found, asked = copied(array)
        assert found.shape == shape
        assert len(asked) == (array.size > 0)


def test_what_lies_apart_is_refused():
    capsule, _ = labelled(np.zeros((3, 4), np.float32).T)
    with pytest.raises(TritonModelException, match="DLPack tensor is not contiguous"):
        pb_utils.Tensor.from_dlpack("OUT", capsule)


def test_memory_of_other_devices_is_refused():
    capsule, _ = labelled(np.zeros(2, np.float32), ROCM)
    with pytest.raises(TritonModelException, match="is not in host memory; copy it there first"):
        pb_utils.Tensor.from_dlpack("OUT", capsule)


def test_elements_without_a_datatype_are_refused():
    _, tensor = kept = labelled(np.zeros(2, np.complex64))
    with pytest.raises(TritonModelException, match="type code 5 with 64 bits and 1 lanes"):
        copy_to_host(tensor)
    del kept


def test_without_a_driver_the_text_says_so():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pass
    else:
        pytest.skip("this machine has a CUDA driver")
    capsule, _ = labelled(np.zeros(2, np.float32))
    with pytest.raises(TritonModelException, match="is in GPU memory, and there is no CUDA driver"):
        pb_utils.Tensor.from_dlpack("OUT", capsule)
