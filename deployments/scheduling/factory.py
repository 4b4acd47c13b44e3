# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Chooses the scheduler a model's config asks for."""

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig, QueuePolicy
from deployments.scheduling.dynamic_batcher import DynamicBatcher
from deployments.scheduling.priority_queue import QueueRules, rules_of
from deployments.scheduling.scheduler import DefaultScheduler, Item, Scheduler
from deployments.scheduling.signature import Signature, signature_of

# Limits that Triton has no field for, given through ``parameters``.
_MAX_QUEUE_SIZE = "max_queue_size"
_AGEING_US = "priority_ageing_us"


def make_scheduler(config: ModelConfig) -> Scheduler[Item]:
    """Return a new scheduler for one instance of the model.

    Raises:
        InvalidArgumentError: A parameter of the config is not a number.
    """
    batching = config.dynamic_batching
    if batching is None:
        limit = _number(config, _MAX_QUEUE_SIZE)
        if not limit:
            return DefaultScheduler()
        return DynamicBatcher(1, rules=QueueRules((QueuePolicy(max_queue_size=limit),)))
    return DynamicBatcher(
        max(1, config.max_batch_size),
        batching.preferred_batch_size,
        batching.max_queue_delay_us,
        rules_of(batching, _number(config, _AGEING_US)),
    )


def make_signature(config: ModelConfig) -> Signature | None:
    """Return the signature function its scheduler needs, or None when it compares nothing."""
    if config.dynamic_batching is None or config.max_batch_size < 1:
        return None
    return signature_of(config)


def _number(config: ModelConfig, key: str) -> int:
    text = config.parameters.get(key, "0")
    if not text.isdecimal():
        raise InvalidArgumentError(
            f"model '{config.name}' has parameter '{key}' with value '{text}', expected a whole "
            f"number, 0 for none"
        )
    return int(text)
