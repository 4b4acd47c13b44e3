# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The batches of one queue that lie at instances: how they get there, and what is known of them.

The holder's own part of a batch goes over its own lane, other routers get grants for theirs. The
own part is always sent, and be it empty: it says how many requests there are in all, and which
sequences begin and end with those of others. So the instance can tell the next holder of them,
should that one come before they do.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from backends.api.request import SEQUENCE_END
from deployments.lane.batches import BatchPart, Done, Forget
from deployments.lane.client import LaneClient
from deployments.pool_queue.messages import Grant, Missing, Place
from deployments.pool_queue.own_request import OwnRequest
from deployments.pool_queue.ticket_server import HeldTicket, PartyLane
from deployments.scheduling.pool_queue import Batch

_Share = tuple[list[HeldTicket], list[int]]
_NO_SHARES: Final[Mapping[PartyLane, _Share]] = {}


class _Given:
    """A batch that lies at an instance.

    Attributes:
        slots: Of sequences, the slot of each request.
        tickets: Its requests.
        shares: What other routers were granted of it, in the order of their numbers.
    """

    __slots__ = ("shares", "slots", "tickets")

    def __init__(self, tickets: list[HeldTicket], slots: Sequence[int]) -> None:
        self.tickets = tickets
        self.slots = slots
        self.shares: Mapping[PartyLane, _Share] = _NO_SHARES

    def number_of(self, party: PartyLane) -> int:
        """Return what a router is called in the batch; 0 when it has no part of it."""
        return next((at for at, each in enumerate(self.shares, 1) if each is party), 0)


class GivenBatches:
    """Sends the batches of one queue.

    Attributes:
        lanes: The lanes to the instances, by their incarnations.
        own: Requests of this process that wait; those that are sent are taken out.
        kept: Requests that are executed again: their instances have them, and end them.
        nameless: Other routers' requests of iterative models that came without a correlation id,
            and will be given one.
    """

    __slots__ = ("_epoch", "_given", "kept", "lanes", "nameless", "own")

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self.lanes: dict[str, LaneClient] = {}
        self.own: dict[OwnRequest, None] = {}
        self._given: dict[str, dict[int, _Given]] = {}
        self.kept: set[HeldTicket] = set()
        self.nameless: set[HeldTicket] = set()

    def join(self, instance: str, lane: LaneClient) -> None:
        """Have batches go to an instance."""
        self.lanes[instance] = lane
        self._given[instance] = {}

    def leave(self, instance: str) -> bool:
        """Forget an instance; return whether it was known."""
        self._given.pop(instance, None)
        return self.lanes.pop(instance, None) is not None

    def done(self, instance: str, done: Done) -> Sequence[int]:
        """Learn that a batch is executed.

        Returns:
            The places of its requests that are to be executed once more.
        """
        given = self._given[instance].pop(done.number, None)
        if given is None or not (done.rescheduled or self.kept):
            return ()
        places = [at for at, slot in enumerate(given.slots) if slot in done.rescheduled]
        kept = {given.tickets[at] for at in places}
        self.kept.difference_update(given.tickets)
        self.kept |= kept
        for ticket in kept:
            ticket.is_kept = True
        return places

    def missing(self, party: PartyLane, missing: Missing) -> Sequence[HeldTicket]:
        """Have an instance not wait for a part that was granted and will not come; return that."""
        given = self._given.get(missing.instance, {}).get(missing.number)
        if given is None or missing.epoch != self._epoch or not given.number_of(party):
            return ()
        self._forget(missing.instance, missing.number, given, party)
        return given.shares[party][0]

    def party_lost(self, party: PartyLane) -> None:
        """Have instances not wait for parts of a router that is gone."""
        for instance, batches in self._given.items():
            for number, given in batches.items():
                self._forget(instance, number, given, party)

    def _forget(self, instance: str, number: int, given: _Given, party: PartyLane) -> None:
        party_number = given.number_of(party)
        if party_number:
            count = len(given.shares[party][0])
            self.lanes[instance].forget(Forget(self._epoch, number, count, party_number))

    def give(self, batch: Batch[HeldTicket]) -> Iterable[PartyLane]:
        """Send a batch to its instance.

        Returns:
            The other routers that have a part of it.
        """
        number, instance, decision = batch
        tickets, slots = decision.batch, decision.slots
        self._given[instance][number] = given = _Given(tickets, slots)
        count = len(tickets)
        part = BatchPart(self._epoch, number, 0, count, slots, row_count=decision.row_count)
        if not self.kept and all(ticket.party is None for ticket in tickets):
            self._send_own(instance, tickets, part)
            return ()
        kept: list[int] = []
        own: _Share = ([], [])
        shares: dict[PartyLane, _Share] = {}
        sequences: dict[int, int | str] = {}
        for at, ticket in enumerate(tickets):
            if ticket in self.kept:
                kept.append(slots[at])
                continue
            party = ticket.party
            share = own if party is None else shares.setdefault(party, ([], []))
            share[0].append(ticket)
            if slots:
                share[1].append(slots[at])
                if party is not None and ticket.flags:
                    is_last = ticket.flags & SEQUENCE_END
                    sequences[slots[at]] = 0 if is_last else ticket.correlation_id
        part.total_count, part.kept = count - len(kept), kept
        part.slots, part.sequences = own[1], sequences or None
        given.shares = shares
        # Theirs have a hop more to go.
        for at, (party, (theirs, their_slots)) in enumerate(shares.items(), 1):
            numbers = [ticket.number for ticket in theirs]
            ids = self._ids_given(theirs)
            grant = Grant(self._epoch, number, instance, numbers, their_slots, ids, at)
            if any(ticket.avoid == instance for ticket in theirs):
                endpoint = self.lanes[instance].endpoint
                grant.place = Place(endpoint.name, endpoint.node_id, endpoint.uds, *endpoint.tcp)
            party.grant(grant)
        self._send_own(instance, own[0], part)
        return shares

    def _ids_given(self, tickets: list[HeldTicket]) -> Sequence[int | str]:
        if not self.nameless:
            return ()
        ids = [ticket.correlation_id if ticket in self.nameless else 0 for ticket in tickets]
        self.nameless.difference_update(tickets)
        return ids

    def _send_own(self, instance: str, tickets: Sequence[HeldTicket], part: BatchPart) -> None:
        requests = cast("Sequence[OwnRequest]", tickets)
        own = self.own
        queued_ns = []
        for request in requests:
            request.queue = None
            own.pop(request, None)
            queued_ns.append(request.enqueue_ns)
        part.here_count = len(requests)
        part.queued_ns = queued_ns
        self.lanes[instance].start_batch(part, requests)
