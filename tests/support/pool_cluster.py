# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster of pools in virtual time: holders, routers and instances with the real policies.

Messages take 50 us within a node and 200 us between nodes; within the holder's process they take
nothing. A request of the holder's own router goes to the instance with BATCH, any other one as the
part that its router sends upon GRANT. An instance is free for the queue when its DONE has come.
"""

import heapq
from collections.abc import Callable, Sequence
from random import Random

from deployments.pool_queue.messages import Load
from deployments.routing.node_choice import choose, take_back, to_ask
from deployments.routing.node_view import NodeView
from deployments.scheduling.pool_queue import PoolQueue
from deployments.scheduling.pool_scheduler import SharedScheduler
from deployments.scheduling.scheduler import Decision, Scheduler

LOCAL_NS = 50_000
NETWORK_NS = 200_000
# A holder tells a router of its load with grants, at most once in this time.
HINT_NS = 10_000_000
LEASES = True
FULL = False
ASK_TELLS = False
WAIT_HINT_NS = 1_000_000

Arrival = tuple[int, int, float]


class Clock:
    """The events of the simulation, in the order of their instants."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.events: list = []
        self._count = 0

    def at(self, when_ns: int, call: Callable, *arguments: object) -> None:
        self._count = count = self._count + 1
        heapq.heappush(self.events, (when_ns, count, call, arguments))

    def run(self) -> None:
        events = self.events
        while events:
            self.now_ns, _, call, arguments = heapq.heappop(events)
            call(*arguments)


class Ticket:
    """A request that waits at a node; one for each time it is sent there."""

    __slots__ = (
        "batch_size", "enqueue_ns", "is_cancelled", "is_granted", "is_withdrawn", "request", "router",
    )  # fmt: skip

    request_id = ""
    timeout_us = 0
    priority = 0
    signature = None

    def __init__(self, request: Arrival, router: "Router") -> None:
        self.request = request
        self.router = router
        self.batch_size = 1
        self.enqueue_ns = 0
        self.is_cancelled = False
        self.is_granted = False
        self.is_withdrawn = False


class Holder:
    """The holder of a node: the queue of its pool, and its instances."""

    def __init__(
        self,
        cluster: "Cluster",
        node: int,
        instance_count: int,
        scheduler: Scheduler[Ticket],
    ) -> None:
        self.cluster = cluster
        self.clock = cluster.clock
        self.node = node
        self.instance_count = instance_count
        self.queue: PoolQueue[Ticket] = PoolQueue(SharedScheduler(scheduler))
        for index in range(instance_count):
            self.queue.join(f"{node}.{index}")
        self.cancelled_count = 0
        self.batch_size = 1.0
        self.hinted_ns: dict[Router, int] = {}
        self.asking: dict[Router, None] = {}
        self.wake_ns: int | None = None

    @property
    def load(self) -> Load:
        queue = self.queue
        return Load(
            "m",
            1,
            queue.pending_count - self.cancelled_count,
            queue.free_count,
            self.instance_count,
            queue.mean_execution_ns,
            8.0 if FULL and self.cluster.is_batching else self.batch_size,
        )

    def ticket(self, ticket: Ticket) -> None:
        ticket.enqueue_ns = self.clock.now_ns
        if self.queue.enqueue(ticket, self.clock.now_ns):
            self._decide()
        if not ticket.is_granted and not ticket.router.holds(self):
            self._tell_waiting(ticket.router)

    def _tell_waiting(self, router: "Router") -> None:
        now_ns = self.clock.now_ns
        if now_ns - self.hinted_ns.get(router, -HINT_NS) < WAIT_HINT_NS:
            return
        self.hinted_ns[router] = now_ns
        self.cluster.message_count += 1
        self.clock.at(now_ns + self.cluster.way_ns(router, self), router.learned, self, self.load)

    def withdraw(self, ticket: Ticket) -> bool:
        if ticket.is_granted:
            return False
        ticket.is_cancelled = True
        self.cancelled_count += 1
        return True

    def ask(self, router: "Router") -> None:
        """Take the question of a router that wants to hear of free instances."""
        self.asking[router] = None
        self._tell_asking()
        if ASK_TELLS and router in self.asking:
            self._tell_waiting(router)

    def _decide(self) -> None:
        now_ns = self.clock.now_ns
        actions = self.queue.next(now_ns)
        self.cancelled_count -= len(actions.dropped)
        for batch in actions.batches:
            self._send(batch.number, batch.instance, batch.decision.batch)
        wake_ns = actions.wake_at_ns
        if wake_ns is not None and wake_ns != self.wake_ns:
            self.wake_ns = wake_ns
            self.clock.at(wake_ns, self._decide)
        if self.asking and not actions.batches:
            self._tell_asking()

    def _send(self, number: int, instance: str, batch: list[Ticket]) -> None:
        now_ns = self.clock.now_ns
        self.batch_size += (len(batch) - self.batch_size) * 0.125
        by_router: dict[Router, list[Ticket]] = {}
        for ticket in batch:
            ticket.is_granted = True
            by_router.setdefault(ticket.router, []).append(ticket)
        begin_ns = now_ns
        for router, tickets in by_router.items():
            way_ns = self.cluster.way_ns(router, self)
            part_ns = now_ns + way_ns + self.cluster.instance_way_ns(router, self)
            begin_ns = max(begin_ns, part_ns)
            if way_ns:
                load = self._hint(router, now_ns)
                self.clock.at(now_ns + way_ns, router.granted, self, tickets, load)
            else:
                router.granted(self, tickets, None)
        execution_ns = self.cluster.execution_ns(batch)
        end_ns = begin_ns + execution_ns
        for router, tickets in by_router.items():
            answered_ns = end_ns + self.cluster.instance_way_ns(router, self)
            if router.node != self.node:
                self.cluster.remote_count += len(tickets)
            for ticket in tickets:
                self.cluster.answered(ticket.request, answered_ns)
        self.clock.at(end_ns + LOCAL_NS, self._done, instance, number, execution_ns)

    def _done(self, instance: str, number: int, execution_ns: int) -> None:
        self.queue.executed(instance, number, execution_ns, self.clock.now_ns)
        self._decide()

    def _hint(self, router: "Router", now_ns: int) -> Load | None:
        if now_ns - self.hinted_ns.get(router, -HINT_NS) < HINT_NS:
            return None
        self.hinted_ns[router] = now_ns
        load = self.load
        if load.free_count > load.waiting_count:
            self.asking.pop(router, None)
        return load

    def _tell_asking(self) -> None:
        load = self.load
        room = load.free_count - load.waiting_count
        now_ns = self.clock.now_ns
        if LEASES and not self.cluster.is_batching:
            self._lease()
            return
        while room > 0 and self.asking:
            router = next(iter(self.asking))
            del self.asking[router]
            room -= 1
            self.cluster.message_count += 1
            self.clock.at(now_ns + self.cluster.way_ns(router, self), router.learned, self, load)


    def _lease(self) -> None:
        if self.queue.pending_count - self.cancelled_count:
            return
        for instance in self.queue._order:
            if not self.asking: return
            if instance.batch_count: continue
            router = next(iter(self.asking))
            del self.asking[router]
            batch = self.queue._give(instance, Decision([]))
            self.cluster.message_count += 1
            self.clock.at(self.clock.now_ns + self.cluster.way_ns(router, self), router.leased, self, batch.number, instance.name, self.load)

    def lease_used(self, router, number, instance, request):
        took=self.cluster._execution([request[2]])
        end=self.clock.now_ns+self.cluster.instance_way_ns(router,self)+took
        self.cluster.answered(request,end+self.cluster.instance_way_ns(router,self))
        self.cluster.remote_count += router.node!=self.node
        self.cluster.lease_count+=1
        self.clock.at(end+LOCAL_NS,self._done,instance,number,took)

    def lease_back(self, router, number, instance):
        for i in self.queue._order:
            if i.name==instance: i.batches.pop(number)
        self.cluster.unused_count+=1
        self._decide()


class Router:
    """An ingress' router; the first one of a node shares its process with the node's holder."""

    def __init__(self, cluster: "Cluster", index: int, node: int, holders: Sequence[Holder], seed: int) -> None:
        self.cluster = cluster
        self.clock = cluster.clock
        self.node = node
        self.is_holder = index < len(holders)
        self.random = Random(seed * 1000 + index)
        ordered = [holders[node], *(each for each in holders if each.node != node)]
        self.holders: dict[NodeView, Holder] = {}
        self.views: dict[Holder, NodeView] = {}
        self.waiting: dict[NodeView, dict[Ticket, None]] = {}
        for holder in ordered:
            is_own = holder.node == node
            view = NodeView(
                str(holder.node), is_own=is_own, queue=holder if is_own and self.is_holder else None
            )
            self.holders[view] = holder
            self.views[holder] = view
            self.waiting[view] = {}
        self.all_views = list(self.holders)

    def arrived(self, request: Arrival) -> None:
        view = choose(self.all_views, self.clock.now_ns, self.random)
        view.sent()
        self._send(request, view)
        if view.queue is not None and view.waiting_count:
            self._ask()

    def holds(self, holder: Holder) -> bool:
        return self.is_holder and holder.node == self.node

    def granted(self, holder: Holder, tickets: list[Ticket], load: Load | None) -> None:
        view = self.views[holder]
        waiting = self.waiting[view]
        for ticket in tickets:
            if not ticket.is_withdrawn:
                del waiting[ticket]
                view.left()
        if load is not None:
            self.learned(holder, load)

    def learned(self, holder: Holder, load: Load) -> None:
        self.views[holder].learned(load, self.clock.now_ns)
        self._reconsider()

    def leased(self, holder, number, instance, load):
        view=self.views[holder]
        view.learned(load, self.clock.now_ns); view.asked_ns=None
        own=self.all_views[0]
        waiting=self.waiting[own]
        if not waiting:
            self.clock.at(self.clock.now_ns+self.cluster.way_ns(self,holder), holder.lease_back,self,number,instance)
            return
        ticket=next(iter(waiting)); del waiting[ticket]; ticket.is_withdrawn=True; own.left()
        oh=self.holders[own]; way=self.cluster.way_ns(self,oh)
        def free(ok):
            if ok: holder.lease_used(self,number,instance,ticket.request)
            else: self.clock.at(self.clock.now_ns+self.cluster.way_ns(self,holder), holder.lease_back,self,number,instance)
        if not way: free(oh.withdraw(ticket))
        else: self.clock.at(self.clock.now_ns+way, lambda: (lambda ok: self.clock.at(self.clock.now_ns+way, lambda: free(ok)))(oh.withdraw(ticket)))
        if waiting: self._ask()

    def _send(self, request: Arrival, view: NodeView) -> None:
        ticket = Ticket(request, self)
        self.waiting[view][ticket] = None
        holder = self.holders[view]
        way_ns = self.cluster.way_ns(self, holder)
        if way_ns:
            self.clock.at(self.clock.now_ns + way_ns, holder.ticket, ticket)
        else:
            holder.ticket(ticket)

    def _reconsider(self) -> None:
        now_ns = self.clock.now_ns
        for move in take_back(self.all_views, now_ns):
            waiting = self.waiting[move.source]
            for ticket in list(waiting)[: move.request_count]:
                del waiting[ticket]
                ticket.is_withdrawn = True
                move.source.left()
                move.target.sent()
                self.cluster.move_count += 1
                self._withdraw(ticket, move.source, move.target)
        if any(self.waiting.values()):
            self._ask()

    def _withdraw(self, ticket: Ticket, source: NodeView, target: NodeView) -> None:
        holder = self.holders[source]
        way_ns = self.cluster.way_ns(self, holder)
        if not way_ns:
            self._withdrawn(ticket, target, is_free=holder.withdraw(ticket))
            return

        def reached() -> None:
            is_free = holder.withdraw(ticket)
            self.clock.at(self.clock.now_ns + way_ns, lambda: self._withdrawn(ticket, target, is_free=is_free))

        self.clock.at(self.clock.now_ns + way_ns, reached)

    def _withdrawn(self, ticket: Ticket, target: NodeView, *, is_free: bool) -> None:
        if is_free:
            self._send(ticket.request, target)
        else:
            target.left()

    def _ask(self) -> None:
        now_ns = self.clock.now_ns
        for view in to_ask(self.all_views, now_ns, self.random):
            holder = self.holders[view]
            self.cluster.message_count += 1
            self.clock.at(now_ns + self.cluster.way_ns(self, holder), holder.ask, self)


class Cluster:
    """Nodes with a pool of a model and two routers each.

    Args:
        scheduler: Makes the scheduler of a node's queue.
        execution: How long a batch takes, of its requests' samples.
        seed: Of the routers' choices.
    """

    def __init__(
        self,
        scheduler: Callable[[], Scheduler[Ticket]],
        execution: Callable[[list[float]], int],
        node_count: int = 10,
        instance_count: int = 4,
        seed: int = 1,
    ) -> None:
        self.clock = Clock()
        self._execution = execution
        self.is_batching = scheduler().__class__.__name__ != 'DefaultScheduler'
        self.holders = [Holder(self, node, instance_count, scheduler()) for node in range(node_count)]
        self.routers = [
            Router(self, index, index % node_count, self.holders, seed) for index in range(2 * node_count)
        ]
        self.responses_ns: dict[int, int] = {}
        self.move_count = 0
        self.message_count = 0
        self.lease_count=self.unused_count=0
        self.remote_count = 0

    def run(self, arrivals: Sequence[Arrival]) -> None:
        """Let requests arrive: (instant, router, sample of the service time)."""
        at, routers = self.clock.at, self.routers
        for request in arrivals:
            at(request[0], routers[request[1]].arrived, request)
        self.clock.run()

    def way_ns(self, router: Router, holder: Holder) -> int:
        if router.node != holder.node:
            return NETWORK_NS
        return 0 if router.is_holder else LOCAL_NS

    def instance_way_ns(self, router: Router, holder: Holder) -> int:
        return LOCAL_NS if router.node == holder.node else NETWORK_NS

    def execution_ns(self, batch: list[Ticket]) -> int:
        return self._execution([each.request[2] for each in batch])

    def answered(self, request: Arrival, answered_ns: int) -> None:
        self.responses_ns[id(request)] = answered_ns - request[0]
