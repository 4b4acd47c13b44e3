# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Triton's rules for the sequence batcher of a model config.

Triton: core/src/model_config_utils.cc GetBooleanSequenceControlProperties,
GetTypedSequenceControlProperties; core/src/sequence_batch_scheduler @73aad7c
"""

from collections.abc import Iterator
from typing import Any

from backends.config.views import enum_name

_FLAG_KINDS = ("CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_END", "CONTROL_SEQUENCE_READY")
_CORRID = "CONTROL_SEQUENCE_CORRID"
_FLAG_FIELDS = ("int32_false_true", "fp32_false_true", "bool_false_true")
_ANY_FLAG_FIELD = "'int32_false_true', 'fp32_false_true' {} 'bool_false_true'"
_FALSE_AND_TRUE = 2
_CORRID_DATATYPES = frozenset(
    {"TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING"}
)


def sequence_complaints(message: Any) -> Iterator[str]:
    """Yield what is wrong with the sequence batcher of a ModelConfig message."""
    if not message.HasField("sequence_batching"):
        return
    if message.response_cache.enable:
        yield (
            f"Response Cache does not currently support model {message.name} with sequence "
            "batching scheduler. Please disable the response cache."
        )
    batcher = message.sequence_batching
    yield from _control_tensors(batcher, message.name)
    for kind in _FLAG_KINDS:
        yield from _flag(batcher, kind, message.name)
    yield from _correlation_id(batcher, message.name)
    yield from _strategy(batcher, message)
    yield from _states(batcher)


def _control_tensors(batcher: Any, model: str) -> Iterator[str]:
    seen = set()
    for tensor in batcher.control_input:
        if not tensor.name:
            yield f"sequence batching control tensor must have a name for {model}"
        if tensor.name in seen:
            yield (
                f"sequence batching control tensor '{tensor.name}' is specified for multiple "
                f"control kinds for {model}"
            )
        seen.add(tensor.name)


def _controls(batcher: Any, kind: str) -> list[Any]:
    return [
        control
        for tensor in batcher.control_input
        for control in tensor.control
        if enum_name(control, "kind") == kind
    ]


def _flag(batcher: Any, kind: str, model: str) -> Iterator[str]:
    for index, control in enumerate(_controls(batcher, kind)):
        if index:
            yield f"sequence batching specifies multiple {kind} tensors for {model}"
        given = [field for field in _FLAG_FIELDS if getattr(control, field)]
        if not given:
            either = _ANY_FLAG_FIELD.format("or")
            yield f"sequence batching must specify either {either} for {kind} for {model}"
        if len(given) > 1:
            fields = _ANY_FLAG_FIELD.format("and")
            yield f"sequence batching specifies more than one from {fields} for {kind} for {model}"
        for field in given:
            if len(getattr(control, field)) != _FALSE_AND_TRUE:
                yield (
                    f"sequence batching control '{field}' must have exactly 2 entries for {kind} "
                    f"for {model}"
                )


def _correlation_id(batcher: Any, model: str) -> Iterator[str]:
    for index, control in enumerate(_controls(batcher, _CORRID)):
        if index:
            yield f"sequence batching specifies multiple {_CORRID} tensors for {model}"
        if any(getattr(control, field) for field in _FLAG_FIELDS):
            either = _ANY_FLAG_FIELD.format("or")
            yield f"sequence batching must not specify either {either} for {_CORRID} for {model}"
        if enum_name(control, "data_type") not in _CORRID_DATATYPES:
            yield (
                f"unexpected data type for control {_CORRID} for {model}. Allowed data types are "
                "TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING"
            )


def _strategy(batcher: Any, message: Any) -> Iterator[str]:
    subject = "sequence batching preferred batch size must be"
    for size in batcher.oldest.preferred_batch_size:
        if size <= 0:
            yield f"{subject} positive for {message.name}"
        if size > message.max_batch_size:
            yield f"{subject} <= max batch size for {message.name}"
    if not 0.0 <= batcher.direct.minimum_slot_utilization <= 1.0:
        yield (
            "sequence batching minimum slot utilization must be in range (0.0, 1.0] for "
            f"{message.name}"
        )


def _states(batcher: Any) -> Iterator[str]:
    seen = set()
    for state in batcher.state:
        name = state.input_name
        if name in seen:
            yield f"State input name '{name}' specified more than once."
        seen.add(name)
        if len(state.initial_state) > 1:
            yield (
                f"initial_state field for state input '{name}' must contain exactly one or zero "
                f"element. Found '{len(state.initial_state)}' elements."
            )
        for initial in state.initial_state:
            yield from _initial_state(state, initial)
        if state.use_growable_memory and not state.use_same_buffer_for_input_output:
            yield (
                "In order to 'use_growable_memory', you must also enable 'use_single_buffer' for "
                f"state input name '{name}'."
            )


def _initial_state(state: Any, initial: Any) -> Iterator[str]:
    name = state.input_name
    if state.data_type != initial.data_type:
        yield (
            f"The data type used for 'initial_state' field of state '{name}' does not match the "
            "state data type."
        )
    if not initial.name:
        yield f"Field 'name' must be set when using initial_state for state input '{name}'."
    if len(initial.dims) != len(state.dims):
        yield (
            "Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions "
            f"for state input '{name}'. {len(initial.dims)} != {len(state.dims)}"
        )
    if any(dim < 0 for dim in initial.dims):
        yield f"'initial_state' field for state input name '{name}' contains variable dimensions."
    if initial.WhichOneof("state_data") is None:
        yield f"initial_state setting expects state'{name}' to have state_data set"
