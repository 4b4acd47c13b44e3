# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""DLPack for the one thing numpy lacks: bfloat16.

numpy exchanges every other datatype itself. A bfloat16 array travels as uint16 whose type code
is rewritten in the capsule, before it leaves or after it came.
"""

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from backends.api.datatypes import numpy_dtype

CPU_DEVICE = (1, 0)

# Offset of DLTensor.dtype.code in a DLManagedTensor: data pointer, device (2 x int32), ndim int32.
_TYPE_CODE_OFFSET = ctypes.sizeof(ctypes.c_void_p) + 3 * ctypes.sizeof(ctypes.c_int32)
_CODE_UINT = 1
_CODE_BFLOAT = 4

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
    _type_code(capsule).value = _CODE_BFLOAT
    return capsule


def from_capsule(capsule: Any) -> npt.NDArray[np.generic]:
    """Take over a capsule of CPU memory as an array, without a copy."""
    code = _type_code(capsule)
    if code.value != _CODE_BFLOAT:
        return np.from_dlpack(_Producer(capsule))
    code.value = _CODE_UINT
    return np.from_dlpack(_Producer(capsule)).view(numpy_dtype("BF16"))


def is_capsule(value: object) -> bool:
    """Whether a value is an unused DLPack capsule."""
    return type(value).__name__ == "PyCapsule" and '"dltensor"' in repr(value)


def _type_code(capsule: Any) -> ctypes.c_uint8:
    return ctypes.c_uint8.from_address(_capsule_pointer(capsule, b"dltensor") + _TYPE_CODE_OFFSET)
