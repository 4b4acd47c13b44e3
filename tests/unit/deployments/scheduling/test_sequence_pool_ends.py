# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences that their instance has ended by itself, as a request of them was cancelled there."""

from backends.api.errors import RequestCancelledError
from tests.support.queued_items import PoolRun
from tests.support.sequence_items import BOTH, END, START, STRATEGIES, part, sequence_config


def queue_of(strategy: str, names: str = "A", max_batch_size: int = 1):
    return PoolRun(sequence_config(max_batch_size, strategy=strategy), names).queue


def begin(queue, *items):
    """Enqueue requests; return the number of the batch that the instance executes."""
    for item in items:
        queue.enqueue(item, 0)
    (batch,) = queue.next(0).batches
    return batch.number


def end(queue, number, ended):
    """Have the instance be done, and return what is to be done then."""
    queue.ended("A", ended, 0)
    queue.executed("A", number, 0, 0)
    return queue.next(0)


@STRATEGIES
def test_its_slot_is_free_and_what_it_has_queued_is_cancelled(strategy):
    queue = queue_of(strategy)
    middle, last, waiting = part(1), part(1, END), part(2, START)
    actions = end(queue, begin(queue, part(1, START), middle, last, waiting), {0: 1})
    assert [item for item, _ in actions.dropped] == [middle, last]
    assert all(isinstance(error, RequestCancelledError) for _, error in actions.dropped)
    assert [batch.decision.batch for batch in actions.batches] == [[waiting]]
    assert (queue.pending_count, queue.sequence_count) == (0, 1)


@STRATEGIES
def test_it_has_ended_though_nothing_of_it_is_queued(strategy):
    queue = queue_of(strategy)
    assert not end(queue, begin(queue, part(1, START)), {0: 1}).dropped
    assert (queue.sequence_count, queue.free_slot_count, queue.knows(1)) == (0, 1, False)


@STRATEGIES
def test_it_goes_on_where_it_starts_again(strategy):
    queue = queue_of(strategy)
    middle, again, rest = part(1), part(1, START), part(1)
    actions = end(queue, begin(queue, part(1, START), middle, again, rest), {0: 1})
    assert [item for item, _ in actions.dropped] == [middle]
    (batch,) = actions.batches
    assert batch.decision.batch == [again]
    queue.executed("A", batch.number, 0, 0)
    assert [each.decision.batch for each in queue.next(0).batches] == [[rest]]


@STRATEGIES
def test_others_of_its_batch_go_on(strategy):
    queue = queue_of(strategy, max_batch_size=2)
    queue.enqueue(part(1, START), 0)
    number = begin(queue, part(2, START), part(2))
    actions = end(queue, number, {0: 1})
    assert not actions.dropped
    assert [each.correlation_id for batch in actions.batches for each in batch.decision.batch] == [
        2
    ]


@STRATEGIES
def test_another_sequence_in_its_slot_and_a_slot_there_is_not_are_left_alone(strategy):
    queue = queue_of(strategy)
    number = begin(queue, part(1, START))
    queue.ended("B", {0: 1}, 0)
    end(queue, number, {0: 2, 9: 1})
    assert queue.knows(1)


@STRATEGIES
def test_one_that_an_earlier_queue_began_ends_with_what_it_has_queued(strategy):
    queue = queue_of(strategy, names="")
    queue.join("A", {0: 1}, foreign_count=1)
    middle = part(1)
    queue.enqueue(middle, 0)
    actions = end(queue, -1, {0: 1})
    if not actions.dropped:
        # A batcher has it already; the instance refuses it.
        (batch,) = actions.batches
        assert batch.decision.batch == [middle]
        actions = end(queue, batch.number, {0: 1})
    assert (queue.pending_count, queue.sequence_count) == (0, 0)


@STRATEGIES
def test_one_whose_last_request_does_not_come_to_its_instance_ends_when_that_comes_again(strategy):
    queue = queue_of(strategy)
    queue.executed("A", begin(queue, part(1, START)), 0, 0)
    last = part(1, END)
    number = begin(queue, last)
    queue.missed("A", [last])
    queue.executed("A", number, 0, 0)
    assert queue.sequence_count == 1
    queue.executed("A", begin(queue, part(1, END)), 0, 0)
    assert queue.sequence_count == 0


@STRATEGIES
def test_one_whose_first_request_does_not_come_to_its_instance_starts_again_elsewhere(strategy):
    queue = queue_of(strategy)
    first = part(1, START)
    number = begin(queue, first)
    queue.missed("A", [first])
    assert not queue.knows(1)
    queue.retire("A")
    queue.join("B")
    again = part(1, START)
    queue.enqueue(again, 0)
    (batch,) = queue.next(0).batches
    assert (batch.instance, batch.decision.batch) == ("B", [again])
    queue.executed("A", number, 0, 0)
    assert (queue.sequence_count, queue.knows(1)) == (1, True)
    assert not queue.is_needed("A")


@STRATEGIES
def test_one_that_has_more_queued_behind_its_first_request_keeps_its_slot(strategy):
    queue = queue_of(strategy)
    first = part(1, START)
    begin(queue, first, part(1))
    queue.missed("A", [first])
    assert queue.knows(1)


@STRATEGIES
def test_one_whose_end_has_come_is_not_open_again_when_an_earlier_request_does_not_arrive(strategy):
    queue = queue_of(strategy)
    queue.executed("A", begin(queue, part(1, START)), 0, 0)
    middle = part(1)
    begin(queue, middle, part(1, END))
    queue.missed("A", [middle])
    assert not queue.knows(1)


@STRATEGIES
def test_those_that_ended_with_one_that_is_not_there_end_all_the_same(strategy):
    queue = queue_of(strategy, max_batch_size=2)
    queue.enqueue(part(1, START), 0)
    end(queue, begin(queue, part(2, START)), {0: 9, 1: 2})
    assert (queue.knows(1), queue.knows(2)) == (True, False)


def test_those_that_ended_with_one_that_their_instance_has_yet_to_refuse_end_all_the_same():
    queue = queue_of("oldest", names="", max_batch_size=2)
    queue.join("A", {0: 1, 1: 2}, foreign_count=1)
    queue.enqueue(part(1), 0)
    end(queue, -1, {0: 1, 1: 2})
    assert (queue.knows(1), queue.knows(2)) == (True, False)


def test_one_that_gets_a_slot_is_served_after_another_was_cancelled_in_the_forming_batch():
    config = sequence_config(
        2, strategy="oldest", preferred_batch_size=(1,), max_queue_delay_us=10**6
    )
    queue = PoolRun(config).queue
    cancelled, waiting = part(2, START), part(3, START)
    number = begin(queue, part(1, BOTH), cancelled, waiting)
    cancelled.is_cancelled = True
    actions = end(queue, number, {})
    assert [item for item, _ in actions.dropped] == [cancelled]
    assert [batch.decision.batch for batch in actions.batches] == [[waiting]]


@STRATEGIES
def test_sequences_start_again_on_an_instance_that_is_restored(strategy):
    queue = queue_of(strategy)
    queue.retire("A")
    first = part(1, START)
    queue.enqueue(first, 0)
    assert not queue.next(0).batches
    queue.restore("A", 0)
    assert [each.decision.batch for each in queue.next(0).batches] == [[first]]
