# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instances of a pool that are leased, and those that need a grant of the rate limiter."""

import pytest

from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.scheduling.holds import Holds
from tests.support.queued_items import FakeItem
from tests.support.queued_items_pool import SINGLE, PoolRun, dynamic, items, started
from tests.support.sequence_items import part, sequence_config

# Leases


def test_a_free_instance_is_leased_while_nothing_waits():
    run = PoolRun(SINGLE, "AB")
    number = run.queue.lease("A", 0)
    assert run.queue.leased == {number: "A"}
    assert run.queue.free_count == 1
    run.enqueue(*items("ab"))
    assert started(run) == [("B", "a")]
    run.queue.give_back(number)
    run.look()
    assert started(run) == [("B", "a"), ("A", "b")]
    assert run.queue.leased == {}


def test_a_lease_that_was_used_ends_like_any_batch():
    run = PoolRun(SINGLE, "A")
    number = run.queue.lease("A", 0)
    run.enqueue(FakeItem("a"))
    run.queue.executed("A", number, 5_000_000, 0)
    assert run.queue.leased == {}
    assert run.queue.instances["A"].mean_execution_ns == 5_000_000
    run.look()
    assert started(run) == [("A", "a")]


def test_a_lease_ends_once():
    run = PoolRun(SINGLE, "A")
    number = run.queue.lease("A", 0)
    run.queue.executed("A", number, 1000, 0)
    run.queue.give_back(number)
    run.queue.give_back(12345)
    assert run.queue.free_count == 1


def test_a_lease_ends_with_its_instance():
    run = PoolRun(SINGLE, "A")
    number = run.queue.lease("A", 0)
    run.leave("A")
    assert run.queue.leased == {}
    run.queue.give_back(number)


@pytest.mark.parametrize(
    "config",
    [
        dynamic(8, max_queue_delay_us=1),
        sequence_config(4),
    ],
    ids=["requests wait for others", "sequences"],
)
def test_no_instance_is_leased_where_a_request_may_have_to_wait(config):
    assert PoolRun(config, "A").queue.lease("A", 0) is None


def test_no_instance_is_leased_while_requests_are_held_back():
    queue = PoolRun(dynamic(), "A", holds=Holds(2)).queue
    assert queue.lease("A", 0) is None


def test_an_instance_that_is_not_free_is_not_leased():
    run = PoolRun(SINGLE, "ABC")
    run.enqueue(FakeItem("a"))
    run.queue.retire("B")
    run.join("D", is_limited=True)
    assert [run.queue.lease(name, 0) is None for name in "ABCDE"] == [True, True, False, True, True]
    assert run.queue.lease("C", 0) is None


def test_no_instance_is_leased_while_requests_wait():
    run = PoolRun(SINGLE, "A")
    run.enqueue(*items("ab"))
    run.join("B")
    assert run.queue.lease("B", 0) is None


# Instances under the rate limiter


def test_a_limited_instance_is_asked_while_requests_wait_and_executes_once_granted():
    run = PoolRun(SINGLE, "AB", is_limited=True)
    assert run.look().asked == []
    run.enqueue(FakeItem("a"))
    assert sorted(run.asked) == ["A", "B"]
    assert run.left == []
    run.look()
    assert len(run.asked) == 2
    run.grant()
    assert len(run.left) == 1


def test_a_grant_for_which_nothing_is_left_is_declined():
    run = PoolRun(SINGLE, "AB", is_limited=True)
    run.enqueue(FakeItem("a"))
    first, second = run.asked
    run.grant()
    run.grant()
    assert [name for _, name, _ in run.left] == [first]
    assert run.declined == [second]
    run.look()
    assert run.declined == [second]


def test_an_instance_under_the_rate_limiter_asks_anew_for_each_batch():
    run = PoolRun(SINGLE, "A", is_limited=True, execution_us=20)
    run.enqueue(*items("ab"))
    run.grant()
    assert run.asked == []
    run.run()
    assert run.asked == ["A"]
    assert len(run.left) == 1
    run.grant()
    run.enqueue(FakeItem("c"))
    assert run.asked == []


def test_the_grant_of_a_retired_instance_is_declined():
    run = PoolRun(SINGLE, "A", is_limited=True)
    run.enqueue(FakeItem("a"))
    run.queue.retire("A")
    run.grant()
    assert (run.left, run.declined) == ([], ["A"])


def test_only_instances_that_may_execute_what_waits_are_asked():
    run = PoolRun(sequence_config(1), "AB", is_limited=True)
    run.enqueue(part(1, SEQUENCE_START))
    assert len(run.asked) == 1
    (name,) = run.asked
    run.grant()
    run.enqueue(part(1, SEQUENCE_END))
    run.run()
    assert run.asked == [name]


def test_idle_sequences_make_room_though_no_instance_is_granted():
    run = PoolRun(sequence_config(1, max_sequence_idle_us=5000), "A", is_limited=True)
    run.enqueue(part(1, SEQUENCE_START), part(2, SEQUENCE_START))
    run.grant()
    run.run()
    assert run.asked == ["A"]
    run.grant()
    run.run()
    assert len(run.ran) == 2
