# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A backend without computation: OUTPUT<k> repeats INPUT<k>.

It measures what everything around a model costs, and lets tests choose a model's timing. The output
of an optional input that was not given is zeros.

Triton: identity_backend/src/identity.cc
"""

import time
from math import prod

from backends.api.backend import (
    Backend,
    ExecuteBatch,
    ExecuteRequest,
    LoadContext,
    ModelInstance,
)
from backends.api.datatypes import SIZE_BYTES
from backends.api.errors import InvalidArgumentError, UnsupportedError
from backends.api.model_config import ModelConfig, ModelInput
from backends.api.request import InferenceRequest, InferenceResponse, Tensor

_LENGTH_BYTES = 4  # of an empty string on the wire


class IdentityBackend(Backend):
    """Copies inputs to outputs, pairing them by position in the config.

    Parameters of the model: ``execute_delay_ms`` sleeps that long in every execution.
    """

    def auto_complete(self, context: LoadContext) -> ModelConfig:
        """Return the config as it is: there is no file to learn from."""
        return context.config

    def load(self, context: LoadContext) -> ModelInstance:
        """Load one instance.

        Raises:
            InvalidArgumentError: Inputs and outputs do not pair up, or a parameter is no number.
        """
        return _IdentityInstance(context)


class _IdentityInstance(ModelInstance):
    def __init__(self, context: LoadContext) -> None:
        config = context.config
        _check_pairs(config)
        self._name = config.name
        self._version = str(context.version)
        self._input_of = {
            made.name: given for given, made in zip(config.input, config.output, strict=True)
        }
        self._is_batching = config.max_batch_size > 0
        self._delay_s = _delay_s(config)

    def execute(self, batch: ExecuteBatch) -> None:
        batch.compute_input_end_ns = time.monotonic_ns()
        if self._delay_s:
            time.sleep(self._delay_s)
        batch.compute_output_start_ns = time.monotonic_ns()
        for request in batch.requests:
            self._answer(request)

    def _answer(self, execute_request: ExecuteRequest) -> None:
        try:
            response = self._response(execute_request.request)
        except UnsupportedError as error:
            execute_request.fail(error)
        else:
            execute_request.respond(response)

    def _response(self, request: InferenceRequest) -> InferenceResponse:
        given = {tensor.name: tensor for tensor in request.inputs}
        outputs = []
        for name, source in self._input_of.items():
            if request.outputs and name not in request.outputs:
                continue
            tensor = given.get(source.name)
            if tensor is None:
                outputs.append(self._zeros(name, source, request))
                continue
            # Copied, because an input's bytes are ours only until the final response.
            data = memoryview(bytes(tensor.data))
            outputs.append(Tensor(name, tensor.datatype, tensor.shape, data))
        return InferenceResponse(self._name, self._version, request.id, outputs)

    def _zeros(self, name: str, source: ModelInput, request: InferenceRequest) -> Tensor:
        """Return the output of an input that was not given.

        Raises:
            UnsupportedError: The input is not optional; the core counts inputs without looking
                which are there.
        """
        if not source.optional:
            raise UnsupportedError(f"failed to get input '{source.name}'")
        dims = source.dims if source.reshape is None else source.reshape
        shape = tuple(1 if dim < 0 else dim for dim in dims)
        if self._is_batching:
            shape = (request.inputs[0].shape[0] if request.inputs else 1, *shape)
        data = bytes(prod(shape) * (SIZE_BYTES[source.datatype] or _LENGTH_BYTES))
        return Tensor(name, source.datatype, shape, memoryview(data))


def _check_pairs(config: ModelConfig) -> None:
    if len(config.input) != len(config.output):
        raise InvalidArgumentError(
            f"identity model '{config.name}' has {len(config.input)} inputs and "
            f"{len(config.output)} outputs; every input needs one output"
        )
    for given, made in zip(config.input, config.output, strict=True):
        if given.datatype != made.datatype:
            raise InvalidArgumentError(
                f"identity model '{config.name}' has input '{given.name}' of datatype "
                f"{given.datatype} and output '{made.name}' of {made.datatype}; they must be equal"
            )


def _delay_s(config: ModelConfig) -> float:
    text = config.parameters.get("execute_delay_ms", "0")
    try:
        return float(text) / 1000.0
    except ValueError:
        raise InvalidArgumentError(
            f"identity model '{config.name}' has parameter execute_delay_ms '{text}', "
            "expected a number of milliseconds"
        ) from None
