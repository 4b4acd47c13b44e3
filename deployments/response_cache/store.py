# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a response cache asks of the place its entries lie in."""

from collections.abc import Callable, Mapping
from typing import Protocol

Found = Callable[[bytes | None], None]


class CacheStore(Protocol):
    """Entries by key; everything runs on the event loop of its process."""

    def find(self, key: bytes, found: Found, /) -> None:
        """Call ``found`` once with the entry or None, at once or later; it must not raise."""

    def insert(self, key: bytes, entry: bytes, /) -> None:
        """Keep an entry, if there is room for it; never raises and never waits."""

    def gauges(self) -> Mapping[str, float]:
        """Return what ``/metrics`` shows of the whole cache, by Triton's metric name."""

    async def close(self) -> None:
        """Give back what the store holds; entries on their way may be waited for."""
