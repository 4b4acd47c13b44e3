# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the leases of one held queue and has them back: `Leases` decides, this carries it out."""

import time
from collections.abc import Callable

from deployments.pool_queue.alarm import Alarm, AlarmClock
from deployments.pool_queue.foreign_ticket import ForeignParty, HeldTicket
from deployments.pool_queue.leases import LeaseOffer, Leases, OutstandingLease
from deployments.pool_queue.messages import Lease, LeaseEnd
from deployments.scheduling.pool_queue import PoolQueue


class LeaseDesk:
    """The leases of one model version's pool.

    Args:
        queue: The pool's queue.
        model_name: Model.
        version: Version number.
        epoch: Of the holder.
        clock: Wakes the desk when a lease has not been used.
        clock_ns: The node's monotonic clock.
    """

    def __init__(
        self,
        queue: PoolQueue[HeldTicket],
        model_name: str,
        version: int,
        epoch: int,
        clock: AlarmClock,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._queue = queue
        self._name = model_name
        self._version = version
        self._epoch = epoch
        self._leases: Leases[ForeignParty] = Leases()
        self._clock_ns = clock_ns
        self._overdue = Alarm(clock, self._ring)
        # Bound once: each request of this process is noted.
        self.used_here = self._leases.used_here

    def began(self, number: int, party: ForeignParty, now_ns: int) -> None:
        """Note a batch of one other router's ticket.

        It earns a lease if nothing else waits and the router is on this node: to the routers of
        others the way to the instance is as long as the way here.
        """
        if party.is_local and not self._queue.pending_count:
            self._leases.began(number, party, now_ns)

    def ended(self, number: int, now_ns: int) -> None:
        """Note that a batch, perhaps a lease, was executed."""
        self._leases.ended(number, now_ns)

    def left(self, instance: str, now_ns: int) -> None:
        """End the leases of an instance that is gone; call it before `PoolQueue.leave`."""
        for number, leased in self._queue.leased.items():
            if leased == instance:
                self._leases.ended(number, now_ns)

    def returned(self, number: int, party: ForeignParty) -> None:
        """Take back a lease that was not used; ask `PoolQueue.next` afterwards."""
        if self._leases.returned(number, party):
            self._queue.give_back(number)

    def party_lost(self, party: ForeignParty) -> None:
        """Take back the leases of a router that is gone; ask `PoolQueue.next` afterwards."""
        for number in self._leases.party_lost(party):
            # An instance at which it was used yet says so by a batch that is not known any more.
            self._queue.give_back(number)

    def look(self, now_ns: int) -> None:
        """Make leases, or call them back; call it whenever `PoolQueue.next` was asked."""
        leases = self._leases
        if leases.is_idle:
            return
        queue = self._queue
        if queue.pending_count:
            if not queue.free_count:
                self.want_back(now_ns)
            return
        for offer in leases.offers(queue.idle, now_ns):
            if not self._lease(offer, now_ns):
                return
        self._overdue.set(leases.deadline_ns)

    def want_back(self, now_ns: int) -> None:
        """Call leases back because something waits, here or elsewhere, and no instance is free."""
        self._call_back(self._leases.wanted_back(now_ns))

    def answer(self, party: ForeignParty, now_ns: int) -> bool:
        """Lease a free instance to a router that has a request waiting elsewhere.

        Returns:
            Whether that could be done.
        """
        idle = self._queue.idle
        if not any(self._lease(LeaseOffer(party, instance), now_ns) for instance in idle):
            return False
        self._overdue.set(self._leases.deadline_ns)
        return True

    def _lease(self, offer: LeaseOffer[ForeignParty], now_ns: int) -> bool:
        number = self._queue.lease(offer.instance, now_ns)
        if number is None:
            return False
        self._leases.leased(number, offer, now_ns)
        offer.party.lease(Lease(self._name, self._version, self._epoch, number, offer.instance))
        return True

    def close(self) -> None:
        """Make no more leases: the queue is no more."""
        self._overdue.cancel()

    def _ring(self) -> None:
        self._call_back(self._leases.overdue(self._clock_ns()))
        self._overdue.set(self._leases.deadline_ns)

    def _call_back(self, called: list[OutstandingLease[ForeignParty]]) -> None:
        for party, number in called:
            party.call_back(LeaseEnd(self._name, self._version, number))
