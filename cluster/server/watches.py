# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tells the operator when the head of the cluster, or the server's controller, goes and is back.

Each looks on a thread of its own: a call of a GCS that is away returns when it is back.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cluster.controller.gcs_watch import (
    AWAY_AFTER_S,
    RECONNECT_DEFAULT_S,
    RECONNECT_S,
    RECONNECT_VARIABLE,
)
from cluster.controller.ownership import HEARTBEAT_S

if TYPE_CHECKING:
    from cluster.server.ray_cluster import Controller

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
# An upgrade ends a controller and starts another at once.
MISSING_S: Final = 3 * HEARTBEAT_S
_GONE: Final = (
    "Warning: the model controller of this server is gone, and Ray does not restart it. Another one"
    " is started, which takes over the models that are loaded; they are served meanwhile."
)
_ENDED: Final = (
    "Error: this server was ended by another process, or for want of heartbeats of this one; it"
    " serves no more. Stop this process and start the server anew."
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
    """Tells the operator when the head of the Ray cluster goes away, and when it is back."""

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
        _look_on_a_thread(self.ask_once, _ASK_EVERY_S, ended, "manta-gcs")

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


class ControllerWatch:
    """Makes another controller when the server has none any more.

    Ray restarts a controller whose process has died. One that was killed for good, by a person or
    by an upgrade that went no further, nobody restarts, and nothing on the data path would show it:
    models are served, and nothing can be loaded, replaced or ended. The process that has started
    the server knows all that a controller is started with.
    """

    def __init__(
        self,
        controller: "Controller",
        say: Callable[[str], None],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._controller = controller
        self._say = say
        self._clock_s = clock_s
        # Since when there is none; None while there is one.
        self._missing_s: float | None = None
        self._said = ""

    def start(self, ended: threading.Event) -> None:
        """Look again and again, until that is set."""
        _look_on_a_thread(self.look, HEARTBEAT_S, ended, "manta-controller")

    def look(self) -> None:
        """Look once; call it again and again."""
        try:
            self._look()
        except Exception as error:
            # Ray's client raises what it likes.
            _log.warning("no look at the model controller, or no other one: %s", error)

    def _look(self) -> None:
        if self._controller.is_there():
            self._missing_s, self._said = None, ""
            return
        now_s = self._clock_s()
        self._missing_s = now_s if self._missing_s is None else self._missing_s
        if now_s - self._missing_s < MISSING_S:
            return
        is_left = self._controller.is_left()
        self._say_once(_GONE if is_left else _ENDED)
        if is_left:
            self._controller.make_another()

    def _say_once(self, line: str) -> None:
        if line != self._said:
            self._said = line
            self._say(line)


def _look_on_a_thread(
    look: Callable[[], None], every_s: float, ended: threading.Event, name: str
) -> None:
    def run() -> None:
        while not ended.wait(every_s):
            look()

    threading.Thread(target=run, name=name, daemon=True).start()
