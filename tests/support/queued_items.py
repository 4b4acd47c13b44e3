# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Items for schedulers, and a driver that plays an instance on virtual time."""

import heapq
from dataclasses import dataclass, field

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
