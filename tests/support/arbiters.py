# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The arbiter of a node over a real socket."""

import secrets
import threading
from collections.abc import Callable
from pathlib import Path

from deployments.rate_limiter.arbiter import ClaimPhase, Limit, ResourceArbiter
from deployments.rate_limiter.roster import Roster
from deployments.rate_limiter.server import ArbiterServer
from deployments.reactor.reactor import Reactor


class Arbiters:
    """The arbiter of a node, turned by a thread of its own, and its successors."""

    def __init__(self, folder: Path, limits: tuple[Limit, ...] = ()) -> None:
        self.path = f"\0manta-test/{secrets.token_hex(8)}"
        self.roster_path = folder / "roster"
        self.limits = limits
        self.begin()

    def begin(self) -> None:
        self.reactor = Reactor()
        self.arbiter = ResourceArbiter(self.limits, is_open=False)
        roster = Roster(self.roster_path)
        self.server = ArbiterServer(self.reactor, self.path, self.arbiter, roster)
        self._is_ending = False
        self._thread = threading.Thread(target=self._turn)
        self._thread.start()

    def _turn(self) -> None:
        while not self._is_ending:
            self.reactor.turn()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Packets of several sockets are read in any order: wait until one has been."""
        while not self.reactor.submit(condition).result(10):
            pass

    def wait_until_asked(self, name: str) -> None:
        self.wait_for(lambda: self.arbiter.phase(name) is ClaimPhase.ASKING)

    def end(self) -> None:
        self._is_ending = True
        self.reactor.interrupt()
        self._thread.join()
        self.server.close()
        self.reactor.close()
