# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instances that are kept free for routers of other nodes that have asked for one.

A lease is a grant ahead of a request: an empty batch, which the router fills with one that waits
elsewhere, or gives back at once. What it does not do the holder has the instance do: that forgets
the batch, and says so, if nothing of it has come.
"""

import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from deployments.lane.batches import Forget
from deployments.lane.client import LaneClient
from deployments.pool_queue.alarm import Alarm, AlarmClock
from deployments.pool_queue.foreign_ticket import ForeignParty, HeldTicket
from deployments.pool_queue.messages import Lease
from deployments.scheduling.pool_queue import PoolQueue

# For a router that does not get to run; what it sends later is executed all the same.
UNUSED_NS: Final = 100_000_000


class _Lease(NamedTuple):
    party: ForeignParty
    instance: str
    due_ns: int


class Leases:
    """The leases of one model version's pool."""

    __slots__ = ("_alarm", "_clock_ns", "_epoch", "_lanes", "_leases", "_model", "_queue")

    def __init__(
        self,
        queue: PoolQueue[HeldTicket],
        lanes: Mapping[str, LaneClient],
        model: tuple[str, int],
        epoch: int,
        clock: AlarmClock,
    ) -> None:
        self._clock_ns = time.monotonic_ns
        self._queue = queue
        self._lanes = lanes
        self._model = model
        self._epoch = epoch
        # The oldest first.
        self._leases: dict[int, _Lease] = {}
        self._alarm = Alarm(clock, self._ring)

    def make(self, party: ForeignParty) -> bool:
        """Keep an instance free for a router; return whether one is there."""
        batch = self._queue.lease()
        if batch is None:
            return False
        number, instance, _ = batch
        self._leases[number] = lease = _Lease(party, instance, self._clock_ns() + UNUSED_NS)
        party.lease(Lease(*self._model, self._epoch, number, instance))
        self._alarm.set(lease.due_ns)
        return True

    def returned(self, party: ForeignParty, number: int) -> None:
        """Take a lease back that is not used; ask `PoolQueue.next` afterwards."""
        lease = self._leases.get(number)
        if lease is not None and lease.party is party:
            del self._leases[number]
            self._queue.give_back(lease.instance, number)

    def ended(self, number: int) -> None:
        """Learn that a batch, perhaps a lease, is executed."""
        self._leases.pop(number, None)

    def party_lost(self, party: ForeignParty) -> None:
        """Take the leases of a router back that is gone."""
        self._take_back([each for each, lease in self._leases.items() if lease.party is party])

    def close(self) -> None:
        """Take nothing back any more: the queue is no more."""
        self._alarm.cancel()

    def _ring(self) -> None:
        now_ns = self._clock_ns()
        self._take_back([each for each, lease in self._leases.items() if lease.due_ns <= now_ns])
        oldest = next(iter(self._leases.values()), None)
        self._alarm.set(None if oldest is None else oldest.due_ns)

    def _take_back(self, numbers: list[int]) -> None:
        """Have instances say that batches are over of which nothing has come."""
        for number in numbers:
            lane = self._lanes.get(self._leases.pop(number).instance)
            if lane is not None:
                lane.forget(Forget(self._epoch, number, 1))
