# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever comes and whatever becomes of instances, each request of a sequence has one outcome."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.model_config import SequenceState
from backends.api.request import InferenceResponse
from deployments.scheduling.holds import Holds
from tests.support.examples import examples
from tests.support.queued_items import PoolRun
from tests.support.sequence_items import BOTH, END, START, part, sequence_config, state_tensor

IDS = [1, 2, 3, 4, "a", "b"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(IDS),
        st.sampled_from([0, 0, START, START, END, BOTH]),
        st.sampled_from(["xx", "xx", "y"]),
        st.integers(0, 80),  # microseconds until the next
        st.sampled_from([""] * 6 + ["cancel", "expire", "join", "leave", "retire", "grant"]),
        st.sampled_from([0, 0, 150]),  # timeout
        st.sampled_from(["", "", "red", "blue"]),  # tenant
    ),
    max_size=60,
)


class History:
    """What one history did, checked as it goes.

    The state of each sequence is the number of its START and of its last request, so that whatever
    is mixed up shows.
    """

    def __init__(self, *, is_limited: bool, holds: Holds, execution_us: int, **fields) -> None:
        config = sequence_config(
            controls=(), states=(SequenceState("S_IN", "S_OUT", "INT32", (2,)),), **fields
        )
        self.is_limited = is_limited
        self.run = PoolRun(
            config,
            "AB",
            execution_us=execution_us,
            holds=holds,
            execute=self.execute,
            is_limited=is_limited,
        )
        self.items: list = []
        self.others = iter(range(1000))

    def execute(self, item) -> None:
        number = self.items.index(item) + 1
        started, last = item.value("S_IN").tolist()
        if item.flags & START:
            assert (started, last) == (0, 0)
            started = number
        else:
            assert self.items[started - 1].correlation_id == item.correlation_id
            assert self.items[started - 1].flags & START
            assert last < number
        state = state_tensor("S_OUT", started, number, lead=False)
        state.shape = next(each.shape for each in item.request.inputs if each.name == "S_IN")
        item.respond(InferenceResponse("", "", outputs=[state]))

    def offer(self, item) -> None:
        self.items.append(item)
        self.run.enqueue(item)

    def do(self, step: str, item) -> None:
        run = self.run
        names = list(run.instances)
        if step == "cancel":
            item.is_cancelled = True
        elif step == "expire":
            run.dropped += run.queue.expire(run.now_ns)
        elif step == "join":
            run.join(str(next(self.others)), is_limited=self.is_limited)
            run.look()
        elif step == "leave" and names:
            run.leave(names[0])
        elif step == "retire" and names:
            # What waits for a slot goes back with the last instance that has any.
            run.lost += run.queue.retire(names[-1])
        elif step == "grant" and run.asked:
            run.grant()

    def check(self) -> None:
        sequences = self.run.queue._scheduler._sequences
        for name, home in sequences.homes.items():
            assert len(self.run.queue.instances[name].batches) <= 1
            assert home.queued_count == sum(len(each.queue) for each in home.running)
            assert sorted(home.free) == [
                slot for slot, each in enumerate(home.slots) if each is None
            ]
        if sequences._backlog.count:
            assert sequences.free_slot_count == 0
        running = [each for home in sequences.homes.values() for each in home.running]
        assert sequences._backlog._running == Counter(each.tenant for each in running)
        assert sequences.queued_count == sum(
            len(each.queue)
            for each in [
                *sequences._backlog.sequences(),
                *(each for home in sequences.homes.values() for each in home.running),
            ]
        )

    def finish(self, *, is_idle: bool) -> None:
        run = self.run
        run.join("last")
        run.look()
        for name in list(run.instances):
            if name != "last":
                run.leave(name)
        for _ in range(4 * len(self.items) + 4):
            run.run(run.now_us + 5000)
            if not is_idle:
                for correlation_id in IDS:
                    if run.queue.knows(correlation_id):
                        self.offer(part(correlation_id, END))

    def check_outcomes(self) -> None:
        run = self.run
        dropped = [item for item, _ in run.dropped]
        refused = [item for item, _ in run.refused]
        outcomes = [*run.ran, *dropped, *refused, *run.lost]
        assert len(outcomes) == len(set(outcomes))
        assert set(outcomes) == set(self.items)
        assert run.queue.pending_count == 0
        assert run.queue.sequence_count == 0


@settings(max_examples=examples(300), deadline=None)
@given(
    steps=STEPS,
    strategy=st.sampled_from(["direct", "oldest"]),
    max_batch_size=st.integers(0, 3),
    candidates=st.sampled_from([0, 1, 3]),
    idle_us=st.sampled_from([0, 100, 400]),
    execution_us=st.sampled_from([1, 70]),
    gate=st.sampled_from([(0.0, 0), (0.6, 90)]),
    is_limited=st.booleans(),
)
def test_every_request_has_one_outcome_and_state_stays_with_its_sequence(
    steps, strategy, max_batch_size, candidates, idle_us, execution_us, gate, is_limited
):
    history = History(
        is_limited=is_limited,
        holds=Holds(),
        execution_us=execution_us,
        strategy=strategy,
        max_batch_size=max_batch_size,
        max_candidate_sequences=candidates,
        max_sequence_idle_us=idle_us,
        minimum_slot_utilization=gate[0] if strategy == "direct" else 0.0,
        max_queue_delay_us=gate[1],
    )
    for correlation_id, flags, shape, gap_us, step, timeout_us, tenant in steps:
        item = part(correlation_id, flags, signature=shape, timeout_us=timeout_us, tenant=tenant)
        history.offer(item)
        history.do(step, item)
        history.check()
        history.run.run(history.run.now_us + gap_us)
        history.check()
    history.finish(is_idle=bool(idle_us))
    history.check_outcomes()
