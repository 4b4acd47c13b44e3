# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Shape buckets: requests of different lengths are padded to common ones, so that they can batch.

Triton has no such thing; a model opts in by ``parameters`` of its config:

- ``shape_buckets.<input>``: lengths, separated by commas. The input's one variable dimension is
  padded at its end to the smallest of them that holds it. What is longer than all stays as it is.
- ``pad_value.<input>``: what it is padded with; 0 unless given.
- ``unpad.<output>``: an input. The output's one variable dimension, where it is as long as that
  input was padded to, is cut to the length that the client sent.

Whether a request is padded does not depend on what it is batched with.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from backends.api.datatypes import numpy_dtype
from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig, ModelInput, ModelOutput
from backends.api.request import InferenceRequest, InferenceResponse, Tensor

_BUCKETS = "shape_buckets."
_VALUE = "pad_value."
_UNPAD = "unpad."

# By input: the length that was sent and the one it was padded to.
Lengths = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class PaddedInput:
    """An input that is padded.

    Attributes:
        axis: Which dimension of the full shape.
        lengths: The buckets, ascending.
        element: The bytes of one element of the padding.
    """

    axis: int
    lengths: tuple[int, ...]
    element: bytes

    def length(self, given: int) -> int:
        """Return the length that a given one is padded to."""
        place = bisect_left(self.lengths, given)
        return given if place == len(self.lengths) else self.lengths[place]

    def shape(self, given: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape that a given one is padded to."""
        axis = self.axis
        return (*given[:axis], self.length(given[axis]), *given[axis + 1 :])


@dataclass(frozen=True, slots=True)
class ShapeBuckets:
    """The buckets of one model.

    Attributes:
        inputs: Inputs that are padded, by name.
        outputs: Outputs that are cut: which dimension of the full shape, and the input it follows.
    """

    inputs: Mapping[str, PaddedInput]
    outputs: Mapping[str, tuple[int, str]]

    def shape_of(self, tensor: Tensor) -> tuple[int, ...]:
        """Return the shape in which the model gets an input."""
        padded = self.inputs.get(tensor.name)
        return tensor.shape if padded is None else padded.shape(tensor.shape)

    def pad(self, request: InferenceRequest) -> Lengths:
        """Pad the inputs of a request, once, and return what their lengths were and are."""
        lengths: dict[str, tuple[int, int]] = {}
        for place, tensor in enumerate(request.inputs):
            padded = self.inputs.get(tensor.name)
            if padded is None:
                continue
            shape = padded.shape(tensor.shape)
            lengths[tensor.name] = (tensor.shape[padded.axis], shape[padded.axis])
            if shape != tensor.shape:
                request.inputs[place] = _padded(tensor, shape, padded)
        return lengths

    def unpad(self, response: InferenceResponse, lengths: Lengths) -> None:
        """Cut the outputs of a request whose inputs were padded."""
        for place, tensor in enumerate(response.outputs):
            found = self.outputs.get(tensor.name)
            if found is None:
                continue
            axis, follows = found
            sent, padded = lengths.get(follows, (0, 0))
            if sent != padded and len(tensor.shape) > axis and tensor.shape[axis] == padded:
                response.outputs[place] = _cut(tensor, axis, sent)


def shape_buckets_of(config: ModelConfig) -> ShapeBuckets | None:
    """Return the buckets a config asks for, or None.

    Raises:
        InvalidArgumentError: A parameter names no tensor, or one that cannot be padded or cut, or
            its value is not what it has to be.
    """
    buckets, values, unpads = (
        {
            key.removeprefix(prefix): text
            for key, text in config.parameters.items()
            if key.startswith(prefix)
        }
        for prefix in (_BUCKETS, _VALUE, _UNPAD)
    )
    if not (buckets or values or unpads):
        return None
    if config.dynamic_batching is None or config.max_batch_size < 1:
        raise InvalidArgumentError(
            f"model '{config.name}' has shape buckets in its parameters, which need "
            f"dynamic_batching and a max_batch_size of at least 1; give both or take them out"
        )
    inputs = {
        name: _padded_input(config, name, text, values.get(name, "0"))
        for name, text in buckets.items()
    }
    for prefix, names in ((_VALUE, values), (_UNPAD, unpads.values())):
        for name in names:
            if name not in inputs:
                raise InvalidArgumentError(
                    f"model '{config.name}' has a parameter '{prefix}...' for input '{name}', "
                    f"which has no '{_BUCKETS}{name}'; inputs with buckets are: {_listed(inputs)}"
                )
    outputs = {
        name: (_axis(config, _UNPAD, name, config.output), follows)
        for name, follows in unpads.items()
    }
    return ShapeBuckets(inputs, outputs)


def _padded_input(config: ModelConfig, name: str, text: str, value: str) -> PaddedInput:
    axis = _axis(config, _BUCKETS, name, config.input)
    datatype = next(each.datatype for each in config.input if each.name == name)
    parts = [part.strip() for part in text.split(",")]
    lengths = tuple(int(part) for part in parts if part.isdecimal())
    if len(lengths) < len(parts) or list(lengths) != sorted({*lengths} - {0}):
        raise InvalidArgumentError(
            f"model '{config.name}' has parameter '{_BUCKETS}{name}' with value '{text}', expected "
            f"ascending lengths separated by commas, for example '32,64,128'"
        )
    dtype = numpy_dtype(datatype)
    try:
        number = int(value) if dtype.kind in "iu" else float(value)
        element = np.array([number], dtype)
    except (ValueError, OverflowError):
        raise InvalidArgumentError(
            f"model '{config.name}' has parameter '{_VALUE}{name}' with value '{value}', expected "
            f"a number of type {datatype}"
        ) from None
    return PaddedInput(axis, lengths, element.tobytes())


def _axis(
    config: ModelConfig, prefix: str, name: str, tensors: Iterable[ModelInput | ModelOutput]
) -> int:
    """Return which dimension of the full shape is the variable one."""
    by_name = {each.name: each for each in tensors}
    subject = f"model '{config.name}' has parameter '{prefix}{name}'"
    tensor = by_name.get(name)
    if tensor is None:
        raise InvalidArgumentError(f"{subject}, expected one of the tensors {_listed(by_name)}")
    is_ragged = isinstance(tensor, ModelInput) and tensor.allow_ragged_batch
    if (
        tensor.dims.count(-1) != 1
        or tensor.reshape is not None
        or tensor.datatype == "BYTES"
        or tensor.is_shape_tensor
        or is_ragged
    ):
        raise InvalidArgumentError(
            f"{subject} for a tensor of type {tensor.datatype} with dims {list(tensor.dims)}; "
            f"expected one variable dimension, elements of a fixed size, no reshape, no ragged "
            f"batch and no shape tensor"
        )
    return 1 + tensor.dims.index(-1)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"


def _padded(tensor: Tensor, shape: tuple[int, ...], padded: PaddedInput) -> Tensor:
    axis, element = padded.axis, padded.element
    rows = math.prod(shape[:axis])
    step = math.prod(shape[axis + 1 :]) * len(element)
    filled = tensor.shape[axis] * step
    if any(element):
        full = np.tile(np.frombuffer(element, np.uint8), math.prod(shape))
    else:
        full = np.zeros(math.prod(shape) * len(element), np.uint8)
    if rows and filled:
        given = np.frombuffer(tensor.data, np.uint8).reshape(rows, filled)
        full.reshape(rows, shape[axis] * step)[:, :filled] = given
    return Tensor(tensor.name, tensor.datatype, shape, full.data)


def _cut(tensor: Tensor, axis: int, length: int) -> Tensor:
    shape = (*tensor.shape[:axis], length, *tensor.shape[axis + 1 :])
    rows = math.prod(shape[:axis])
    if not math.prod(shape):
        return Tensor(tensor.name, tensor.datatype, shape)
    given = np.frombuffer(tensor.data, np.uint8).reshape(rows, -1)
    kept = given[:, : given.shape[1] // tensor.shape[axis] * length]
    return Tensor(tensor.name, tensor.datatype, shape, np.ascontiguousarray(kept).reshape(-1).data)
