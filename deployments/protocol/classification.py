# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The classification extension: an output becomes its highest values with their indices and labels.

Triton: server/src/classification.cc @e1db8a6
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from backends.api.bytes_tensor import serialize_bytes
from backends.api.errors import InvalidArgumentError
from backends.api.request import Tensor, tensor_as_numpy

# Triton's bound: sorting is done on the ingress, where it holds up every other request.
_ELEMENT_LIMIT: Final = 1_000_000
_FLOATS: Final = frozenset(("FP32", "FP64"))
_INTEGERS: Final = frozenset(
    ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
)


def classify(tensor: Tensor, count: int, labels: Sequence[str], *, is_batched: bool) -> Tensor:
    """Return the ``count`` highest values of each batch item as BYTES.

    Args:
        tensor: Output of shape ``[batch, *dims]``, or ``dims`` when not batched.
        count: Classes wanted, at least 1; more than there are means all.
        labels: Label of each index; may be shorter than the item, and an empty label is left out.
        is_batched: Whether the first dimension is the batch.

    Returns:
        A BYTES tensor of shape ``[batch, min(count, elements)]``, or ``[min(count, elements)]``,
        of elements ``value:index`` or ``value:index:label``, highest value first and among equal
        values lowest index first.

    Raises:
        InvalidArgumentError: The datatype has no order Triton supports, or items are too large.
    """
    datatype = tensor.datatype
    if datatype not in _FLOATS and datatype not in _INTEGERS:
        raise InvalidArgumentError(
            f"class result not available for output due to unsupported type '{datatype}'"
        )
    array = tensor_as_numpy(tensor)
    has_batch = is_batched and array.ndim > 0
    batch_size = array.shape[0] if has_batch else 1
    element_count = array.size // batch_size if batch_size else 0
    if element_count > _ELEMENT_LIMIT:
        raise InvalidArgumentError("classification output tensor too large")
    shown = min(count, element_count)
    pattern = "%.6f:%d" if datatype in _FLOATS else "%d:%d"
    elements: list[str] = []
    for item in array.reshape(batch_size, element_count):
        for index in _highest(item, shown):
            text = pattern % (item[index], index)
            label = labels[index] if index < len(labels) else ""
            elements.append(f"{text}:{label}" if label else text)
    shape = (batch_size, shown) if has_batch else (shown,)
    return Tensor(tensor.name, "BYTES", shape, memoryview(serialize_bytes(elements)))


def _highest(values: npt.NDArray[np.generic], count: int) -> list[int]:
    size = len(values)
    candidates = np.arange(size)
    if count < size:
        # Most outputs want a few of very many: only those not below the count-th are sorted.
        threshold = np.partition(values, size - count)[size - count]
        reaching = np.flatnonzero(values >= threshold)
        if len(reaching) >= count:
            candidates = reaching
    chosen = values[candidates]
    # A stable sort of the reversed values, reversed again, keeps equal values in index order.
    order = len(chosen) - 1 - np.argsort(chosen[::-1], kind="stable")[::-1]
    return [int(candidates[position]) for position in order[:count]]
