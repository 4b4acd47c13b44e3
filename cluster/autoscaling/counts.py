# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How many instances each version shall have now, where that is not what its groups say.

The number outlives what it was decided for: a reload plans as many as there were. It begins with
what the instance groups say, brought within the bounds, and a restarted controller takes it from
the instances that are alive.
"""

from backends.api.model_config import ModelConfig
from backends.config.autoscaling import read_autoscaling
from cluster.placement.planner import group_count

Key = tuple[str, int]


class InstanceCounts:
    """The counts, by model key and version number."""

    def __init__(self) -> None:
        self._counts: dict[Key, int] = {}

    def of(self, key: str, version: int, config: ModelConfig) -> int:
        """Return how many instances of a version shall take requests, by the bounds of its config.

        Returns:
            The count; 0 when the version does not autoscale, so that its groups say it.

        Raises:
            InvalidArgumentError: The config's parameters are wrong.
        """
        rules = read_autoscaling(config)
        if rules is None:
            self._counts.pop((key, version), None)
            return 0
        known = self._counts.get((key, version))
        count = rules.within(group_count(config) if known is None else known)
        self._counts[key, version] = count
        return count

    def put(self, key: str, version: int, count: int) -> None:
        """Note another count, at least 1."""
        self._counts[key, version] = max(1, count)

    def forget(self, key: str, version: int) -> None:
        """Begin anew with what the groups say: the version was unloaded."""
        self._counts.pop((key, version), None)
