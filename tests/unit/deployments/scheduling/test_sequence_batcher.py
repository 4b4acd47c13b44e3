# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Both sequence batchers, instant by instant, and what holds for every history."""

import logging

import pytest

from backends.api.errors import InvalidArgumentError, Phase, UnavailableError
from deployments.scheduling.sequence_feeder import NullRequest
from tests.support.sequence_items import (
    BOTH,
    END,
    START,
    STRATEGIES,
    instance,
    part,
)

# Requests that are refused


@STRATEGIES
@pytest.mark.parametrize("correlation_id", [0, ""])
def test_a_request_without_a_correlation_id_is_refused(strategy, correlation_id):
    with pytest.raises(InvalidArgumentError) as caught:
        instance(strategy=strategy).enqueue(part(correlation_id, START))
    assert caught.value.phase is Phase.ENQUEUE
    assert caught.value.message == (
        "inference request to model 'm' must specify a non-zero or non-empty correlation ID"
    )


@STRATEGIES
@pytest.mark.parametrize("correlation_id", [7, "seven"])
def test_a_sequence_that_did_not_start_is_refused(strategy, correlation_id):
    with pytest.raises(InvalidArgumentError) as caught:
        instance(strategy=strategy, controls=()).enqueue(part(correlation_id, END))
    assert caught.value.phase is Phase.ENQUEUE
    assert caught.value.message == (
        f"inference request for sequence {correlation_id} to model 'm' must specify the START "
        "flag on the first request of the sequence"
    )


@STRATEGIES
def test_a_sequence_that_ended_has_to_start_again(strategy):
    run = instance(strategy=strategy)
    run.enqueue(part(5, BOTH))
    with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
        run.enqueue(part(5))
    run.enqueue(part(5, START))


@STRATEGIES
def test_a_request_of_two_rows_is_refused(strategy):
    with pytest.raises(InvalidArgumentError) as caught:
        instance(strategy=strategy).enqueue(part(1, START, batch_size=2))
    assert caught.value.phase is Phase.ENQUEUE
    assert caught.value.message == (
        "inference request to model 'm' must specify batch-size 1 due to requirements of sequence "
        "batcher"
    )


def test_a_string_id_is_refused_where_the_control_is_a_number():
    with pytest.raises(InvalidArgumentError) as caught:
        instance().enqueue(part("a", START, id="9"))
    assert caught.value.phase is Phase.ENQUEUE
    assert caught.value.message == (
        "[request id: 9] sequence batching control 'CORRID' data-type is 'BYTES', but model 'm' "
        "expects 'UINT64'"
    )


@STRATEGIES
def test_a_stopped_batcher_goes_on_with_running_sequences_and_starts_none(strategy):
    run = instance(strategy=strategy)
    run.enqueue(part(1, START))
    run.batcher.stop()
    run.enqueue(part(1), part(1, END))
    with pytest.raises(UnavailableError, match="has stopped accepting new inference requests"):
        run.enqueue(part(2, START))
    run.run()
    assert len(run.ran) == 3
    assert run.batcher.sequence_count == 0


# Order, slots and the backlog


@STRATEGIES
def test_requests_of_a_sequence_run_one_at_a_time_in_order(strategy):
    run = instance(strategy=strategy)
    parts = [part(3, START), part(3), part(3), part(3, END)]
    run.enqueue(*parts)
    run.run()
    assert run.ran == parts
    assert [ids for _, ids in run.left] == [[3], [3], [3], [3]]


@STRATEGIES
def test_several_sequences_share_a_batch(strategy):
    run = instance(strategy=strategy)
    run.enqueue(part(1, START), part(2, START), part(1, END), part(2, END))
    run.run()
    assert [ids for _, ids in run.left] == [[1, 2], [1, 2]]


@STRATEGIES
def test_sequences_beyond_the_slots_wait_and_run_in_order_of_arrival(strategy):
    run = instance(strategy=strategy, max_batch_size=2)
    for number in (1, 2, 3, 4):
        run.enqueue(part(number, START), part(number, END))
    run.run()
    assert [ids for _, ids in run.left] == [[1, 2], [1, 2], [3, 4], [3, 4]]


@STRATEGIES
def test_a_request_for_a_sequence_in_the_backlog_follows_it(strategy):
    run = instance(strategy=strategy, max_batch_size=1)
    run.enqueue(part(1, START), part(2, START), part(2), part(1, END))
    run.run()
    run.enqueue(part(2, END))
    run.run()
    assert [ids for _, ids in run.left] == [[1], [1], [2], [2], [2]]


@STRATEGIES
def test_an_id_may_start_again_while_its_first_sequence_waits(strategy):
    run = instance(strategy=strategy, max_batch_size=1)
    run.enqueue(part(9, START), part(1, BOTH), part(1, BOTH), part(9, END))
    run.run()
    assert [ids for _, ids in run.left] == [[9], [9], [1], [1]]


@STRATEGIES
def test_a_start_inside_a_running_sequence_begins_it_again_with_a_warning(strategy, caplog):
    run = instance(strategy=strategy)
    with caplog.at_level(logging.WARNING):
        run.enqueue(part(4, START), part(4), part(4, START), part(4, END))
    run.run()
    assert [ids for _, ids in run.left] == [[4]] * 4
    assert caplog.messages == [
        "sequence 4 for model 'm' has a conflict. The previous sequence did not end before this "
        "sequence start. Previous sequence will be terminated early."
    ]


def test_oldest_runs_more_candidates_than_a_batch_holds():
    run = instance(strategy="oldest", max_batch_size=2, max_candidate_sequences=3)
    for number in (1, 2, 3, 4):
        run.enqueue(part(number, START))
    run.run()
    assert [ids for _, ids in run.left] == [[1, 2], [3]]
    assert run.batcher.pending_count == 1


def test_oldest_waits_for_a_preferred_size_until_its_delay():
    run = instance(strategy="oldest", preferred_batch_size=(4,), max_queue_delay_us=100)
    run.enqueue(part(1, START), part(2, START))
    assert not run.step()
    assert run.wake_at_ns == 100_000
    run.now_us = 100
    run.run()
    assert [ids for _, ids in run.left] == [[1, 2]]


# The direct strategy's rows


def test_a_slot_without_a_request_is_filled_with_a_null_request():
    run = instance()
    run.enqueue(part(1, START), part(2, START, value=5), part(3, START))
    run.run()
    run.enqueue(part(3, value=6), part(1, value=7))
    run.run()
    assert run.left[-1] == (0, [1, "", 3])
    null = run.rows[-1][1]
    assert isinstance(null, NullRequest)
    assert [tensor.name for tensor in null.request.inputs] == [
        "X",
        "START",
        "END",
        "READY",
        "CORRID",
    ]
    values = [bytes(tensor.data) for tensor in null.request.inputs]
    assert values == [bytes(4), bytes(4), b"\x00\x00\x80\xbf", b"\0", bytes(8)]
    null.respond(None)
    null.fail(UnavailableError(""))


def test_rows_end_with_the_last_slot_that_has_a_request():
    run = instance()
    run.enqueue(part(1, START), part(2, START), part(3, START))
    run.run()
    run.enqueue(part(2))
    run.run()
    assert run.left[-1] == (0, ["", 2])


def test_a_request_of_another_shape_waits_and_is_not_starved():
    run = instance()
    run.enqueue(part(1, START, signature="a"), part(2, START, signature="b"))
    run.enqueue(part(1, signature="a"), part(1, signature="a"))
    run.run()
    run.now_us = 10
    run.enqueue(part(2, signature="b"))
    run.now_us = 20
    run.enqueue(part(1, signature="a"))
    run.run()
    assert [ids for _, ids in run.left][-2:] == [["", 2], [1]]


def test_slot_utilisation_delays_a_batch_until_enough_slots_are_ready():
    run = instance(minimum_slot_utilization=0.5, max_queue_delay_us=100)
    run.enqueue(part(1, START))
    assert not run.step()
    assert run.wake_at_ns == 100_000
    run.now_us = 40
    run.enqueue(part(2, START))
    run.run()
    assert run.left == [(40, [1, 2])]


def test_slot_utilisation_gives_way_to_the_delay():
    run = instance(minimum_slot_utilization=1.0, max_queue_delay_us=100)
    run.enqueue(part(1, START))
    assert not run.step()
    run.now_us = 100
    run.run()
    assert run.left == [(100, [1])]


def test_a_delay_without_utilisation_is_ignored():
    run = instance(max_queue_delay_us=100)
    run.enqueue(part(1, START))
    run.run()
    assert run.left == [(0, [1])]


@STRATEGIES
def test_clear_gives_up_everything_queued(strategy):
    run = instance(strategy=strategy, max_batch_size=2)
    parts = [part(number, flag) for number in (1, 2, 3) for flag in (START, END)]
    run.enqueue(*parts)
    assert run.batcher.pending_count == 6
    assert set(run.batcher.clear()) == set(parts)
    assert run.batcher.pending_count == 0
    assert run.batcher.sequence_count == 0


# Iterative sequences


@STRATEGIES
def test_a_rescheduled_request_runs_again_among_others(strategy):
    run = instance(strategy=strategy, iterative=True, max_batch_size=2)
    left = {}

    def execute(item):
        left[item] = left.get(item, item.value("X")) - 1
        if left[item]:
            item.reschedule()

    run.execute = execute
    first, second, third = part(0, value=3), part(0, value=1), part(0, value=1)
    run.enqueue(first, second, third)
    run.run()
    assert run.ran == [first, second, first, third, first]
    assert first.value("START") == 0
    assert [tensor.name for tensor in first.request.inputs] == [
        "X",
        "START",
        "END",
        "READY",
        "CORRID",
    ]
    run.step()
    assert run.batcher.sequence_count == 0


@STRATEGIES
def test_iterative_requests_get_ids_of_their_own(strategy):
    run = instance(strategy=strategy, iterative=True)
    run.enqueue(part(1, START), part(0), part(0))
    run.run()
    assert sorted(item.request.correlation_id for item in run.ran) == [1, 2, 3]
    assert [item.value("START") for item in run.ran] == [1, 1, 1]
