# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Items for schedulers, and drivers on virtual time that play an instance, and a pool of them."""

import functools
import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from backends.api.errors import TritonError
from backends.api.model_config import DynamicBatching, ModelConfig
from deployments.scheduling.factory import make_feeder, make_pool_scheduler
from deployments.scheduling.holds import NO_HOLDS, Holds
from deployments.scheduling.pool_queue import Actions, Batch, PoolQueue
from deployments.scheduling.scheduler import Scheduler


@dataclass(eq=False)
class FakeItem:
    name: str
    batch_size: int = 1
    signature: object = None
    enqueue_ns: int = 0
    timeout_us: int = 0
    priority: int = 0
    tenant: str = ""
    weight: float = 1.0
    is_cancelled: bool = False
    request_id: str = ""

    def __repr__(self) -> str:
        return self.name


@dataclass
class Run:
    """What happened: ``left`` holds (instant in µs, names), ``dropped`` (instant, name, text)."""

    left: list[tuple[float, list[str]]] = field(default_factory=list)
    dropped: list[tuple[float, str, str]] = field(default_factory=list)


def play(
    scheduler: Scheduler[FakeItem],
    arrivals: list[tuple[float, FakeItem]],
    execution_us: float = 0,
    *,
    free_at_us: float = 0,
) -> Run:
    """Run arrivals (instants in µs) through one instance that executes for ``execution_us``.

    It is busy until ``free_at_us``.

    The instance asks when it becomes free, when it was told to wake and when an enqueue says so,
    exactly as the executor does.
    """
    run = Run()
    events: list[tuple[int, int, str, FakeItem | None]] = []
    order = 0
    for at_us, item in arrivals:
        heapq.heappush(events, (int(at_us * 1000), order, "arrive", item))
        order += 1
    free_ns = int(free_at_us * 1000)
    heapq.heappush(events, (free_ns, order, "free", None))
    order += 1
    while events:
        now_ns, _, kind, arrived = heapq.heappop(events)
        is_due = kind != "arrive"
        if arrived is not None:
            arrived.enqueue_ns = now_ns
            is_due = scheduler.enqueue(arrived, now_ns)
        if now_ns < free_ns or not is_due:
            continue
        decision = scheduler.next_batch(now_ns)
        run.dropped += [(now_ns / 1000, d.name, error.message) for d, error in decision.dropped]
        order += 1
        if decision.batch:
            assert decision.wake_at_ns is None
            run.left.append((now_ns / 1000, [i.name for i in decision.batch]))
            free_ns = now_ns + int(execution_us * 1000)
            heapq.heappush(events, (free_ns, order, "free", None))
        elif decision.wake_at_ns is not None:
            assert decision.wake_at_ns > now_ns
            heapq.heappush(events, (decision.wake_at_ns, order, "wake", None))
    return run


SINGLE = ModelConfig("m")


class PoolInstanceRun:
    """Executes the batches that lie at it one after the other, each for a while."""

    def __init__(self, pool: "PoolRun", name: str) -> None:
        self.pool = pool
        self.name = name
        self.feeder: Any = make_feeder(pool.config)
        self.lies_here: list[Batch[Any]] = []
        self.is_executing = False

    def take(self, batch: Batch[Any]) -> None:
        self.lies_here.append(batch)
        self.begin()

    def begin(self) -> None:
        if self.is_executing or not self.lies_here:
            return
        self.is_executing = True
        pool, (number, _, decision) = self.pool, self.lies_here.pop(0)
        if self.feeder is not None:
            for items, slots in self.feeder.groups(decision.batch, decision.slots):
                rows = self.feeder.feed(items, slots, decision.row_count)
                pool.left.append((pool.now_us, self.name, list(rows or items)))
                for item in items:
                    pool.execute(item)
        else:
            pool.left.append((pool.now_us, self.name, list(decision.batch)))
        pool.ran += decision.batch
        lasts_us = pool.execution_us
        end = (lasts_us, number, decision.batch, decision.slots)
        pool.at(pool.now_us + lasts_us, lambda: self.end(*end))

    def end(self, lasts_us: float, number: int, items: list[Any], slots: Iterable[int]) -> None:
        pool = self.pool
        self.is_executing = False
        if pool.instances.get(self.name) is not self:
            return
        places = [at for at, each in enumerate(items) if getattr(each, "is_rescheduled", False)]
        if self.feeder is not None:
            self.feeder.executed(items, list(slots))
        pool.queue.executed(self.name, number, int(lasts_us * 1000), pool.now_ns, places)
        self.begin()


class PoolRun:
    """Plays a pool: after each event the queue is asked what is to be done.

    Attributes:
        left: Batches as they were executed: (instant in µs, instance, rows).
        given: Requests in the order they were given to instances.
        ran: Requests in the order they were executed.
        dropped: Requests that were not, with their errors.
        lost: Requests that lay at an instance that is gone, and were not begun.
        refused: Requests that were not taken, with their errors.
        asked: Instances asked for their grant that have not got it.
    """

    def __init__(
        self,
        config: ModelConfig,
        names: str = "A",
        *,
        execution_us: float = 1000,
        holds: Holds = NO_HOLDS,
        execute: Callable[[Any], None] = lambda item: None,
        is_limited: bool = False,
    ) -> None:
        self.config = config
        self.queue: PoolQueue[Any] = PoolQueue(make_pool_scheduler(config, holds))
        self.execution_us = execution_us
        self.execute = execute
        self.now_us = 0.0
        self.instances: dict[str, PoolInstanceRun] = {}
        self.left: list[tuple[float, str, list[Any]]] = []
        self.given: list[Any] = []
        self.ran: list[Any] = []
        self.dropped: list[tuple[Any, TritonError]] = []
        self.lost: list[Any] = []
        self.refused: list[tuple[Any, TritonError]] = []
        self.asked: list[str] = []
        self.declined: list[str] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        for name in names:
            self.join(name, is_limited=is_limited)

    @property
    def now_ns(self) -> int:
        return int(self.now_us * 1000)

    @property
    def names(self) -> list[list[str]]:
        """Of each batch, its requests' names; empty for a null row."""
        return [[getattr(row, "name", "") for row in rows] for _, _, rows in self.left]

    @property
    def sizes(self) -> dict[int, int]:
        """How many batches of each size were executed, null rows counted."""
        sizes = [len(rows) for _, _, rows in self.left]
        return {size: sizes.count(size) for size in sizes}

    @property
    def homes(self) -> dict[str, list[str]]:
        """Of each instance, the requests it executed."""
        homes: dict[str, list[str]] = {name: [] for name in self.instances}
        for (_, name, _), names in zip(self.left, self.names, strict=True):
            homes.setdefault(name, []).extend(filter(None, names))
        return homes

    def join(self, name: str, *, is_limited: bool = False, **running: Any) -> None:
        self.instances[name] = PoolInstanceRun(self, name)
        self.queue.join(name, now_ns=self.now_ns, is_limited=is_limited, **running)

    def leave(self, name: str) -> None:
        gone = self.instances.pop(name)
        self.lost += [item for batch in gone.lies_here for item in batch.decision.batch]
        self.dropped += self.queue.leave(name, self.now_ns)
        self.look()

    def enqueue(self, *items: Any) -> None:
        for item in items:
            item.enqueue_ns = self.now_ns
            try:
                is_due = self.queue.enqueue(item, self.now_ns)
            except TritonError as error:
                self.refused.append((item, error))
                continue
            if is_due:
                self.look()

    def grant(self) -> None:
        """Let the instance that asked first execute."""
        name = self.asked.pop(0)
        if name in self.instances:
            self.queue.granted(name)
            self.look()

    def look(self) -> Actions[Any]:
        actions = self.queue.next(self.now_ns)
        self.dropped += actions.dropped
        self.asked += actions.asked
        self.declined += actions.declined
        if actions.wake_at_ns is not None:
            assert actions.wake_at_ns > self.now_ns
            self.at(actions.wake_at_ns / 1000, lambda: None)
        for batch in actions.batches:
            self.given += batch.decision.batch
            self.instances[batch.instance].take(batch)
        return actions

    def at(self, at_us: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (at_us, next(self._order), action))

    def run(self, until_us: float = float("inf")) -> "PoolRun":
        """Do all that happens before an instant."""
        while True:
            deadline_ns = self.queue.deadline_ns
            deadline_us = float("inf") if deadline_ns is None else deadline_ns / 1000
            next_us = self._events[0][0] if self._events else float("inf")
            if min(deadline_us, next_us) >= until_us:
                break
            if deadline_us <= next_us:
                self.now_us = max(self.now_us, deadline_us)
                self.dropped += self.queue.expire(self.now_ns)
            else:
                self.now_us, _, action = heapq.heappop(self._events)
                action()
            self.look()
        if until_us < float("inf"):
            self.now_us = until_us
        return self

    def play(self, arrivals: Iterable[tuple[float, Any]]) -> "PoolRun":
        """Run requests that come at these instants, in µs, to their end."""
        for at_us, item in sorted(arrivals, key=lambda each: each[0]):
            self.at(at_us, functools.partial(self.enqueue, item))
        return self.run()


def dynamic(max_batch_size: int = 8, **fields: Any) -> ModelConfig:
    """Return the config of a model with a dynamic batcher with these fields."""
    batching = DynamicBatching(**fields)
    return ModelConfig("m", max_batch_size=max_batch_size, dynamic_batching=batching)


def items(names: str, **fields: Any) -> list[FakeItem]:
    """Return a request for each letter."""
    return [FakeItem(name, **fields) for name in names]


def started(run: PoolRun) -> list[tuple[str, str]]:
    """Return what was executed where, in order."""
    return [(name, "".join(names)) for (_, name, _), names in zip(run.left, run.names, strict=True)]
