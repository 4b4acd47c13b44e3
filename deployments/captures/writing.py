# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Takes records off the event loop and writes them from a thread of its own.

What waits is bounded in number and bytes; beyond that records are dropped and counted. A store that
fails costs the records that it was to keep, and nothing else.
"""

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from deployments.captures.records import CaptureRecord
from deployments.captures.rules import CaptureLimits
from deployments.captures.stores import CaptureStore
from deployments.metrics.exposition import head, label_set

logger = logging.getLogger(__name__)

_FAMILY: Final = "manta_capture_records_total"
# How often files are looked at that may be old enough.
_TICK_S: Final = 1.0
# Of a record without tensors: its texts and objects.
_RECORD_BYTES: Final = 2048


@dataclass(slots=True)
class CaptureCounters:
    """What became of records.

    Attributes:
        written: The store has them.
        dropped: Too many waited.
        failed: The store did not take them.
    """

    written: int = 0
    dropped: int = 0
    failed: int = 0


class CaptureWriter:
    """Writes records.

    Args:
        open_store: Opens the store; called on the thread, so that a slow one holds nobody up.
        limits: Bounds.

    Attributes:
        counters: What became of records.
    """

    def __init__(self, open_store: Callable[[], CaptureStore], limits: CaptureLimits) -> None:
        self._open_store = open_store
        self._limits = limits
        self.counters = CaptureCounters()
        self._records: queue.SimpleQueue[CaptureRecord | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting_count = 0
        self._waiting_bytes = 0
        self._thread = threading.Thread(target=self._run, name="manta-captures", daemon=True)
        self._thread.start()

    def offer(self, record: CaptureRecord) -> bool:
        """Take a record, without waiting; False when it is dropped."""
        size = record.size_bytes + _RECORD_BYTES
        limits = self._limits
        with self._lock:
            has_room = (
                self._waiting_count < limits.queue_records
                and self._waiting_bytes + size <= limits.queue_bytes
            )
            if not has_room:
                self.counters.dropped += 1
                return False
            self._waiting_count += 1
            self._waiting_bytes += size
        self._records.put(record)
        return True

    def close(self, timeout_s: float) -> bool:
        """Write what waits and end; False when that takes longer."""
        self._records.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def render(self) -> bytes:
        """Return the lines that the metrics page has about captures."""
        counters = self.counters
        rows = (
            ("written", counters.written),
            ("dropped", counters.dropped),
            ("failed", counters.failed),
        )
        lines = [
            *head(_FAMILY, "counter", "Number of captured requests by what became of the record"),
            *(f"{_FAMILY}{label_set([('outcome', name)])} {count}" for name, count in rows),
        ]
        return "\n".join([*lines, ""]).encode()

    # On the thread

    def _run(self) -> None:
        try:
            store = self._open_store()
        except Exception as error:
            logger.error("captures: the store cannot be opened, nothing is kept: %s", error)  # noqa: TRY400
            self._give_up()
            return
        is_failing = False
        while True:
            try:
                record = self._records.get(timeout=_TICK_S)
            except queue.Empty:
                is_failing = self._try(lambda: store.rotate(), 0, is_failing=is_failing)  # noqa: PLW0108
                continue
            if record is None:
                self._try(lambda: store.rotate(is_last=True), 0, is_failing=is_failing)
                return
            is_failing = self._write(store, record, is_failing=is_failing)

    def _write(self, store: CaptureStore, record: CaptureRecord, *, is_failing: bool) -> bool:
        def write() -> None:
            store.write(record)
            store.rotate()

        try:
            return self._try(write, 1, is_failing=is_failing)
        finally:
            self._take_off(record)

    def _try(self, do: Callable[[], None], count: int, *, is_failing: bool) -> bool:
        """Do it; return whether it failed. Of failures in a row the first is logged."""
        try:
            do()
        except Exception as error:
            self.counters.failed += count
            if not is_failing:
                logger.warning("captures: a record cannot be kept: %s", error)
            return True
        self.counters.written += count
        return is_failing and not count

    def _take_off(self, record: CaptureRecord) -> None:
        with self._lock:
            self._waiting_count -= 1
            self._waiting_bytes -= record.size_bytes + _RECORD_BYTES

    def _give_up(self) -> None:
        """Count what comes as failed, until the end."""
        while True:
            record = self._records.get()
            if record is None:
                return
            self.counters.failed += 1
            self._take_off(record)
