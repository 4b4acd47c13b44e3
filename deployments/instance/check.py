# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an instance would refuse of a config after its backend has loaded the model."""

from collections.abc import Callable
from typing import Final

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from deployments.instance.loading import read_state_files
from deployments.instance.warmup import check_warmup
from deployments.instance.watchdog import execution_timeout_us
from deployments.scheduling.factory import make_feeder, make_pool_scheduler
from deployments.scheduling.shape_buckets import shape_buckets_of


def _check_states(config: ModelConfig, model_dir: str) -> None:
    make_feeder(config, read_state_files(config, model_dir))


_CHECKS: Final[tuple[Callable[[ModelConfig, str], object], ...]] = (
    check_warmup,
    _check_states,
    lambda config, _: shape_buckets_of(config),
    lambda config, _: execution_timeout_us(config),
    lambda config, _: make_pool_scheduler(config),
)


def refusals(config: ModelConfig, model_dir: str) -> list[TritonError]:
    """Return what an instance would refuse.

    Args:
        config: The model's complete config.
        model_dir: The model's directory, with the files of warmup and initial states.
    """
    found = []
    for check in _CHECKS:
        try:
            check(config, model_dir)
        except TritonError as error:
            found.append(error)
    return found
