# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a cache has done, and how far a download is."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

# Called with the bytes that are there and those of the whole.
OnProgress = Callable[[int, int], None]
Clock = Callable[[], float]

_REPORT_INTERVAL_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """Counters of one process's use of a cache, since its start.

    Attributes:
        hits: Files that were there.
        misses: Files that had to be downloaded.
        downloaded_bytes: From wherever.
        from_peers_bytes: Those of them that other nodes gave.
        seconds: Time that callers waited for files that were not there.
        evictions: Trees, files and cut-off downloads removed to make room.
        prefetched_bytes: Of those downloaded, what came before anybody needed it.
    """

    hits: int = 0
    misses: int = 0
    downloaded_bytes: int = 0
    from_peers_bytes: int = 0
    seconds: float = 0.0
    evictions: int = 0
    prefetched_bytes: int = 0

    @property
    def from_store_bytes(self) -> int:
        """Bytes that the store gave."""
        return self.downloaded_bytes - self.from_peers_bytes


class CacheCounters:
    """Counts, from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._now = CacheStatistics()

    def count(self, **more: float) -> None:
        """Add to counters, by their names in `CacheStatistics`."""
        with self._lock:
            now = {name: getattr(self._now, name) + by for name, by in more.items()}
            self._now = replace(self._now, **now)

    def statistics(self) -> CacheStatistics:
        """Return them as they are now."""
        return self._now


class PrefetchCounters(CacheCounters):
    """Counts what is done for a prefetch: nobody waits for it, so that only its bytes count.

    Args:
        counters: Of the process.
    """

    def __init__(self, counters: CacheCounters) -> None:
        super().__init__()
        self._counters = counters

    def count(self, **more: float) -> None:
        """Add to counters; see `CacheCounters.count`."""
        count_bytes = more.get("downloaded_bytes", 0)
        self._counters.count(downloaded_bytes=count_bytes, prefetched_bytes=count_bytes)


class Progress:
    """Tells how far a download is, at most once a second.

    Args:
        total_bytes: Of the whole.
        report: Called with it; None to tell nobody.
        clock: Returns seconds.
    """

    def __init__(self, total_bytes: int, report: OnProgress | None, clock: Clock) -> None:
        self._total_bytes = total_bytes
        self._report = report
        self._clock = clock
        self._lock = Lock()
        self._done_bytes = 0
        self._reported_s = clock()

    def add(self, count_bytes: int) -> None:
        """Count bytes that are there; those that are read twice do not count beyond the whole."""
        with self._lock:
            self._done_bytes = min(self._done_bytes + count_bytes, self._total_bytes)
            now_s = self._clock()
            if self._report is None or now_s - self._reported_s < _REPORT_INTERVAL_S:
                return
            self._reported_s = now_s
            # Under the lock: reports come in their order.
            self._report(self._done_bytes, self._total_bytes)
