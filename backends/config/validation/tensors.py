# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Triton's rules for inputs, outputs, batch inputs and batch outputs of a model config.

Triton: core/src/model_config_utils.cc ValidateModelIOConfig, ValidateBatchIO @73aad7c
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from backends.config.views import enum_name

VARIABLE = -1
_IMAGE_FORMATS = frozenset({"FORMAT_NHWC", "FORMAT_NCHW"})
_IMAGE_RANK = 3
_BATCH_INPUT_DATATYPES = frozenset({"TYPE_INT32", "TYPE_FP32"})
_TENSORRT = "tensorrt_plan"


def tensor_complaints(message: Any) -> Iterator[str]:
    """Yield what is wrong with the tensors of a ModelConfig message."""
    suffix = f" for {message.name}"
    for tensor in message.input:
        for complaint in _input(tensor, message):
            yield complaint + suffix
    for tensor in message.output:
        for complaint in _output(tensor, message):
            yield complaint + suffix
    for complaint in _batch_tensors(message):
        yield complaint + suffix


def _input(tensor: Any, message: Any) -> Iterator[str]:
    yield from _shape(tensor, "model input ", message.max_batch_size)
    if enum_name(tensor, "format") in _IMAGE_FORMATS and len(tensor.dims) != _IMAGE_RANK:
        yield "model input NHWC/NCHW require 3 dims"
    yield from _tensorrt_only(tensor, "input", message.platform)


def _output(tensor: Any, message: Any) -> Iterator[str]:
    yield from _shape(tensor, "model output ", message.max_batch_size)
    yield from _tensorrt_only(tensor, "output", message.platform)


def _tensorrt_only(tensor: Any, direction: str, platform: str) -> Iterator[str]:
    if tensor.is_shape_tensor and platform != _TENSORRT:
        yield "shape tensors are only supported for TensorRT platform"
    if tensor.is_non_linear_format_io:
        if platform != _TENSORRT:
            yield "Non-linear IO format is only supported for the TensorRT platform"
        elif len(tensor.dims) != _IMAGE_RANK:
            yield f"Non-linear IO format {direction} requires 3 dims"


def _shape(tensor: Any, prefix: str, max_batch_size: int) -> Iterator[str]:
    if not tensor.name:
        yield f"{prefix}must specify 'name'"
    subject = f"{prefix}'{tensor.name}' "
    if enum_name(tensor, "data_type") == "TYPE_INVALID":
        yield f"{subject}must specify 'data_type'"
    if not tensor.dims:
        yield f"{subject}must specify 'dims'"
    reshaped = tensor.HasField("reshape")
    if reshaped and not tensor.reshape.shape and max_batch_size == 0:
        yield (
            f"{subject}cannot have empty reshape for non-batching model as scalar tensors are not "
            "supported"
        )
    allowed = "must be integer >= 1, or -1 to indicate a variable-size dimension"
    if not _is_shape(tensor.dims):
        yield f"{subject}dimension {allowed}"
    if reshaped:
        if not _is_shape(tensor.reshape.shape):
            yield f"{subject}reshape dimensions {allowed}"
        yield from _reshape(list(tensor.dims), list(tensor.reshape.shape), subject)


def _is_shape(dims: Sequence[int]) -> bool:
    return all(dim >= 1 or dim == VARIABLE for dim in dims)


def _reshape(dims: list[int], shape: list[int], subject: str) -> Iterator[str]:
    """Compare the element counts of the parts between variable-size dimensions."""
    different = f"{subject}has different size for dims and reshape"
    dims_parts, shape_parts = _element_counts(dims), _element_counts(shape)
    if (len(dims_parts) == 1) != (len(shape_parts) == 1):
        yield different
    elif len(dims_parts) != len(shape_parts):
        yield (f"{subject}has different number of variable-size dimensions for dims and reshape")
    elif dims_parts != shape_parts:
        yield different


def _element_counts(dims: list[int]) -> list[int]:
    """Return the element counts of the parts of ``dims`` that variable-size dimensions separate."""
    parts: list[list[int]] = [[]]
    for dim in dims:
        if dim == VARIABLE:
            parts.append([])
        else:
            parts[-1].append(dim)
    return list(map(prod, parts))


def _batch_tensors(message: Any) -> Iterator[str]:
    inputs = {tensor.name for tensor in message.input}
    outputs = {tensor.name for tensor in message.output}
    for row in message.batch_input:
        yield from _sources(row, "batch input", inputs)
        if enum_name(row, "data_type") not in _BATCH_INPUT_DATATYPES:
            yield "batch input data type must be TYPE_INT32 or TYPE_FP32"
    for row in message.batch_output:
        yield from _sources(row, "batch output", inputs)
        yield from _targets(row, outputs)


def _sources(row: Any, subject: str, inputs: set[str]) -> Iterator[str]:
    kind = enum_name(row, "kind")
    if kind.isdigit():
        yield f"unknown {subject} kind '{kind}'"
    if len(row.source_input) != 1:
        yield f"{subject} kind '{kind}' expects 1 source input, got {len(row.source_input)}"
    for name in row.source_input:
        if name not in inputs:
            yield f"unknown source input name '{name}'"


def _targets(row: Any, outputs: set[str]) -> Iterator[str]:
    seen = set()
    for name in row.target_name:
        if name not in outputs:
            yield f"unknown target output name '{name}'"
        if name in seen:
            yield f"target output name '{name}' can only be specified once"
        seen.add(name)
