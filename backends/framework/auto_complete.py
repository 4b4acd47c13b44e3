# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Fills in a config from a model's signature.

Triton: onnxruntime_backend/src/onnxruntime.cc ModelState::AutoCompleteConfig; the other backends'
differ in texts only
"""

import logging
from collections.abc import Mapping
from typing import Any

from backends.api.datatypes import DATATYPES
from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.config.pbtxt import edit
from backends.framework.signature import Signature, TensorInfo

logger = logging.getLogger(__name__)

_DEFAULT_MAX_BATCH_SIZE = 4


def is_complete(config: ModelConfig) -> bool:
    """Whether auto-completion has nothing to add, so that the model need not be read."""
    return bool(config.input and config.output)


def completed(
    config: ModelConfig, signature: Signature, backend_config: Mapping[str, str]
) -> ModelConfig:
    """Return the config with batch size, scheduler and missing tensors filled in.

    Args:
        config: The config as it was written.
        signature: What the file tells; a side of which it does not tell all stays as it is.
        backend_config: ``--backend-config`` settings for the backend.

    Raises:
        InvalidArgumentError: max_batch_size is set and the model cannot batch.
    """
    return filled(config, signature, _max_batch_size(config, signature, backend_config))


def filled(
    config: ModelConfig, signature: Signature, max_batch_size: int, *, joins: bool = True
) -> ModelConfig:
    """Return the config with this batch size, a scheduler for it, and the tensors it lacks.

    Args:
        config: The config.
        signature: What the file tells.
        max_batch_size: The batch size.
        joins: Whether requests may be joined to batches, where the config has no scheduler.
    """

    def change(message: Any) -> None:
        message.max_batch_size = max_batch_size
        chosen = message.WhichOneof("scheduling_choice") is not None
        if joins and max_batch_size > 1 and not chosen:
            message.dynamic_batching.SetInParent()
        for entries, infos in (
            (message.input, signature.inputs),
            (message.output, signature.outputs),
        ):
            if not entries and all(info.is_known for info in infos):
                for info in infos:
                    describe(entries.add(), info, batched=max_batch_size > 0)

    return edit(config, change)


def _max_batch_size(
    config: ModelConfig, signature: Signature, backend_config: Mapping[str, str]
) -> int:
    if not signature.supports_batching:
        if config.max_batch_size != 0:
            raise InvalidArgumentError(
                f"autofill failed for model '{config.name}': model does not support batching "
                "while non-zero max_batch_size is specified"
            )
        return 0
    if config.max_batch_size != 0:
        return config.max_batch_size
    return autofilled_batch_size(config, backend_config, signature.most_items)


def autofilled_batch_size(
    config: ModelConfig, backend_config: Mapping[str, str], most_items: int | None = None
) -> int:
    """Return the batch size of a model that can batch and names none, and say so in the log.

    Args:
        config: The model's config.
        backend_config: ``--backend-config`` settings of its backend.
        most_items: The most that the model itself takes; None without such a bound.

    Raises:
        InvalidArgumentError: ``default-max-batch-size`` is no integer.
    """
    size = default_max_batch_size(backend_config)
    if most_items is not None:
        size = min(size, most_items)
    logger.warning(
        "autofilled max_batch_size to %d for model '%s' since batching is supporrted but no "
        "max_batch_size is specified in model configuration. Must specify max_batch_size to "
        "utilize autofill with a larger max batch size",
        size,
        config.name,
    )
    return size


def default_max_batch_size(backend_config: Mapping[str, str]) -> int:
    """Return the batch size of models that can batch and name none.

    Raises:
        InvalidArgumentError: ``default-max-batch-size`` is no integer.
    """
    text = backend_config.get("default-max-batch-size", str(_DEFAULT_MAX_BATCH_SIZE))
    try:
        return max(0, int(text))
    except ValueError:
        raise InvalidArgumentError(
            f"--backend-config default-max-batch-size is '{text}', expected an integer"
        ) from None


def fill_given(config: ModelConfig, signature: Signature, *, batched: bool) -> ModelConfig:
    """Return the config with the datatype and dims that tensors named in it lack.

    Args:
        config: The config.
        signature: What the file tells.
        batched: Whether dims leave the batch dimension out.
    """

    def change(message: Any) -> None:
        for entries, infos in (
            (message.input, signature.inputs),
            (message.output, signature.outputs),
        ):
            by_name = {info.name: info for info in infos}
            for entry in entries:
                if entry.name in by_name:
                    _fill(entry, by_name[entry.name], batched=batched)

    return edit(config, change)


def describe(entry: Any, info: TensorInfo, *, batched: bool) -> None:
    """Fill in a new entry of a config's message.

    Args:
        entry: The entry.
        info: What the file tells of the tensor.
        batched: Whether dims leave the batch dimension out.
    """
    entry.name = info.name
    _fill(entry, info, batched=batched)


def _fill(entry: Any, info: TensorInfo, *, batched: bool) -> None:
    if not entry.data_type and info.datatype is not None:
        # Assigning enum names is not possible through attributes, hence the field's own table.
        enum = entry.DESCRIPTOR.fields_by_name["data_type"].enum_type
        entry.data_type = enum.values_by_name[DATATYPES[info.datatype].config_name].number
    if entry.dims or info.shape is None:
        return
    # A config cannot say "scalar": clients send one element, which the reshape takes away.
    dims = info.shape[1:] if batched else info.shape
    entry.dims.extend(dims or (1,))
    if batched and not dims:
        entry.reshape.SetInParent()
