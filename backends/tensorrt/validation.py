# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a complete config describes an engine.

Triton: tensorrt_backend/src/instance_state.cc ModelInstanceState::ValidateIO, ValidateIOHelper,
InitIOBindingBuffers, TRTv3Interface::ConfigureInputDimensions
"""

from collections.abc import Iterator, Sequence
from typing import Any

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.model_config import ModelConfig, ModelInput, ModelOutput
from backends.config.pbtxt import to_message
from backends.framework.signature import TensorInfo, fed_by_scheduler
from backends.framework.validation import (
    check_dims,
    check_input_count,
    check_ragged,
    config_name,
    find,
)
from backends.tensorrt.engine import DATATYPES, Engine, EngineTensor
from backends.tensorrt.profiles import misfit

_Entries = Sequence[ModelInput | ModelOutput]
_Tensor = tuple[str, ModelInput | ModelOutput, Any, EngineTensor, TensorInfo]


def check_config(config: ModelConfig, engine: Engine, profiles: Sequence[int]) -> None:
    """Check that a complete config describes an engine.

    Args:
        config: The config.
        engine: The engine.
        profiles: Indices of the optimization profiles that the instance runs with.

    Raises:
        InvalidArgumentError: It does not.
        InternalError: It lacks an input, marks a tensor as what it is not, or has a datatype that
            TensorRT lacks.
    """
    most = engine.max_batch()
    if config.max_batch_size > most:
        raise InvalidArgumentError(
            f"unexpected configuration maximum batch size {config.max_batch_size} for "
            f"'{config.name}', model maximum is {most}"
        )
    check_input_count(config, engine.signature(batched=False), exact=False)
    tensors = list(_tensors(config, engine))
    for direction, given, entry, tensor, _ in tensors:
        where = f"{direction} '{given.name}' for model '{config.name}'"
        if given.datatype not in DATATYPES.values():
            raise InternalError(f"unsupported datatype {config_name(given.datatype)} for {where}")
        _check_marks(where, entry, tensor)
    for direction, given, _, tensor, info in tensors:
        _check_datatype(config, direction, given, tensor)
        _check_shape(config, given, info)
        if tensor.is_input and not tensor.is_shape:
            _check_limits(config, engine, given, profiles)
    missing = {tensor.name for tensor in engine.inputs}
    missing -= {given.name for given in config.input} | fed_by_scheduler(config)
    if missing:
        raise InternalError(
            "failed to specify the dimensions of all input tensors or values of all input shape "
            f"tensors: model '{config.name}' takes {', '.join(sorted(missing))}, which the config "
            "lacks"
        )


def _tensors(config: ModelConfig, engine: Engine) -> Iterator[_Tensor]:
    """Yield of each tensor the direction, what config and engine say of it, and its shape."""
    message = to_message(config)
    known = {tensor.name: tensor for tensor in engine.tensors}
    signature = engine.signature(batched=config.max_batch_size > 0)
    sides: tuple[tuple[str, _Entries, Any, Sequence[TensorInfo]], ...] = (
        ("input", config.input, message.input, signature.inputs),
        ("output", config.output, message.output, signature.outputs),
    )
    for direction, views, entries, infos in sides:
        for given, entry in zip(views, entries, strict=True):
            info = find(given.name, infos, direction)
            yield direction, given, entry, known[given.name], info


def _check_marks(where: str, entry: Any, tensor: EngineTensor) -> None:
    if tensor.is_shape and not entry.is_shape_tensor:
        raise InternalError(
            f"{where} is a shape tensor but the model configuration doesn't mark it as a shape "
            "tensor."
        )
    if entry.is_shape_tensor and not tensor.is_shape:
        raise InternalError(
            f"{where} is incorrectly marked as a shape tensor in the model configuration."
        )
    if entry.is_non_linear_format_io == tensor.is_linear:
        kind, given = ("linear", "true") if tensor.is_linear else ("non-linear", "false")
        raise InternalError(
            f"{where} uses a {kind} IO format, but 'is_non_linear_format_io' is incorrectly set "
            f"to {given} in the model configuration."
        )


def _check_datatype(
    config: ModelConfig, direction: str, given: ModelInput | ModelOutput, tensor: EngineTensor
) -> None:
    if given.datatype == tensor.datatype:
        return
    what = "in engine for shape" if tensor.is_shape and tensor.is_input else "for inference"
    raise InvalidArgumentError(
        f"unexpected datatype TYPE_{tensor.datatype} {what} {direction} '{given.name}', expecting "
        f"{config_name(given.datatype)} for {config.name}"
    )


def _check_shape(config: ModelConfig, given: ModelInput | ModelOutput, info: TensorInfo) -> None:
    split_otherwise = {name for rule in config.batch_output for name in rule.target_names}
    if isinstance(given, ModelInput) and given.allow_ragged_batch:
        check_ragged(config, given, info)
    elif given.name not in split_otherwise:
        check_dims(config, given, info, exact=False)


def _check_limits(
    config: ModelConfig, engine: Engine, given: ModelInput | ModelOutput, profiles: Sequence[int]
) -> None:
    if isinstance(given, ModelInput) and given.allow_ragged_batch:
        return
    dims = given.dims if given.reshape is None else given.reshape
    configured = (-1, *dims) if config.max_batch_size > 0 else dims
    for index in profiles:
        limits = engine.profiles[index].get(given.name)
        details = limits and misfit(limits, limits.within(configured))
        if details:
            raise InvalidArgumentError(
                f"model configuration specified invalid shape for input '{given.name}' for model "
                f"{config.name}. Error details: {details}"
            )
