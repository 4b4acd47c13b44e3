# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The pools of a router: those of some models are found without a look at all others."""

from collections.abc import Iterable

from deployments.routing.pool import LinkPool

_Key = tuple[str, int]


class ModelPools:
    """The pools by model key and version number."""

    def __init__(self) -> None:
        self._pools: dict[str, dict[int, LinkPool]] = {}

    def get(self, key: _Key) -> LinkPool | None:
        """Return the pool of a version, or None."""
        versions = self._pools.get(key[0])
        return None if versions is None else versions.get(key[1])

    def make(self, key: _Key) -> LinkPool:
        """Return the pool of a version; an empty one if there was none."""
        versions = self._pools.setdefault(key[0], {})
        pool = versions.get(key[1])
        if pool is None:
            pool = versions[key[1]] = LinkPool(key=key)
        return pool

    def remove(self, key: _Key) -> None:
        """Remove the pool of a version."""
        versions = self._pools[key[0]]
        del versions[key[1]]
        if not versions:
            del self._pools[key[0]]

    def of(self, names: Iterable[str]) -> list[LinkPool]:
        """Return the pools of some models."""
        return [pool for name in names for pool in self._pools.get(name, {}).values()]

    def all(self) -> list[LinkPool]:
        """Return all pools."""
        return [pool for versions in self._pools.values() for pool in versions.values()]
