# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tells routers how much waits in a queue, when they need it to choose a node.

Only routers that have asked hear anything: one whose model is on this node alone has no choice.
They hear of it when they have to do with the queue: when they are granted something, and sooner
when a request of theirs has to wait.

A router whose requests wait elsewhere asks to be told when there is a free instance. As many are
told as there are free instances, so that not all routers send a request to the same one. Where an
execution is of one request the answer is a lease: the request goes straight to the instance, which
waits for one message and not for three. Where requests share executions the answer is the load, as
a lease would fill an execution with one request.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Final, TypeVar

from deployments.pool_queue.messages import Load
from deployments.pool_queue.ticket_server import PartyLane

P = TypeVar("P", bound=Hashable)
# A router hears of the load with what it is granted at most once in this time,
GRANT_PERIOD_S: Final = 0.010
# and when a request of it has to wait, at most once in this time.
WAIT_PERIOD_S: Final = 0.001


class LoadReports:
    """The reports of one queue.

    Attributes:
        askers: Those that have asked to hear of a free instance, in the order of their questions.
    """

    __slots__ = ("_hearers", "_loop", "_read_load", "_waiting", "askers")

    def __init__(self, loop: asyncio.AbstractEventLoop, read_load: Callable[[], Load]) -> None:
        self._loop = loop
        self._read_load = read_load
        # When each was last told.
        self._hearers: dict[PartyLane, float] = {}
        self.askers: dict[PartyLane, None] = {}
        # Those that have sent requests in this tick.
        self._waiting: dict[PartyLane, None] = {}

    def asked(self, hearer: PartyLane, *, when_free: bool) -> None:
        """Note that a router wants to know the load, which it hears from now on.

        Args:
            hearer: The router.
            when_free: Whether it is to hear of the next free instance, when `answered` says so, and
                not of the load as it is now.
        """
        if when_free:
            self._hearers.setdefault(hearer, float("-inf"))
            self.askers[hearer] = None
        else:
            self.tell(hearer, self._read_load())

    def used_by(self, hearer: PartyLane) -> None:
        """Note that a router has sent a request; it is told if something waits afterwards."""
        told_s = self._hearers.get(hearer)
        if told_s is None or self._loop.time() - told_s < WAIT_PERIOD_S:
            return
        if not self._waiting:
            # The queue looks at what came in this tick before.
            self._loop.call_soon(self._tell_waiting)
        self._waiting[hearer] = None

    def granted(self, hearer: PartyLane) -> None:
        """Note that a router has been granted something."""
        told_s = self._hearers.get(hearer)
        if told_s is not None and self._loop.time() - told_s >= GRANT_PERIOD_S:
            self.tell(hearer, self._read_load())

    def tell(self, hearer: PartyLane, load: Load) -> None:
        """Tell a router of the load now, whatever it has heard."""
        self._hearers[hearer] = self._loop.time()
        if load.is_free:
            # That answers its question.
            self.askers.pop(hearer, None)
        hearer.send_load(load)

    def forget(self, hearer: PartyLane) -> None:
        """Tell a router nothing more: it is gone."""
        self._hearers.pop(hearer, None)
        self._waiting.pop(hearer, None)
        self.askers.pop(hearer, None)

    def close(self) -> None:
        """Tell nobody anything any more."""
        for hearer in list(self._hearers):
            self.forget(hearer)

    def _tell_waiting(self) -> None:
        waiting = list(self._waiting)
        self._waiting.clear()
        load = self._read_load()
        if load.waiting_count:
            for hearer in waiting:
                self.tell(hearer, load)


def answered(askers: dict[P, None], load: Load) -> list[P]:
    """Return the routers that are to hear of free instances now; their questions are over.

    The first that has asked is the first that hears.
    """
    parties: list[P] = []
    count = min(load.free_count - load.waiting_count, len(askers))
    while len(parties) < count:
        party = next(iter(askers))
        del askers[party]
        parties.append(party)
    return parties
