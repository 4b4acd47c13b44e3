# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Log lines about peers that are refused: a peer that asks a thousand times gets one line."""

import logging
import time
from collections.abc import Callable
from typing import Final

INTERVAL_S: Final = 1.0


class RefusalLog:
    """Writes at most one line of each kind per `INTERVAL_S`, and says how many it left out.

    Args:
        logger: Where the lines go.
        now_s: A monotonic clock.
    """

    __slots__ = ("_last_s", "_left_out", "_logger", "_now_s")

    def __init__(self, logger: logging.Logger, now_s: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._now_s = now_s
        self._last_s: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def note(self, level: int, kind: str, message: str) -> None:
        """Log a refusal, or count it.

        Args:
            level: As `logging` has it.
            kind: What is limited together; one of few.
            message: The line.
        """
        now_s = self._now_s()
        if now_s - self._last_s.get(kind, -INTERVAL_S) < INTERVAL_S:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        self._last_s[kind] = now_s
        count = self._left_out.pop(kind, 0)
        more = f" ({count} more since the last such line)" if count else ""
        self._logger.log(level, "%s%s", message, more)
