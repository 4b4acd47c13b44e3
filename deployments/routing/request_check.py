# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The checks Triton's core makes on a request before it is queued, compiled once per model.

A `RequestChecker` turns the config into a table of expectations, so that a well-formed request
costs one dictionary look-up and one tuple comparison per input; one that looks like the last that
passed costs less. Wire codecs have already checked
the transport's own rules; what passes here can be executed.

Triton: core/src/infer_request.cc InferenceRequest::Normalize @73aad7c
"""

from collections.abc import Sequence
from math import prod
from typing import Final

from backends.api.bytes_tensor import LENGTH_BYTES, count_elements
from backends.api.datatypes import SIZE_BYTES
from backends.api.errors import InvalidArgumentError, Phase
from backends.api.model_config import ModelConfig, ModelInput
from backends.api.quoting import quote_names, render_dims
from backends.api.request import InferenceRequest, Tensor, count_up_to, id_prefix

_INT64_MAX: Final = 2**63 - 1
_BATCH_NOTE: Final = (
    "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be "
    "prepended to each input shape. If you want to specify the full shape including the batch dim "
    "in your input dims config, try setting max_batch_size to zero. See the model configuration "
    "docs for more info on max_batch_size."
)


class _Expectation:
    """What the config says of one input; dims exclude the batch dimension."""

    def __init__(self, config_input: ModelInput) -> None:
        self.datatype = config_input.datatype
        self.dims = config_input.dims
        self.element_bytes = size = SIZE_BYTES[config_input.datatype]
        is_fixed = size > 0 and all(dim >= 0 for dim in self.dims)
        self.item_bytes: int | None = size * prod(self.dims) if is_fixed else None
        self.reshape = config_input.reshape
        self.check_dims = not config_input.is_shape_tensor


class RequestChecker:
    """Checks requests against one model's complete config and applies input reshapes."""

    def __init__(self, config: ModelConfig) -> None:
        self._name = config.name
        self._max_batch_size = config.max_batch_size
        self._expected = {each.name: _Expectation(each) for each in config.input}
        self._input_count = len(config.input)
        self._required = [each.name for each in config.input if not each.optional]
        self._outputs = frozenset(each.name for each in config.output)
        # Shape tensors have no batch dimension. Behind the others, which tell a request's size.
        self._by_value = frozenset(each.name for each in config.input if each.is_shape_tensor)
        # Whether names, shapes and sizes tell all: strings are checked by their content, and a
        # reshape changes the request, as do shape tensors.
        self._is_static = not self._by_value and all(
            each.element_bytes > 0 and each.reshape is None for each in self._expected.values()
        )
        # What is known of the last request that passed: name, datatype, shape and size of each
        # input, and the outputs asked for.
        self._passed: list[tuple[str, str, tuple[int, ...], int]] = []
        self._passed_outputs: list[str] = []

    def check(self, request: InferenceRequest) -> None:
        """Check a request; on return its inputs' shapes are those the backend expects.

        Raises:
            InvalidArgumentError: The request does not fit the model.
        """
        inputs = request.inputs
        passed = self._passed
        if len(passed) == len(inputs) and request.outputs == self._passed_outputs:
            for tensor, (name, datatype, shape, size) in zip(inputs, passed, strict=True):
                if (
                    tensor.name != name
                    or tensor.shape != shape
                    or tensor.data.nbytes != size
                    or tensor.datatype != datatype
                ):
                    break
            else:
                if passed:
                    return
        self._check_all(request)
        if self._is_static:
            self._passed = [
                (each.name, each.datatype, each.shape, each.data.nbytes) for each in inputs
            ]
            self._passed_outputs = request.outputs.copy()

    def _check_all(self, request: InferenceRequest) -> None:
        if request.outputs:
            self._check_outputs(request)
        self._check_names(request)
        by_value = self._by_value
        if by_value:
            request.inputs.sort(key=lambda tensor: tensor.name in by_value)
        is_batching = self._max_batch_size > 0
        batch_size = self._batch_size(request) if is_batching else 1
        # Of several that are wrong Triton names the last: its map of them begins with the newest.
        for tensor in reversed(request.inputs):
            expectation = self._expected[tensor.name]
            if tensor.datatype != expectation.datatype:
                raise InvalidArgumentError(
                    f"{id_prefix(request.id)}inference input '{tensor.name}' data-type is "
                    f"'{tensor.datatype}', but model '{self._name}' expects "
                    f"'{expectation.datatype}'"
                )
            has_batch = is_batching and tensor.name not in by_value
            item_shape = tensor.shape[1:] if has_batch else tensor.shape
            if item_shape != expectation.dims or -1 in item_shape:
                self._check_dims(request, tensor, item_shape, expectation)
            if not batch_size:
                self._check_empty_batch(request, tensor, expectation)
            elif expectation.item_bytes is None:
                self._check_variable_size(request, tensor, expectation)
            elif expectation.check_dims:
                size = batch_size * expectation.item_bytes
                if tensor.data.nbytes != size:
                    raise self._size_mismatch(request, tensor, size)
            if expectation.reshape is not None:
                tensor.shape = tensor.shape[: len(tensor.shape) - len(item_shape)] + _reshaped(
                    item_shape, expectation
                )

    def _check_names(self, request: InferenceRequest) -> None:
        inputs = request.inputs
        if len(inputs) != self._input_count or len({each.name for each in inputs}) != len(inputs):
            self._check_count(request)
        for tensor in inputs:
            if tensor.name not in self._expected:
                raise InvalidArgumentError(
                    f"unexpected inference input '{tensor.name}' for model '{self._name}'"
                )

    def _batch_size(self, request: InferenceRequest) -> int:
        batch_size: int | None = None
        for tensor in request.inputs:
            if tensor.name in self._by_value:
                continue
            if not tensor.shape:
                raise InvalidArgumentError(
                    f"{id_prefix(request.id)}input '{tensor.name}' has no shape but model requires "
                    f"batch dimension for '{self._name}'"
                )
            if batch_size is None:
                batch_size = tensor.shape[0]
            elif tensor.shape[0] != batch_size:
                raise InvalidArgumentError(
                    f"{id_prefix(request.id)}input '{tensor.name}' batch size does not match other "
                    f"inputs for '{self._name}'"
                )
        if batch_size is not None and not 0 <= batch_size <= self._max_batch_size:
            raise InvalidArgumentError(
                f"{id_prefix(request.id)}inference request batch-size must be <= "
                f"{self._max_batch_size} for '{self._name}'"
            )
        return 1 if batch_size is None else batch_size

    def _check_empty_batch(
        self, request: InferenceRequest, tensor: Tensor, expectation: _Expectation
    ) -> None:
        """Refuse a batch of no items, which to Triton is one item without a batch dimension."""
        if tensor.data.nbytes:
            raise self._size_mismatch(request, tensor, 0)
        is_text = expectation.element_bytes == 0
        if not is_text and not expectation.check_dims:
            return
        count = _count(tensor, tensor.shape[1:], expectation)
        if is_text:
            self._check_strings(request, tensor, count)
        elif count:
            raise self._size_mismatch(request, tensor, count * expectation.element_bytes)

    def _check_outputs(self, request: InferenceRequest) -> None:
        for name in request.outputs:
            if name not in self._outputs:
                raise InvalidArgumentError(
                    f"unexpected inference output '{name}' for model '{self._name}'"
                )
        if len(set(request.outputs)) != len(request.outputs):
            twice = _first_twice(request.outputs)
            raise InvalidArgumentError(
                f"{id_prefix(request.id)}output '{twice}' already exists in request"
            )

    def _check_count(self, request: InferenceRequest) -> None:
        names = [each.name for each in request.inputs]
        known = frozenset(names)
        if len(known) != len(names):
            raise InvalidArgumentError(
                f"{id_prefix(request.id)}input '{_first_twice(names)}' already exists in request"
            )
        if len(self._required) <= len(names) <= self._input_count:
            # Triton counts and does not look which: a backend may find one missing that is not
            # optional.
            return
        missing = [name for name in self._required if name not in known]
        has_optional = len(self._required) < self._input_count
        expects = (
            f"expected number of inputs between {len(self._required)} and {self._input_count} but "
            f"got {len(names)} inputs"
            if has_optional
            else f"expected {self._input_count} inputs but got {len(names)} inputs"
        )
        raise InvalidArgumentError(
            f"{id_prefix(request.id)}{expects} for model '{self._name}'. Got input(s) "
            f"{quote_names(names)}, but missing required input(s) "
            f"{quote_names(missing) if missing else ']'}. "
            f"Please provide all required input(s)."
        )

    def _check_dims(
        self,
        request: InferenceRequest,
        tensor: Tensor,
        item_shape: tuple[int, ...],
        expectation: _Expectation,
    ) -> None:
        dims = expectation.dims
        if len(dims) == len(item_shape):
            for want, got in zip(dims, item_shape, strict=True):
                if got == -1:
                    raise InvalidArgumentError(
                        f"{id_prefix(request.id)}All input dimensions should be specified for "
                        f"input '{tensor.name}' for model '{self._name}', got "
                        f"{render_dims(tensor.shape)}"
                    )
                if want not in (-1, got):
                    break
            else:
                return
        if not expectation.check_dims:
            return
        full = (-1, *dims) if self._max_batch_size > 0 else dims
        note = _BATCH_NOTE if self._max_batch_size > 0 else ""
        raise InvalidArgumentError(
            f"{id_prefix(request.id)}unexpected shape for input '{tensor.name}' for model "
            f"'{self._name}'. Expected {render_dims(full)}, got {render_dims(tensor.shape)}. {note}"
        )

    def _check_variable_size(
        self, request: InferenceRequest, tensor: Tensor, expectation: _Expectation
    ) -> None:
        is_text = expectation.element_bytes == 0
        if any(dim < 0 for dim in tensor.shape):
            shape = ("in shape " if is_text else "") + render_dims(tensor.shape)
            raise InvalidArgumentError(
                f"tensor '{tensor.name}' contains an invalid dimension {shape}"
            )
        count = _count(tensor, tensor.shape, expectation)
        if is_text:
            self._check_strings(request, tensor, count)
        elif expectation.check_dims and tensor.data.nbytes != count * expectation.element_bytes:
            raise self._size_mismatch(request, tensor, count * expectation.element_bytes)

    def _check_strings(self, request: InferenceRequest, tensor: Tensor, expected: int) -> None:
        if count_elements(tensor.data) == expected:
            return
        data, end = tensor.data, tensor.data.nbytes
        offset = found = 0
        while offset < end:
            if end - offset < LENGTH_BYTES:
                raise InvalidArgumentError(
                    f"{id_prefix(request.id)}incomplete string length indicator for inference "
                    f"input '{tensor.name}' for model '{self._name}', expecting 4 bytes but only "
                    f"{end - offset} bytes available. Please make sure the string length indicator "
                    f"is in one buffer."
                )
            if found >= expected:
                raise InvalidArgumentError(
                    f"{id_prefix(request.id)}unexpected number of string elements {found + 1} for "
                    f"inference input '{tensor.name}' for model '{self._name}', expecting "
                    f"{expected}"
                )
            length = int.from_bytes(data[offset : offset + 4], "little")
            offset += 4
            if length > end - offset:
                raise InvalidArgumentError(
                    f"incomplete string data for inference input '{tensor.name}', expecting string "
                    f"of length {length} but only {end - offset} bytes available",
                    Phase.BATCH,
                )
            offset += length
            found += 1
        if found != expected:
            raise InvalidArgumentError(
                f"{id_prefix(request.id)}expected {expected} string elements for inference input "
                f"'{tensor.name}' for model '{self._name}', got {found}"
            )

    def _size_mismatch(
        self, request: InferenceRequest, tensor: Tensor, expected: int
    ) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{id_prefix(request.id)}input byte size mismatch for input '{tensor.name}' for model "
            f"'{self._name}'. Expected {expected}, got {tensor.data.nbytes}"
        )


def _reshaped(item_shape: tuple[int, ...], expectation: _Expectation) -> tuple[int, ...]:
    wildcards = iter(
        got for want, got in zip(expectation.dims, item_shape, strict=True) if want == -1
    )
    reshape = expectation.reshape or ()
    return tuple(next(wildcards) if dim == -1 else dim for dim in reshape)


def _count(tensor: Tensor, shape: tuple[int, ...], expectation: _Expectation) -> int:
    """Return the number of elements of a shape of a client.

    Raises:
        InvalidArgumentError: There are too many.
    """
    is_text = expectation.element_bytes == 0
    count = count_up_to(shape, _INT64_MAX // max(expectation.element_bytes, 1))
    if count is None:
        raise InvalidArgumentError(
            f"{'element count' if is_text else 'byte size'} for tensor '{tensor.name}' exceeds "
            f"maximum size of {_INT64_MAX}"
        )
    return count


def _first_twice(names: Sequence[str]) -> str:
    """Return the first name that comes again."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""
