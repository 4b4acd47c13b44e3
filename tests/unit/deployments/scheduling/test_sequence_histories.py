# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever comes in whatever order, each request of a sequence has one outcome."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import SequenceState
from backends.api.request import InferenceResponse
from tests.support.examples import examples
from tests.support.sequence_items import (
    BOTH,
    END,
    START,
    Instance,
    instance,
    part,
    state_tensor,
)

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


@settings(max_examples=examples(300), deadline=None)
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
