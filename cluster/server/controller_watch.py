# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Makes another controller when the server has none any more.

Ray restarts a controller whose process has died. One that was killed for good, by a person or by an
upgrade that went no further, nobody restarts, and nothing on the data path would show it: models
are served, and nothing can be loaded, replaced or ended. The process that has started the server
knows all that a controller is started with.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cluster.controller.ownership import HEARTBEAT_S

if TYPE_CHECKING:
    from cluster.server.ray_cluster import Controller

_log = logging.getLogger(__name__)

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


class ControllerWatch:
    """Looks on a thread of its own: a call of a GCS that is away returns when it is back."""

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
        threading.Thread(
            target=self._run, args=(ended,), name="manta-controller", daemon=True
        ).start()

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

    def _run(self, ended: threading.Event) -> None:
        while not ended.wait(HEARTBEAT_S):
            self.look()
