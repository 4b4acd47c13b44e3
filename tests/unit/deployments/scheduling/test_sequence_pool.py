# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences of several instances: where they start, what they wait for, what ends them."""

import logging

import pytest

from backends.api.errors import InvalidArgumentError, UnavailableError
from tests.support.queued_items import PoolRun
from tests.support.sequence_items import BOTH, END, START, STRATEGIES, part, sequence_config


def pool(names: str = "AB", max_batch_size: int = 2, **fields) -> PoolRun:
    run_fields = {key: fields.pop(key) for key in ("execution_us", "execute") if key in fields}
    return PoolRun(sequence_config(max_batch_size, **fields), names, **run_fields)


def slots(run: PoolRun) -> dict[str, list[int | str]]:
    """Return the sequence in each slot of each instance; 0 for none."""
    homes = run.queue._scheduler._sequences.homes
    return {
        name: [0 if each is None else each.id for each in home.slots]
        for name, home in homes.items()
    }


def starts(*ids: int):
    return [part(number, START) for number in ids]


# Where sequences start


@STRATEGIES
def test_sequences_start_in_the_lowest_free_slots_over_all_instances(strategy):
    run = pool("ABC", strategy=strategy)
    run.enqueue(*starts(1, 2, 3, 4))
    assert slots(run) == {"A": [1, 4], "B": [2, 0], "C": [3, 0]}


@STRATEGIES
def test_of_slots_of_the_same_number_that_of_the_emptier_instance_is_taken(strategy):
    run = pool("AB", 3, strategy=strategy)
    run.enqueue(*starts(1, 2, 3, 4, 5))
    run.run()
    run.enqueue(part(1, END), part(2, END))
    run.run()
    assert slots(run) == {"A": [0, 3, 5], "B": [0, 4, 0]}
    run.enqueue(*starts(6))
    assert slots(run) == {"A": [0, 3, 5], "B": [6, 4, 0]}


@STRATEGIES
def test_a_sequence_stays_where_it_started(strategy):
    run = pool("AB", strategy=strategy)
    for number in (1, 2, 3):
        run.enqueue(part(number, START))
    run.run()
    for flags in (0, 0, END):
        run.enqueue(*(part(number, flags) for number in (3, 2, 1)))
        run.run()
    homes = [{name.split(".")[0] for name in names} for names in run.homes.values()]
    assert homes == [{"1", "3"}, {"2"}]
    assert run.queue.sequence_count == 0


@STRATEGIES
def test_instances_have_as_many_candidates_as_the_config_says(strategy):
    run = pool("AB", 1, strategy=strategy, max_candidate_sequences=3)
    assert run.queue.free_slot_count == (6 if strategy == "oldest" else 2)


@STRATEGIES
def test_free_slots_are_counted_where_sequences_may_start(strategy):
    run = pool("AB", 2, strategy=strategy)
    run.enqueue(*starts(1))
    run.queue.retire("B")
    assert run.queue.free_slot_count == 1


# The backlog


@STRATEGIES
def test_the_backlog_is_one_for_all_instances_oldest_first(strategy):
    run = pool("AB", 1, strategy=strategy)
    run.enqueue(*starts(1, 2, 3, 4))
    run.run()
    run.enqueue(part(2, END))
    run.run()
    assert slots(run) == {"A": [1], "B": [3]}
    run.enqueue(part(1, END))
    run.run()
    assert slots(run) == {"A": [4], "B": [3]}


@STRATEGIES
def test_only_a_sequence_that_waits_for_a_slot_with_its_first_request_alone_is_given_up(strategy):
    run = pool("A", strategy=strategy)
    running, _, followed, alone, only = items = [*starts(1, 2, 3, 4), part(5, BOTH)]
    run.enqueue(*items, part(3))
    assert [run.queue.give_up(each) for each in (running, followed, alone, only)] == [
        False, False, True, True,
    ]  # fmt: skip
    assert [run.queue.knows(each) for each in (1, 3, 4)] == [True, True, False]
    run.run()
    run.enqueue(part(1, END), part(2, END), *starts(4))
    run.run()
    assert slots(run) == {"A": [3, 4]}
    assert not run.queue.give_up(alone)


@STRATEGIES
def test_an_instance_that_joins_takes_from_the_backlog(strategy):
    run = pool("A", 2, strategy=strategy)
    run.enqueue(*starts(1, 2, 3, 4, 5))
    run.run()
    run.join("B")
    run.look()
    assert slots(run) == {"A": [1, 2], "B": [3, 4]}
    assert run.homes["B"] == [each.name for each in run.ran[2:]]


@STRATEGIES
def test_without_instances_sequences_wait(strategy):
    run = pool("", 2, strategy=strategy)
    run.enqueue(*starts(1))
    assert run.queue.pending_count == 1
    run.join("A")
    run.look()
    run.run()
    assert len(run.ran) == 1


@STRATEGIES
def test_a_sequence_that_goes_idle_makes_room_while_every_instance_is_busy(strategy):
    run = pool("A", 1, strategy=strategy, max_sequence_idle_us=1000, max_candidate_sequences=2)
    run.enqueue(*starts(1))
    run.run(1500)
    run.execution_us = 50_000
    if strategy == "oldest":
        run.enqueue(part(7, START))
    run.enqueue(part(2, START), part(2, END))
    run.run(5000)
    assert not run.queue.knows(1)
    run.run()
    assert [item.name.split(".")[0] for item in run.ran][-2:] == ["2", "2"]


# Instances that knew sequences before


@STRATEGIES
def test_sequences_begun_under_another_queue_go_on_in_their_slots(strategy):
    run = pool("", 2, strategy=strategy)
    run.join("A", running={1: 77})
    assert run.queue.knows(77)
    run.enqueue(*starts(1, 2), part(77), part(77))
    run.run()
    assert slots(run) == {"A": [1, 77]}
    run.enqueue(part(77, END))
    run.run()
    assert slots(run) == {"A": [1, 2]}


@STRATEGIES
def test_a_sequence_begun_under_another_queue_goes_idle_like_any(strategy):
    run = pool("", 1, strategy=strategy, max_sequence_idle_us=1000)
    run.join("A", running={0: "s"})
    run.enqueue(part(1, START))
    run.look()
    run.run()
    assert [at for at, _, _ in run.left] == [1000]
    assert not run.queue.knows("s")


@STRATEGIES
def test_a_sequence_is_not_idle_while_its_instance_ends_a_batch_of_another_queue(strategy):
    run = pool("", 1, strategy=strategy, max_sequence_idle_us=1000)
    run.join("A", running={0: 5}, foreign_count=1)
    run.run(4000)
    run.look()
    assert run.queue.knows(5)
    run.queue.executed("A", -1, 1000, run.now_ns)
    run.look()
    run.run(4500)
    assert run.queue.knows(5)
    run.run(5500)
    assert not run.queue.knows(5)


@STRATEGIES
def test_what_comes_for_a_sequence_begun_under_another_queue_waits_for_its_batch(strategy):
    run = pool("", 1, strategy=strategy, max_sequence_idle_us=1000)
    run.join("A", running={0: 5}, foreign_count=1)
    cancelled = part(5)
    run.enqueue(part(5), cancelled)
    cancelled.is_cancelled = True
    assert run.left == []
    run.queue.executed("A", -1, 1000, run.now_ns)
    run.look()
    run.run()
    assert len(run.ran) == 1
    assert [item for item, _ in run.dropped] == [cancelled]
    assert run.queue.sequence_count == 0


@STRATEGIES
def test_a_sequence_that_started_anew_elsewhere_does_not_go_on_where_it_was(strategy):
    run = pool("A", 2, strategy=strategy)
    run.enqueue(part(5, START))
    run.join("B", running={0: 5})
    run.enqueue(part(5, END))
    run.run()
    assert slots(run) == {"A": [0, 0], "B": [0, 0]}
    assert len(run.homes["A"]) == 2


@STRATEGIES
def test_slots_there_are_not_are_not_taken_over(strategy):
    run = pool("", 1, strategy=strategy)
    run.join("A", running={3: 5})
    assert not run.queue.knows(5)
    assert run.queue.free_slot_count == 1


@STRATEGIES
def test_own_ids_are_none_that_run_already(strategy):
    run = pool("", 2, strategy=strategy, iterative=True)
    run.join("A", running={0: 1})
    item = part(0)
    run.enqueue(item)
    assert item.correlation_id == 2


# Instances that go


@STRATEGIES
def test_a_retired_instance_ends_its_sequences_and_starts_none(strategy):
    run = pool("AB", 1, strategy=strategy)
    run.enqueue(*starts(1, 2, 3))
    run.run()
    run.queue.retire("A")
    run.enqueue(part(1), part(1, END))
    run.run()
    assert slots(run) == {"A": [0], "B": [2]}
    assert not run.queue.is_needed("A")
    run.enqueue(part(2, END))
    run.run()
    assert slots(run) == {"A": [0], "B": [3]}


@STRATEGIES
def test_no_sequence_starts_in_the_free_slots_of_a_retired_instance(strategy):
    run = pool("AB", 1, strategy=strategy)
    run.queue.retire("A")
    run.enqueue(*starts(1, 2))
    assert slots(run) == {"A": [0], "B": [1]}


@STRATEGIES
def test_sequences_end_with_their_instance_and_say_so(strategy):
    run = pool("AB", 1, strategy=strategy)
    run.enqueue(part(1, START), part(2, START), part(1), part(1))
    run.leave("A")
    assert [item.correlation_id for item, _ in run.dropped] == [1, 1]
    error = run.dropped[0][1]
    assert isinstance(error, UnavailableError)
    text = "sequence 1 of model 'm' ended with its instance; start the sequence again"
    assert error.message == text
    with pytest.raises(UnavailableError, match="start the sequence again"):
        run.queue.enqueue(part(1), 0)
    with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
        run.queue.enqueue(part(3), 0)
    run.enqueue(part(2, END))
    run.run()
    assert run.queue.sequence_count == 0


@STRATEGIES
def test_a_sequence_that_had_all_its_requests_is_not_said_to_have_ended_early(strategy):
    run = pool("A", 1, strategy=strategy)
    run.enqueue(part(1, START), part(1, END))
    run.leave("A")
    with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
        run.queue.enqueue(part(1), 0)


def test_what_an_oldest_batcher_holds_ends_with_its_instance():
    run = pool("A", 4, strategy="oldest", preferred_batch_size=(4,), max_queue_delay_us=9000)
    first, second = part(1, START), part(1)
    run.enqueue(first, second)
    assert run.left == []
    run.leave("A")
    assert [item for item, _ in run.dropped] == [first, second]
    assert run.queue.pending_count == 0


@STRATEGIES
def test_the_backlog_outlives_an_instance(strategy):
    run = pool("AB", 1, strategy=strategy)
    run.enqueue(*starts(1, 2, 3))
    run.leave("A")
    assert run.dropped == []
    run.enqueue(part(2, END))
    run.run()
    assert slots(run) == {"B": [3]}


# As with one instance


@STRATEGIES
def test_an_id_that_starts_again_goes_on_in_its_slot_with_a_warning(strategy, caplog):
    run = pool("AB", 1, strategy=strategy)
    with caplog.at_level(logging.WARNING):
        run.enqueue(part(1, START), part(1, START), part(1, END))
    run.run()
    assert len(caplog.messages) == 1
    assert set(run.homes) == {"A", "B"}
    assert sorted(map(len, run.homes.values())) == [0, 3]


@STRATEGIES
def test_a_sequence_in_the_backlog_times_out_whatever_instances_do(strategy):
    run = pool("AB", 1, strategy=strategy)
    run.enqueue(*starts(1, 2), part(3, BOTH, timeout_us=500))
    run.run()
    ((item, error),) = run.dropped
    assert item.correlation_id == 3
    assert error.message == "timeout of the corresponding sequence has been expired"


@STRATEGIES
def test_iterative_requests_run_again_on_their_instance(strategy):
    left: dict = {}

    def execute(item):
        left[item] = left.get(item, item.value("X")) - 1
        if left[item]:
            item.reschedule()

    run = pool("AB", 1, strategy=strategy, iterative=True, execute=execute)
    items = [part(0, value=value) for value in (3, 2, 1)]
    run.enqueue(*items)
    run.run()
    assert [len(names) for names in run.homes.values()] == [3, 3]
    assert [run.ran.count(item) for item in items] == [3, 2, 1]
    assert run.queue.sequence_count == 0
    assert all(not instance.feeder.running for instance in run.instances.values())


@STRATEGIES
def test_a_sequence_goes_on_though_its_request_was_taken_out_of_its_batch(strategy):
    run = pool("A", 1, strategy=strategy)
    run.queue.enqueue(part(1, START), 0)
    run.queue.enqueue(part(1, END), 0)
    (batch,) = run.queue.next(0).batches
    batch.decision.batch.clear()
    run.queue.executed("A", batch.number, 1000, 0)
    (batch,) = run.queue.next(0).batches
    assert [item.flags for item in batch.decision.batch] == [END]


@STRATEGIES
def test_an_item_that_is_executed_again_begins_and_ends_nothing(strategy):
    run = pool("A", 1, strategy=strategy, iterative=True)
    item = part(1, BOTH)
    run.queue.enqueue(item, 0)
    (batch,) = run.queue.next(0).batches
    run.queue.executed("A", batch.number, 1000, 0, [0])
    assert (item.flags, item.is_rescheduled) == (0, False)


@STRATEGIES
def test_an_item_that_is_executed_again_waits_once(strategy):
    run = pool("A", 1, strategy=strategy, iterative=True)
    run.queue.enqueue(part(1, START), 0)
    (batch,) = run.queue.next(0).batches
    run.queue.executed("A", batch.number, 1000, 0, [0])
    assert run.queue.pending_count == 1
    (batch,) = run.queue.next(0).batches
    assert run.queue.pending_count == 0


def test_a_direct_batch_has_what_is_ready_in_the_slots_of_its_instance():
    run = pool("AB", 2)
    run.enqueue(*starts(1, 2, 3, 4))
    run.run()
    run.enqueue(*(part(number) for number in (1, 3, 2)))
    run.run()
    ids = [[getattr(row, "correlation_id", "") for row in rows] for _, _, rows in run.left]
    assert ids[-3:] == [[1], [2], ["", 3]]
