# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Completes a config from an engine.

Triton: tensorrt_backend/src/model_state.cc ModelState::AutoCompleteConfigHelper,
ExtractBatchHintFromIOConfig, GetProfileIndices, FixIO
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.config.pbtxt import edit
from backends.framework.auto_complete import fill_given, filled
from backends.framework.validation import find
from backends.tensorrt.engine import Engine, EngineTensor

logger = logging.getLogger(__name__)


def completed(config: ModelConfig, engine: Engine) -> ModelConfig:
    """Return the config with what an engine tells.

    Raises:
        InternalError: Config and engine contradict each other about batching, or a profile that an
            instance group names is none.
        InvalidArgumentError: A tensor is not the engine's, or marked as what it is not.
    """
    most = engine.max_batch(_profiles(config, len(engine.profiles)))
    hints = _hint(config, engine)
    if hints and not most:
        raise InternalError(
            f"autofill failed for model '{config.name}': model tensor shape configuration hints "
            "for dynamic batching but the underlying engine doesn't support batching."
        )
    if hints is False and most:
        logger.warning(
            "The specified dimensions in model config for %s hints that batching is unavailable",
            config.name,
        )
        most = 0
    if config.max_batch_size > most:
        raise InternalError(
            f"autofill failed for model '{config.name}': configuration specified max-batch "
            f"{config.max_batch_size} but TensorRT engine only supports max-batch {most}"
        )
    size = config.max_batch_size or most
    signature = engine.signature(batched=size > 0)
    full = filled(fill_given(config, signature, batched=size > 0), signature, size)
    known = {tensor.name: tensor for tensor in engine.tensors}

    def mark(message: Any) -> None:
        for entry in (*message.input, *message.output):
            # Others are refused at load.
            if entry.name in known:
                _mark(entry, known[entry.name])

    return edit(full, mark)


def _profiles(config: ModelConfig, count: int) -> Sequence[int]:
    """Return the profiles that instance groups name; the first, if they name none."""
    named = [name for group in config.instance_group for name in group.profile]
    for name in named:
        if not name.strip().isdecimal() or int(name) >= count:
            raise InternalError(
                f"unable to autofill for '{config.name}', configuration specified invalid profile "
                f"{name} . Number of profiles supported by TensorRT engine: {count}"
            )
    return [int(name) for name in dict.fromkeys(named)] or [0]


def _hint(config: ModelConfig, engine: Engine) -> bool | None:
    """Return whether dims in a config lack the batch dimension; None where it has no dims."""
    hints = set()
    for is_batching in _hints(config, engine):
        hints.add(is_batching)
        if len(hints) > 1:
            raise InternalError(
                f"unable to autofill for '{config.name}', model tensor configurations are "
                "contradicting each other in terms of whether batching is supported"
            )
    return hints.pop() if hints else None


def _hints(config: ModelConfig, engine: Engine) -> Iterator[bool]:
    known = {tensor.name: tensor for tensor in engine.tensors}
    signature = engine.signature(batched=False)
    for direction, entries, infos in (
        ("input", config.input, signature.inputs),
        ("output", config.output, signature.outputs),
    ):
        for entry in entries:
            if getattr(entry, "allow_ragged_batch", False):
                yield True
                return
            find(entry.name, infos, direction)
            dims = entry.dims if entry.reshape is None else entry.reshape
            if dims:
                yield _lacks_batch(known[entry.name], dims)


def _lacks_batch(tensor: EngineTensor, dims: Sequence[int]) -> bool:
    if tensor.is_shape:
        return tensor.shape[:1] == (dims[0] + 1,)
    return len(tensor.shape) == len(dims) + 1


def _mark(entry: Any, tensor: EngineTensor) -> None:
    if entry.is_shape_tensor and not tensor.is_shape:
        raise InvalidArgumentError(f"'{entry.name}' is incorrectly specified as a shape tensor.")
    if entry.is_non_linear_format_io and tensor.is_linear:
        raise InvalidArgumentError(
            f"'{entry.name}' uses a linear IO format, but 'is_non_linear_format_io' is incorrectly "
            "set to true in the model configuration."
        )
    entry.is_shape_tensor = tensor.is_shape
    entry.is_non_linear_format_io = not tensor.is_linear
