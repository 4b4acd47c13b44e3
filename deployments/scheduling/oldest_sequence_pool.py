# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The oldest strategy of the sequence batcher; see `deployments.scheduling.sequence_pool`."""

from collections.abc import Mapping

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig, SequenceBatching
from deployments.scheduling.dynamic_batcher import DynamicBatcher
from deployments.scheduling.holds import NO_HOLDS, HeldScheduler, Holds
from deployments.scheduling.pool_scheduler import NO_SEQUENCES, CorrelationId
from deployments.scheduling.scheduler import Decision, Scheduler, SequencedT
from deployments.scheduling.sequence_pool import SequencePool
from deployments.scheduling.sequence_slots import Sequence, SequenceEvent


class OldestSequencePool(SequencePool[SequencedT]):
    """Batches one request each of several sequences of an instance, in order of arrival.

    Args:
        config: The model's config.
        batching: Its sequence batcher.
        holds: What is to be queued before anything is executed.
    """

    def __init__(
        self, config: ModelConfig, batching: SequenceBatching, holds: Holds = NO_HOLDS
    ) -> None:
        self._largest = max(1, config.max_batch_size)
        super().__init__(config, batching, batching.max_candidate_sequences or self._largest)
        self._batching = batching
        self._hold_count = holds.delay_count
        # By instance, what is to be executed next, and whose that is.
        self._batchers: dict[str, Scheduler[SequencedT]] = {}
        self._batched: dict[str, dict[SequencedT, Sequence[SequencedT]]] = {}

    @property
    def pending_count(self) -> int:
        """Requests enqueued and not handed out."""
        batched_count = sum(each.pending_count for each in self._batchers.values())
        return super().pending_count + batched_count

    def join(
        self, instance: str, running: Mapping[int, CorrelationId] = NO_SEQUENCES, now_ns: int = 0
    ) -> None:
        """Take an instance in; see `PoolScheduler.join`."""
        batching = self._batching
        batcher: Scheduler[SequencedT] = DynamicBatcher(
            self._largest, batching.preferred_batch_size, batching.max_queue_delay_us
        )
        if self._hold_count:
            batcher = HeldScheduler(batcher, self._hold_count)
        self._batchers[instance] = batcher
        self._batched[instance] = {}
        super().join(instance, running, now_ns)

    def leave(self, instance: str, now_ns: int) -> list[tuple[SequencedT, TritonError]]:
        """End the sequences of an instance that is gone; return what they had queued."""
        del self._batchers[instance]
        batched = self._batched.pop(instance).items()
        left = [(item, self._sequences.loss(sequence.id)) for item, sequence in batched]
        return [*left, *super().leave(instance, now_ns)]

    def has_work(self, instance: str) -> bool:
        """Whether something waits that an instance might execute."""
        return self._batchers[instance].pending_count > 0

    def next_batch(self, instance: str, now_ns: int) -> Decision[SequencedT]:
        """Decide for an instance that is free."""
        if self._sequences.has_quiet:
            self._reap(now_ns)
        batcher, batched = self._batchers[instance], self._batched[instance]
        dropped: list[tuple[SequencedT, TritonError]] = []
        while True:
            decision = batcher.next_batch(now_ns)
            for item, error in decision.dropped:
                dropped.append((item, error))
                self._end(batched.pop(item), SequenceEvent.CANCELLED, now_ns)
            if decision.batch or not decision.dropped:
                break
        dropped += self._take_dropped()
        if not decision.batch:
            return Decision([], self._wake_at_ns(decision.wake_at_ns), dropped)
        chosen = [batched.pop(item) for item in decision.batch]
        self._sequences.homes[instance].executing = chosen
        return Decision(decision.batch, None, dropped, None, [each.slot for each in chosen])

    def clear(self) -> list[SequencedT]:
        """Give up everything queued."""
        items: list[SequencedT] = []
        for name, batcher in self._batchers.items():
            self._batched[name].clear()
            items += batcher.clear()
        return items + self._sequences.clear()

    def _advance(self, sequence: Sequence[SequencedT], now_ns: int) -> None:
        current: Sequence[SequencedT] | None = sequence
        while current is not None and current.queue and current.in_flight is None:
            if current.queue[0].is_cancelled:
                current = self._sequences.end(current, SequenceEvent.CANCELLED)
                continue
            item = self._sequences.take(current)
            name = current.home.name
            self._batched[name][item] = current
            self._batchers[name].enqueue(item, now_ns)
            return
