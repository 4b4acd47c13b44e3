# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Chooses the scheduler a model's config asks for."""

import logging
from collections.abc import Mapping

from backends.api.model_config import ModelConfig, QueuePolicy, SequenceBatching
from deployments.scheduling.dynamic_batcher import DynamicBatcher
from deployments.scheduling.holds import Holds
from deployments.scheduling.limited_scheduler import Grant, LimitedScheduler
from deployments.scheduling.parameters import whole_number
from deployments.scheduling.pool_scheduler import PoolScheduler, SharedScheduler
from deployments.scheduling.priority_queue import QueueRules, rules_of
from deployments.scheduling.scheduler import DefaultScheduler, Scheduler
from deployments.scheduling.sequence_batcher import DirectSequenceBatcher, OldestSequenceBatcher
from deployments.scheduling.sequence_controls import state_rules
from deployments.scheduling.sequences import Item
from deployments.scheduling.shape_buckets import ShapeBuckets
from deployments.scheduling.signature import Signature, signature_of

_log = logging.getLogger(__name__)

# Limits that Triton has no field for, given through ``parameters``.
_MAX_QUEUE_SIZE = "max_queue_size"
_AGEING_US = "priority_ageing_us"
# Names a library of Triton's C API for batching.
_BATCH_STRATEGY = "TRITON_BATCH_STRATEGY_PATH"

_NO_FILES: Mapping[str, bytes] = {}


def make_scheduler(
    config: ModelConfig,
    state_files: Mapping[str, bytes] = _NO_FILES,
    grant: Grant | None = None,
) -> Scheduler[Item]:
    """Return a new scheduler for one instance of the model.

    Args:
        config: The model's complete config.
        state_files: The bytes of each file that initial states of its sequences are read from.
        grant: The right to execute, where the rate limiter gives it.

    Raises:
        InvalidArgumentError: A parameter of the config is not a number, or an initial state does
            not fit.
    """
    scheduler: Scheduler[Item] = _unlimited_scheduler(config, state_files)
    if grant is None:
        return scheduler
    return LimitedScheduler(scheduler, grant, takes_first=config.sequence_batching is not None)


def make_pool_scheduler(config: ModelConfig, holds: Holds) -> PoolScheduler[Item]:
    """Return a new scheduler for a pool of instances of the model."""
    del holds
    return SharedScheduler(_unlimited_scheduler(config, _NO_FILES))


def _unlimited_scheduler(config: ModelConfig, state_files: Mapping[str, bytes]) -> Scheduler[Item]:
    sequences = config.sequence_batching
    if sequences is not None:
        return _sequence_batcher(config, sequences, state_files)
    batching = config.dynamic_batching
    if batching is None:
        limit = whole_number(config, _MAX_QUEUE_SIZE)
        if not limit:
            return DefaultScheduler()
        return DynamicBatcher(1, rules=QueueRules(QueuePolicy(max_queue_size=limit)))
    if _BATCH_STRATEGY in config.parameters:
        _log.warning(
            "model '%s' names a library in %s; such libraries cannot be loaded, and the default "
            "batching is used",
            config.name,
            _BATCH_STRATEGY,
        )
    return DynamicBatcher(
        max(1, config.max_batch_size),
        batching.preferred_batch_size,
        batching.max_queue_delay_us,
        rules_of(batching, whole_number(config, _AGEING_US)),
    )


def make_signature(config: ModelConfig, buckets: ShapeBuckets | None = None) -> Signature | None:
    """Return the signature function its scheduler needs, or None when it compares nothing."""
    batches = config.dynamic_batching is not None or config.sequence_batching is not None
    return signature_of(config, buckets) if batches and config.max_batch_size > 0 else None


def _sequence_batcher(
    config: ModelConfig, batching: SequenceBatching, state_files: Mapping[str, bytes]
) -> Scheduler[Item]:
    states = state_rules(config, state_files)
    if batching.strategy == "oldest":
        return OldestSequenceBatcher(config, batching, states)
    return DirectSequenceBatcher(config, batching, states)
