# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A response cache in this process: least recently used entries go first."""

from collections import OrderedDict
from collections.abc import Callable, Mapping

from deployments.response_cache.store import Found

# What an entry costs beyond its bytes: the dictionary's slot and two objects.
ENTRY_OVERHEAD_BYTES = 200
_NS_PER_US = 1_000


class LocalCache:
    """Entries up to a number of bytes.

    Args:
        size_bytes: Bound of keys, entries and their overhead.
        clock_ns: Clock of the duration gauges.

    Triton: local_cache/src/local_cache.cc @0af56eb
    """

    def __init__(self, size_bytes: int, clock_ns: Callable[[], int]) -> None:
        self._size_bytes = size_bytes
        self._clock_ns = clock_ns
        self._entries: OrderedDict[bytes, bytes] = OrderedDict()
        self._used_bytes = 0
        self._lookup_count = 0
        self._hit_count = 0
        self._eviction_count = 0
        self._lookup_ns = 0
        self._insertion_ns = 0

    def find(self, key: bytes, found: Found, /) -> None:
        """See `CacheStore`; calls back at once."""
        start_ns = self._clock_ns()
        entry = self._entries.get(key)
        self._lookup_count += 1
        if entry is not None:
            self._hit_count += 1
            self._entries.move_to_end(key)
        self._lookup_ns += self._clock_ns() - start_ns
        found(entry)

    def insert(self, key: bytes, entry: bytes, /) -> None:
        """See `CacheStore`; an entry that is there stays, one larger than the cache is left out."""
        start_ns = self._clock_ns()
        cost_bytes = _cost_bytes(key, entry)
        if key not in self._entries and cost_bytes <= self._size_bytes:
            while self._used_bytes + cost_bytes > self._size_bytes:
                old_key, old_entry = self._entries.popitem(last=False)
                self._used_bytes -= _cost_bytes(old_key, old_entry)
                self._eviction_count += 1
            self._entries[key] = entry
            self._used_bytes += cost_bytes
        self._insertion_ns += self._clock_ns() - start_ns

    async def close(self) -> None:
        """See `CacheStore`; the entries end with the process."""

    def gauges(self) -> Mapping[str, float]:
        """See `CacheStore`."""
        return {
            "nv_cache_num_entries": len(self._entries),
            "nv_cache_num_lookups": self._lookup_count,
            "nv_cache_num_hits": self._hit_count,
            "nv_cache_num_misses": self._lookup_count - self._hit_count,
            "nv_cache_num_evictions": self._eviction_count,
            "nv_cache_lookup_duration": self._lookup_ns // _NS_PER_US,
            "nv_cache_insertion_duration": self._insertion_ns // _NS_PER_US,
            "nv_cache_util": self._used_bytes / self._size_bytes,
        }


def _cost_bytes(key: bytes, entry: bytes) -> int:
    return len(key) + len(entry) + ENTRY_OVERHEAD_BYTES
