# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Makes leases of one queue's free instances and calls them back.

`deployments.pool_queue.leases` decides who gets one, `deployments.scheduling.pool_queue` keeps the
books of instances; this tells the routers.
"""

from collections.abc import Iterable
from typing import cast

from deployments.pool_queue.foreign_ticket import ForeignParty
from deployments.pool_queue.leases import Leases, OutstandingLease
from deployments.pool_queue.messages import Lease, LeaseEnd
from deployments.pool_queue.queued_request import Party, QueuedTicket
from deployments.scheduling.pool_queue import PoolQueue


class LeaseDesk:
    """The leases of one model version's queue.

    Args:
        queue: The queue.
        name: Model.
        version: Version number.
        epoch: Of the holder.

    Attributes:
        is_needed: Whether another router has ever used the queue.
    """

    __slots__ = ("_epoch", "_leases", "_name", "_queue", "_version", "is_needed")

    def __init__(self, queue: PoolQueue[QueuedTicket], name: str, version: int, epoch: int) -> None:
        self._queue = queue
        self._name = name
        self._version = version
        self._epoch = epoch
        self._leases: Leases[ForeignParty] = Leases()
        self.is_needed = False

    @property
    def deadline_ns(self) -> int | None:
        """When `call_back_unused` may first have something to do."""
        return self._leases.deadline_ns

    def used_here(self, now_ns: int) -> None:
        """Note a request of the holder's own."""
        self._leases.used_here(now_ns)

    def granted(self, number: int, party: Party, ticket_count: int, now_ns: int) -> None:
        """Note a batch that is all another router's."""
        if ticket_count == 1 and not self._queue.pending_count:
            self._leases.began(number, cast("ForeignParty", party), now_ns)

    def ended(self, number: int, now_ns: int) -> None:
        """Note that a batch is executed, or will not be."""
        self._leases.ended(number, now_ns)

    def settle(self, now_ns: int) -> None:
        """Make leases while nothing waits, or call them back because something does."""
        queue = self._queue
        if queue.pending_count:
            if queue.leased and not queue.free_count:
                self._call_back(self._leases.wanted_back(now_ns))
            return
        free = [name for name, each in queue.instances.items() if not each.batch_count]
        for offer in self._leases.offers(free, now_ns):
            number = queue.lease(offer.instance, now_ns)
            if number is None:
                return
            self._leases.leased(number, offer, now_ns)
            offer.party.lease(Lease(self._name, self._version, self._epoch, number, offer.instance))

    def call_back_unused(self, now_ns: int) -> None:
        """Call back the leases that lie unused."""
        self._call_back(self._leases.overdue(now_ns))

    def returned(self, party: ForeignParty, number: int) -> None:
        """Take a lease back that was not used."""
        if self._leases.returned(number, party):
            self._queue.give_back(number)

    def party_lost(self, party: ForeignParty) -> None:
        """Take back what a router had that is gone."""
        for number in self._leases.party_lost(party):
            self._queue.give_back(number)

    def _call_back(self, leases: Iterable[OutstandingLease[ForeignParty]]) -> None:
        for lease in leases:
            lease.party.call_back(LeaseEnd(self._name, self._version, lease.number))
