# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences that wait for a slot: whose turn it is, and which have waited too long.

A free slot goes to the tenant that, with it, has the fewest slots for its weight; of several such
to the one whose sequence has waited longest. A tenant's own sequences start in the order in which
they came, and so do all of them where there are no tenants. Nobody's slot is taken away.
"""

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Generic

from deployments.scheduling.fair_queue import LEAST_WEIGHT
from deployments.scheduling.scheduler import SequencedT
from deployments.scheduling.sequence_slots import Sequence

# Entries of timed-out sequences are looked through when there are more than this and twice as many
# as there are sequences.
_MIN_STALE: Final = 64


class SequenceBacklog(Generic[SequencedT]):
    """The sequences that wait, and how many slots each tenant has.

    Attributes:
        count: Sequences that wait.
    """

    __slots__ = ("_arrivals", "_expiries", "_expiry_numbers", "_running", "_waiting", "count")

    def __init__(self) -> None:
        self.count = 0
        # Of each tenant with something here, by arrival; ordered, because sequences leave at the
        # head and out of the middle.
        self._waiting: dict[str, OrderedDict[Sequence[SequencedT], int]] = {}
        self._running: dict[str, int] = {}
        self._arrivals = itertools.count()
        # When sequences time out; entries of those that have left are skipped.
        self._expiries: list[tuple[int, int, Sequence[SequencedT]]] = []
        self._expiry_numbers = itertools.count()

    def has(self, sequence: Sequence[SequencedT]) -> bool:
        """Whether a sequence waits here."""
        return sequence in self._waiting.get(sequence.tenant, ())

    def sequences(self) -> Iterator[Sequence[SequencedT]]:
        """Return all of them, by tenant."""
        return itertools.chain.from_iterable(self._waiting.values())

    def add(self, sequence: Sequence[SequencedT]) -> None:
        """Have a sequence wait for a slot."""
        line = self._waiting.get(sequence.tenant)
        if line is None:
            line = self._waiting[sequence.tenant] = OrderedDict()
        line[sequence] = next(self._arrivals)
        self.count += 1

    def remove(self, sequence: Sequence[SequencedT]) -> None:
        """Have a sequence wait no more."""
        line = self._waiting[sequence.tenant]
        del line[sequence]
        if not line:
            del self._waiting[sequence.tenant]
        self.count -= 1

    def pop(self) -> Sequence[SequencedT] | None:
        """Take out the sequence that the next free slot is for; None when none waits."""
        if not self._waiting:
            return None
        heads = [next(iter(line.items())) for line in self._waiting.values()]
        sequence, _ = min(heads, key=self._rank)
        self.remove(sequence)
        return sequence

    def _rank(self, head: tuple[Sequence[SequencedT], int]) -> tuple[float, int]:
        sequence, arrival = head
        slot_count = self._running.get(sequence.tenant, 0) + 1
        return slot_count / max(LEAST_WEIGHT, sequence.weight), arrival

    def clear(self) -> None:
        """Forget everything."""
        self.count = 0
        self._waiting.clear()
        self._running.clear()
        self._expiries.clear()

    # Slots

    def started(self, sequence: Sequence[SequencedT]) -> None:
        """Count a slot that a sequence has got."""
        self._running[sequence.tenant] = self._running.get(sequence.tenant, 0) + 1

    def ended(self, sequence: Sequence[SequencedT]) -> None:
        """Count a slot no more, as its sequence has ended."""
        count = self._running.pop(sequence.tenant, 1) - 1
        if count:
            self._running[sequence.tenant] = count

    def belongs(self, sequence: Sequence[SequencedT], tenant: str) -> None:
        """Learn whose a running sequence is that was taken over."""
        self.ended(sequence)
        sequence.tenant = tenant
        self.started(sequence)

    # Timeouts

    @property
    def deadline_ns(self) -> int | None:
        """When the first sequence times out."""
        expiries = self._expiries
        while expiries and not self._is_due(expiries[0]):
            heapq.heappop(expiries)
        return expiries[0][0] if expiries else None

    def expire_at(self, sequence: Sequence[SequencedT], expires_ns: int) -> None:
        """Have a sequence time out, unless it does so earlier."""
        if expires_ns >= sequence.expires_ns:
            return
        sequence.expires_ns = expires_ns
        expiries = self._expiries
        if len(expiries) > _MIN_STALE + 2 * self.count:
            # Sequences that got a slot would otherwise stay until they had timed out.
            expiries[:] = [entry for entry in expiries if self._is_due(entry)]
            heapq.heapify(expiries)
        heapq.heappush(expiries, (expires_ns, next(self._expiry_numbers), sequence))

    def pop_expired(self, now_ns: int) -> Sequence[SequencedT] | None:
        """Take out the sequence that has timed out first; None when none has."""
        deadline_ns = self.deadline_ns
        if deadline_ns is None or deadline_ns > now_ns:
            return None
        _, _, sequence = heapq.heappop(self._expiries)
        self.remove(sequence)
        return sequence

    def _is_due(self, entry: tuple[int, int, Sequence[SequencedT]]) -> bool:
        expires_ns, _, sequence = entry
        return self.has(sequence) and sequence.expires_ns == expires_ns
