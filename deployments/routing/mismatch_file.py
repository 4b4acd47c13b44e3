# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A bounded file of the differences between versions, a JSON object a line."""

import logging
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_log = logging.getLogger(__name__)

MOST_BYTES: Final = 16 << 20
_MINUTE_S: Final = 60.0


def default_folder() -> Path:
    """Return where the files lie on this node unless `MANTA_ROLLOUT_DIRECTORY` names a folder."""
    given = os.environ.get("MANTA_ROLLOUT_DIRECTORY", "")
    return Path(given) if given else Path(tempfile.gettempdir(), f"manta-rollouts-{os.getuid()}")


class MismatchFile:
    """The file of one process; made with the first difference.

    Lines beyond its bounds, and those that cannot be written, are dropped; that is said once.

    Args:
        folder: Where it lies; only its owner may read it.
        clock_s: Seconds of a clock that only goes forward.
        most_bytes: Its size at most.
    """

    def __init__(
        self,
        folder: Path,
        clock_s: Callable[[], float] = time.monotonic,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._most_bytes = most_bytes
        self.path = folder / f"mismatches-{os.getpid()}.jsonl"
        self._clock_s = clock_s
        self._written_bytes = 0
        self._minute_s = float("-inf")
        self._count = 0
        self._is_over = False

    def add(self, line: bytes, most_per_minute: int) -> None:
        """Write a line, given without its end, if there is room and not too many were a minute."""
        now_s = self._clock_s()
        if now_s - self._minute_s >= _MINUTE_S:
            self._minute_s, self._count = now_s, 0
        if self._is_over or self._count >= most_per_minute:
            return
        self._count += 1
        if self._written_bytes + len(line) >= self._most_bytes:
            self._end(f"it has {self._written_bytes} bytes, and more are not written")
            return
        try:
            self._append(line + b"\n")
        except OSError as error:
            self._end(f"cannot be written: {error}")

    def _append(self, line: bytes) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A link that somebody has put there is not followed.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self.path, flags, 0o600)
        try:
            self._written_bytes += os.write(fd, line)
        finally:
            os.close(fd)

    def _end(self, why: str) -> None:
        self._is_over = True
        _log.warning("file of differences between versions, '%s': %s", self.path, why)
