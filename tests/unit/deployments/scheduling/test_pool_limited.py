# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instances of a pool that need a grant of the rate limiter."""

from backends.api.request import SEQUENCE_END, SEQUENCE_START
from tests.support.queued_items import SINGLE, FakeItem, PoolRun, items
from tests.support.sequence_items import part, sequence_config


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
