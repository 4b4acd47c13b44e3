# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever comes and whatever becomes of instances, each request of a pool has one outcome."""

from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.model_config import DynamicBatching, ModelConfig, QueuePolicy
from tests.support.examples import examples
from tests.support.queued_items import FakeItem, PoolRun

DEPTH = 2
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["enqueue"] * 8
            + ["cancel", "join", "join limited", "retire", "leave", "lease", "end lease", "grant"]
            + ["expire"]
        ),
        st.integers(0, 3),  # which instance, or the request's priority
        st.integers(1, 3),  # the request's size
        st.sampled_from([0, 0, 100, 700]),  # its timeout
        st.sampled_from(["x", "x", "x", "y"]),  # its signature
        st.integers(0, 400),  # microseconds until the next step
        st.sampled_from([20, 20, 500]),  # how long executions last from now on
    ),
    max_size=70,
)
CONFIGS = st.sampled_from(
    [
        ModelConfig("m"),
        ModelConfig("m", parameters={"max_queue_size": "3"}),
        ModelConfig("m", max_batch_size=4, dynamic_batching=DynamicBatching()),
        ModelConfig(
            "m",
            max_batch_size=4,
            dynamic_batching=DynamicBatching(
                preferred_batch_size=(2,),
                max_queue_delay_us=150,
                priority_levels=2,
                default_priority_level=2,
                default_queue_policy=QueuePolicy(
                    max_queue_size=5, default_timeout_us=600, allow_timeout_override=True
                ),
            ),
        ),
    ]
)


class History:
    """Plays steps and checks after each."""

    def __init__(self, config: ModelConfig) -> None:
        self.run = PoolRun(config, "A", execution_us=50)
        self.items: list[FakeItem] = []
        self.leased: dict[int, str] = {}
        self.names = iter(range(1000))
        self.is_prompt = config.dynamic_batching is None

    def play(self, step: str, which: int, item: FakeItem) -> None:
        run = self.run
        names = list(run.instances)
        name = names[which % len(names)] if names else ""
        if step == "enqueue":
            self.items.append(item)
            run.enqueue(item)
        elif step == "cancel" and self.items:
            self.items[-1 - which % len(self.items)].is_cancelled = True
        elif step == "expire":
            run.dropped += run.queue.expire(run.now_ns)
        elif step.startswith("join"):
            run.join(str(next(self.names)), is_limited=step == "join limited")
        elif step == "retire":
            run.queue.retire(name)
        elif step == "leave" and name:
            run.leave(name)
        elif step == "lease":
            self.lease()
        elif step == "end lease":
            self.end_lease(which)
        elif step == "grant" and run.asked:
            run.grant()
        run.look()
        self.check()

    def lease(self) -> None:
        queue = self.run.queue
        batch = queue.lease()
        if batch is not None:
            assert queue.pending_count == 0
            assert list(queue.instances[batch.instance].batches) == [batch.number]
            self.leased[batch.number] = batch.instance

    def end_lease(self, which: int) -> None:
        queue = self.run.queue
        for number in list(self.leased)[:1]:
            instance = self.leased.pop(number)
            if which % 2:
                queue.give_back(instance, number)
            else:
                queue.executed(instance, number, 1000, self.run.now_ns)

    def check(self) -> None:
        run = self.run
        queue = run.queue
        for name, instance in queue.instances.items():
            lies_here = run.instances[name].lies_here
            executing = run.instances[name].is_executing
            assert len(lies_here) + executing <= DEPTH
            if instance.is_limited:
                assert len(instance.batches) <= 1
            if self.is_prompt and queue.pending_count:
                # Nothing waits while an instance idles that might execute it.
                assert instance.batches or instance.is_leaving or instance.is_asked

    def finish(self) -> None:
        run = self.run
        for _ in range(4):
            while self.leased:
                self.end_lease(1)
            run.look()
            run.run()
        run.join("last")
        run.look()
        run.run()
        for name in list(run.instances):
            if name != "last":
                run.leave(name)
        run.run()

    def check_outcomes(self) -> None:
        run = self.run
        dropped = [item for item, _ in run.dropped]
        refused = [item for item, _ in run.refused]
        outcomes = [*run.ran, *dropped, *refused, *run.lost]
        assert len(outcomes) == len(set(outcomes))
        assert set(outcomes) == set(self.items)
        assert run.queue.pending_count == 0


@settings(max_examples=examples(300), deadline=None)
@given(steps=STEPS, config=CONFIGS)
def test_every_request_has_one_outcome_and_no_instance_idles_while_something_could_run(
    steps, config
):
    history = History(config)
    for number, (step, which, size, timeout_us, signature, gap_us, execution_us) in enumerate(
        steps
    ):
        item = FakeItem(str(number), size, signature, timeout_us=timeout_us, priority=which)
        history.run.execution_us = execution_us
        history.play(step, which, item)
        history.run.run(history.run.now_us + gap_us)
        history.check()
    history.finish()
    history.check_outcomes()


@settings(max_examples=examples(100), deadline=None)
@given(
    gaps=st.lists(st.tuples(st.integers(0, 200), st.sampled_from([20, 500])), max_size=40),
    count=st.integers(1, 4),
)
def test_requests_are_given_to_instances_in_the_order_they_came(gaps, count):
    run = PoolRun(ModelConfig("m"), "ABCD"[:count])
    items = []
    for number, (gap_us, execution_us) in enumerate(gaps):
        run.execution_us = execution_us
        items.append(FakeItem(str(number)))
        run.enqueue(items[-1])
        run.run(run.now_us + gap_us)
    run.run()
    assert run.given == items
    assert set(run.ran) == set(items)
