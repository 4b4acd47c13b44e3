# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences that idle, wait too long or are cancelled."""

from collections import OrderedDict

import pytest

from backends.api.errors import InvalidArgumentError, UnavailableError
from tests.support.sequence_items import (
    BOTH,
    END,
    START,
    STRATEGIES,
    batcher,
    instance,
    part,
)


@STRATEGIES
def test_an_idle_sequence_loses_its_slot_to_the_backlog(strategy):
    run = instance(strategy=strategy, max_batch_size=1, max_sequence_idle_us=1000)
    run.enqueue(part(1, START), part(2, START))
    run.run()
    assert not run.step()
    assert run.wake_at_ns == 1_000_000
    run.now_us = 1000
    run.run()
    assert [ids for _, ids in run.left] == [[1], [2]]
    with pytest.raises(
        InvalidArgumentError, match="sequence 1 to model 'm' must specify the START"
    ):
        run.enqueue(part(1))


@STRATEGIES
def test_a_sequence_is_not_idle_while_it_is_executed(strategy):
    run = instance(strategy=strategy, max_sequence_idle_us=1000, execution_us=5000)
    run.enqueue(part(1, START))
    run.step()
    run.now_us = 5000
    run.step()
    run.now_us = 5900
    run.enqueue(part(1, END))
    run.run()
    assert len(run.ran) == 2


@STRATEGIES
def test_an_idle_sequence_is_reaped_by_the_request_that_comes_too_late(strategy):
    run = instance(strategy=strategy, max_sequence_idle_us=1000)
    run.enqueue(part(1, START))
    run.run()
    run.step()
    run.now_us = 1000
    with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
        run.enqueue(part(1))


@STRATEGIES
def test_a_sequence_in_the_backlog_is_not_reaped(strategy):
    run = instance(strategy=strategy, max_batch_size=1, max_sequence_idle_us=1000)
    run.enqueue(part(1, START), part(2, START))
    run.step()
    for _ in range(5):
        run.now_us += 900
        run.enqueue(part(1))
        run.run()
        run.step()
    run.enqueue(part(1, END), part(2, END))
    run.run()
    assert [ids for _, ids in run.left][-2:] == [[2], [2]]


@STRATEGIES
def test_a_timeout_drops_all_that_a_waiting_sequence_has_queued(strategy):
    run = instance(strategy=strategy, max_batch_size=1)
    run.enqueue(part(1, START), part(2, START, timeout_us=500), part(2), part(3, START))
    assert run.batcher.deadline_ns == 500_000
    assert run.batcher.expire(400_000) == []
    dropped = run.batcher.expire(500_000)
    assert [(item.request.correlation_id, error.message) for item, error in dropped] == [
        (2, "timeout of the corresponding sequence has been expired")
    ] * 2
    assert isinstance(dropped[0][1], UnavailableError)
    assert run.batcher.deadline_ns is None
    with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
        run.enqueue(part(2, END))
    run.enqueue(part(1, END))
    run.run()
    assert [ids for _, ids in run.left] == [[1], [1], [3]]


@STRATEGIES
def test_a_running_sequence_has_no_timeout(strategy):
    run = instance(strategy=strategy)
    run.enqueue(part(1, START, timeout_us=1))
    assert run.batcher.deadline_ns is None


@STRATEGIES
def test_a_cancelled_request_ends_its_sequence_and_frees_the_slot(strategy):
    run = instance(strategy=strategy, max_batch_size=1)
    parts = [part(1, START), part(1), part(1), part(2, BOTH)]
    run.enqueue(*parts)
    run.step()
    parts[1].is_cancelled = True
    run.run()
    assert run.ran == [parts[0], parts[3]]
    assert [item for item, _ in run.dropped] == [parts[1], parts[2]]
    with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
        run.enqueue(part(1))


def test_oldest_ends_a_sequence_whose_request_is_cancelled_in_a_forming_batch():
    run = instance(strategy="oldest", max_batch_size=2, max_queue_delay_us=100)
    first, second = part(1, START), part(1)
    run.enqueue(first, second)
    assert not run.step()
    first.is_cancelled = True
    assert not run.step()
    assert [item for item, _ in run.dropped] == [first, second]
    assert run.batcher.sequence_count == 0


@STRATEGIES
def test_a_cancelled_sequence_in_the_backlog_gets_no_slot(strategy):
    run = instance(strategy=strategy, max_batch_size=1)
    parts = [part(1, BOTH), part(2, START), part(2, END), part(3, BOTH)]
    run.enqueue(*parts)
    parts[2].is_cancelled = True
    run.run()
    assert run.ran == [parts[0], parts[3]]
    assert [item for item, _ in run.dropped] == [parts[1], parts[2]]


# What is asked for each received read costs the same however many sequences wait


@STRATEGIES
def test_counts_and_deadlines_do_not_look_through_the_backlog(strategy):
    looked = []

    class Watched(OrderedDict):
        def __iter__(self):
            looked.append(1)
            return super().__iter__()

    run = batcher(strategy=strategy, max_batch_size=1, max_candidate_sequences=1)
    run.scheduler._pool._sequences._backlog._waiting[""] = Watched()
    run.enqueue(part(1000, START), 0)
    for number in range(500, 0, -1):
        run.enqueue(part(number, START, timeout_us=1_000 * number), 0)
        # The one that came last times out first.
        assert run.deadline_ns == number * 1_000_000
    assert run.pending_count == 501
    assert len(run.expire(10_000_000)) == 10
    assert run.pending_count == 491
    assert run.deadline_ns == 11_000_000
    assert looked == []


@STRATEGIES
def test_timeouts_of_sequences_that_got_a_slot_are_forgotten(strategy):
    run = instance(strategy=strategy, max_batch_size=1, max_candidate_sequences=1)
    for number in range(1, 1000):
        run.enqueue(part(number, BOTH, timeout_us=1 << 40))
        run.enqueue(part(number + 5000, BOTH, timeout_us=1 << 40))
        run.run()
    assert len(run.batcher.scheduler._pool._sequences._backlog._expiries) < 300
