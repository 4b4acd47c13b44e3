# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Puts the parts of a batch together that come from several routers. Pure.

A batch is complete when as many requests have come as its holder has said, less those of which the
instance hears that they do not come. One that waits too long for a part is given out as it is, and
what comes of it afterwards makes late batches, one for each part.

Whose part has come, or will not come, counts once: FORGET may speak of a part that has come, or
overtake it. A number that was given out is remembered for a while, to know what comes too late.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Generic, TypeVar

from deployments.lane.batches import BatchPart, Forget

Item = TypeVar("Item")

# A router that has a grant sends its part at once; this is for one that does not get to run.
PART_WAIT_NS: Final = 100_000_000
# A request of a sequence that comes after its batch may find another sequence in its slot. So this
# is for a router that lives but cannot send: that one is gone the holder says before, or the next.
SEQUENCE_PART_WAIT_NS: Final = 10_000_000_000
# Batches that wait for a part; the oldest is given out when there are more.
MAX_INCOMPLETE_COUNT: Final = 1024
_REMEMBERED_COUNT: Final = 4096
_NO_SEQUENCES: Final[Mapping[int, int | str]] = {}

_Key = tuple[int, int]


class PoolBatch(Generic[Item]):
    """A batch that was formed by the holder of a pool's queue.

    Attributes:
        epoch: Of the holder.
        number: The batch, in that epoch.
        items: Its requests.
        slots: Of sequences, the slot of each request; else empty.
        row_count: Where each slot has its row, how many rows there are at least.
        sequences: By slot, the sequences that requests begin which parts of others than the holder
            bring; 0 for those that they end.
        kept: Slots whose request is executed once more.
        is_late: Whether it is what came too late of a batch: nobody is told of its end.
        is_counted: Whether another holder than the one who formed it was told to wait for its end.
        execution_ns: How long it was executed.
        rescheduled: Slots whose request is to be executed once more.
        ended: By slot, the sequences that have ended before their time; None for none.
        due_ns: When it goes as it is, where it waits for parts.
    """

    __slots__ = (
        "_parties",
        "_settled_count",
        "_total_count",
        "due_ns",
        "ended",
        "epoch",
        "execution_ns",
        "is_counted",
        "is_late",
        "items",
        "kept",
        "number",
        "rescheduled",
        "row_count",
        "sequences",
        "slots",
    )

    def __init__(self, epoch: int, number: int) -> None:
        self.epoch = epoch
        self.number = number
        self.items: list[Item] = []
        self.slots: list[int] = []
        self.kept: list[int] = []
        self.row_count = 0
        self.sequences: Mapping[int, int | str] = _NO_SEQUENCES
        self.is_late = False
        self.is_counted = False
        self.execution_ns = 0
        self.rescheduled: list[int] = []
        self.ended: dict[int, int | str] | None = None
        # Requests that have come or will not come; of how many, -1 while that is not known.
        self._settled_count = 0
        # Bit by bit, the routers whose parts these are.
        self._parties = 0
        self._total_count = -1
        self.due_ns = 0

    @property
    def is_complete(self) -> bool:
        """Whether nothing more is to come of it."""
        return 0 <= self._total_count <= self._settled_count

    def take(self, part: BatchPart, items: Sequence[Item]) -> None:
        """Add a part and its requests."""
        self.items += items
        self.slots += part.slots
        self.kept += part.kept
        self.row_count = max(self.row_count, part.row_count)
        if part.sequences:
            self.sequences = part.sequences
        if not part.party or self._settles(part.party):
            self._settled_count += part.here_count + part.unsent_count
        # The holder's part says how many there are, which may be none but those that are kept.
        if part.total_count or part.kept or not (part.here_count or part.unsent_count):
            self._total_count = part.total_count

    def forget(self, message: Forget, *, is_all: bool) -> None:
        """Wait for fewer requests; for none of others when those are all that is known of."""
        if not message.party or self._settles(message.party):
            self._settled_count += message.count
        if is_all:
            self._total_count = self._settled_count

    def _settles(self, party: int) -> bool:
        """Whether nothing was known of another router's part; the holder's comes once."""
        bit = 1 << party
        is_new = not self._parties & bit
        self._parties |= bit
        return is_new


class Assembly(Generic[Item]):
    """The batches that wait for parts.

    Args:
        part_wait_ns: How long one waits.
    """

    __slots__ = ("_given_out", "_incomplete", "_order", "_part_wait_ns")

    def __init__(self, part_wait_ns: int = PART_WAIT_NS) -> None:
        self._part_wait_ns = part_wait_ns
        self._incomplete: dict[_Key, PoolBatch[Item]] = {}
        self._given_out: set[_Key] = set()
        self._order: deque[_Key] = deque()

    @property
    def batches(self) -> Collection[PoolBatch[Item]]:
        """The batches, oldest first."""
        return self._incomplete.values()

    @property
    def deadline_ns(self) -> int | None:
        """When `expire` may first give out something; None means never."""
        for batch in self._incomplete.values():
            return batch.due_ns
        return None

    def expects(self, part: BatchPart) -> bool:
        """Whether a batch waits for a part."""
        return (part.epoch, part.number) in self._incomplete

    def has_given_out(self, part: BatchPart) -> bool:
        """Whether a part comes too late for its batch."""
        return (part.epoch, part.number) in self._given_out

    def add(self, part: BatchPart, items: Sequence[Item], now_ns: int) -> list[PoolBatch[Item]]:
        """Take a part, with those of its requests that have come.

        Returns:
            The batches that are to be executed, in order.
        """
        key = (part.epoch, part.number)
        batch = self._incomplete.get(key)
        if batch is None:
            batch = PoolBatch(part.epoch, part.number)
            batch.take(part, items)
            if key in self._given_out:
                batch.is_late = True
                return [batch] if batch.items or batch.kept else []
            if batch.is_complete:
                self._remember(key)
                return [batch]
            batch.due_ns = now_ns + self._part_wait_ns
            self._incomplete[key] = batch
            if len(self._incomplete) > MAX_INCOMPLETE_COUNT:
                return [self._give_out(next(iter(self._incomplete)))]
            return []
        batch.take(part, items)
        return [self._give_out(key)] if batch.is_complete else []

    def forget(self, message: Forget) -> list[PoolBatch[Item]]:
        """Learn that requests of a batch will not come.

        Returns:
            The batch if it is to be executed now, perhaps without any request.
        """
        key = (message.epoch, message.number)
        batch = self._incomplete.get(key)
        if batch is not None:
            batch.forget(message, is_all=False)
            return [self._give_out(key)] if batch.is_complete else []
        if key in self._given_out:
            return []
        # A lease that is not used: nobody else can have sent anything.
        batch = PoolBatch(message.epoch, message.number)
        batch.forget(message, is_all=True)
        self._remember(key)
        return [batch]

    def hurry(self, now_ns: int) -> None:
        """Wait no longer than for a router that can send: whose parts are owed may be gone."""
        for batch in self._incomplete.values():
            batch.due_ns = min(batch.due_ns, now_ns + PART_WAIT_NS)

    def expire(self, now_ns: int) -> list[PoolBatch[Item]]:
        """Give out what has waited long enough."""
        due = [key for key, batch in self._incomplete.items() if batch.due_ns <= now_ns]
        return [self._give_out(key) for key in due]

    def clear(self) -> list[PoolBatch[Item]]:
        """Give out everything."""
        return [self._give_out(key) for key in list(self._incomplete)]

    def _give_out(self, key: _Key) -> PoolBatch[Item]:
        self._remember(key)
        return self._incomplete.pop(key)

    def _remember(self, key: _Key) -> None:
        self._given_out.add(key)
        self._order.append(key)
        if len(self._order) > _REMEMBERED_COUNT:
            self._given_out.discard(self._order.popleft())
