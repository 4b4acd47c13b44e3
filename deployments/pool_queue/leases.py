# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instances that are kept free for routers of other nodes that have asked for one.

A lease is a grant ahead of a request: an empty batch, which the router fills with one that waits
elsewhere, or gives back at once. What it does not do the holder has the instance do: that forgets
the batch, and says so, if nothing of it has come.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from deployments.lane.batches import Forget
from deployments.lane.client import LaneClient
from deployments.pool_queue.messages import Lease
from deployments.pool_queue.ticket_server import HeldTicket, PartyLane
from deployments.scheduling.pool_queue import PoolQueue

# For a router that does not get to run; what it sends later is executed all the same.
UNUSED_NS: Final = 100_000_000


class _Lease(NamedTuple):
    party: PartyLane
    instance: str
    due_ns: int


class Leases:
    """The leases of one model version's pool."""

    __slots__ = ("_epoch", "_lanes", "_leases", "_model", "_queue")

    def __init__(
        self,
        queue: PoolQueue[HeldTicket],
        lanes: Mapping[str, LaneClient],
        model: tuple[str, int],
        epoch: int,
    ) -> None:
        self._queue = queue
        self._lanes = lanes
        self._model = model
        self._epoch = epoch
        # The oldest first.
        self._leases: dict[int, _Lease] = {}

    @property
    def deadline_ns(self) -> int | None:
        """When `expire` may first have something to take back; None means never."""
        for lease in self._leases.values():
            return lease.due_ns
        return None

    def make(self, party: PartyLane, now_ns: int) -> bool:
        """Keep an instance free for a router; return whether one is there."""
        batch = self._queue.lease()
        if batch is None:
            return False
        number, instance, _ = batch
        self._leases[number] = _Lease(party, instance, now_ns + UNUSED_NS)
        party.lease(Lease(*self._model, self._epoch, number, instance))
        return True

    def returned(self, party: PartyLane, number: int) -> None:
        """Take a lease back that is not used; ask `PoolQueue.next` afterwards."""
        lease = self._leases.get(number)
        if lease is not None and lease.party is party:
            del self._leases[number]
            self._queue.give_back(lease.instance, number)

    def ended(self, number: int) -> None:
        """Learn that a batch, perhaps a lease, is executed."""
        self._leases.pop(number, None)

    def party_lost(self, party: PartyLane) -> None:
        """Take the leases of a router back that is gone."""
        self._take_back([each for each, lease in self._leases.items() if lease.party is party])

    def expire(self, now_ns: int) -> None:
        """Take the leases back that have not been used in time."""
        self._take_back([each for each, lease in self._leases.items() if lease.due_ns <= now_ns])

    def _take_back(self, numbers: list[int]) -> None:
        """Have instances say that batches are over of which nothing has come."""
        for number in numbers:
            lane = self._lanes.get(self._leases.pop(number).instance)
            if lane is not None:
                lane.forget(Forget(self._epoch, number, 1))
