# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Chooses the scheduler a model's config asks for."""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from backends.api.model_config import ModelConfig, QueuePolicy, SequenceBatching
from backends.registry import is_built_in
from deployments.scheduling.default_scheduler import DefaultScheduler
from deployments.scheduling.dynamic_batcher import DynamicBatcher
from deployments.scheduling.holds import NO_HOLDS, HeldScheduler, Holds
from deployments.scheduling.limited_scheduler import Grant, LimitedScheduler
from deployments.scheduling.oldest_sequence_pool import OldestSequencePool
from deployments.scheduling.parameters import whole_number
from deployments.scheduling.pool_scheduler import PoolScheduler, SharedScheduler
from deployments.scheduling.priority_queue import QueueRules, rules_of
from deployments.scheduling.scheduler import Item, Scheduler, SequencedT
from deployments.scheduling.sequence_controls import state_rules
from deployments.scheduling.sequence_feeder import FedT, SequenceFeeder
from deployments.scheduling.sequence_pool import DirectSequencePool
from deployments.scheduling.shape_buckets import ShapeBuckets
from deployments.scheduling.signature import Signature, signature_of
from deployments.scheduling.solo_scheduler import SoloScheduler

_log = logging.getLogger(__name__)

# Limits that Triton has no field for, given through ``parameters``.
_MAX_QUEUE_SIZE = "max_queue_size"
_AGEING_US = "priority_ageing_us"
# Names a library of Triton's C API for batching.
_BATCH_STRATEGY = "TRITON_BATCH_STRATEGY_PATH"

_NO_FILES: Mapping[str, bytes] = {}


class Conditions(NamedTuple):
    """What the scheduler of one instance stands under.

    Attributes:
        holds: What is to be queued before anything is executed.
        grant: The right to execute, where the rate limiter gives it.
    """

    holds: Holds = NO_HOLDS
    grant: Grant | None = None


NO_CONDITIONS = Conditions()


def make_scheduler(
    config: ModelConfig, holds: Holds = NO_HOLDS, grant: Grant | None = None
) -> Scheduler[SequencedT]:
    """Return a new scheduler for one instance of the model, which is on its own.

    Args:
        config: The model's complete config.
        holds: What is to be queued before anything is executed.
        grant: The right to execute, where the rate limiter gives it.

    Raises:
        InvalidArgumentError: A parameter of the config is not a number.
    """
    scheduler: Scheduler[SequencedT]
    if config.sequence_batching is None:
        scheduler = _shared_scheduler(config, holds)
    else:
        scheduler = SoloScheduler(_sequence_pool(config, config.sequence_batching, holds))
    if grant is None:
        return scheduler
    return LimitedScheduler(scheduler, grant, takes_first=config.sequence_batching is not None)


def make_pool_scheduler(config: ModelConfig, holds: Holds = NO_HOLDS) -> PoolScheduler[SequencedT]:
    """Return a new scheduler for a pool of the model's instances, none of which has joined.

    Args:
        config: The model's complete config.
        holds: What is to be queued before anything is executed.

    Raises:
        InvalidArgumentError: A parameter of the config is not a number.
    """
    if config.sequence_batching is None:
        return SharedScheduler(_shared_scheduler(config, holds))
    return _sequence_pool(config, config.sequence_batching, holds)


def make_feeder(
    config: ModelConfig, state_files: Mapping[str, bytes] = _NO_FILES
) -> SequenceFeeder[FedT] | None:
    """Return what gives an instance's requests their controls and states; None where none do.

    Args:
        config: The model's complete config.
        state_files: The bytes of each file that initial states of its sequences are read from.

    Raises:
        InvalidArgumentError: An initial state does not fit.
    """
    if config.sequence_batching is None:
        return None
    return SequenceFeeder(config, state_rules(config, state_files))


def _shared_scheduler(config: ModelConfig, holds: Holds) -> Scheduler[Item]:
    batching = config.dynamic_batching
    if batching is None:
        limit = whole_number(config, _MAX_QUEUE_SIZE)
        if not limit:
            return DefaultScheduler()
        return DynamicBatcher(1, rules=QueueRules(QueuePolicy(max_queue_size=limit)))
    if _BATCH_STRATEGY in config.parameters and is_built_in(config.backend, config.platform):
        _log.warning(
            "model '%s' names a library in %s; only backends in C divide batches by such "
            "libraries, and the default batching is used",
            config.name,
            _BATCH_STRATEGY,
        )
    batcher: Scheduler[Item] = DynamicBatcher(
        max(1, config.max_batch_size),
        batching.preferred_batch_size,
        batching.max_queue_delay_us,
        rules_of(batching, whole_number(config, _AGEING_US)),
    )
    return HeldScheduler(batcher, holds.delay_count) if holds.delay_count else batcher


def _sequence_pool(
    config: ModelConfig, batching: SequenceBatching, holds: Holds
) -> PoolScheduler[SequencedT]:
    if batching.strategy == "oldest":
        return OldestSequencePool(config, batching, holds)
    return DirectSequencePool(config, batching, holds)


def make_signature(config: ModelConfig, buckets: ShapeBuckets | None = None) -> Signature | None:
    """Return the signature function its scheduler needs, or None when it compares nothing."""
    batches = config.dynamic_batching is not None or config.sequence_batching is not None
    return signature_of(config, buckets) if batches and config.max_batch_size > 0 else None
