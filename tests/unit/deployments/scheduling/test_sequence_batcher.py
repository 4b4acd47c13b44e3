# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Both sequence batchers, instant by instant, and what holds for every history."""

import contextlib
import logging
from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError, Phase, UnavailableError
from backends.api.model_config import SequenceState
from backends.api.request import InferenceResponse
from deployments.scheduling.sequence_batcher import NullRequest
from tests.support.sequence_items import (
    BOTH,
    END,
    START,
    Instance,
    batcher,
    part,
    state_tensor,
)

STRATEGIES = pytest.mark.parametrize("strategy", ["direct", "oldest"])


def instance(**fields) -> Instance:
    execution_us = fields.pop("execution_us", 0)
    return Instance(batcher(**fields), execution_us=execution_us)


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


# Ends that nobody asked for


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


# Every history

STEPS = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 3, "a", "b"]),
        st.sampled_from([0, 0, START, START, END, BOTH]),
        st.sampled_from(["xx", "xx", "y"]),
        st.integers(0, 80),  # microseconds until the next
        st.sampled_from(["", "", "", "", "cancel", "step", "step", "expire"]),
        st.sampled_from([0, 0, 150]),  # timeout
    ),
    max_size=60,
)


class History:
    """What one history did, checked as it goes.

    The state of each sequence is the number of its START, of its last request and of that one's
    execution, so that whatever is mixed up shows.
    """

    def __init__(self, run: Instance) -> None:
        self.run = run
        self.accepted: list = []
        self.expired: list = []
        run.execute = self.execute

    def offer(self, item) -> None:
        with contextlib.suppress(InvalidArgumentError):
            self.run.enqueue(item)
            self.accepted.append(item)

    def expire(self) -> None:
        self.expired += [item for item, _ in self.run.batcher.expire(self.run.now_ns)]

    def execute(self, item) -> None:
        number, execution = self.accepted.index(item) + 1, len(self.run.left)
        started, last, ran_in = item.value("S_IN").tolist()
        if item.request.flags & START:
            assert (started, last, ran_in) == (0, 0, 0)
            started = number
        else:
            assert self.accepted[started - 1].request.correlation_id == item.request.correlation_id
            assert last < number
            assert ran_in < execution
        state = state_tensor("S_OUT", started, number, execution, lead=False)
        state.shape = next(each.shape for each in item.request.inputs if each.name == "S_IN")
        item.respond(InferenceResponse("", "", outputs=[state]))
        assert item.answer.outputs == []

    def check(self) -> None:
        outcomes = [*self.run.ran, *(item for item, _ in self.run.dropped), *self.expired]
        assert len(outcomes) == len(set(outcomes))
        assert set(outcomes) == set(self.accepted)


@settings(max_examples=300, deadline=None)
@given(
    steps=STEPS,
    strategy=st.sampled_from(["direct", "oldest"]),
    max_batch_size=st.integers(0, 4),
    candidates=st.sampled_from([0, 2, 6]),
    idle_us=st.sampled_from([0, 100, 400]),
    execution_us=st.sampled_from([0, 70]),
    gate=st.sampled_from([(0.0, 0), (0.6, 90)]),
)
def test_every_request_has_one_outcome_no_slot_is_lost_and_state_stays_with_its_sequence(
    steps, strategy, max_batch_size, candidates, idle_us, execution_us, gate
):
    run = instance(
        strategy=strategy,
        max_batch_size=max_batch_size,
        max_candidate_sequences=candidates,
        max_sequence_idle_us=idle_us,
        execution_us=execution_us,
        minimum_slot_utilization=gate[0] if strategy == "direct" else 0.0,
        max_queue_delay_us=gate[1],
        controls=(),
        states=(SequenceState("S_IN", "S_OUT", "INT32", (3,)),),
    )
    history = History(run)
    for correlation_id, flags, shape, gap_us, then, timeout_us in steps:
        item = part(correlation_id, flags, signature=shape, timeout_us=timeout_us)
        history.offer(item)
        if then == "cancel":
            item.is_cancelled = True
        elif then == "expire":
            history.expire()
        elif then == "step":
            run.step()
        run.now_us += gap_us
    for _ in range(4 * len(steps) + 4):
        run.now_us += 500
        run.step()
        history.expire()
        if not idle_us:
            end_open(history)
    history.check()
    assert run.batcher.pending_count == 0
    assert run.batcher.sequence_count == 0


def end_open(history: History) -> None:
    """End what is still open, as a client would."""
    for correlation_id in (1, 2, 3, "a", "b"):
        if history.run.batcher.knows(correlation_id):
            history.offer(part(correlation_id, END))


# What is asked for each received read costs the same however many sequences wait


@STRATEGIES
def test_counts_and_deadlines_do_not_look_through_the_backlog(strategy):
    looked = []

    class Watched(OrderedDict):
        def __iter__(self):
            looked.append(1)
            return super().__iter__()

    run = batcher(strategy=strategy, max_batch_size=1, max_candidate_sequences=1)
    run._sequences._backlog = Watched()
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
    assert len(run.batcher._sequences._expiries) < 300
