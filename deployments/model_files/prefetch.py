# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are fetched before anybody needs them: what came of it, and how they give way."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from threading import Event, Lock

from backends.api.evolving import evolves
from deployments.model_files.locks import StoppedError


class Outcome(StrEnum):
    """What came of a prefetch."""

    THERE = "THERE"
    NO_ROOM = "NO_ROOM"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class CacheView:
    """What a node's cache has.

    Attributes:
        held: Of the keys that were asked about (`ModelFiles.key`), those whose files are there.
        free_bytes: What prefetched files may still take; negative when there is more than they may.
    """

    held: tuple[str, ...] = ()
    free_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Prefetched:
    """What came of a prefetch on a node.

    Attributes:
        outcome: What.
        free_bytes: As in `CacheView`, after it.
        wanted_bytes: With ``NO_ROOM``, what there would have to be.
    """

    outcome: Outcome
    free_bytes: int
    wanted_bytes: int = 0


evolves(CacheView, Prefetched)


class NoFreeRoomError(Exception):
    """There is no room for a prefetch without removing something.

    Args:
        wanted_bytes: What there would have to be.
    """

    def __init__(self, wanted_bytes: int) -> None:
        super().__init__(wanted_bytes)
        self.wanted_bytes = wanted_bytes


class PrefetchTurn:
    """Which prefetch a process is at: one at a time, and none while others wait for files."""

    def __init__(self) -> None:
        self._turn = Lock()
        self._lock = Lock()
        self._key = ""
        self._stop = Event()
        self._need_count = 0

    @contextmanager
    def taken(self, key: str) -> Iterator[Event]:
        """Prefetch; yields what is set when it shall stop.

        Args:
            key: Of the files.

        Raises:
            StoppedError: Somebody needs files now.
        """
        with self._turn:
            with self._lock:
                if self._need_count:
                    raise StoppedError
                self._key, self._stop = key, Event()
            try:
                yield self._stop
            finally:
                with self._lock:
                    self._key = ""

    @contextmanager
    def needed(self, key: str) -> Iterator[bool]:
        """Bring files that somebody waits for; yields whether a prefetch was told to stop for it.

        Args:
            key: Of the files. A prefetch of the same goes on: it is what they wait for.
        """
        with self._lock:
            self._need_count += 1
            is_other = self._key not in {"", key}
            if is_other:
                self._stop.set()
        try:
            yield is_other
        finally:
            with self._lock:
                self._need_count -= 1

    def stop(self) -> None:
        """Tell the prefetch under way to stop."""
        with self._lock:
            self._stop.set()

    def wait_over(self) -> None:
        """Wait until the prefetch under way has ended."""
        with self._turn:
            pass
