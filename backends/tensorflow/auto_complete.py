# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Fills in a config from a SavedModel's signature; GraphDefs tell nothing.

Triton: tensorflow_backend/src/tensorflow.cc AutoCompleteHelper
"""

from collections.abc import Iterator, Mapping
from typing import Any

from backends.api.backend import LoadContext
from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.config.pbtxt import edit
from backends.framework.auto_complete import (
    autofilled_batch_size,
    describe,
    fill_given,
    filled,
)
from backends.framework.files import existing_path
from backends.framework.saved_model import read_signature
from backends.framework.signature import Signature, fed_by_scheduler
from backends.tensorflow.settings import GRAPH_DEF, graph_tag, model_file, signature_key


def auto_complete(context: LoadContext) -> ModelConfig:
    """Return the context's config, completed from its SavedModel; TensorFlow is not imported.

    Raises:
        UnavailableError: The model's directory is missing.
        InternalError: It cannot be read, or contradicts the config about batching.
        InvalidArgumentError: The platform is none of TensorFlow's, or the rank of a tensor is
            neither in the model nor in the config.
    """
    config, filename = context.config, model_file(context)
    if config.platform == GRAPH_DEF:
        return config
    path = existing_path(context, filename)
    try:
        found = read_signature(path, config.name, graph_tag(context), signature_key(context))
    except InternalError as error:
        raise InternalError(
            f"unable to auto-complete model configuration for '{config.name}', failed to load "
            f"model: {error.message}"
        ) from None
    return completed(config, found.signature, context.backend_config)


def completed(
    config: ModelConfig, signature: Signature, backend_config: Mapping[str, str]
) -> ModelConfig:
    """Return the config with batch size, scheduler and what its tensors lack.

    Raises:
        InternalError: Model and config contradict each other about batching.
        InvalidArgumentError: The rank of a tensor is neither in the model nor in the config.
    """
    size = _max_batch_size(config, signature, backend_config)
    _check_ranks(config, signature)
    given = {entry.name for entry in config.input} | fed_by_scheduler(config)
    lacking = [info for info in signature.inputs if info.name not in given and info.is_known]

    def add(message: Any) -> None:
        for info in lacking:
            describe(message.input.add(), info, batched=size > 0)

    full = edit(fill_given(config, signature, batched=size > 0), add)
    return filled(full, signature, size)


def _max_batch_size(
    config: ModelConfig, signature: Signature, backend_config: Mapping[str, str]
) -> int:
    batches, size = signature.supports_batching, config.max_batch_size
    if size and not batches:
        raise InternalError(
            f"unable to autofill for '{config.name}', configuration specified max-batch {size} "
            "but model signature does not support batching"
        )
    hints = set(_hints(config, signature)) if batches else {False}
    if len(hints) > 1:
        raise InternalError(
            f"unable to autofill for '{config.name}', model tensor configurations are "
            "contradicting each other in terms of whether batching is supported"
        )
    if size:
        return size
    if hints == {False}:
        return 0
    return autofilled_batch_size(config, backend_config)


def _hints(config: ModelConfig, signature: Signature) -> Iterator[bool]:
    """Yield for each tensor whose dims the config has whether they lack the batch dimension."""
    for entries, infos in (
        (config.input, signature.inputs),
        (config.output, signature.outputs),
    ):
        shapes = {info.name: info.shape for info in infos}
        for entry in entries:
            if getattr(entry, "allow_ragged_batch", False):
                # Its dims tell nothing, nor do others' that go with it.
                yield True
                return
            shape = shapes.get(entry.name)
            dims = entry.dims if entry.reshape is None else entry.reshape
            if entry.dims and shape is not None:
                yield len(shape) == len(dims) + 1


def _check_ranks(config: ModelConfig, signature: Signature) -> None:
    fed = fed_by_scheduler(config)
    for entries, infos, adds in (
        (config.input, signature.inputs, True),
        (config.output, signature.outputs, not config.output),
    ):
        dims = {entry.name: entry.dims for entry in entries}
        for info in infos:
            is_wanted = info.name in dims or (adds and info.name not in fed)
            if info.shape is None and not dims.get(info.name) and is_wanted:
                raise InvalidArgumentError(
                    f"Unable to autofill for '{config.name}': the rank of model tensor "
                    f"'{info.name}' is 0 and dimensions are not defined"
                )
