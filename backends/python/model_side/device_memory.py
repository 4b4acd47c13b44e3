# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Copies what a model's DLPack capsule has in GPU memory to the host.

With the CUDA driver itself, so it does not matter which framework made the tensor.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from backends.api.datatypes import numpy_dtype
from backends.python.model_side.dl_tensor import CODE_BFLOAT, DLTensor
from backends.python.model_side.failure import TritonModelException

# DLPack's type codes and numpy's letters; complex numbers have no datatype in KServe.
_LETTERS: Final = {0: "i", 1: "u", 2: "f", 6: "b"}

# Copies so many bytes from an address of a device to a host's address.
Copy = Callable[[int, int, int, int], None]


def copy_to_host(tensor: DLTensor, copy: Copy | None = None) -> npt.NDArray[Any]:
    """Return an array of a tensor's elements, once the device has done what it was told before.

    Args:
        tensor: A contiguous one in memory of one of `CUDA_DEVICES`; stays the producer's.
        copy: What copies; the driver's copy unless given.

    Raises:
        TritonModelException: Its elements have no datatype, or the driver does not copy.
    """
    array = np.empty(tensor.shape, _dtype(tensor))
    if array.nbytes:
        source = (tensor.data or 0) + tensor.byte_offset
        (copy or _copy_by_driver)(tensor.device_id, source, array.ctypes.data, array.nbytes)
    return array


def _dtype(tensor: DLTensor) -> np.dtype[Any]:
    if tensor.lanes == 1:
        if (tensor.code, tensor.bits) == (CODE_BFLOAT, 16):
            return np.dtype(numpy_dtype("BF16"))
        letter = _LETTERS.get(tensor.code)
        if letter is not None and tensor.bits in (8, 16, 32, 64):
            return np.dtype(f"{letter}{tensor.bits // 8}")
    raise TritonModelException(
        f"DLPack tensor has elements of type code {tensor.code} with {tensor.bits} bits and "
        f"{tensor.lanes} lanes, for which there is no datatype; convert it first"
    )


def _copy_by_driver(device: int, source: int, target: int, count_bytes: int) -> None:
    cuda = _driver()
    context = ctypes.c_void_p()
    _call(cuda, "cuDevicePrimaryCtxRetain", ctypes.byref(context), ctypes.c_int(device))
    try:
        _call(cuda, "cuCtxPushCurrent_v2", context)
        try:
            # The producer may have used any stream.
            _call(cuda, "cuCtxSynchronize")
            _call(
                cuda,
                "cuMemcpyDtoH_v2",
                ctypes.c_void_p(target),
                ctypes.c_uint64(source),
                ctypes.c_size_t(count_bytes),
            )
        finally:
            cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    finally:
        cuda.cuDevicePrimaryCtxRelease_v2(ctypes.c_int(device))


@cache
def _driver() -> ctypes.CDLL:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise TritonModelException(
            f"DLPack tensor is in GPU memory, and there is no CUDA driver to copy it with ({error})"
        ) from None
    _call(cuda, "cuInit", ctypes.c_uint(0))
    return cuda


def _call(cuda: ctypes.CDLL, name: str, *arguments: Any) -> None:
    status = getattr(cuda, name)(*arguments)
    if status:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(status, ctypes.byref(text))
        reason = text.value.decode() if text.value else f"error {status}"
        raise TritonModelException(f"DLPack tensor cannot be copied from the GPU: {name}: {reason}")
