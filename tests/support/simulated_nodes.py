# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster of pools in virtual time: holders, routers and instances with the real policies.

Messages take 50 us within a node and, if not said otherwise, 200 us between nodes; within the
holder's process they take nothing. A request of the holder's own router goes to the instance with
BATCH, any other one as the part that its router sends upon GRANT. An instance is free for the queue
when its DONE has come.
"""

from collections.abc import Callable, Sequence
from random import Random

from deployments.pool_queue.load_reports import answered
from deployments.pool_queue.messages import Load
from deployments.routing.node_choice import (
    asked_in_vain,
    choose,
    for_lease,
    take_back,
    to_ask,
)
from deployments.routing.node_view import NodeView
from deployments.scheduling.default_scheduler import DefaultScheduler
from deployments.scheduling.pool_queue import PoolQueue
from deployments.scheduling.pool_scheduler import SharedScheduler
from deployments.scheduling.scheduler import Scheduler
from tests.support.simulated_clock import Clock

LOCAL_NS = 50_000
NETWORK_NS = 200_000
# A holder tells a router of its load with grants and leases, at most once in this time.
HINT_NS = 10_000_000
# And when a ticket has to wait, at most once in this time.
WAIT_HINT_NS = 1_000_000
# A router that has asked looks so often whether its requests still wait.
QUESTION_NS = 2_000_000

# When it comes, at which router, and a sample of the service time.
Arrival = tuple[int, int, float]


class Ticket:
    """A request that waits at a node; one for each time it is sent there."""

    __slots__ = (
        "enqueue_ns", "is_cancelled", "is_granted", "is_withdrawn", "request", "router",
    )  # fmt: skip

    batch_size = 1
    request_id = ""
    timeout_us = 0
    priority = 0
    tenant = ""
    weight = 1.0
    signature: object = None

    def __init__(self, request: Arrival, router: "Router | None") -> None:
        self.request = request
        self.router = router
        self.enqueue_ns = 0
        self.is_cancelled = False
        self.is_granted = False
        self.is_withdrawn = False


class Holder:
    """The holder of a node: the queue of its pool, and its instances."""

    def __init__(
        self, cluster: "Cluster", node: int, instance_count: int, scheduler: Scheduler[Ticket]
    ) -> None:
        self.node = node
        self._cluster = cluster
        self._clock = cluster.clock
        self._queue: PoolQueue[Ticket] = PoolQueue(SharedScheduler(scheduler))
        for index in range(instance_count):
            self._queue.join(f"{node}.{index}")
        self._is_leasing = isinstance(scheduler, DefaultScheduler)
        self._withdrawn_count = 0
        self._hinted_ns: dict[Router, int] = {}
        self._askers: dict[Router, None] = {}

    @property
    def load(self) -> Load:
        queue = self._queue
        return Load(
            "m",
            1,
            queue.pending_count - self._withdrawn_count,
            queue.free_count,
            len(queue.instances),
            queue.mean_execution_ns,
            queue.mean_batch_size,
        )

    def ticket(self, ticket: Ticket) -> None:
        ticket.enqueue_ns = self._clock.now_ns
        if self._queue.enqueue(ticket, self._clock.now_ns):
            self._look()
        router = ticket.router
        if not ticket.is_granted and router is not None and not router.holds(self):
            self._tell(router, WAIT_HINT_NS)

    def withdraw(self, ticket: Ticket) -> bool:
        if ticket.is_granted:
            return False
        ticket.is_cancelled = True
        self._withdrawn_count += 1
        return True

    def ask(self, router: "Router") -> None:
        self._askers[router] = None
        self._answer()

    def ask_no_more(self, router: "Router") -> None:
        self._askers.pop(router, None)

    def lease_used(self, router: "Router", number: int, instance: str, request: Arrival) -> None:
        """Execute a request that its router sends by a lease."""
        self._cluster.lease_count += 1
        self._execute(number, instance, [(router, [Ticket(request, router)])], 0)

    def lease_ended(self, number: int, instance: str) -> None:
        self._queue.give_back(instance, number)
        self._look()

    def _look(self) -> None:
        actions = self._queue.next(self._clock.now_ns)
        self._withdrawn_count -= len(actions.dropped)
        for batch in actions.batches:
            self._grant(batch.number, batch.instance, batch.decision.batch)
        if actions.wake_at_ns is not None:
            self._clock.after(actions.wake_at_ns - self._clock.now_ns, self._look)
        if not actions.batches:
            self._answer()

    def _grant(self, number: int, instance: str, batch: list[Ticket]) -> None:
        shares: dict[Router, list[Ticket]] = {}
        for ticket in batch:
            ticket.is_granted = True
            assert ticket.router is not None
            shares.setdefault(ticket.router, []).append(ticket)
        slowest_ns = 0
        for router, tickets in shares.items():
            way_ns = router.way_ns(self)
            slowest_ns = max(slowest_ns, way_ns)
            if way_ns:
                self._clock.after(way_ns, router.granted, self, tickets)
                self._tell(router, HINT_NS)
            else:
                router.granted(self, tickets)
        self._execute(number, instance, list(shares.items()), slowest_ns)

    def _execute(
        self,
        number: int,
        instance: str,
        shares: list[tuple["Router", list[Ticket]]],
        grant_ns: int,
    ) -> None:
        samples = [ticket.request[2] for _, tickets in shares for ticket in tickets]
        execution_ns = self._cluster.execution_ns(samples)
        part_ns = max(grant_ns, *(router.instance_way_ns(self) for router, _ in shares))
        if grant_ns:
            part_ns = max(
                router.way_ns(self) + router.instance_way_ns(self) for router, _ in shares
            )
        end_ns = part_ns + execution_ns
        for router, tickets in shares:
            is_remote = router.node != self.node
            answered_ns = self._clock.now_ns + end_ns + router.instance_way_ns(self)
            for ticket in tickets:
                self._cluster.answered(ticket.request, answered_ns, is_remote=is_remote)
        self._clock.after(end_ns + LOCAL_NS, self._done, instance, number, execution_ns)

    def _done(self, instance: str, number: int, execution_ns: int) -> None:
        self._queue.executed(instance, number, execution_ns, self._clock.now_ns)
        self._look()

    def _tell(self, router: "Router", period_ns: int) -> None:
        now_ns = self._clock.now_ns
        if now_ns - self._hinted_ns.get(router, -period_ns) < period_ns:
            return
        self._hinted_ns[router] = now_ns
        load = self.load
        if load.is_free:
            self._askers.pop(router, None)
        self._cluster.message_count += 1
        self._clock.after(router.way_ns(self), router.learned, self, load)

    def _answer(self) -> None:
        if not self._askers:
            return
        load = self.load
        for router in answered(self._askers, load):
            self._cluster.message_count += 1
            if not self._is_leasing:
                self._clock.after(router.way_ns(self), router.learned, self, load)
                continue
            batch = self._queue.lease()
            assert batch is not None
            leased = self, batch.number, batch.instance
            self._clock.after(router.way_ns(self), router.leased, *leased)
            self._tell(router, HINT_NS)


class Router:
    """An ingress' router; the first one of a node shares its process with the node's holder."""

    def __init__(self, cluster: "Cluster", index: int, holders: Sequence[Holder]) -> None:
        self.node = index % len(holders)
        self._is_first = index < len(holders)
        self._cluster = cluster
        self._clock = cluster.clock
        self._random = Random(index)
        self._holders: dict[NodeView, Holder] = {}
        self._views: dict[Holder, NodeView] = {}
        self._waiting: dict[NodeView, dict[Ticket, None]] = {}
        self._watches_questions = False
        own = holders[self.node]
        for holder in (own, *(each for each in holders if each is not own)):
            queue = holder if self.holds(holder) else None
            view = NodeView(str(holder.node), is_own=holder is own, queue=queue)
            self._holders[view] = holder
            self._views[holder] = view
            self._waiting[view] = {}
        self._all_views = list(self._holders)

    def holds(self, holder: Holder) -> bool:
        return self._is_first and holder.node == self.node

    def way_ns(self, holder: Holder) -> int:
        if holder.node != self.node:
            return self._cluster.network_ns
        return 0 if self._is_first else LOCAL_NS

    def instance_way_ns(self, holder: Holder) -> int:
        return LOCAL_NS if holder.node == self.node else self._cluster.network_ns

    def arrived(self, request: Arrival) -> None:
        view = choose(self._all_views, self._clock.now_ns, self._random)
        view.sent()
        self._send(request, view)
        # The ticket of another process may be granted at once; if not, LOAD comes.
        if view.queue is not None and view.waiting_count:
            self._ask()

    def granted(self, holder: Holder, tickets: list[Ticket]) -> None:
        view = self._views[holder]
        for ticket in tickets:
            if not ticket.is_withdrawn:
                del self._waiting[view][ticket]
                view.waiting_count -= 1

    def learned(self, holder: Holder, load: Load) -> None:
        now_ns = self._clock.now_ns
        self._views[holder].learned(load, now_ns)
        for move in take_back(self._all_views, now_ns):
            for _ in range(move.request_count):
                move.target.promised()
                self._move(move.source, move.target)
        self._ask()

    def leased(self, holder: Holder, number: int, instance: str) -> None:
        lessor = self._views[holder]
        lessor.asked_ns = None
        source = for_lease(self._all_views, lessor, self._clock.now_ns)
        if source is None:
            self._clock.after(self.way_ns(holder), holder.lease_ended, number, instance)
            return

        def withdrawn(ticket: Ticket, *, is_free: bool) -> None:
            if is_free:
                holder.lease_used(self, number, instance, ticket.request)
            else:
                self._clock.after(self.way_ns(holder), holder.lease_ended, number, instance)

        self._withdraw(source, withdrawn)
        self._ask()

    def _send(self, request: Arrival, view: NodeView) -> None:
        ticket = Ticket(request, self)
        self._waiting[view][ticket] = None
        self._reach(self._holders[view], self._holders[view].ticket, ticket)

    def _move(self, source: NodeView, target: NodeView) -> None:
        def withdrawn(ticket: Ticket, *, is_free: bool) -> None:
            if is_free:
                target.sent(was_promised=True)
                self._send(ticket.request, target)

        self._cluster.move_count += 1
        self._withdraw(source, withdrawn)

    def _withdraw(self, source: NodeView, done: Callable[..., None]) -> None:
        """Withdraw the oldest request that waits at a node."""
        ticket = next(iter(self._waiting[source]))
        del self._waiting[source][ticket]
        ticket.is_withdrawn = True
        source.waiting_count -= 1
        holder = self._holders[source]

        def reached() -> None:
            is_free = holder.withdraw(ticket)
            self._reach(holder, lambda: done(ticket, is_free=is_free))

        self._reach(holder, reached)

    def _ask(self) -> None:
        if not any(self._waiting.values()):
            self._ask_no_more()
            return
        for view in to_ask(self._all_views, self._clock.now_ns, self._random):
            holder = self._holders[view]
            self._cluster.message_count += 1
            self._clock.after(self.way_ns(holder), holder.ask, self)
            self._watch_questions()

    def _watch_questions(self) -> None:
        if not self._watches_questions:
            self._watches_questions = True
            self._clock.after(QUESTION_NS, self._look_at_questions)

    def _look_at_questions(self) -> None:
        self._watches_questions = False
        if any(self._waiting.values()):
            self._watch_questions()
        else:
            self._ask_no_more()

    def _ask_no_more(self) -> None:
        for view in asked_in_vain(self._all_views):
            holder = self._holders[view]
            self._cluster.message_count += 1
            self._clock.after(self.way_ns(holder), holder.ask_no_more, self)

    def _reach(self, holder: Holder, call: Callable[..., object], *arguments: object) -> None:
        """Let something happen when a message has reached a holder, or has come from there."""
        way_ns = self.way_ns(holder)
        if way_ns:
            self._clock.after(way_ns, call, *arguments)
        else:
            call(*arguments)


class Cluster:
    """Nodes with a pool of one model and two routers each.

    Args:
        make_scheduler: Makes the scheduler of a node's queue.
        execution_ns: How long a batch takes, of its requests' samples.
        node_count: Nodes.
        instance_count: Instances of each node.
        network_ns: How long a message takes to another node.

    Attributes:
        responses_ns: How long each request took, by its place among the arrivals.
        move_count: Requests that were taken back.
        lease_count: Requests that were sent by a lease.
        message_count: Messages only sent to ask and to tell.
        remote_count: Requests that were executed on another node.
    """

    def __init__(
        self,
        make_scheduler: Callable[[], Scheduler[Ticket]],
        execution_ns: Callable[[list[float]], int],
        node_count: int = 10,
        instance_count: int = 4,
        network_ns: int = NETWORK_NS,
    ) -> None:
        self.clock = Clock()
        self.network_ns = network_ns
        self.execution_ns = execution_ns
        self.holders = [
            Holder(self, node, instance_count, make_scheduler()) for node in range(node_count)
        ]
        self.routers = [Router(self, index, self.holders) for index in range(2 * node_count)]
        self.responses_ns: dict[int, int] = {}
        self.move_count = self.lease_count = self.message_count = self.remote_count = 0

    def run(self, arrivals: Sequence[Arrival]) -> None:
        for request in arrivals:
            self.clock.after(request[0], self.routers[request[1]].arrived, request)
        self.clock.run()

    def answered(self, request: Arrival, answered_ns: int, *, is_remote: bool) -> None:
        assert id(request) not in self.responses_ns, "a request is answered once"
        self.responses_ns[id(request)] = answered_ns - request[0]
        self.remote_count += is_remote
