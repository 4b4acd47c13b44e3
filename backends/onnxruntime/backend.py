# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ONNX Runtime backend.

Triton: onnxruntime_backend/src/onnxruntime.cc ModelInstanceState::ProcessRequests
"""

import itertools
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from backends.api.backend import (
    Backend,
    ExecuteBatch,
    ExecuteRequest,
    LoadContext,
    ModelInstance,
)
from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from backends.api.model_config import ModelConfig
from backends.api.request import (
    InferenceRequest,
    InferenceResponse,
    Tensor,
    element_count,
    tensor_as_numpy,
    tensor_from_numpy,
)
from backends.framework.batch_inputs import batch_input_array, scatter_rules, scattered
from backends.onnxruntime import auto_complete
from backends.onnxruntime.failure import runtime_error
from backends.onnxruntime.session import open_for_reading, open_session
from backends.onnxruntime.signature import Signature, read_signature, validate


class OnnxRuntimeBackend(Backend):
    """Runs ONNX models."""

    def auto_complete(self, context: LoadContext) -> ModelConfig:
        """Fill in tensors, batch size and dynamic batching from the model.

        Raises:
            UnavailableError: The model's file is missing.
            InternalError: ONNX Runtime cannot read it.
            UnsupportedError: It has inputs or outputs that are no tensors.
            InvalidArgumentError: It contradicts max_batch_size.
        """
        if auto_complete.is_complete(context.config):
            return context.config
        signature = read_signature(open_for_reading(context))
        return auto_complete.completed(context.config, signature, context.backend_config)

    def load(self, context: LoadContext) -> ModelInstance:
        """Open a session on the instance's device.

        Raises:
            UnavailableError: The file is missing, or the device cannot be used.
            InternalError: ONNX Runtime cannot load the model.
            UnsupportedError: The config asks for an execution accelerator.
            InvalidArgumentError: Config and model contradict each other.
        """
        session = open_session(context)
        signature = read_signature(session)
        validate(context.config, signature)
        return OnnxRuntimeInstance(context, session, signature)


class OnnxRuntimeInstance(ModelInstance):
    """One session."""

    def __init__(self, context: LoadContext, session: Any, signature: Signature) -> None:
        config = context.config
        self._session = session
        self._name = config.name
        self._version = str(context.version)
        self._batches = config.max_batch_size > 0
        sequences = config.sequence_batching
        states = () if sequences is None else sequences.states
        # Made whether a client asked for them or not.
        self._states = [state.output_name for state in states]
        listed = [output.name for output in config.output]
        self._outputs = listed + [name for name in self._states if name not in listed]
        self._ragged = {each.name for each in config.input if each.allow_ragged_batch}
        self._batch_inputs = config.batch_input
        self._scattered = scatter_rules(config)
        self._scalar_inputs = {info.name for info in signature.inputs if not info.shape}
        # Outputs of a model without batching that are scalars there, and 1s in the config.
        scalars = {info.name for info in signature.outputs if not info.shape}
        self._scalar_dims = {
            output.name: output.dims for output in config.output if output.name in scalars
        }

    def execute(self, batch: ExecuteBatch) -> None:
        """Run the batch as one, or request by request when the model does not batch.

        A batch that fails is run again request by request, so that a request fails only itself.
        """
        if self._batches and len(batch.requests) > 1:
            try:
                self._run_together(batch)
            except TritonError:
                batch.compute_input_end_ns = 0
            else:
                return
        for request in batch.requests:
            try:
                self._run_alone(batch, request)
            except TritonError as error:
                request.fail(error)

    def close(self) -> None:
        """Free the session and its memory arena."""
        self._session = None

    def _run_alone(self, batch: ExecuteBatch, execute_request: ExecuteRequest) -> None:
        request = execute_request.request
        feed = {tensor.name: self._array(tensor) for tensor in request.inputs}
        self._add_batch_inputs(feed, [request.inputs])
        names = self._in_config_order(request.outputs)
        arrays = self._run(batch, names, feed)
        if self._batches and request.inputs:
            self._check_batch(names, arrays, request.inputs[0].shape[0])
        if self._scattered:
            split = self._split(names, arrays, [request.inputs])
            arrays = [parts[0] for parts in split]
        outputs = [self._output(*named) for named in zip(names, arrays, strict=True)]
        execute_request.respond(InferenceResponse(self._name, self._version, request.id, outputs))

    def _run_together(self, batch: ExecuteBatch) -> None:
        requests = [execute_request.request for execute_request in batch.requests]
        inputs = self._in_one_order(requests)
        total = sum(tensors[0].shape[0] for tensors in inputs)
        feed = {
            column[0].name: self._array(self._joined(column, total))
            for column in zip(*inputs, strict=True)
        }
        self._add_batch_inputs(feed, inputs)
        names = self._in_config_order(
            ()
            if any(not request.outputs for request in requests)
            else {name for request in requests for name in request.outputs}
        )
        arrays = self._run(batch, names, feed)
        self._check_batch(names, arrays, total)
        split = self._split(names, arrays, inputs)
        for row, execute_request in enumerate(batch.requests):
            request = execute_request.request
            wanted = [*request.outputs, *self._states] if request.outputs else names
            outputs = [
                tensor_from_numpy(name, parts[row])
                for name, parts in zip(names, split, strict=True)
                if name in wanted
            ]
            execute_request.respond(
                InferenceResponse(self._name, self._version, request.id, outputs)
            )

    def _in_one_order(self, requests: Sequence[InferenceRequest]) -> list[list[Tensor]]:
        """Return each request's inputs in the order of the first one's."""
        names = [tensor.name for tensor in requests[0].inputs]
        inputs = []
        for request in requests:
            if [tensor.name for tensor in request.inputs] == names:
                inputs.append(request.inputs)
                continue
            by_name = {tensor.name: tensor for tensor in request.inputs}
            if sorted(by_name) != sorted(names):
                raise InternalError(
                    f"model '{self._name}' got requests with different inputs in one batch"
                )
            inputs.append([by_name[name] for name in names])
        return inputs

    def _add_batch_inputs(
        self, feed: dict[str, npt.NDArray[Any]], inputs: Sequence[Sequence[Tensor]]
    ) -> None:
        for rule in self._batch_inputs:
            array = batch_input_array(rule, _shapes(inputs, rule.source_inputs[0]))
            feed.update(dict.fromkeys(rule.target_names, array))

    def _split(
        self,
        names: Sequence[str],
        arrays: Sequence[npt.NDArray[Any]],
        inputs: Sequence[Sequence[Tensor]],
    ) -> list[list[npt.NDArray[Any]]]:
        """Return each output in parts, one for each request."""
        bounds = [0, *itertools.accumulate(tensors[0].shape[0] for tensors in inputs)]
        rows = [slice(*ends) for ends in itertools.pairwise(bounds)]
        split: list[list[npt.NDArray[Any]]] = []
        for name, array in zip(names, arrays, strict=True):
            if name not in self._scattered:
                split.append([array[own] for own in rows])
                continue
            rule, dims = self._scattered[name]
            try:
                split.append(scattered(array, dims, _shapes(inputs, rule.source_inputs[0])))
            except ValueError as error:
                raise InternalError(
                    f"model '{self._name}' made output '{name}' with shape {list(array.shape)}, "
                    f"which does not hold an element for each of input '{rule.source_inputs[0]}'"
                ) from error
        return split

    def _joined(self, column: Sequence[Tensor], total: int) -> Tensor:
        """Join one input of all requests along the batch dimension: in wire form, bytes join."""
        first = column[0]
        dims = first.shape[1:]
        if first.name in self._ragged:
            data = memoryview(b"".join([tensor.data for tensor in column]))
            count = sum(element_count(tensor.shape) for tensor in column)
            return Tensor(first.name, first.datatype, (count,), data)
        for tensor in column:
            if tensor.name != first.name or tensor.shape[1:] != dims:
                raise InternalError(
                    f"model '{self._name}' got input '{first.name}' with shape "
                    f"{list(first.shape)} and input '{tensor.name}' with shape "
                    f"{list(tensor.shape)} in one batch; only the first dimension may differ"
                )
        data = memoryview(b"".join([tensor.data for tensor in column]))
        return Tensor(first.name, first.datatype, (total, *dims), data)

    def _array(self, tensor: Tensor) -> npt.NDArray[Any]:
        try:
            array = tensor_as_numpy(tensor)
            if tensor.datatype == "BYTES":
                array = _decoded(array)
        except ValueError as error:
            raise InvalidArgumentError(
                f"input '{tensor.name}' of model '{self._name}' cannot be read: {error}"
            ) from error
        if tensor.name in self._ragged:
            return array.reshape(-1)
        return array.reshape(()) if tensor.name in self._scalar_inputs else array

    def _run(
        self, batch: ExecuteBatch, names: list[str], feed: dict[str, npt.NDArray[Any]]
    ) -> list[npt.NDArray[Any]]:
        # Of several runs for one batch, the first tells when inputs were there and the last when
        # outputs were.
        if not batch.compute_input_end_ns:
            batch.compute_input_end_ns = time.monotonic_ns()
        try:
            arrays: list[npt.NDArray[Any]] = self._session.run(names, feed)
        except Exception as error:
            shapes = ", ".join(f"'{name}' {list(array.shape)}" for name, array in feed.items())
            raise runtime_error(error, f"model '{self._name}', inputs {shapes}") from error
        batch.compute_output_start_ns = time.monotonic_ns()
        return arrays

    def _check_batch(self, names: list[str], arrays: list[npt.NDArray[Any]], size: int) -> None:
        for name, array in zip(names, arrays, strict=True):
            if array.shape[:1] != (size,) and name not in self._scattered:
                raise InternalError(
                    f"model '{self._name}' made output '{name}' with shape {list(array.shape)} "
                    f"for a batch of {size}; its first dimension must be the batch size, or "
                    "max_batch_size must be 0"
                )

    def _in_config_order(self, wanted: Iterable[str]) -> list[str]:
        """Return the outputs to compute; all when nobody named any."""
        chosen = set(wanted)
        if not chosen:
            return self._outputs
        chosen.update(self._states)
        return [name for name in self._outputs if name in chosen]

    def _output(self, name: str, array: npt.NDArray[Any]) -> Tensor:
        dims = self._scalar_dims.get(name)
        return tensor_from_numpy(name, array if dims is None else array.reshape(dims))


def _shapes(inputs: Sequence[Sequence[Tensor]], name: str) -> list[tuple[int, ...]]:
    """Return the shape of one input in each request."""
    return [tensor.shape for tensors in inputs for tensor in tensors if tensor.name == name]


def _decoded(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Make str of bytes, which is what ONNX strings are."""
    texts = np.empty(array.size, dtype=np.object_)
    texts[:] = [element.decode() for element in array.ravel()]
    return texts.reshape(array.shape)
