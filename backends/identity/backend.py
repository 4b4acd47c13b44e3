# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A backend without computation: OUTPUT<k> repeats INPUT<k>.

It measures what everything around a model costs, and lets tests choose a model's timing.

Triton: identity_backend/src/identity.cc
"""

import time

from backends.api.backend import (
    Backend,
    ExecuteBatch,
    ExecuteRequest,
    LoadContext,
    ModelInstance,
)
from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceResponse, Tensor


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
        self._output_of = {
            given.name: made.name for given, made in zip(config.input, config.output, strict=True)
        }
        self._order = {output.name: index for index, output in enumerate(config.output)}
        self._delay_s = _delay_s(config)

    def execute(self, batch: ExecuteBatch) -> None:
        batch.compute_input_end_ns = time.monotonic_ns()
        if self._delay_s:
            time.sleep(self._delay_s)
        batch.compute_output_start_ns = time.monotonic_ns()
        for request in batch.requests:
            request.respond(self._response(request))

    def _response(self, execute_request: ExecuteRequest) -> InferenceResponse:
        request = execute_request.request
        wanted = request.outputs or self._order
        outputs = []
        for given in request.inputs:
            name = self._output_of[given.name]
            if name in wanted:
                # Copied, because an input's bytes are ours only until the final response.
                data = memoryview(bytes(given.data))
                outputs.append(Tensor(name, given.datatype, given.shape, data))
        if len(outputs) > 1:
            outputs.sort(key=lambda output: self._order[output.name])
        return InferenceResponse(self._name, self._version, request.id, outputs)


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
