# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Priority levels and queue policies, instant by instant, and what must always hold."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError, UnavailableError
from backends.api.model_config import DynamicBatching, ModelConfig, QueuePolicy
from deployments.scheduling.dynamic_batcher import DynamicBatcher
from deployments.scheduling.factory import make_scheduler
from deployments.scheduling.priority_queue import PriorityQueue, QueueRules, rules_of
from tests.support.examples import examples
from tests.support.queued_items import FakeItem, play

REJECT_100 = QueuePolicy(default_timeout_us=100)
DELAY_100 = QueuePolicy("DELAY", default_timeout_us=100)


def levels(count: int, default: int = 1, **fields) -> QueueRules:
    batching = DynamicBatching(priority_levels=count, default_priority_level=default, **fields)
    return rules_of(batching)


def one(name: str, priority: int = 0, **fields) -> FakeItem:
    return FakeItem(name, priority=priority, **fields)


def names(run) -> list[list[str]]:
    return [batch for _, batch in run.left]


def test_higher_levels_run_first_and_each_level_in_order_of_arrival():
    arrivals = [(0, one("first", 3)), (1, one("a3", 3)), (2, one("a1", 1)), (3, one("b3", 3))]
    arrivals += [(4, one("a2", 2)), (5, one("b1", 1))]
    run = play(DynamicBatcher(1, rules=levels(3)), arrivals, execution_us=100)
    assert names(run) == [["first"], ["a1"], ["b1"], ["a2"], ["a3"], ["b3"]]


def test_a_priority_of_none_or_out_of_range_is_the_default_level():
    arrivals = [(0, one("x")), (1, one("none")), (2, one("far", 9)), (3, one("low", 3))]
    arrivals += [(4, one("high", 1))]
    run = play(DynamicBatcher(1, rules=levels(3, default=2)), arrivals, execution_us=100)
    assert names(run) == [["x"], ["high"], ["none"], ["far"], ["low"]]


def test_a_batch_is_filled_across_levels():
    arrivals = [(0, one("x")), (1, one("a2", 2)), (2, one("b2", 2)), (3, one("a1", 1))]
    run = play(DynamicBatcher(2, rules=levels(2)), arrivals, execution_us=100)
    assert names(run) == [["x"], ["a1", "a2"], ["b2"]]


def test_a_higher_priority_joins_the_forming_batch_at_its_front():
    batcher = DynamicBatcher(2, (), 500, levels(2))
    arrivals = [(0, one("a2", 2)), (100, one("a1", 1)), (101, one("b2", 2))]
    run = play(batcher, arrivals)
    assert run.left == [(100, ["a1", "a2"]), (601, ["b2"])]


def test_the_delay_counts_from_the_oldest_request_of_any_level():
    batcher = DynamicBatcher(8, (), 500, levels(2))
    run = play(batcher, [(0, one("a2", 2)), (300, one("a1", 1))])
    assert run.left == [(500, ["a1", "a2"])]


def test_a_head_that_does_not_fit_gives_way_to_a_higher_priority():
    batcher = DynamicBatcher(4, (), 500, levels(2))
    arrivals = [(0, one("x", 2, batch_size=4)), (10, one("a2", 2, batch_size=3))]
    arrivals += [(20, one("b2", 2, batch_size=3)), (30, one("a1", 1, batch_size=1))]
    run = play(batcher, arrivals, execution_us=100)
    assert names(run) == [["x"], ["a1", "a2"], ["b2"]]


def test_max_queue_size_holds_for_each_level():
    rules = levels(2, default_queue_policy=QueuePolicy(max_queue_size=1))
    batcher = DynamicBatcher(8, (), 500, rules)
    batcher.enqueue(one("a1", 1), 0)
    batcher.enqueue(one("a2", 2), 0)
    for level in (1, 2):
        with pytest.raises(
            UnavailableError, match=r"^\[request id: <id_unknown>\] Exceeds maximum queue size$"
        ):
            batcher.enqueue(one("more", level), 0)
    assert len(batcher.next_batch(500_000).batch) == 2
    batcher.enqueue(one("again", 1), 500_000)


def test_each_level_has_its_own_policy():
    own = {2: QueuePolicy(max_queue_size=1), 1: REJECT_100}
    rules = levels(3, priority_queue_policy=own, default_queue_policy=DELAY_100)
    assert [rules.policy_of(level) for level in (1, 2, 3)] == [REJECT_100, own[2], DELAY_100]


def test_a_delayed_request_runs_after_all_others_of_its_level_and_is_not_rejected():
    rules = QueueRules(DELAY_100)
    arrivals = [(0, one("x")), (10, one("late")), (115, one("new")), (118, one("newer"))]
    run = play(DynamicBatcher(2, rules=rules), arrivals, execution_us=120)
    assert names(run) == [["x"], ["new", "newer"], ["late"]]
    assert run.dropped == []


def test_a_delayed_request_runs_before_lower_levels():
    rules = QueueRules(DELAY_100, 2)
    arrivals = [(0, one("x")), (10, one("late", 1)), (150, one("low", 2)), (190, one("new", 1))]
    run = play(DynamicBatcher(1, rules=rules), arrivals, execution_us=200)
    assert names(run) == [["x"], ["new"], ["late"], ["low"]]


def test_delayed_requests_count_towards_max_queue_size():
    rules = QueueRules(QueuePolicy("DELAY", default_timeout_us=100, max_queue_size=2))
    batcher = DynamicBatcher(1, rules=rules)
    first, late = one("first"), one("late")
    batcher.enqueue(first, 0)
    batcher.enqueue(late, 0)
    new = one("new", enqueue_ns=200_000)
    with pytest.raises(UnavailableError):
        batcher.enqueue(new, 200_000)
    assert batcher.next_batch(200_000).batch == [first]
    batcher.enqueue(new, 200_000)
    assert batcher.next_batch(200_000).batch == [new]
    assert batcher.next_batch(200_000).batch == [late]


def test_a_request_is_rejected_when_its_timeout_passes_though_the_instance_is_busy():
    batcher = DynamicBatcher(8, rules=QueueRules(REJECT_100))
    batcher.enqueue(one("x"), 0)
    batcher.next_batch(0)
    assert batcher.deadline_ns == 100_000
    late = one("late", enqueue_ns=20_000)
    batcher.enqueue(late, 20_000)
    assert batcher.expire(100_000) == []
    assert batcher.deadline_ns == 120_000
    ((item, error),) = batcher.expire(120_000)
    assert (item, error.message) == (late, "Request timeout expired")
    assert isinstance(error, UnavailableError)
    assert batcher.deadline_ns is None
    assert batcher.pending_count == 0


def test_a_shorter_override_moves_the_deadline():
    override = QueuePolicy(default_timeout_us=100, allow_timeout_override=True)
    batcher = DynamicBatcher(8, rules=QueueRules(override))
    batcher.enqueue(one("a"), 0)
    batcher.enqueue(one("b", timeout_us=30), 0)
    assert batcher.deadline_ns == 30_000


def test_delays_and_no_timeouts_have_no_deadline():
    for rules in (QueueRules(), QueueRules(DELAY_100)):
        batcher = DynamicBatcher(8, rules=rules)
        batcher.enqueue(one("a"), 0)
        assert batcher.deadline_ns is None
        assert batcher.expire(10**9) == []


def test_an_aged_low_priority_runs_before_new_high_ones():
    arrivals = [(0, one("low", 3))]
    arrivals += [(at_us, one(f"h{at_us}", 1)) for at_us in range(0, 2000, 50)]
    strict = play(DynamicBatcher(1, rules=levels(3)), [(0, one("x", 1)), *arrivals], 100)
    assert names(strict)[-1] == ["low"]
    aged = DynamicBatcher(1, rules=QueueRules(level_count=3, ageing_us=200))
    run = play(aged, [(0, one("x", 1)), *arrivals], 100)
    # It counts as much as a high one that came two times 200 us later.
    assert names(run).index(["low"]) == names(run).index(["h400"]) + 1


def test_a_model_without_dynamic_batching_can_limit_its_queue():
    scheduler = make_scheduler(ModelConfig("m", parameters={"max_queue_size": "2"}))
    for name in "ab":
        scheduler.enqueue(one(name, batch_size=4), 0)
    with pytest.raises(UnavailableError, match="Exceeds maximum queue size"):
        scheduler.enqueue(one("c"), 0)
    assert [item.name for item in scheduler.next_batch(0).batch] == ["a"]
    assert [item.name for item in scheduler.next_batch(0).batch] == ["b"]


def test_a_limit_that_is_no_number_fails_the_load():
    with pytest.raises(InvalidArgumentError, match=r"'max_queue_size' with value 'many'"):
        make_scheduler(ModelConfig("m", parameters={"max_queue_size": "many"}))


POLICIES = st.builds(
    QueuePolicy,
    timeout_action=st.sampled_from(["REJECT", "DELAY"]),
    default_timeout_us=st.sampled_from([0, 60, 300]),
    allow_timeout_override=st.booleans(),
    max_queue_size=st.sampled_from([0, 0, 3]),
)
RULES = st.builds(
    QueueRules,
    POLICIES,
    level_count=st.sampled_from([1, 2, 3, 2**64 - 1]),
    own_policies=st.dictionaries(st.integers(1, 3), POLICIES, max_size=3),
    ageing_us=st.sampled_from([0, 0, 100]),
)
ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 120),  # gap
        st.integers(0, 4),  # priority
        st.integers(1, 3),  # rows
        st.sampled_from([0, 30, 500]),  # timeout
        st.sampled_from(["take", "cancel", "expire"]),
    ),
    max_size=40,
)


class Exercise:
    """Drives a batcher on virtual time and checks that each request is settled once."""

    def __init__(self, batcher: DynamicBatcher, max_size: int) -> None:
        self.batcher = batcher
        self.max_size = max_size
        self.now_us = 0
        self.requests: list[FakeItem] = []
        self.settled: set[str] = set()
        self.ran: list[FakeItem] = []

    def settle(self, item: FakeItem) -> None:
        assert item.name not in self.settled
        self.settled.add(item.name)

    def enqueue(self, item: FakeItem) -> None:
        item.enqueue_ns = self.now_us * 1000
        self.requests.append(item)
        try:
            self.batcher.enqueue(item, self.now_us * 1000)
        except UnavailableError:
            self.settle(item)

    def ask(self) -> None:
        decision = self.batcher.next_batch(self.now_us * 1000)
        assert sum(item.batch_size for item in decision.batch) <= self.max_size
        assert not any(item.is_cancelled for item in decision.batch)
        assert decision.wake_at_ns is None or decision.wake_at_ns > self.now_us * 1000
        for item in [*decision.batch, *(item for item, _ in decision.dropped)]:
            self.settle(item)
        self.ran += decision.batch

    def expire(self) -> None:
        for item, _ in self.batcher.expire(self.now_us * 1000):
            self.settle(item)


@settings(max_examples=examples(200), deadline=None)
@given(
    rules=RULES,
    arrivals=ARRIVALS,
    delay_us=st.sampled_from([0, 80]),
    max_size=st.integers(3, 6),
    chance=st.randoms(use_true_random=False),
)
def test_every_request_has_one_outcome_and_a_level_keeps_its_order(
    rules, arrivals, delay_us, max_size, chance
):
    run = Exercise(DynamicBatcher(max_size, (), delay_us, rules), max_size)
    for number, (gap_us, priority, rows, timeout_us, then) in enumerate(arrivals):
        run.now_us += gap_us
        run.enqueue(one(f"r{number}", priority, batch_size=rows, timeout_us=timeout_us))
        victim = chance.choice(run.requests)
        if then == "cancel":
            victim.is_cancelled = True
        elif then == "expire":
            run.expire()
        if chance.random() < 0.6:
            run.ask()
    for _ in range(len(run.requests) + 1):
        run.now_us += 1000
        run.ask()
    assert run.batcher.pending_count == 0
    assert run.settled == {item.name for item in run.requests}
    for level in {rules.level_of(item.priority) for item in run.ran}:
        if rules.policy_of(level).timeout_action == "REJECT":
            own = [int(i.name[1:]) for i in run.ran if rules.level_of(i.priority) == level]
            assert own == sorted(own)


def test_levels_are_made_by_requests_and_empty_ones_are_forgotten():
    queue = PriorityQueue(QueueRules(DELAY_100, level_count=2**64 - 1))
    kept = one("kept", 2**64 - 1)
    queue.admit(kept)
    for number in range(1, 1000):
        rank = queue.admit(one(f"r{number}", 2**40 + number))
        assert queue.head(0) is rank
        rank.items.clear()
        rank.level.count = 0
    assert len(queue._ranks) < 100
    assert queue.clear() == [kept]
