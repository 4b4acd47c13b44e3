# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""DLPack's description of a tensor, as it lies in a capsule."""

import ctypes
from typing import Final

# Device types: memory that the host reads, and memory that the CUDA driver copies from.
HOST_DEVICES: Final = (1, 3, 11)
CUDA_DEVICES: Final = (2, 13)
# Type codes.
CODE_UINT: Final = 1
CODE_BFLOAT: Final = 4


class DLTensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = (  # type: ignore[mutable-override]  # ctypes' own type is wider
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return tuple(self.sizes[: self.ndim])

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in C order without gaps."""
        shape = self.shape
        if not self.strides or 0 in shape:
            return True
        expected = 1
        strides = self.strides[: self.ndim]
        for size, stride in zip(reversed(shape), reversed(strides), strict=True):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True
