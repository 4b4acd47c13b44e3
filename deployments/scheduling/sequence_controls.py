# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The inputs a sequence batcher adds to requests: controls, and what a model fed back to itself.

To a model they are inputs like any other. Requests of sequences have one row, so each tensor is
``[1]``, or ``[1, 1]`` where the model batches, and is made once.

Triton: core/src/sequence_batch_scheduler/sequence_batch_scheduler.cc CreateBooleanControlTensors,
SetControlTensors; core/src/sequence_state.cc @73aad7c
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from backends.api.datatypes import SIZE_BYTES, numpy_dtype
from backends.api.errors import InvalidArgumentError, Phase
from backends.api.model_config import ModelConfig, SequenceControl, SequenceState
from backends.api.request import (
    SEQUENCE_END,
    SEQUENCE_START,
    InferenceRequest,
    InferenceResponse,
    Tensor,
    element_count,
    id_prefix,
)
from deployments.scheduling.scheduler import Scheduled

_CORRID = "CONTROL_SEQUENCE_CORRID"
_STRING_LENGTH_BYTES = 4
# Whether the flag is on, by control kind: for a request with these flags, and for an empty slot.
_IS_ON: dict[str, Callable[[int], bool]] = {
    "CONTROL_SEQUENCE_START": lambda flags: flags > 0 and bool(flags & SEQUENCE_START),
    "CONTROL_SEQUENCE_END": lambda flags: flags > 0 and bool(flags & SEQUENCE_END),
    "CONTROL_SEQUENCE_READY": lambda flags: flags >= 0,
}
_NOT_READY = -1
_ALL_FLAGS = (_NOT_READY, 0, SEQUENCE_START, SEQUENCE_END, SEQUENCE_START | SEQUENCE_END)


class SequenceControls:
    """Makes the control inputs of one model.

    Args:
        config: The model's config, with a sequence batcher.
    """

    __slots__ = ("_corrid", "_flags", "_model_name", "_shape")

    def __init__(self, config: ModelConfig) -> None:
        batching = config.sequence_batching
        controls = () if batching is None else batching.controls
        self._model_name = config.name
        self._shape = (1, 1) if config.max_batch_size > 0 else (1,)
        self._corrid = next((each for each in controls if each.kind == _CORRID), None)
        switches = [each for each in controls if each.kind in _IS_ON]
        self._flags = {
            flags: tuple(self._switch(each, flags) for each in switches) for flags in _ALL_FLAGS
        }

    @property
    def count(self) -> int:
        """Inputs that `add` adds."""
        return len(self._flags[0]) + (self._corrid is not None)

    def check(self, correlation_id: int | str, item: Scheduled) -> None:
        """Check that a correlation id has the type the model takes.

        Args:
            correlation_id: The id.
            item: Its request, for the message.

        Raises:
            InvalidArgumentError: It is a string where the model takes a number, or the reverse.
        """
        corrid = self._corrid
        if corrid is None or isinstance(correlation_id, str) == (corrid.datatype == "BYTES"):
            return
        given = "BYTES" if isinstance(correlation_id, str) else "UINT64"
        raise InvalidArgumentError(
            f"{id_prefix(item.request_id)}sequence batching control '{corrid.name}' data-type is "
            f"'{given}', but model '{self._model_name}' expects '{corrid.datatype}'",
            Phase.ENQUEUE,
        )

    def add(self, request: InferenceRequest) -> None:
        """Give a request its control inputs."""
        self._add(request, request.flags & (SEQUENCE_START | SEQUENCE_END))

    def add_not_ready(self, request: InferenceRequest) -> None:
        """Give a request that only fills a slot its control inputs; which has no correlation id."""
        self._add(request, _NOT_READY)

    def _add(self, request: InferenceRequest, flags: int) -> None:
        request.inputs.extend(self._flags[flags])
        corrid = self._corrid
        if corrid is not None:
            data = _corrid_bytes(request.correlation_id, corrid.datatype)
            request.inputs.append(
                Tensor(corrid.name, corrid.datatype, self._shape, memoryview(data))
            )

    def _switch(self, control: SequenceControl, flags: int) -> Tensor:
        value = control.true_value if _IS_ON[control.kind](flags) else control.false_value
        data = np.array([value], numpy_dtype(control.datatype)).tobytes()
        return Tensor(control.name, control.datatype, self._shape, memoryview(data))


def _corrid_bytes(correlation_id: int | str, datatype: str) -> bytes:
    if datatype == "BYTES":
        text = correlation_id.encode() if isinstance(correlation_id, str) else b""
        return len(text).to_bytes(_STRING_LENGTH_BYTES, "little") + text
    # A smaller type gets the low bytes.
    number = correlation_id if isinstance(correlation_id, int) else 0
    size = SIZE_BYTES[datatype]
    return (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")


@dataclass(frozen=True, slots=True)
class StateRules:
    """The implicit states of a model.

    Attributes:
        initial: What each state input is when a sequence starts.
        input_of: State input by the name of the output that becomes it.
        shown: State outputs that clients may see, being outputs of the config too.
        is_variable: Whether shapes may change, so that they have to be equal in a batch.
    """

    initial: tuple[Tensor, ...]
    input_of: Mapping[str, str]
    shown: frozenset[str]
    is_variable: bool

    @property
    def initial_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The states' shapes at the start of a sequence."""
        return tuple(tensor.shape for tensor in self.initial)


def state_rules(config: ModelConfig, files: Mapping[str, bytes]) -> StateRules | None:
    """Return the states of a model, or None when it has none.

    Args:
        config: The model's config.
        files: The bytes of each ``data_file`` its initial states name.

    Raises:
        InvalidArgumentError: A file is too short, or an initial state does not fit its state.
    """
    batching = config.sequence_batching
    if batching is None or not batching.states:
        return None
    lead = (1,) if config.max_batch_size > 0 else ()
    return StateRules(
        initial=tuple(_initial(state, lead, files) for state in batching.states),
        input_of={state.output_name: state.input_name for state in batching.states},
        shown=frozenset(output.name for output in config.output),
        is_variable=any(dim < 0 for state in batching.states for dim in state.dims),
    )


def _initial(state: SequenceState, lead: tuple[int, ...], files: Mapping[str, bytes]) -> Tensor:
    initial = state.initial_state
    # Without an initial state a state is zero; a dimension that may vary begins as 1.
    dims = tuple(abs(dim) for dim in state.dims) if initial is None else initial.dims
    if any(want not in {-1, got} for want, got in zip(state.dims, dims, strict=True)):
        want, got = next(
            pair for pair in zip(state.dims, dims, strict=True) if pair[0] not in {-1, pair[1]}
        )
        raise InvalidArgumentError(
            f"'initial_state' dim for input name '{state.input_name}' doesn't match 'state' dim "
            f"description. {got} != {want}"
        )
    size = element_count(dims) * (SIZE_BYTES[state.datatype] or _STRING_LENGTH_BYTES)
    data = bytes(size)
    if initial is not None and initial.data_file:
        data = files[initial.data_file]
        if state.datatype != "BYTES":
            if len(data) < size:
                raise InvalidArgumentError(
                    f"initial_state setting expects {size} bytes, but the data provided from "
                    f"{initial.data_file}only has {len(data)} bytes."
                )
            data = data[:size]
    return Tensor(state.input_name, state.datatype, lead + dims, memoryview(data))


class SequenceStates:
    """What one sequence carries from request to request.

    Args:
        rules: The model's states.
    """

    __slots__ = ("_by_name", "_rules")

    def __init__(self, rules: StateRules) -> None:
        self._rules = rules
        self._by_name = {tensor.name: tensor for tensor in rules.initial}

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The states' present shapes."""
        return tuple(tensor.shape for tensor in self._by_name.values())

    def add(self, request: InferenceRequest) -> None:
        """Give a request the states as inputs."""
        request.inputs.extend(self._by_name.values())

    def add_null(self, request: InferenceRequest) -> None:
        """Give a request that only fills a slot states of these shapes, all zero."""
        request.inputs.extend(null_tensor(tensor) for tensor in self._by_name.values())

    def take(self, response: InferenceResponse) -> None:
        """Keep a response's states for the next request and leave in it what clients may see."""
        rules = self._rules
        for output in response.outputs:
            name = rules.input_of.get(output.name)
            if name is not None:
                # Copied: the model may write its output's memory again.
                data = memoryview(bytes(output.data))
                self._by_name[name] = Tensor(name, output.datatype, output.shape, data)
        response.outputs = [
            output
            for output in response.outputs
            if output.name not in rules.input_of or output.name in rules.shown
        ]


def null_tensor(tensor: Tensor) -> Tensor:
    """Return a tensor of the same name, datatype and shape that holds zeros or empty strings."""
    size = element_count(tensor.shape) * (SIZE_BYTES[tensor.datatype] or _STRING_LENGTH_BYTES)
    return Tensor(tensor.name, tensor.datatype, tensor.shape, memoryview(bytes(size)))
