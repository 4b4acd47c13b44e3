# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""DLPack for what numpy lacks: bfloat16, and tensors in GPU memory.

numpy exchanges every other datatype itself. A bfloat16 array travels as uint16 whose type code
is rewritten in the capsule, before it leaves or after it came. What is in GPU memory is copied to
the host.
"""

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from backends.api.datatypes import numpy_dtype
from backends.python.model_side.device_memory import copy_to_host
from backends.python.model_side.dl_tensor import (
    CODE_BFLOAT,
    CODE_UINT,
    CUDA_DEVICES,
    HOST_DEVICES,
    DLTensor,
)
from backends.python.model_side.failure import TritonModelException

CPU_DEVICE = (1, 0)

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


class _Producer:
    """Lets numpy read a bare capsule."""

    __slots__ = ("_capsule",)

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU_DEVICE


def to_capsule(array: npt.NDArray[Any]) -> Any:
    """Export a writable array, which the capsule keeps alive."""
    if array.dtype != numpy_dtype("BF16"):
        return array.__dlpack__()
    capsule = array.view(np.uint16).__dlpack__()
    _tensor_of(capsule).code = CODE_BFLOAT
    return capsule


def from_capsule(capsule: Any) -> npt.NDArray[np.generic]:
    """Take over a capsule as an array, without a copy if it is of CPU memory.

    Raises:
        TritonModelException: Its elements lie apart, or in memory that cannot be copied from.
    """
    tensor = _tensor_of(capsule)
    if tensor.device_type not in (*HOST_DEVICES, *CUDA_DEVICES):
        raise TritonModelException(
            "DLPack tensor is not in host memory; copy it there first, for example with "
            "torch.Tensor.cpu()"
        )
    if not tensor.is_contiguous:
        raise TritonModelException(
            "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in "
            "C-Order are supported."
        )
    if tensor.device_type in CUDA_DEVICES:
        return copy_to_host(tensor)
    if tensor.code != CODE_BFLOAT:
        return np.from_dlpack(_Producer(capsule))
    tensor.code = CODE_UINT
    return np.from_dlpack(_Producer(capsule)).view(numpy_dtype("BF16"))


def is_capsule(value: object) -> bool:
    """Whether a value is an unused DLPack capsule."""
    return type(value).__name__ == "PyCapsule" and '"dltensor"' in repr(value)


def _tensor_of(capsule: Any) -> DLTensor:
    return DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
