# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where a model's config says how it is batched, as JSON of the config endpoint."""

from collections.abc import Mapping
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from manta_tools.tune.records import Bounds, Settings

Config = Mapping[str, Any]

_BATCHING: Final = "dynamic_batching"
_DELAY: Final = "max_queue_delay_microseconds"
_PREFERRED: Final = "preferred_batch_size"


def read_settings(config: Config) -> Settings:
    """Return how a model is batched.

    Raises:
        InvalidArgumentError: It is not batched dynamically.
    """
    batching = config.get(_BATCHING)
    if batching is None:
        raise InvalidArgumentError(
            f"model '{config.get('name', '')}' is not batched dynamically, so there is nothing to"
            " tune: its config needs dynamic_batching { } and a max_batch_size above 0"
        )
    preferred = [int(each) for each in batching.get(_PREFERRED, ())]
    return Settings(int(batching.get(_DELAY, 0)), max(preferred, default=0))


def with_settings(config: Config, settings: Settings) -> dict[str, Any]:
    """Return the config with other settings."""
    batching = {**config[_BATCHING], _DELAY: settings.delay_us}
    if settings.batch != read_settings(config).batch:
        batching[_PREFERRED] = [settings.batch] if settings.batch else []
    return {**config, _BATCHING: batching}


def check_bounds(config: Config, bounds: Bounds) -> None:
    """Check that a model can be served with all that bounds allow.

    Raises:
        InvalidArgumentError: It cannot.
    """
    most = int(config.get("max_batch_size", 0))
    if bounds.batch is not None and bounds.batch[1] > most:
        raise InvalidArgumentError(
            f"--batch {bounds.batch[0]}:{bounds.batch[1]} goes beyond max_batch_size of model"
            f" '{config.get('name', '')}', which is {most}"
        )


def instance_count(config: Config) -> int:
    """Return how many instances execute side by side, at least 1."""
    return max(1, sum(int(group.get("count", 1)) for group in config.get("instance_group", ())))
