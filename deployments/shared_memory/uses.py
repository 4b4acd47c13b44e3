# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which regions requests of this process use, so that none is unregistered under a request.

Triton: server/src/shared_memory_manager.cc UnregisterHelper @0395be2, which counts the requests
that hold a region; here each ingress counts its own.
"""

from collections.abc import Callable, Collection


class RegionUses:
    """Counts the requests that use each region.

    Args:
        on_unused: Called with the name of a region that was to be left, once nothing uses it.
    """

    def __init__(self, on_unused: Callable[[str], None]) -> None:
        self._on_unused = on_unused
        self._counts: dict[str, int] = {}
        self._leaving: set[str] = set()

    def begin(self, names: Collection[str]) -> None:
        """Count a request that uses regions; `end` takes the same names."""
        for name in names:
            self._counts[name] = self._counts.get(name, 0) + 1

    def end(self, names: Collection[str]) -> None:
        """Take the end of a request."""
        for name in names:
            left = self._counts[name] - 1
            if left:
                self._counts[name] = left
                continue
            del self._counts[name]
            if name in self._leaving:
                self._leaving.discard(name)
                self._on_unused(name)

    def leave(self, name: str) -> bool:
        """Have a region left when its last request ends; False when no request uses it."""
        if name not in self._counts:
            return False
        self._leaving.add(name)
        return True
