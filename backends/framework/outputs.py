# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the outputs of each request out of what a model gave for one, or for a batch.

Triton: backend/src/backend_output_responder.cc BackendOutputResponder::ProcessTensor
"""

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy.typing as npt

from backends.api.errors import InternalError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest, Tensor, tensor_from_numpy
from backends.framework.batch_inputs import scatter_rules, scattered
from backends.framework.inputs import shapes_of

Array = npt.NDArray[Any]


class OutputRules:
    """How the arrays of one model become outputs.

    States of sequences are outputs that are computed and given whether a client asked for them or
    not.

    Args:
        config: The model's config.
        scalars: Names of outputs that the model gives without any dimension, and the config with
            1s.
    """

    def __init__(self, config: ModelConfig, *, scalars: Collection[str] = ()) -> None:
        self._model = config.name
        sequences = config.sequence_batching
        states = () if sequences is None else sequences.states
        self._states = [state.output_name for state in states]
        listed = [output.name for output in config.output]
        self._all = listed + [name for name in self._states if name not in listed]
        self._scattered = scatter_rules(config)
        self._scalar_dims = {
            output.name: output.dims for output in config.output if output.name in scalars
        }

    @property
    def all(self) -> list[str]:
        """Every output and state, in the order of the config."""
        return self._all

    def asked_for(self, requests: Sequence[InferenceRequest]) -> list[str]:
        """Return the outputs to compute for these requests, in the order of the config."""
        if len(requests) == 1:
            return self._in_config_order(requests[0].outputs)
        if any(not request.outputs for request in requests):
            return self._all
        return self._in_config_order(name for request in requests for name in request.outputs)

    def _in_config_order(self, wanted: Iterable[str]) -> list[str]:
        """Return those outputs and the states; all when none is named."""
        chosen = set(wanted)
        if not chosen:
            return self._all
        chosen.update(self._states)
        return [name for name in self._all if name in chosen]

    def check_batch(self, names: Sequence[str], arrays: Sequence[Array], size: int) -> None:
        """Check that every output has as many items as the batch.

        Raises:
            InternalError: One has not.
        """
        for name, array in zip(names, arrays, strict=True):
            if array.shape[:1] != (size,) and name not in self._scattered:
                raise InternalError(
                    f"model '{self._model}' made output '{name}' with shape {list(array.shape)} "
                    f"for a batch of {size}; its first dimension must be the batch size, or "
                    "max_batch_size must be 0"
                )

    def alone(
        self, names: Sequence[str], arrays: Sequence[Array], inputs: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return the outputs of a request that was executed alone.

        Raises:
            InternalError: An output that follows an input does not hold its elements.
        """
        if self._scattered:
            arrays = [parts[0] for parts in self._split(names, arrays, [inputs])]
        return [self._tensor(*named) for named in zip(names, arrays, strict=True)]

    def of_each(
        self,
        names: Sequence[str],
        arrays: Sequence[Array],
        inputs: Sequence[Sequence[Tensor]],
        requests: Sequence[InferenceRequest],
    ) -> list[list[Tensor]]:
        """Return the outputs of each request of a batch: those it asked for, and the states.

        Args:
            names: The outputs that were computed.
            arrays: What the model gave for each.
            inputs: Each request's inputs.
            requests: The requests.

        Raises:
            InternalError: An output that follows an input does not hold its elements.
        """
        split = self._split(names, arrays, inputs)
        outputs = []
        for row, request in enumerate(requests):
            wanted = [*request.outputs, *self._states] if request.outputs else names
            outputs.append(
                [
                    tensor_from_numpy(name, parts[row])
                    for name, parts in zip(names, split, strict=True)
                    if name in wanted
                ]
            )
        return outputs

    def _split(
        self,
        names: Sequence[str],
        arrays: Sequence[Array],
        inputs: Sequence[Sequence[Tensor]],
    ) -> list[list[Array]]:
        """Return each output in parts, one for each request."""
        bounds = [0, *itertools.accumulate(tensors[0].shape[0] for tensors in inputs)]
        rows = [slice(*ends) for ends in itertools.pairwise(bounds)]
        split: list[list[Array]] = []
        for name, array in zip(names, arrays, strict=True):
            if name not in self._scattered:
                split.append([array[own] for own in rows])
                continue
            rule, dims = self._scattered[name]
            try:
                split.append(scattered(array, dims, shapes_of(inputs, rule.source_inputs[0])))
            except ValueError as error:
                raise InternalError(
                    f"model '{self._model}' made output '{name}' with shape {list(array.shape)}, "
                    f"which does not hold an element for each of input '{rule.source_inputs[0]}'"
                ) from error
        return split

    def _tensor(self, name: str, array: Array) -> Tensor:
        dims = self._scalar_dims.get(name)
        return tensor_from_numpy(name, array if dims is None else array.reshape(dims))
