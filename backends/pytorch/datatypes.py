# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""V2 datatypes and those of PyTorch, and arrays as tensors and back, without copies on the CPU.

NumPy has no bfloat16 that PyTorch knows: such arrays pass as 16-bit integers.

Triton: pytorch_backend/src/libtorch_utils.cc ConvertDataTypeToTorchType, which lacks BF16 and the
wider unsigned types
"""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from backends.api.datatypes import numpy_dtype

TORCH_DTYPE: dict[str, torch.dtype] = {
    "BOOL": torch.bool,
    "UINT8": torch.uint8,
    "UINT16": torch.uint16,
    "UINT32": torch.uint32,
    "UINT64": torch.uint64,
    "INT8": torch.int8,
    "INT16": torch.int16,
    "INT32": torch.int32,
    "INT64": torch.int64,
    "FP16": torch.float16,
    "FP32": torch.float32,
    "FP64": torch.float64,
    "BF16": torch.bfloat16,
}
DATATYPE: dict[torch.dtype, str] = {dtype: name for name, dtype in TORCH_DTYPE.items()}
# What a config may name.
SUPPORTED = frozenset({*TORCH_DTYPE, "BYTES"})

with warnings.catch_warnings():
    # PyTorch warns, once in a process, of the first array that is read-only.
    warnings.simplefilter("ignore")
    torch.from_numpy(np.frombuffer(b"1234", np.uint8))


def as_tensor(array: npt.NDArray[Any]) -> torch.Tensor:
    """View an array as a tensor on the CPU.

    Args:
        array: Any shape and any datatype but BYTES; it may be read-only, and then nothing may write
            to the tensor.
    """
    if array.dtype.kind == "V":
        # As ml_dtypes' bfloat16 says of itself.
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def as_array(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """Return a tensor as an array: a view where it lies on the CPU, else a copy."""
    # Each of these costs a microsecond even where it has nothing to do.
    if tensor.requires_grad:
        tensor = tensor.detach()
    if not tensor.is_cpu:
        tensor = tensor.cpu()
    if tensor.dtype is torch.bfloat16:
        bits: npt.NDArray[Any] = tensor.view(torch.uint16).numpy()
        return bits.view(numpy_dtype("BF16"))
    array: npt.NDArray[Any] = tensor.numpy()
    return array
