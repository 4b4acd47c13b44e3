# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences: ids, lengths, and which row each of their requests carries.

Triton: perf_analyzer/src/sequence_manager.cc @263c5f6
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from manta_tools.perf.records import Request

DEFAULT_LENGTH: Final = 20
_ANY_NUMBER: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class SequencePlan:
    """What sequences are like.

    Attributes:
        length: Mean of their lengths; None for the length of their stream, or of generated data 20.
        variation: How far lengths lie from the mean, in percent.
        first_id: The lowest id.
        id_count: How many ids there are; they come round.
        seed: The same seed makes the same sequences.
    """

    length: int | None = None
    variation: float = 20.0
    first_id: int = 1
    id_count: int = _ANY_NUMBER
    seed: int = 0


@dataclass(frozen=True, slots=True)
class SequencePart:
    """Where in which sequence a request stands."""

    sequence_id: int
    is_start: bool
    is_end: bool


# Makes the payload of a row: stream, step, and for a sequence its part.
Encode = Callable[[int, int, SequencePart | None], Any]


class RowSource:
    """Requests without sequences: the rows of all streams in turn."""

    def __init__(
        self, stream_lengths: Sequence[int], encode: Encode, first: int = 0, step: int = 1
    ) -> None:
        """Make the source.

        Args:
            stream_lengths: Rows of each stream of data.
            encode: Makes payloads.
            first: The row that comes first.
            step: How many rows further the next one is; others send those between.
        """
        self._rows = [
            (stream, step) for stream, length in enumerate(stream_lengths) for step in range(length)
        ]
        self._payloads = [encode(*row, None) for row in self._rows]
        self._next, self._step = first % len(self._rows), step

    def next(self, slot: int) -> Request:
        """Return a request with the next row."""
        index = self._next
        self._next = (index + self._step) % len(self._rows)
        return Request(self._payloads[index], slot=slot, data=self._rows[index])

    def closing(self, slot: int) -> None:
        """Return None: nothing is open."""


@dataclass(slots=True)
class _Live:
    """A sequence under way."""

    sequence_id: int
    stream: int
    length: int
    done: int = 0


class SequenceSource:
    """Requests of sequences: a live sequence in each slot, a new one after its end."""

    def __init__(
        self,
        stream_lengths: Sequence[int],
        encode: Encode,
        plan: SequencePlan,
        *,
        is_read: bool = False,
    ) -> None:
        """Make the source.

        Args:
            stream_lengths: Rows of each stream of data.
            encode: Makes payloads.
            plan: What the sequences are like.
            is_read: Whether the data came from files, so that a stream is a sequence.
        """
        self._stream_lengths, self._encode = stream_lengths, encode
        self._plan, self._is_read = plan, is_read
        self._draws = random.Random(plan.seed)  # noqa: S311 - the same load again, no secret
        self._live: dict[int, _Live] = {}
        self._last_ids: dict[int, int] = {}
        self._given = 0

    def next(self, slot: int) -> Request:
        """Return the next request of the slot's sequence, or the first of a new one."""
        live = self._live.get(slot)
        if live is None:
            live = self._live[slot] = self._begin(slot)
        return self._request(slot, live, is_end=live.done + 1 == live.length)

    def closing(self, slot: int) -> Request | None:
        """Return a request that ends the slot's sequence; None when none is open."""
        live = self._live.get(slot)
        return self._request(slot, live, is_end=True) if live else None

    def _request(self, slot: int, live: _Live, *, is_end: bool) -> Request:
        step = live.done % self._stream_lengths[live.stream]
        part = SequencePart(live.sequence_id, live.done == 0, is_end)
        live.done += 1
        if is_end:
            del self._live[slot]
        return Request(
            self._encode(live.stream, step, part),
            sequence_id=live.sequence_id,
            is_sequence_end=is_end,
            slot=slot,
            data=(live.stream, step),
        )

    def _begin(self, slot: int) -> _Live:
        stream = self._draws.randrange(len(self._stream_lengths))
        return _Live(self._next_id(slot), stream, self._length(stream))

    def _length(self, stream: int) -> int:
        if self._is_read and self._plan.length is None:
            return self._stream_lengths[stream]
        mean = self._plan.length or DEFAULT_LENGTH
        offset = int(self._draws.uniform(-1.0, 1.0) * self._plan.variation / 100.0 * mean)
        return max(mean + offset, 1)

    def _next_id(self, slot: int) -> int:
        """Return the next id that no live sequence has; with all taken, the slot's own again."""
        used = {live.sequence_id for live in self._live.values()}
        for _ in range(min(self._plan.id_count, len(used) + 1)):
            found = self._plan.first_id + self._given % self._plan.id_count
            self._given += 1
            if found not in used:
                self._last_ids[slot] = found
                return found
        return self._last_ids.get(slot, self._plan.first_id)
