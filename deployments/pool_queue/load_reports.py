# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tells the routers that use a queue how much waits there, often enough to choose a node by it."""

from collections.abc import Callable
from typing import Final, Protocol

from deployments.pool_queue.messages import Load
from deployments.reactor.transport import Cancellable

# How often a queue that changes all the time tells.
PERIOD_S: Final = 0.010
# A queue that has run dry is where others' requests may go now, which is told sooner.
DRY_PERIOD_S: Final = 0.001
# How long after its last ticket a router is told.
INTEREST_S: Final = 10.0


class LoadHearer(Protocol):
    """A router."""

    def send_load(self, load: Load) -> None:
        """Tell it how much waits for a model here."""


class ReportLoop(Protocol):
    """What an event loop is needed for here."""

    def time(self) -> float:
        """Return the time, in seconds."""

    def call_later(self, delay_s: float, callback: Callable[[], object], /) -> Cancellable:
        """Run a callback after a delay."""


class LoadReports:
    """The reports of one queue.

    Args:
        loop: Of the process.
        read_load: Returns the load now.
    """

    __slots__ = ("_had_waiting", "_hearers", "_loop", "_read_load", "_timer", "_told_s")

    def __init__(self, loop: ReportLoop, read_load: Callable[[], Load]) -> None:
        self._loop = loop
        self._read_load = read_load
        self._hearers: dict[LoadHearer, float] = {}
        self._told_s = float("-inf")
        self._had_waiting = False
        self._timer: Cancellable | None = None

    @property
    def has_hearers(self) -> bool:
        """Whether there is anybody to tell."""
        return bool(self._hearers)

    def used_by(self, hearer: LoadHearer) -> None:
        """Note that a router uses the queue; one that is new hears the load at once."""
        if hearer not in self._hearers:
            self.asked_by(hearer)
        else:
            self._hearers[hearer] = self._loop.time()

    def asked_by(self, hearer: LoadHearer) -> None:
        """Tell a router the load, which has asked for it."""
        self._hearers[hearer] = self._loop.time()
        hearer.send_load(self._read_load())

    def forget(self, hearer: LoadHearer) -> None:
        """Tell a router nothing more: it is gone."""
        self._hearers.pop(hearer, None)

    def changed(self, waiting_count: int, free_count: int) -> None:
        """Note that requests have come or gone; call it after batches were formed.

        Args:
            waiting_count: Requests that wait now.
            free_count: Instances that execute nothing.
        """
        if not self._hearers:
            return
        is_dry = self._had_waiting and not waiting_count and free_count > 0
        self._had_waiting = waiting_count > 0 or (self._had_waiting and not is_dry)
        since_s = self._loop.time() - self._told_s
        if since_s >= (DRY_PERIOD_S if is_dry else PERIOD_S):
            self._tell()
        elif self._timer is None:
            self._timer = self._loop.call_later(PERIOD_S - since_s, self._tell)

    def close(self) -> None:
        """Tell nobody anything any more."""
        self._hearers.clear()
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self) -> None:
        self._stop_timer()
        self._told_s = now_s = self._loop.time()
        load = self._read_load()
        for hearer, used_s in list(self._hearers.items()):
            if now_s - used_s > INTEREST_S:
                del self._hearers[hearer]
            else:
                hearer.send_load(load)
