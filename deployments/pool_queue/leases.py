# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which routers may start a request on an idle pool without asking. Pure: the clock is passed in.

A lease is a batch that a router may fill with one request. It saves the way to the holder and back
where nothing would have waited there anyway. A router gets as many as it has lately had requests in
execution at once, for as long as it goes on using the pool; one that leaves a lease unused for a
second gets fewer. While the holder's own requests come, an instance stays free for them.

The holder does not see a lease being used: it sees the end of its batch. So a lease is called back
once; the router gives it back if it is not used, and otherwise the end of the batch ends it.
"""

from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, TypeVar

# Hashable; by identity, where two may be alike.
P = TypeVar("P")

# For how long a use counts.
LATELY_NS: Final = 1_000_000_000
# How long a lease may lie unused.
UNUSED_NS: Final = 1_000_000_000
# A pool where requests waited a moment ago is not idle.
PAUSE_NS: Final = 20_000_000
_LONG_AGO_NS: Final = -(1 << 62)


class LeaseOffer(NamedTuple, Generic[P]):
    """A lease to be made, and told with `Leases.leased`."""

    party: P
    instance: str


class OutstandingLease(NamedTuple, Generic[P]):
    """A lease to be called back."""

    party: P
    number: int


class _Use(Generic[P]):
    """What a router does with the pool."""

    __slots__ = ("numbers", "peak_count", "used_ns")

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self.peak_count = 0
        self.used_ns = _LONG_AGO_NS


class _Lease(Generic[P]):
    __slots__ = ("is_called_back", "is_overdue", "leased_ns", "party")

    def __init__(self, party: P, leased_ns: int) -> None:
        self.party = party
        self.leased_ns = leased_ns
        self.is_called_back = False
        self.is_overdue = False


class Leases(Generic[P]):
    """The leases of one pool to the other routers of its node."""

    def __init__(self) -> None:
        self._uses: dict[P, _Use[P]] = {}
        self._singles: dict[int, P] = {}
        self._leases: dict[int, _Lease[P]] = {}
        self._used_here_ns = _LONG_AGO_NS
        self._not_before_ns = _LONG_AGO_NS

    @property
    def is_idle(self) -> bool:
        """Whether no other router has used the pool lately, or has a lease."""
        return not (self._uses or self._leases)

    @property
    def outstanding_count(self) -> int:
        """Leases that have neither ended nor come back."""
        return len(self._leases)

    @property
    def deadline_ns(self) -> int | None:
        """When `overdue` may first have something to call back; None means never."""
        waiting = [each.leased_ns for each in self._leases.values() if not each.is_called_back]
        return min(waiting) + UNUSED_NS if waiting else None

    # What happens in the pool

    def used_here(self, now_ns: int) -> None:
        """Note a request of the holder's own router; it may have waited elsewhere before."""
        self._used_here_ns = max(self._used_here_ns, now_ns)

    def began(self, number: int, party: P, now_ns: int) -> None:
        """Note a batch of one ticket of another router, granted while nothing else waited."""
        self._singles[number] = party
        use = self._uses.get(party)
        if use is None:
            self._uses[party] = use = _Use()
        use.numbers.add(number)
        use.used_ns = now_ns
        use.peak_count = max(use.peak_count, len(use.numbers))

    def ended(self, number: int, now_ns: int) -> None:
        """Note that a batch, perhaps one of these, is executed, or that its instance is gone."""
        lease = self._leases.pop(number, None)
        party = self._singles.pop(number, None) if lease is None else lease.party
        if party is None:
            return
        use = self._uses.get(party)
        if use is not None:
            use.numbers.discard(number)
            if lease is not None:
                use.used_ns = now_ns

    def leased(self, number: int, offer: LeaseOffer[P], now_ns: int) -> None:
        """Note that a lease was made of an offer, or for a router that has asked for one.

        Args:
            number: The batch that the router may fill.
            offer: The offer.
            now_ns: Now.
        """
        self._leases[number] = _Lease(offer.party, now_ns)
        use = self._uses.get(offer.party)
        if use is not None:
            use.numbers.add(number)

    def returned(self, number: int, party: P) -> bool:
        """Note that a router has given a lease back unused.

        Returns:
            Whether it had it, so that its instance is free; false for one that has ended already.
        """
        lease = self._leases.get(number)
        if lease is None or lease.party != party:
            return False
        del self._leases[number]
        use = self._uses.get(party)
        if use is not None:
            use.numbers.discard(number)
            if lease.is_overdue:
                use.peak_count = max(1, len(use.numbers))
        return True

    def party_lost(self, party: P) -> list[int]:
        """Forget a router that is gone.

        Returns:
            Its leases: what it has not used never will be.
        """
        self._uses.pop(party, None)
        numbers = [number for number, each in self._leases.items() if each.party == party]
        for number in numbers:
            del self._leases[number]
        for number in [number for number, each in self._singles.items() if each == party]:
            del self._singles[number]
        return numbers

    # What is to be done

    def offers(self, free: Sequence[str], now_ns: int) -> list[LeaseOffer[P]]:
        """Return the leases to be made, when a batch was executed and nothing waits.

        Args:
            free: The instances that execute nothing and are not leased, the best first.
            now_ns: Now.
        """
        if not self._uses or now_ns < self._not_before_ns:
            return []
        count = len(free)
        if now_ns - self._used_here_ns <= LATELY_NS:
            count -= 1
        offers: list[LeaseOffer[P]] = []
        for party, use in sorted(self._uses.items(), key=_last_use, reverse=True):
            if now_ns - use.used_ns > LATELY_NS:
                if not use.numbers:
                    del self._uses[party]
                continue
            wanted_count = use.peak_count - len(use.numbers)
            for _ in range(min(wanted_count, count - len(offers))):
                offers.append(LeaseOffer(party, free[len(offers)]))
        return offers

    def overdue(self, now_ns: int) -> list[OutstandingLease[P]]:
        """Return the leases to be called back because they are unused, as far as that is known."""
        called = self._call_back(now_ns - UNUSED_NS)
        for each in called:
            self._leases[each.number].is_overdue = True
        return called

    def wanted_back(self, now_ns: int) -> list[OutstandingLease[P]]:
        """Return the leases to be called back because something waits and no instance is free.

        For a moment none is made then.
        """
        if not self._leases:
            return []
        self._not_before_ns = now_ns + PAUSE_NS
        return self._call_back(now_ns)

    def _call_back(self, made_until_ns: int) -> list[OutstandingLease[P]]:
        called: list[OutstandingLease[P]] = []
        for number, lease in self._leases.items():
            if not lease.is_called_back and lease.leased_ns <= made_until_ns:
                lease.is_called_back = True
                called.append(OutstandingLease(lease.party, number))
        return called


def _last_use(item: tuple[P, _Use[P]]) -> int:
    return item[1].used_ns
