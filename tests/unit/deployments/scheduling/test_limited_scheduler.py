# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Schedulers under the rate limiter: several instances and one arbiter on virtual time."""

import heapq
import itertools
from collections.abc import Callable

import pytest

from backends.api.errors import UnavailableError
from backends.api.model_config import QueuePolicy
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.rate_limiter.arbiter import (
    ClaimEvent,
    ClaimPhase,
    Resource,
    ResourceArbiter,
    ResourceDemand,
)
from deployments.scheduling.default_scheduler import DefaultScheduler
from deployments.scheduling.dynamic_batcher import DynamicBatcher
from deployments.scheduling.limited_scheduler import LimitedScheduler
from deployments.scheduling.priority_queue import QueueRules
from deployments.scheduling.scheduler import Scheduler
from tests.support.queued_items import FakeItem
from tests.support.sequence_items import batcher, part

R = Resource(0, "R")
ONE = ResourceDemand({R: 1})


class Node:
    """Instances that execute for a while each time they may, and an arbiter among them."""

    def __init__(self, execution_us: int = 100) -> None:
        self.arbiter = ResourceArbiter()
        self.execution_ns = execution_us * 1000
        self.now_ns = 0
        self.instances: dict[str, Instance] = {}
        self.left: list[tuple[int, str, list[str]]] = []
        self.dropped: list[tuple[int, str]] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def add(
        self,
        name: str,
        inner: Scheduler,
        demand: ResourceDemand = ONE,
        *,
        takes_first: bool = False,
    ) -> "Instance":
        self.arbiter.join(name, demand)
        self.instances[name] = Instance(self, name, inner, takes_first)
        return self.instances[name]

    def at(self, at_us: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (int(at_us * 1000), next(self._order), action))

    def arrive(self, at_us: float, name: str, item: FakeItem) -> None:
        self.at(at_us, lambda: self.instances[name].enqueue(item))

    def say(self, name: str, event: ClaimEvent) -> None:
        for granted in self.arbiter.apply(name, event):
            self.at(self.now_ns / 1000, self.instances[granted].step)

    def run(self) -> list[tuple[int, str, list[str]]]:
        while self._events:
            self.now_ns, _, action = heapq.heappop(self._events)
            action()
        return self.left


class Instance:
    """Asks its scheduler as the executor does, and is its grant."""

    def __init__(self, node: Node, name: str, inner: Scheduler, takes_first: bool) -> None:
        self.node = node
        self.name = name
        self.scheduler = LimitedScheduler(inner, self, takes_first=takes_first)
        self.free_ns = 0

    @property
    def is_held(self) -> bool:
        return self.node.arbiter.phase(self.name) is ClaimPhase.HOLDING

    def ask(self) -> None:
        if self.node.arbiter.phase(self.name) is ClaimPhase.IDLE:
            self.node.say(self.name, ClaimEvent.ASK)

    def done(self, *, ask_again: bool) -> None:
        self.node.say(self.name, ClaimEvent.DONE_AND_ASK if ask_again else ClaimEvent.DONE)

    def decline(self) -> None:
        self.node.say(self.name, ClaimEvent.DECLINE)

    def enqueue(self, item: FakeItem) -> None:
        item.enqueue_ns = self.node.now_ns
        if self.scheduler.enqueue(item, self.node.now_ns):
            self.step()

    def step(self) -> None:
        node = self.node
        if node.now_ns < self.free_ns:
            return
        decision = self.scheduler.next_batch(node.now_ns)
        node.dropped += [(node.now_ns // 1000, item.name) for item, _ in decision.dropped]
        if decision.batch:
            assert self.is_held
            names = [getattr(item, "name", repr(item)) for item in decision.batch]
            node.left.append((node.now_ns // 1000, self.name, names))
            self.free_ns = node.now_ns + node.execution_ns
            node.at(self.free_ns / 1000, self.step)
        elif decision.wake_at_ns is not None:
            node.at(decision.wake_at_ns / 1000, self.step)


def test_executions_that_need_the_same_resource_never_overlap():
    node = Node()
    for name in ("a", "b"):
        node.add(name, DefaultScheduler())
        for index in range(3):
            node.arrive(0, name, FakeItem(f"{name}{index}"))
    assert node.run() == [
        (0, "a", ["a0"]),
        (100, "b", ["b0"]),
        (200, "a", ["a1"]),
        (300, "b", ["b1"]),
        (400, "a", ["a2"]),
        (500, "b", ["b2"]),
    ]
    assert not node.arbiter.held


def test_priority_two_executes_half_as_often_while_both_have_requests():
    node = Node()
    node.add("a", DefaultScheduler(), ResourceDemand({R: 4}, 1))
    node.add("b", DefaultScheduler(), ResourceDemand({R: 2}, 2))
    for index in range(60):
        node.arrive(0, "a", FakeItem(f"a{index}"))
        node.arrive(0, "b", FakeItem(f"b{index}"))
    first = [name for _, name, _ in node.run()[:60]]
    assert first.count("a") == 2 * first.count("b")


def test_batches_grow_while_they_wait_for_resources():
    # Triton: qa/L0_rate_limiter, test_single_model_dynamic_batching.
    node = Node(execution_us=1000)
    for name in ("0", "1"):
        node.add(name, DynamicBatcher(4, (1, 2, 3, 4), 5_000_000))
    for index in range(40):
        node.arrive(index * 100, str(index % 2), FakeItem(str(index)))
    sizes = [len(names) for _, _, names in node.run()]
    assert sum(sizes) == 40
    assert sizes[1:-1] == [4] * (len(sizes) - 2)


def test_a_batch_that_waits_for_its_delay_holds_nothing():
    node = Node()
    node.add("slow", DynamicBatcher(4, (), 1000))
    node.add("quick", DefaultScheduler())
    node.arrive(0, "slow", FakeItem("s"))
    node.arrive(10, "quick", FakeItem("q"))
    assert node.run() == [(10, "quick", ["q"]), (1000, "slow", ["s"])]


def test_a_request_that_waits_for_resources_expires_in_its_queue():
    node = Node(execution_us=1000)
    rules = QueueRules(QueuePolicy(default_timeout_us=300))
    node.add("first", DefaultScheduler())
    waiting = node.add("waiting", DynamicBatcher(1, rules=rules))
    node.arrive(0, "first", FakeItem("f"))
    node.arrive(10, "waiting", FakeItem("w"))
    node.at(310, lambda: expire(waiting))
    expired = []

    def expire(instance: Instance) -> None:
        expired.extend(instance.scheduler.expire(node.now_ns))

    assert node.run() == [(0, "first", ["f"])]
    ((item, error),) = expired
    assert item.name == "w"
    assert isinstance(error, UnavailableError)
    assert not node.arbiter.held


def test_a_cancelled_request_leaves_its_queue_before_its_resources_are_there():
    node = Node(execution_us=1000)
    node.add("first", DefaultScheduler())
    waiting = node.add("waiting", DynamicBatcher(4))
    cancelled = FakeItem("c")
    node.arrive(0, "first", FakeItem("f"))
    node.arrive(10, "waiting", cancelled)

    def cancel() -> None:
        cancelled.is_cancelled = True
        waiting.step()

    node.at(20, cancel)
    assert node.run() == [(0, "first", ["f"])]
    assert node.dropped == [(20, "c")]
    assert not node.arbiter.held


def test_a_sequence_executes_in_order_between_others():
    node = Node()
    node.add("sequences", batcher(1), takes_first=True)
    node.add("other", DefaultScheduler())
    parts = [part(7, flags) for flags in (SEQUENCE_START, 0, SEQUENCE_END)]
    for each in parts:
        node.arrive(0, "sequences", each)
        node.arrive(0, "other", FakeItem("o"))
    left = node.run()
    names = [item for _, name, (item,) in left if name == "sequences"]
    assert names == [each.name for each in parts]
    assert [at for at, _, _ in left] == [0, 100, 200, 300, 400, 500]


@pytest.mark.parametrize("takes_first", [False, True])
def test_what_waits_for_resources_is_counted_and_given_up_with_the_rest(takes_first):
    node = Node()
    node.arbiter.join("holder", ONE, ClaimPhase.HOLDING)
    instance = node.add("waiting", DefaultScheduler(), takes_first=takes_first)
    items = [FakeItem("a"), FakeItem("b")]
    for item in items:
        node.arrive(0, "waiting", item)
    assert node.run() == []
    assert instance.scheduler.pending_count == 2
    assert instance.scheduler.clear() == items
    assert instance.scheduler.pending_count == 0
