# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The page on which an instance notes what it executes, for routers to read when it has crashed."""

import faulthandler
import mmap
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from deployments.instance.work import Work
from deployments.lane.crash_report import PAGE_BYTES, WORD_BYTES, CrashPlace
from deployments.slabs.memfds import sealed_memfd


class CrashPage:
    """The page of one process; what reads it is `deployments.lane.crash_report.CrashReport`.

    Args:
        log: Path of the file that faulthandler writes to; empty when it is no file.

    Attributes:
        place: Where routers find it, and the log.
    """

    def __init__(self, log: str) -> None:
        fd = sealed_memfd(PAGE_BYTES)
        self.place = CrashPlace(fd, log)
        self._words = memoryview(mmap.mmap(fd, PAGE_BYTES)).cast("Q")

    def note(self, works: Sequence[Work]) -> None:
        """Note what is about to be executed; stays until the next execution begins."""
        words = self._words
        count = 0
        for work in works:
            if count + 1 < PAGE_BYTES // WORD_BYTES:
                count += 1
                words[count] = work.lane.mark
        words[0] = count


def own_log() -> str:
    """Return the file that Python writes its stack to when this process crashes; empty if none."""
    if not faulthandler.is_enabled():
        return ""
    try:
        path = os.readlink(f"/proc/self/fd/{sys.stderr.fileno()}")  # noqa: PTH115 - see os.readlink
    except (OSError, ValueError, AttributeError):
        return ""
    return path if Path(path).is_file() else ""
