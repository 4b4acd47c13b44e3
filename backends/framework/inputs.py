# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Makes what a model is fed out of the inputs of one request, or of all requests of a batch.

Triton: backend/src/backend_input_collector.cc BackendInputCollector::ProcessTensor
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest, Tensor, element_count, tensor_as_numpy
from backends.framework.batch_inputs import batch_input_array

Array = npt.NDArray[Any]
# What a model is fed, by the name of the input.
Feed = dict[str, Array]


class InputRules:
    """How the inputs of one model become arrays.

    Args:
        config: The model's config.
        scalars: Names of inputs that the model wants without any dimension.
        decodes_strings: Whether elements of string inputs are ``str``; else they are ``bytes``.
        writable: Whether the model may write into what it is fed: it is a copy then.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        scalars: Collection[str] = (),
        decodes_strings: bool = False,
        writable: bool = False,
    ) -> None:
        self._model = config.name
        self._ragged = {each.name for each in config.input if each.allow_ragged_batch}
        # Shape tensors; requests are in one batch only when they have the same.
        self._by_value = {each.name for each in config.input if each.is_shape_tensor}
        self._batch_inputs = config.batch_input
        self._scalars = frozenset(scalars)
        self._decodes_strings = decodes_strings
        self._writable = writable

    def alone(self, tensors: Sequence[Tensor]) -> Feed:
        """Return what the model is fed for one request; views of its bytes unless writable.

        Raises:
            InvalidArgumentError: A tensor's bytes cannot be read.
        """
        writable = self._writable
        feed = {tensor.name: self._array(tensor, writable=writable) for tensor in tensors}
        self._add_batch_inputs(feed, [tensors])
        return feed

    def together(self, inputs: Sequence[Sequence[Tensor]], total: int) -> Feed:
        """Return what the model is fed for several requests: each input joined along dimension 0.

        Args:
            inputs: Each request's inputs, all in the same order; see `in_one_order`.
            total: Sum of their first dimensions.

        Raises:
            InternalError: Shapes do not go together, and the input is not ragged.
            InvalidArgumentError: A tensor's bytes cannot be read.
        """
        feed = {
            column[0].name: self._array(
                column[0] if column[0].name in self._by_value else self._joined(column, total),
                writable=False,
            )
            for column in zip(*inputs, strict=True)
        }
        self._add_batch_inputs(feed, inputs)
        return feed

    def in_one_order(self, requests: Sequence[InferenceRequest]) -> list[list[Tensor]]:
        """Return each request's inputs in the order of the first one's, shape tensors last.

        Raises:
            InternalError: They have different inputs.
        """
        if len(requests) == 1 and not self._by_value:
            return [requests[0].inputs]
        names = [tensor.name for tensor in requests[0].inputs]
        if self._by_value:
            # The first one tells how many items a request has.
            names.sort(key=self._by_value.__contains__)
        inputs = []
        for request in requests:
            if [tensor.name for tensor in request.inputs] == names:
                inputs.append(request.inputs)
                continue
            by_name = {tensor.name: tensor for tensor in request.inputs}
            if sorted(by_name) != sorted(names):
                raise InternalError(
                    f"model '{self._model}' got requests with different inputs in one batch"
                )
            inputs.append([by_name[name] for name in names])
        return inputs

    def _add_batch_inputs(self, feed: Feed, inputs: Sequence[Sequence[Tensor]]) -> None:
        for rule in self._batch_inputs:
            array = batch_input_array(rule, shapes_of(inputs, rule.source_inputs[0]))
            feed.update(dict.fromkeys(rule.target_names, array))

    def _joined(self, column: Sequence[Tensor], total: int) -> Tensor:
        """Join one input of all requests along the batch dimension: in wire form, bytes join."""
        first = column[0]
        dims = first.shape[1:]
        if first.name in self._ragged:
            count = sum(element_count(tensor.shape) for tensor in column)
            return Tensor(first.name, first.datatype, (count,), self._joined_bytes(column))
        for tensor in column:
            if tensor.name != first.name or tensor.shape[1:] != dims:
                raise InternalError(
                    f"model '{self._model}' got input '{first.name}' with shape "
                    f"{list(first.shape)} and input '{tensor.name}' with shape "
                    f"{list(tensor.shape)} in one batch; only the first dimension may differ"
                )
        return Tensor(first.name, first.datatype, (total, *dims), self._joined_bytes(column))

    def _joined_bytes(self, column: Sequence[Tensor]) -> memoryview:
        # The result is the model's own, and it costs nothing to let it write there: some frameworks
        # take only memory that looks so.
        return memoryview(bytearray().join([tensor.data for tensor in column]))

    def _array(self, tensor: Tensor, *, writable: bool) -> Array:
        try:
            array = tensor_as_numpy(tensor, writable=writable)
            if self._decodes_strings and tensor.datatype == "BYTES":
                array = _decoded(array)
        except ValueError as error:
            raise InvalidArgumentError(
                f"input '{tensor.name}' of model '{self._model}' cannot be read: {error}"
            ) from error
        if tensor.name in self._ragged:
            return array.reshape(-1)
        return array.reshape(()) if tensor.name in self._scalars else array


def require_all(model: str, names: Iterable[str], feed: Feed) -> None:
    """Check that a request has every input of a model that does without none.

    Raises:
        InvalidArgumentError: It lacks one.
    """
    missing = [name for name in names if name not in feed]
    if missing:
        raise InvalidArgumentError(
            f"request for model '{model}' lacks input {', '.join(map(repr, missing))}, which the "
            "model itself needs, also where its config says 'optional: true'; send it"
        )


def shapes_of(inputs: Sequence[Sequence[Tensor]], name: str) -> list[tuple[int, ...]]:
    """Return the shape of one input in each request."""
    return [tensor.shape for tensors in inputs for tensor in tensors if tensor.name == name]


def _decoded(array: Array) -> Array:
    """Make str of bytes."""
    texts = np.empty(array.size, dtype=np.object_)
    texts[:] = [element.decode() for element in array.ravel()]
    return texts.reshape(array.shape)
