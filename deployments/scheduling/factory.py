# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Chooses the scheduler a model's config asks for."""

from backends.api.model_config import ModelConfig
from deployments.scheduling.dynamic_batcher import DynamicBatcher
from deployments.scheduling.scheduler import DefaultScheduler, Item, Scheduler
from deployments.scheduling.signature import Signature, signature_of


def make_scheduler(config: ModelConfig) -> Scheduler[Item]:
    """Return a new scheduler for one instance of the model."""
    batching = config.dynamic_batching
    if batching is None or config.max_batch_size < 1:
        return DefaultScheduler()
    return DynamicBatcher(
        config.max_batch_size,
        batching.preferred_batch_size,
        batching.max_queue_delay_us,
        batching.default_queue_policy,
    )


def make_signature(config: ModelConfig) -> Signature | None:
    """Return the signature function its scheduler needs, or None when it compares nothing."""
    if config.dynamic_batching is None or config.max_batch_size < 1:
        return None
    return signature_of(config)
