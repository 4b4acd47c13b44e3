# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Takes over what a library may say of its model's config.

Triton: core/src/backend_model.cc TritonModel::UpdateModelConfig @73aad7c
"""

from typing import Any

from backends.api.errors import InternalError
from backends.api.model_config import ModelConfig
from backends.config.normalisation import normalise_defaults
from backends.config.pbtxt import edit, from_json, to_message

_SCHEDULERS = ("dynamic_batching", "sequence_batching", "ensemble_scheduling")
_FIELDS = ("input", "output")


def completed(config: ModelConfig, text: bytes) -> ModelConfig:
    """Return the config with batch size, tensors and policies of another, given as JSON.

    Raises:
        InvalidArgumentError: The text is no config.
        InternalError: It has another scheduler than the config.
    """
    source = to_message(from_json(text))

    def change(message: Any) -> None:
        message.max_batch_size = source.max_batch_size
        for field in _FIELDS:
            message.ClearField(field)
            getattr(message, field).extend(getattr(source, field))
        wanted, given = (each.WhichOneof("scheduling_choice") for each in (message, source))
        if wanted is None and given in _SCHEDULERS:
            getattr(message, given).CopyFrom(getattr(source, given))
        elif wanted not in {None, given}:
            raise InternalError(
                f"Cannot update scheduling choice from {wanted} to {given} when auto-completing. "
                f"The backend library of model '{config.name}' must keep what the config has"
            )
        if source.HasField("model_transaction_policy"):
            message.model_transaction_policy.decoupled = source.model_transaction_policy.decoupled

    return normalise_defaults(edit(config, change))
