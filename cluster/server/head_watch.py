# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tells the operator when the head of the Ray cluster goes away, and when it is back."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from cluster.controller.gcs_watch import (
    AWAY_AFTER_S,
    RECONNECT_DEFAULT_S,
    RECONNECT_S,
    RECONNECT_VARIABLE,
)

_log = logging.getLogger(__name__)

_ASK_EVERY_S: Final = 1.0
_AWAY: Final = (
    "Warning: the head of the Ray cluster (GCS) does not answer. Models that are loaded are served;"
    " loads and unloads fail until it is back."
)
_OWN_IS_AWAY: Final = (
    "Error: the GCS of this server's own Ray does not answer. Models that are loaded are served;"
    " loads and unloads fail. If it has ended, nothing starts it again, and Ray ends the server"
    f" {RECONNECT_DEFAULT_S:g} s after: stop the server and start it anew."
)


def short_patience(reconnect_s: float) -> str:
    """Return a warning if processes of a joined cluster do not survive a restart of its head.

    Args:
        reconnect_s: What they have for `RECONNECT_VARIABLE`.
    """
    if reconnect_s > RECONNECT_DEFAULT_S:
        return ""
    return (
        f"Warning: processes of this Ray cluster end when its head is away for {reconnect_s:g} s,"
        f" models with them; set {RECONNECT_VARIABLE}={RECONNECT_S:g} where Ray is started, on"
        " every node."
    )


class HeadWatch:
    """Asks on a thread of its own, because a call of a GCS that is away returns when it is back."""

    def __init__(
        self,
        ask: Callable[[], None],
        say: Callable[[str], None],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._say = say
        self._clock_s = clock_s
        # Since when it owes an answer; None while it owes none.
        self._asked_s: float | None = None
        # Since when it has been away for what the operator was told.
        self._away_s: float | None = None
        self._is_own = False

    def start(self, ended: threading.Event, *, is_own: bool) -> None:
        """Begin to ask.

        Args:
            ended: When to ask no more.
            is_own: Whether this process has started the GCS, so that nobody starts it again.
        """
        self._is_own = is_own
        threading.Thread(target=self._run, args=(ended,), name="manta-gcs", daemon=True).start()

    def look(self) -> None:
        """Say what there is to say; call it again and again."""
        asked_s = self._asked_s
        now_s = self._clock_s()
        if self._away_s is None:
            if asked_s is not None and now_s - asked_s > AWAY_AFTER_S:
                self._away_s = asked_s
                self._say(_OWN_IS_AWAY if self._is_own else _AWAY)
        elif asked_s != self._away_s:
            away_s, self._away_s = now_s - self._away_s, None
            self._say(f"The head of the Ray cluster is back after {away_s:.0f} s.")

    def ask_once(self) -> None:
        """Ask and wait for the answer; an error is none."""
        if self._asked_s is None:
            self._asked_s = self._clock_s()
        try:
            self._ask()
        except Exception as error:
            _log.warning("the GCS cannot be asked: %s", error)
        else:
            self._asked_s = None

    def _run(self, ended: threading.Event) -> None:
        while not ended.wait(_ASK_EVERY_S):
            self.ask_once()
