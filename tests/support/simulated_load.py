# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Arrivals and service times for clusters of pools, and one central queue to compare with."""

import heapq
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from deployments.scheduling.dynamic_batcher import DynamicBatcher
from deployments.scheduling.pool_queue import PoolQueue
from deployments.scheduling.pool_scheduler import SharedScheduler
from deployments.scheduling.scheduler import DefaultScheduler, Scheduler
from tests.support.simulated_nodes import NETWORK_NS, Arrival, Clock, Cluster, Ticket

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


def central_with_messages(arrivals: Sequence[Arrival], instance_count: int) -> dict[int, int]:
    """Return the response times of one central queue on another node, without batches.

    A request takes the way there, to its router, to the instance and back; after an execution
    an instance waits for DONE, the grant, and the request.
    """
    pause_ns = 3 * NETWORK_NS
    return _first_come_first_served(arrivals, instance_count, pause_ns, 4 * NETWORK_NS)


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
    """

    mean_ms: float
    p99_ms: float

    def over(self, other: "Outcome") -> tuple[float, float]:
        return self.mean_ms / other.mean_ms, self.p99_ms / other.p99_ms


class Comparison(NamedTuple):
    """A cell's outcomes.

    Attributes:
        pools: Of the pools.
        by_node: Of a central queue for each node's share.
        central: Of a central queue for the whole cluster.
        with_messages: Of a central queue for the whole cluster that is reached by messages; where
            requests batch, the same as `central`.
        service_ms: Mean execution time of a request by itself.
        counts: Of the pools, by what is counted, for each request.
    """

    pools: Outcome
    by_node: Outcome
    central: Outcome
    with_messages: Outcome
    service_ms: float
    counts: dict[str, float]


def compare(cell: Cell, count: int, seed: int) -> Comparison:
    """Simulate a cell with the same arrivals and service times for all policies."""
    arrivals = arrivals_of(cell, count, seed)
    cluster = Cluster(cell.make_scheduler, execution_ns, NODES, INSTANCES)
    cluster.run(arrivals)
    by_node: dict[int, int] = {}
    for node in range(NODES):
        share = [each for each in arrivals if each[1] % NODES == node]
        by_node |= central(cell, share, INSTANCES)
    whole = central(cell, arrivals, NODES * INSTANCES)
    by_message = whole if cell.is_batching else central_with_messages(arrivals, NODES * INSTANCES)
    # The queues fill up first.
    counted = arrivals[count // 10 :]
    names = ("remote", "lease", "move", "message")
    return Comparison(
        _outcome(cluster.responses_ns, counted),
        _outcome(by_node, counted),
        _outcome(whole, counted),
        _outcome(by_message, counted),
        sum(each[2] for each in counted) / len(counted) / 1e6,
        {name: getattr(cluster, f"{name}_count") / count for name in names},
    )


def _outcome(responses: dict[int, int], counted: Sequence[Arrival]) -> Outcome:
    times = sorted(responses[id(each)] for each in counted)
    return Outcome(sum(times) / len(times) / 1e6, times[int(len(times) * 0.99)] / 1e6)
