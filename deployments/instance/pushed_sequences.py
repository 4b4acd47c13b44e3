# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an adopted instance knows of sequences, whose slots are given out by its pool's queue.

The holder knows of each slot which sequence has it, and a new holder learns that from the instance:
what runs there, and what will, once all has come and is executed that was granted before. What the
new holder cannot know of, because nobody had told the instance before either, is not executed: it
might meet another sequence in its slot.
"""

import itertools
from collections.abc import Iterable

from backends.api.errors import RequestCancelledError, TritonError, UnavailableError
from backends.api.model_config import ModelConfig
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.instance.assembly import PoolBatch
from deployments.instance.outbox import BOUNCED, AnyWork
from deployments.scheduling.sequence_feeder import SequenceFeeder
from deployments.scheduling.sequences import not_started

_NS_PER_US = 1000


class PushedSequences:
    """The sequences of an adopted instance.

    Args:
        config: The model's complete config.
        feeder: Knows the sequences that run.

    Attributes:
        idle_ns: How long a sequence may be quiet; 0 for ever.
    """

    __slots__ = ("_feeder", "_model_name", "idle_ns")

    def __init__(self, config: ModelConfig, feeder: SequenceFeeder[AnyWork]) -> None:
        batching = config.sequence_batching
        self._model_name = config.name
        self._feeder = feeder
        self.idle_ns = 0 if batching is None else batching.max_sequence_idle_us * _NS_PER_US

    @property
    def running(self) -> dict[int, int | str]:
        """By slot, the sequences that run here."""
        return dict(self._feeder.running)

    def coming(
        self,
        handed_out: Iterable[tuple[AnyWork, int]],
        *batches: Iterable[PoolBatch[AnyWork]],
    ) -> dict[int, int | str]:
        """Return by slot the sequences that will run here once all that lies here is executed.

        Args:
            handed_out: The requests that are executed, and the slot of each; not all are fed yet.
            batches: What lies here, in order.
        """
        coming = self.running
        _follow(coming, handed_out)
        for batch in itertools.chain(*batches):
            for slot, correlation_id in batch.sequences.items():
                if correlation_id:
                    coming[slot] = correlation_id
                else:
                    coming.pop(slot, None)
            _follow(coming, zip(batch.items, batch.slots, strict=False))
        return coming

    def sort_out(
        self, batch: PoolBatch[AnyWork], dropped: list[tuple[AnyWork, TritonError]]
    ) -> PoolBatch[AnyWork]:
        """Take out of a batch what is not to be executed, or not with the rest of it.

        Args:
            batch: The batch.
            dropped: Gets the requests that are not executed, each with its error.

        Returns:
            What is to be executed after it, perhaps nothing.
        """
        feeder = self._feeder
        left: dict[int, AnyWork] = {}
        ended: dict[int, int | str] = {}
        doubled: PoolBatch[AnyWork] = PoolBatch(batch.epoch, batch.number)
        doubled.is_late = True
        for work, slot in zip(batch.items, batch.slots, strict=True):
            other_id = feeder.running.get(slot)
            is_here = other_id == work.correlation_id
            starts = work.flags & SEQUENCE_START
            is_taken = batch.is_late and other_id is not None and not is_here
            if work.is_cancelled:
                dropped.append((work, RequestCancelledError()))
                if is_here or (starts and not is_taken):
                    # What is missing cannot be made good: it ends its sequence.
                    feeder.forget(slot)
                ended[slot] = work.correlation_id
            elif starts and is_taken:
                # A late one does not take its slot from another that has it by now.
                dropped.append((work, BOUNCED))
            elif slot in left:
                doubled.items.append(work)
                doubled.slots.append(slot)
            elif not (is_here or starts):
                dropped.append((work, self._missing(work, is_late=batch.is_late)))
                ended[slot] = work.correlation_id
            else:
                left[slot] = work
        if ended:
            batch.ended = {**(batch.ended or {}), **ended}
        batch.items, batch.slots = list(left.values()), list(left)
        return doubled

    def _missing(self, work: AnyWork, *, is_late: bool) -> TritonError:
        """Return the error of a request whose sequence does not run here."""
        if not is_late:
            return not_started(work.correlation_id, self._model_name)
        return UnavailableError(
            f"sequence {work.correlation_id} of model '{self._model_name}' ended while a request "
            f"of it was on its way; start the sequence again"
        )


def slot_count_of(config: ModelConfig) -> int:
    """Return how many slots an instance of the model has for sequences."""
    batching = config.sequence_batching
    largest = max(1, config.max_batch_size)
    if batching is None:
        return 0
    if batching.strategy == "oldest":
        return batching.max_candidate_sequences or largest
    return largest


def _follow(running: dict[int, int | str], requests: Iterable[tuple[AnyWork, int]]) -> None:
    """Note which sequences run when requests, each with its slot, have been executed."""
    for work, slot in requests:
        if work.flags & SEQUENCE_END:
            running.pop(slot, None)
        elif work.flags & SEQUENCE_START:
            running[slot] = work.correlation_id
