# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which instance of a pool gets the next batch, case by case in virtual time."""

import pytest

from backends.api.errors import UnavailableError
from backends.api.model_config import QueuePolicy
from deployments.scheduling.factory import make_pool_scheduler
from deployments.scheduling.pool_queue import PoolQueue
from tests.support.queued_items import SINGLE, FakeItem, PoolRun, dynamic, items, started

# Which instance


def test_a_request_waits_for_whichever_instance_is_free_first():
    run = PoolRun(SINGLE, "AB")
    run.enqueue(*items("ab"))
    run.run(500)
    run.execution_us = 10
    run.enqueue(*items("cde"))
    run.run()
    assert [at for at, _, _ in run.left] == [0, 0, 1000, 1000, 1010]
    assert run.names == [["a"], ["b"], ["c"], ["d"], ["e"]]


def test_short_requests_pass_an_instance_that_executes_long():
    run = PoolRun(SINGLE, "AB", execution_us=100_000)
    run.enqueue(FakeItem("long"))
    run.execution_us = 10
    run.enqueue(*items("abc"))
    run.run()
    assert [at for at, _, _ in run.left] == [0, 0, 10, 20]


def test_a_batch_takes_all_that_waits_for_the_pool():
    run = PoolRun(dynamic(), "ABCD")
    run.enqueue(*items("abcd"))
    run.enqueue(*items("efghijkl"))
    run.run()
    assert run.names == [["a"], ["b"], ["c"], ["d"], list("efghijkl")]


def test_while_one_instance_suffices_the_same_serves():
    run = PoolRun(SINGLE, "ABC")
    for name in "abcd":
        run.enqueue(FakeItem(name))
        run.run()
    assert started(run) == [("A", "a"), ("A", "b"), ("A", "c"), ("A", "d")]


def test_of_free_instances_the_last_used_serves():
    run = PoolRun(SINGLE, "AB")
    run.enqueue(FakeItem("a"))
    run.run(500)
    run.enqueue(FakeItem("b"))
    run.run()
    run.enqueue(FakeItem("c"))
    run.run()
    assert started(run) == [("A", "a"), ("B", "b"), ("B", "c")]


def test_an_empty_batch_occupies_its_instance_until_it_is_given_back():
    queue = PoolRun(SINGLE, "A").queue
    lease = queue.lease()
    assert lease is not None
    assert (lease.instance, lease.decision.batch) == ("A", [])
    assert queue.lease() is None
    queue.give_back("A", lease.number)
    assert queue.lease() is not None


# Depth


def test_one_batch_at_a_time_lies_at_an_instance():
    run = PoolRun(SINGLE, "A")
    run.enqueue(*items("abc"))
    assert run.queue.pending_count == 2
    run.run(1500)
    assert run.queue.pending_count == 1


def test_an_instance_of_short_executions_has_its_next_batch_before_it_needs_it():
    run = PoolRun(SINGLE, "A", execution_us=20)
    run.enqueue(FakeItem("a"))
    run.run()
    run.enqueue(*items("bcd"))
    assert run.queue.pending_count == 1
    assert len(run.queue.instances["A"].batches) == 2


def test_a_second_batch_waits_until_no_instance_is_idle():
    run = PoolRun(SINGLE, "AB", execution_us=20)
    run.enqueue(*items("ab"))
    run.run()
    run.enqueue(*items("cdef"))
    assert [len(each.batches) for each in run.queue.instances.values()] == [2, 2]
    run.run()
    assert {name for name, _ in started(run)[2:4]} == {"A", "B"}


def test_the_instance_that_began_first_gets_the_second_batch():
    run = PoolRun(SINGLE, "AB", execution_us=20)
    run.enqueue(*items("ab"))
    run.run()
    run.enqueue(FakeItem("c"))
    (first,) = [name for name, each in run.queue.instances.items() if each.batches]
    run.enqueue(*items("de"))
    assert len(run.queue.instances[first].batches) == 2


def test_batches_of_an_earlier_queue_are_waited_for():
    run = PoolRun(SINGLE, "")
    run.join("A", foreign_count=2)
    run.enqueue(FakeItem("a"))
    run.queue.executed("A", 77, 1000, 0)
    assert run.look().batches == []
    run.queue.executed("A", 78, 1000, 0)
    assert [batch.instance for batch in run.look().batches] == ["A"]


def test_the_end_of_a_batch_nobody_knows_changes_nothing():
    run = PoolRun(SINGLE, "A")
    run.queue.executed("A", 99, 1000, 0)
    run.queue.executed("gone", 1, 1000, 0)
    run.enqueue(*items("ab"))
    assert run.queue.pending_count == 1


# Instances that come and go


def test_an_instance_that_joins_takes_what_waits():
    run = PoolRun(SINGLE, "A")
    run.enqueue(*items("ab"))
    run.run(100)
    run.join("B")
    run.look()
    assert started(run) == [("A", "a"), ("B", "b")]


def test_a_retired_instance_ends_what_it_executes_and_gets_nothing_more():
    run = PoolRun(SINGLE, "AB")
    run.enqueue(FakeItem("a"))
    run.queue.retire("A")
    assert run.queue.is_needed("A")
    run.enqueue(*items("bc"))
    run.run()
    assert started(run) == [("A", "a"), ("B", "b"), ("B", "c")]
    assert not run.queue.is_needed("A")
    assert run.queue.free_count == 1


def test_a_retired_instance_of_short_executions_gets_no_second_batch():
    run = PoolRun(SINGLE, "A", execution_us=20)
    run.enqueue(FakeItem("a"))
    run.run()
    run.enqueue(FakeItem("b"))
    run.queue.retire("A")
    run.enqueue(FakeItem("c"))
    assert run.queue.pending_count == 1


def test_a_retired_instance_that_has_a_second_batch_gets_no_third():
    run = PoolRun(SINGLE, "A", execution_us=20)
    run.enqueue(FakeItem("a"))
    run.run()
    run.enqueue(*items("bcd"))
    run.queue.retire("A")
    run.run()
    assert run.queue.pending_count == 1


def test_what_waits_goes_to_the_others_when_an_instance_is_gone():
    run = PoolRun(SINGLE, "AB")
    run.enqueue(*items("abc"))
    run.leave("A")
    run.run()
    assert [names for names in run.names if names == ["c"]] == [["c"]]
    assert run.dropped == []


def test_of_an_instance_that_is_not_there_nothing_is_known():
    queue = PoolRun(SINGLE, "A").queue
    assert queue.leave("B", 0) == []
    queue.retire("B")
    queue.granted("B")
    assert not queue.is_needed("B")


# Limits and times, over the pool


def test_max_queue_size_counts_what_waits_for_the_whole_pool():
    run = PoolRun(dynamic(1, default_queue_policy=QueuePolicy(max_queue_size=2)), "AB")
    run.enqueue(*items("abcdef"))
    assert [item.name for item, _ in run.refused] == ["e", "f"]
    assert isinstance(run.refused[0][1], UnavailableError)


def test_priorities_count_over_the_whole_pool():
    run = PoolRun(dynamic(1, priority_levels=2, default_priority_level=2), "AB")
    run.enqueue(*items("ab"))
    run.enqueue(*items("cd", priority=2), *items("ef", priority=1))
    run.run()
    assert run.names[2:] == [["e"], ["f"], ["c"], ["d"]]


def test_a_request_expires_while_all_instances_are_busy():
    policy = QueuePolicy(default_timeout_us=300)
    run = PoolRun(dynamic(1, default_queue_policy=policy), "AB")
    run.enqueue(*items("abc"))
    run.run()
    ((item, error),) = run.dropped
    assert (item.name, error.message) == ("c", "Request timeout expired")


def test_a_forming_batch_wakes_the_pool_once_its_delay_is_over():
    run = PoolRun(dynamic(8, max_queue_delay_us=400), "AB")
    run.play([(0, FakeItem("a")), (100, FakeItem("b"))])
    assert [(at, names) for (at, _, _), names in zip(run.left, run.names, strict=True)] == [
        (400, ["a", "b"])
    ]


# What is known of the pool


def test_means_follow_the_latest_executions():
    queue: PoolQueue = PoolQueue(make_pool_scheduler(dynamic()))
    assert (queue.mean_execution_ns, queue.mean_batch_size) == (0.0, 1.0)
    queue.join("A")
    for _ in range(60):
        for item in items("abcd"):
            queue.enqueue(item, 0)
        (batch,) = queue.next(0).batches
        queue.executed("A", batch.number, 2_000_000, 0)
    assert queue.mean_batch_size == pytest.approx(4, abs=0.01)
    assert queue.mean_execution_ns == pytest.approx(2_000_000)


def test_clear_gives_up_what_waits_and_nothing_else():
    run = PoolRun(SINGLE, "A")
    waiting = items("abc")
    run.enqueue(*waiting)
    assert run.queue.clear() == waiting[1:]
    assert run.queue.is_needed("A")


def test_what_still_waits_to_grow_is_given_away_where_it_is_flushed():
    run = PoolRun(dynamic(4, max_queue_delay_us=10_000), "AB")
    run.enqueue(*items("abcdef"))
    assert run.names == [["a", "b", "c", "d"]]
    flushed = run.queue.flush(20_000_000)
    assert [[each.name for each in batch.decision.batch] for batch in flushed.batches] == [
        ["e", "f"]
    ]
    assert run.queue.pending_count == 0
    assert PoolRun(dynamic(4), "A").queue.flush(0).batches == []


def test_an_instance_that_was_retired_and_is_restored_serves_again():
    run = PoolRun(SINGLE, "A")
    run.queue.retire("A")
    run.enqueue(FakeItem("a"))
    assert started(run) == []
    run.queue.restore("A", run.now_ns)
    run.look()
    assert started(run) == [("A", "a")]
