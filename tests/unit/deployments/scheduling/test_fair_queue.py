# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Shares of tenants in the queues of instances, in virtual time."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import UnavailableError
from backends.api.model_config import DynamicBatching, QueuePolicy
from deployments.scheduling.default_scheduler import DefaultScheduler
from deployments.scheduling.dynamic_batcher import DynamicBatcher
from deployments.scheduling.pool_queue import PoolQueue
from deployments.scheduling.pool_scheduler import SharedScheduler
from deployments.scheduling.priority_queue import QueueRules, rules_of
from tests.support.examples import examples
from tests.support.queued_items import FakeItem, play

LIMITED = QueueRules(QueuePolicy(max_queue_size=20))


def of(tenant: str, number: int, weight: float = 1.0, **fields) -> FakeItem:
    return FakeItem(f"{tenant}{number}", tenant=tenant, weight=weight, **fields)


class Bounded:
    """A scheduler whose refusals are the client's."""

    def __init__(self, scheduler) -> None:
        self._scheduler = scheduler
        self.next_batch = scheduler.next_batch

    def enqueue(self, item: FakeItem, now_ns: int) -> bool:
        try:
            return self._scheduler.enqueue(item, now_ns)
        except UnavailableError:
            return False


def served(left: list[tuple[float, list[str]]], from_us: float, until_us: float) -> Counter:
    return Counter(name[0] for at, names in left for name in names if from_us <= at < until_us)


def overloaded(scheduler, execution_us: float) -> Counter:
    """Offer ten of `a`, weight 1, for each of `b`, weight 3; return who was served how often."""
    arrivals = []
    # One request each microsecond; the instance serves a fiftieth of that, so that both tenants
    # offer more than they are due.
    for at in range(11_000):
        tenant, weight = ("b", 3.0) if at % 11 == 0 else ("a", 1.0)
        arrivals.append((float(at), of(tenant, at, weight)))
    run = play(Bounded(scheduler), arrivals, execution_us)
    # Of the first batch there was only `a` to make it of.
    return served(run.left, 1000, 11_000)


@pytest.mark.parametrize(
    ("scheduler", "execution_us"),
    [
        (DefaultScheduler(), 50),
        (DynamicBatcher(8), 400),
        (DynamicBatcher(8, (4, 8), max_queue_delay_us=100), 400),
        (DynamicBatcher(8, rules=LIMITED), 400),
        (DynamicBatcher(1, rules=LIMITED), 50),
    ],
    ids=["plain", "batches", "delayed", "bounded batches", "bounded"],
)
def test_tenants_of_weight_1_and_3_share_an_overloaded_instance_within_5_percent(
    scheduler, execution_us
):
    counts = overloaded(scheduler, execution_us)
    assert counts["b"] / counts["a"] == pytest.approx(3, rel=0.05)


def test_the_pools_queue_shares_its_instances_by_weight():
    queue: PoolQueue = PoolQueue(SharedScheduler(DynamicBatcher(4)))
    for name in ("x", "y"):
        queue.join(name)
    for at in range(2200):
        queue.enqueue(of(*(("b", at, 3.0) if at % 11 == 0 else ("a", at))), at)
    counts: Counter = Counter()
    now_ns = 3000
    for _ in range(30):
        now_ns += 1000
        for batch in queue.next(now_ns).batches:
            counts.update(item.tenant for item in batch.decision.batch)
            queue.executed(batch.instance, batch.number, 1_000_000, now_ns)
    assert counts["b"] / counts["a"] == pytest.approx(3, rel=0.05)


def test_a_tenant_without_load_hurts_nobody():
    alone = play(DynamicBatcher(4), [(at, of("a", at)) for at in range(400)], 40)
    batcher: DynamicBatcher = DynamicBatcher(4)
    visitor = of("b", 0, 1000.0)
    batcher.enqueue(of("a", 999), 0)
    batcher.enqueue(visitor, 0)
    batcher.next_batch(0)
    after = play(batcher, [(at, of("a", at)) for at in range(400)], 40)
    assert after.left == alone.left


def test_rows_count_and_not_requests():
    batcher: DynamicBatcher = DynamicBatcher(8)
    for at in range(200):
        batcher.enqueue(of("a", at, batch_size=4), 0)
        batcher.enqueue(of("b", at, batch_size=1), 0)
    rows: Counter = Counter()
    for _ in range(20):
        for item in batcher.next_batch(0).batch:
            rows[item.tenant] += item.batch_size
    assert rows["a"] == pytest.approx(rows["b"], rel=0.1)


def test_a_high_priority_gains_nothing_over_other_tenants():
    rules = rules_of(DynamicBatching(priority_levels=2, default_priority_level=2))
    batcher: DynamicBatcher = DynamicBatcher(4, rules=rules)
    for at in range(100):
        batcher.enqueue(of("a", at, priority=1), 0)
        batcher.enqueue(of("b", at, priority=2), 0)
    counts = Counter(i.tenant for _ in range(10) for i in batcher.next_batch(0).batch)
    assert counts == {"a": 20, "b": 20}


def test_levels_order_the_requests_of_one_tenant():
    rules = rules_of(DynamicBatching(priority_levels=2, default_priority_level=2))
    batcher: DynamicBatcher = DynamicBatcher(1, rules=rules)
    for item in (of("a", 1), of("b", 1), of("a", 2, priority=1), of("b", 2, priority=1)):
        batcher.enqueue(item, 0)
    assert [batcher.next_batch(0).batch[0].name for _ in range(4)] == ["a2", "b2", "a1", "b1"]


def test_requests_without_a_tenant_are_one_tenant():
    batcher: DynamicBatcher = DynamicBatcher(2)
    for at in range(10):
        batcher.enqueue(FakeItem(f"n{at}"), 0)
        batcher.enqueue(FakeItem(f"n{at}"), 0)
        batcher.enqueue(of("a", at), 0)
    counts = Counter(i.tenant for _ in range(5) for i in batcher.next_batch(0).batch)
    assert counts == {"": 5, "a": 5}


def test_a_full_queue_makes_room_for_a_tenant_within_its_share():
    batcher: DynamicBatcher = DynamicBatcher(4, rules=QueueRules(QueuePolicy(max_queue_size=4)))
    for at in range(4):
        batcher.enqueue(of("a", at), at)
    batcher.next_batch(10)
    for at in range(4, 8):
        batcher.enqueue(of("a", at), at)
    with pytest.raises(UnavailableError, match="Exceeds maximum queue size"):
        batcher.enqueue(of("a", 8), 11)
    batcher.enqueue(of("b", 0), 12)
    batcher.enqueue(of("b", 1), 13)
    with pytest.raises(UnavailableError, match="Exceeds maximum queue size"):
        batcher.enqueue(of("b", 2), 14)
    assert batcher.deadline_ns is not None
    assert batcher.deadline_ns <= 14
    dropped = batcher.expire(14)
    assert [item.name for item, _ in dropped] == ["a7", "a6"]
    assert {error.message for _, error in dropped} == {
        "[request id: <id_unknown>] Exceeds maximum queue size"
    }
    assert batcher.pending_count == 4
    assert sorted(i.name for i in batcher.next_batch(15).batch) == ["a4", "a5", "b0", "b1"]


def test_what_is_displaced_may_be_in_the_forming_batch():
    rules = QueueRules(QueuePolicy(max_queue_size=2))
    batcher: DynamicBatcher = DynamicBatcher(8, (), 1000, rules)
    batcher.enqueue(of("a", 0), 0)
    batcher.enqueue(of("a", 1), 0)
    batcher.enqueue(of("b", 0), 0)
    decision = batcher.next_batch(2_000_000)
    assert [item.name for item in decision.batch] == ["a0", "b0"]
    assert [item.name for item, _ in decision.dropped] == ["a1"]
    assert batcher.pending_count == 0


def test_timeouts_reject_what_has_waited_of_any_tenant_though_no_instance_is_free():
    rules = QueueRules(QueuePolicy(default_timeout_us=100))
    batcher: DynamicBatcher = DynamicBatcher(8, rules=rules)
    for at, tenant in enumerate("aba"):
        item = of(tenant, at, enqueue_ns=at)
        batcher.enqueue(item, at)
    late = of("b", 9, enqueue_ns=150_000)
    batcher.enqueue(late, 150_000)
    assert batcher.deadline_ns is not None
    assert batcher.deadline_ns <= 100_000
    dropped = batcher.expire(150_000)
    assert sorted(item.name for item, _ in dropped) == ["a0", "a2", "b1"]
    assert batcher.pending_count == 1
    assert batcher.next_batch(150_000).batch == [late]


def test_what_is_delayed_goes_behind_its_own_tenants_requests_only():
    rules = QueueRules(QueuePolicy(default_timeout_us=100, timeout_action="DELAY"))
    batcher: DynamicBatcher = DynamicBatcher(1, rules=rules)
    for tenant in "ab":
        batcher.enqueue(of(tenant, 0, enqueue_ns=0), 0)
    batcher.enqueue(of("a", 1, enqueue_ns=200_000), 200_000)
    batcher.enqueue(of("b", 1, enqueue_ns=200_000), 200_000)
    order = [batcher.next_batch(200_000).batch[0].name for _ in range(4)]
    assert order == ["a1", "b1", "a0", "b0"]


def test_what_avoids_an_instance_waits_for_another_among_several_tenants():
    queue: PoolQueue = PoolQueue(SharedScheduler(DynamicBatcher(1)))
    items = [of("a", 0), of("b", 0), of("a", 1)]
    for item in items:
        queue.enqueue(item, 0)
    queue.avoid(items[0], "x", 0)
    queue.join("x")
    queue.join("y")
    places = {}
    for now_ns in range(1, 5):
        for batch in queue.next(now_ns).batches:
            places |= {item.name: batch.instance for item in batch.decision.batch}
            queue.executed(batch.instance, batch.number, 1_000_000, now_ns)
    assert sorted(places) == ["a0", "a1", "b0"]
    assert places["a0"] == "y"


WEIGHTS = (1.0, 2.0, 0.5)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),  # tenant
            st.integers(1, 3),  # rows
            st.integers(0, 2),  # level asked for
            st.booleans(),  # cancelled later
            st.integers(0, 3),  # batches taken afterwards
        ),
        max_size=60,
    ),
    st.sampled_from([0, 500]),
    st.sampled_from([0, 6]),
)
def test_each_request_leaves_once_and_in_order_of_its_tenant_and_level(steps, delay_us, limit):
    batching = DynamicBatching(
        priority_levels=2,
        default_priority_level=2,
        default_queue_policy=QueuePolicy(max_queue_size=limit),
    )
    batcher: DynamicBatcher = DynamicBatcher(4, (), delay_us, rules_of(batching))
    given_items: list[FakeItem] = []
    left: list[FakeItem] = []
    now_ns = 0
    for number, (who, rows, level, is_cancelled, batches) in enumerate(steps):
        now_ns += 1000
        tenant = "abc"[who]
        item = of(tenant, number, WEIGHTS[who], batch_size=rows, priority=level)
        item.enqueue_ns = now_ns
        try:
            batcher.enqueue(item, now_ns)
        except UnavailableError:
            continue
        given_items.append(item)
        item.is_cancelled = is_cancelled and batches == 1
        for _ in range(batches):
            decision = batcher.next_batch(now_ns)
            assert sum(i.batch_size for i in decision.batch) <= 4
            left += [i for i, _ in decision.dropped] + decision.batch
    while batcher.pending_count:
        now_ns += 1_000_000
        decision = batcher.next_batch(now_ns)
        left += [i for i, _ in decision.dropped] + decision.batch
    assert sorted(i.name for i in left) == sorted(i.name for i in given_items)
    assert batcher.clear() == []


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.floats(0.25, 4), min_size=2, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=20, max_size=200),
)
def test_a_backlogged_tenant_is_served_within_a_bound(weights, arrivals):
    """Between two services of a backlogged tenant others get at most their due and one request."""
    batcher: DynamicBatcher = DynamicBatcher(4)
    backlog: dict[str, list[FakeItem]] = {}
    for number, (who, rows) in enumerate(arrivals):
        at = who % len(weights)
        item = of(chr(97 + at), number, weights[at], batch_size=rows)
        batcher.enqueue(item, number)
        backlog.setdefault(item.tenant, []).append(item)
    order: list[FakeItem] = []
    while batcher.pending_count:
        order += batcher.next_batch(1000).batch
    weight_of = {items[0].tenant: items[0].weight for items in backlog.values()}
    for tenant, items in backlog.items():
        assert [i for i in order if i.tenant == tenant] == items
        # By start-time fair queueing's bound: what others get before the n-th request of a tenant.
        own_rows = 0
        for item in items:
            before = order[: order.index(item)]
            for other, weight in weight_of.items():
                got = sum(i.batch_size for i in before if i.tenant == other)
                due = own_rows / weight_of[tenant] * weight
                assert other == tenant or got <= due + 4 + 1e-6
            own_rows += item.batch_size


def test_a_thousand_tenants_that_come_and_go_are_forgotten():
    batcher: DynamicBatcher = DynamicBatcher(1)
    batcher.enqueue(of("steady", 0), 0)
    for at in range(1000):
        batcher.enqueue(FakeItem(str(at), tenant=f"t{at}"), at)
        batcher.enqueue(of("steady", at), at)
        batcher.next_batch(at)
        batcher.next_batch(at)
    assert len(batcher._fair._tenants) < 200


def test_what_is_given_up_comes_in_the_order_it_would_be_served():
    batcher: DynamicBatcher = DynamicBatcher(1)
    for tenant, number in ("a0", "a1", "b0", "a2", "b1"):
        batcher.enqueue(of(tenant, int(number)), 0)
    assert [each.name for each in batcher.clear()] == ["a0", "b0", "a1", "b1", "a2"]
    assert batcher.pending_count == 0
    batcher.enqueue(of("c", 0), 0)
    assert [each.name for each in batcher.next_batch(0).batch] == ["c0"]


def test_a_batcher_without_levels_has_one():
    rules = rules_of(DynamicBatching())
    assert (rules.level_count, rules.default_level) == (1, 1)
