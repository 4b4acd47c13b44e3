# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors that tell a model where, in a ragged batch, one request ends and the next begins.

A backend that joins requests of different shapes into one flat tensor feeds its model these too,
and splits an output by the shapes of the input it follows.

Triton: backend/src/backend_input_collector.cc BatchInputShape, ProcessBatchInput;
backend_output_responder.cc ProcessBatchOutput
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from backends.api.datatypes import numpy_dtype
from backends.api.model_config import BatchInput, BatchOutput, ModelConfig

Shape = tuple[int, ...]
_Numbers = npt.NDArray[Any]


def _element_counts(shapes: Sequence[Shape]) -> _Numbers:
    return np.array([prod(shape) for shape in shapes])


def _item_shapes(shapes: Sequence[Shape]) -> _Numbers:
    return np.array([shape[1:] for shape in shapes for _ in range(shape[0])])


_BY_KIND: dict[str, Callable[[Sequence[Shape]], _Numbers]] = {
    "BATCH_ELEMENT_COUNT": _element_counts,
    "BATCH_ACCUMULATED_ELEMENT_COUNT": lambda shapes: np.cumsum(_element_counts(shapes)),
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO": lambda shapes: np.cumsum(
        [0, *_element_counts(shapes)]
    ),
    # Only its shape says something.
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE": lambda shapes: np.zeros(max(map(prod, shapes))),
    "BATCH_ITEM_SHAPE": _item_shapes,
    "BATCH_ITEM_SHAPE_FLATTEN": lambda shapes: _item_shapes(shapes).ravel(),
}


def batch_input_array(rule: BatchInput, shapes: Sequence[Shape]) -> _Numbers:
    """Return what each target of a batch input holds.

    Args:
        rule: The batch input.
        shapes: Its source input's shape in each request, batch dimension included.

    Returns:
        An INT32 or FP32 array: ``[requests]`` for counts, one more with a leading zero,
        ``[largest count]`` where the shape is the message, ``[rows, rank]`` for item shapes or the
        same flat.
    """
    return _BY_KIND[rule.kind](shapes).astype(numpy_dtype(rule.datatype))


def scattered(
    array: _Numbers, dims: Sequence[int], shapes: Sequence[Shape]
) -> list[npt.NDArray[Any]]:
    """Split an output that follows an input: each part has that input's size where dims vary.

    Args:
        array: The output of the whole batch, of any shape.
        dims: The output's dims, batch dimension included; -1 is taken from the input.
        shapes: The input's shape in each request.

    Raises:
        ValueError: The output does not hold as many elements as the parts need.
    """
    flat = array.reshape(-1)
    parts = []
    start = 0
    for shape in shapes:
        own = [shape[axis] if dim < 0 else dim for axis, dim in enumerate(dims)]
        end = start + prod(own)
        parts.append(flat[start:end].reshape(own))
        start = end
    return parts


def scatter_rules(config: ModelConfig) -> dict[str, tuple[BatchOutput, tuple[int, ...]]]:
    """Return, for each output that is split by an input's shapes, its rule and its dims."""
    dims = {output.name: (-1, *output.dims) for output in config.output}
    return {name: (rule, dims[name]) for rule in config.batch_output for name in rule.target_names}
