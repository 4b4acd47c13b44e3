# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Arrivals and service times for clusters of pools, and what to compare them with.

One central queue needs no messages. What no policy can do without, as a request stays in its router
until it is executed, has the *informed* queue: requests go to instances and answers come back, and
an instance that is free says so, and waits for the grant and the request. It knows all that happens
anywhere at once, so nothing is asked and nothing told, and executes on its own node what it can.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from deployments.scheduling.default_scheduler import DefaultScheduler
from deployments.scheduling.dynamic_batcher import DynamicBatcher
from deployments.scheduling.pool_queue import PoolQueue
from deployments.scheduling.pool_scheduler import SharedScheduler
from deployments.scheduling.scheduler import Scheduler
from tests.support.simulated_clock import Clock
from tests.support.simulated_nodes import LOCAL_NS, NETWORK_NS, Arrival, Cluster, Ticket

NODES: Final = 10
INSTANCES: Final = 4
ROUTERS: Final = 20
MEAN_NS: Final = 10_000_000.0
_MAX_BATCH: Final = 8
# An execution of a full batch takes this many times that of one request.
_FULL_BATCH: Final = 2.0
_PARETO_ALPHA: Final = 2.2

SERVICES: Final[dict[str, Callable[[Random], float]]] = {
    "constant": lambda random: MEAN_NS,
    "exponential": lambda random: random.expovariate(1 / MEAN_NS),
    "pareto": lambda random: (
        random.paretovariate(_PARETO_ALPHA) * MEAN_NS * (_PARETO_ALPHA - 1) / _PARETO_ALPHA
    ),
    # Its squared coefficient of variation is 10.
    "lognormal": lambda random: random.lognormvariate(-1.1989, 1.5485) * MEAN_NS,
}


class Cell(NamedTuple):
    """What is simulated: the load of the cluster, and how requests come and are served."""

    load: float
    service: str
    is_uneven: bool = False
    is_batching: bool = False
    network_ns: int = NETWORK_NS

    @property
    def make_scheduler(self) -> Callable[[], Scheduler[Ticket]]:
        return _batcher if self.is_batching else DefaultScheduler


def _batcher() -> Scheduler[Ticket]:
    return DynamicBatcher(_MAX_BATCH)


def execution_ns(samples: list[float]) -> int:
    """Return how long a batch takes: the mean of its requests, more the larger it is."""
    count = len(samples)
    growth = 1 + (_FULL_BATCH - 1) * (count - 1) / (_MAX_BATCH - 1)
    return int(sum(samples) / count * growth)


def arrivals_of(cell: Cell, count: int, seed: int) -> list[Arrival]:
    """Return requests in the order of their instants: Poisson at each router."""
    random = Random(seed)
    capacity = NODES * INSTANCES / MEAN_NS
    if cell.is_batching:
        capacity *= _MAX_BATCH / _FULL_BATCH
    rate = capacity * cell.load
    sample = SERVICES[cell.service]
    now_ns, arrivals = 0.0, []
    for _ in range(count):
        now_ns += random.expovariate(rate)
        router = random.randrange(ROUTERS)
        if cell.is_uneven:
            # Half of all requests come to the routers of one node.
            node = 0 if random.random() < 0.5 else 1 + random.randrange(NODES - 1)
            router = node + NODES * random.randrange(2)
        arrivals.append((int(now_ns), router, sample(random)))
    return arrivals


def central(cell: Cell, arrivals: Sequence[Arrival], instance_count: int) -> dict[int, int]:
    """Return the response times of one central queue that needs no messages, by request."""
    if cell.is_batching:
        return _central_batches(arrivals, instance_count, cell.make_scheduler())
    return _first_come_first_served(arrivals, instance_count, 0, 0)


class _Informed:
    """The informed queue, without batches."""

    def __init__(self, node_count: int, instance_count: int, network_ns: int) -> None:
        self._network_ns = network_ns
        self.responses: dict[int, int] = {}
        self._clock = Clock()
        self._nodes = range(node_count)
        self._free = [instance_count] * node_count
        self._waiting: list[deque[Arrival]] = [deque() for _ in self._nodes]

    def run(self, arrivals: Sequence[Arrival]) -> None:
        for request in arrivals:
            self._clock.after(request[0], self._arrived, request)
        self._clock.run()

    def _arrived(self, request: Arrival) -> None:
        home = request[1] % len(self._nodes)
        node = home if self._free[home] else max(self._nodes, key=self._free.__getitem__)
        if not self._free[node]:
            self._waiting[home].append(request)
            return
        self._free[node] -= 1
        self._start(request, node, 0)

    def _start(self, request: Arrival, node: int, grant_ns: int) -> None:
        is_own = request[1] % len(self._nodes) == node
        way_ns = LOCAL_NS if is_own else self._network_ns
        end_ns = grant_ns + way_ns + int(request[2])
        self.responses[id(request)] = self._clock.now_ns + end_ns + way_ns - request[0]
        self._clock.after(end_ns + LOCAL_NS, self._done, node)

    def _done(self, node: int) -> None:
        home = node if self._waiting[node] else min(self._nodes, key=self._oldest_ns)
        if not self._waiting[home]:
            self._free[node] += 1
            return
        request = self._waiting[home].popleft()
        # The first router of a node shares the holder's process.
        is_first = request[1] < len(self._nodes)
        grant_ns = self._network_ns if home != node else 0 if is_first else LOCAL_NS
        self._start(request, node, grant_ns)

    def _oldest_ns(self, node: int) -> float:
        waiting = self._waiting[node]
        return waiting[0][0] if waiting else math.inf


def informed(
    arrivals: Sequence[Arrival], node_count: int, instance_count: int, network_ns: int = NETWORK_NS
) -> dict[int, int]:
    """Return the response times of the informed queue, without batches."""
    queue = _Informed(node_count, instance_count, network_ns)
    queue.run(arrivals)
    return queue.responses


def no_messages_but_within_nodes(
    arrivals: Sequence[Arrival], instance_count: int
) -> dict[int, int]:
    """Return the response times of one central queue whose every instance is a neighbour.

    No policy is faster whose instances are processes of their own and get the next request when
    they are done: a request takes the way to its instance and its answer that back, and an instance
    waits for both ways between two executions.
    """
    return _first_come_first_served(arrivals, instance_count, 2 * LOCAL_NS, 2 * LOCAL_NS)


def _first_come_first_served(
    arrivals: Sequence[Arrival], instance_count: int, pause_ns: int, way_ns: int
) -> dict[int, int]:
    free = [0] * instance_count
    responses: dict[int, int] = {}
    for request in arrivals:
        end_ns = max(request[0], free[0]) + int(request[2])
        heapq.heapreplace(free, end_ns + pause_ns)
        responses[id(request)] = end_ns + way_ns - request[0]
    return responses


def _central_batches(
    arrivals: Sequence[Arrival], instance_count: int, scheduler: Scheduler[Ticket]
) -> dict[int, int]:
    clock, responses = Clock(), {}
    queue: PoolQueue[Ticket] = PoolQueue(SharedScheduler(scheduler))
    for index in range(instance_count):
        queue.join(str(index))

    def arrive(request: Arrival) -> None:
        ticket = Ticket(request, None)
        ticket.enqueue_ns = clock.now_ns
        if queue.enqueue(ticket, clock.now_ns):
            decide()

    def done(instance: str, number: int, took_ns: int) -> None:
        queue.executed(instance, number, took_ns, clock.now_ns)
        decide()

    def decide() -> None:
        for batch in queue.next(clock.now_ns).batches:
            requests = [each.request for each in batch.decision.batch]
            took_ns = execution_ns([each[2] for each in requests])
            for request in requests:
                responses[id(request)] = clock.now_ns + took_ns - request[0]
            clock.after(took_ns, done, batch.instance, batch.number, took_ns)

    for request in arrivals:
        clock.after(request[0], arrive, request)
    clock.run()
    return responses


class Outcome(NamedTuple):
    """What requests got of one policy, in milliseconds.

    Attributes:
        mean_ms: Mean response time.
        p99_ms: Its 99th percentile.
        wait_ms: Mean time that a request waits or is on its way: the response time without the
            execution.
    """

    mean_ms: float
    p99_ms: float
    wait_ms: float

    def over(self, other: "Outcome") -> tuple[float, float]:
        return self.mean_ms / other.mean_ms, self.p99_ms / other.p99_ms


class Comparison(NamedTuple):
    """A cell's outcomes.

    Attributes:
        pools: Of the pools.
        by_node: Of a central queue for each node's share.
        central: Of a central queue for the whole cluster.
        bound: Of one queue for the whole cluster whose every instance is a neighbour.
        informed: Of the informed queue. Where requests batch, both are the same as `central`.
        counts: Of the pools, by what is counted, for each request.
    """

    pools: Outcome
    by_node: Outcome
    central: Outcome
    bound: Outcome
    informed: Outcome
    counts: dict[str, float]


def compare(cell: Cell, count: int, seed: int) -> Comparison:
    """Simulate a cell with the same arrivals and service times for all policies."""
    arrivals = arrivals_of(cell, count, seed)
    cluster = Cluster(cell.make_scheduler, execution_ns, NODES, INSTANCES, cell.network_ns)
    cluster.run(arrivals)
    by_node: dict[int, int] = {}
    for node in range(NODES):
        share = [each for each in arrivals if each[1] % NODES == node]
        by_node |= central(cell, share, INSTANCES)
    whole = central(cell, arrivals, NODES * INSTANCES)
    bound = all_informed = whole
    if not cell.is_batching:
        bound = no_messages_but_within_nodes(arrivals, NODES * INSTANCES)
        all_informed = informed(arrivals, NODES, INSTANCES, cell.network_ns)
    # The queues fill up first.
    counted = arrivals[count // 10 :]
    names = ("remote", "lease", "move", "message")
    return Comparison(
        _outcome(cluster.responses_ns, counted),
        _outcome(by_node, counted),
        _outcome(whole, counted),
        _outcome(bound, counted),
        _outcome(all_informed, counted),
        {name: getattr(cluster, f"{name}_count") / count for name in names},
    )


def _outcome(responses: dict[int, int], counted: Sequence[Arrival]) -> Outcome:
    times = sorted(responses[id(each)] for each in counted)
    mean_ms = sum(times) / len(times) / 1e6
    service_ms = sum(each[2] for each in counted) / len(counted) / 1e6
    return Outcome(mean_ms, times[int(len(times) * 0.99)] / 1e6, mean_ms - service_ms)
