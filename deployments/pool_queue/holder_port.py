# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The TCP port at which the holder of a node's queues listens for routers of other nodes.

A process that finds none leaves the holding to the others of its node for a while: one of them may
find one. If none of them has taken it then, it holds without: the node's own requests are served,
and routers of other nodes are told that they cannot reach the queues.
"""

import logging
import socket
from collections.abc import Callable
from typing import Final

from backends.api.errors import UnavailableError

_log = logging.getLogger(__name__)

# How long the others of the node have for it.
OTHERS_FIRST_S: Final = 1.0


class HolderPort:
    """The socket that listens at the port.

    Args:
        listen: Returns such a socket, or raises OSError or UnavailableError.
        clock_s: Seconds of a clock.
    """

    def __init__(self, listen: Callable[[], socket.socket], clock_s: Callable[[], float]) -> None:
        self._listen = listen
        self._clock_s = clock_s
        self._sock: socket.socket | None = None
        # Since when there has been neither a port nor another holder; None: that is not so.
        self._missing_since_s: float | None = None
        self._reason = ""

    def find(self) -> bool:
        """Look for a port, unless there is one; return whether there is one now."""
        if self._sock is None:
            try:
                self._sock = self._listen()
            except (OSError, UnavailableError) as error:
                self._reason = str(error)
                return False
        return True

    def may_hold(self) -> bool:
        """Look for a port; return whether to hold: with one, or because nobody else does."""
        if self.find():
            return True
        now_s = self._clock_s()
        if self._missing_since_s is None:
            self._missing_since_s = now_s
            _log.info("the queues of this node are left to another process: %s", self._reason)
        return now_s - self._missing_since_s >= OTHERS_FIRST_S

    def take(self) -> socket.socket | None:
        """Return the socket, which is the caller's now; None and a warning when there is none."""
        sock, self._sock = self._sock, None
        self._missing_since_s = None
        if sock is None:
            _log.warning(
                "the queue leader of this node has no TCP port, so other nodes send no "
                "requests here: %s; free a port or give a wider --lane-port-range",
                self._reason,
            )
        return sock

    def let_go(self) -> None:
        """Do without: another process holds, or this one ends."""
        self._missing_since_s = None
        if self._sock is not None:
            self._sock.close()
            self._sock = None
