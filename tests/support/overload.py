# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A model with a queue, batches and several ingresses, in virtual time, behind real gates."""

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from deployments.admission.gate import AdmissionGate
from deployments.admission.rules import AdmissionRules

NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class Model:
    """A model as the simulation runs it.

    Attributes:
        execution_s: What a batch takes.
        batch_size: Its most requests.
        instance_count: Batches at a time.
        besides_s: What a request takes beside queue and execution.
        jitter: Part of the execution that is random, exponentially.
        seconds_per_item: What each further request of a batch adds.
        tells_queue: Whether answers tell how long they were in queues.
        is_silent: Whether answers do not tell what the execution took.
    """

    execution_s: float
    batch_size: int = 1
    instance_count: int = 1
    besides_s: float = 0.0002
    jitter: float = 0.0
    seconds_per_item: float = 0.0
    is_silent: bool = False
    tells_queue: bool = True

    @property
    def capacity_per_s(self) -> float:
        full_s = self.execution_s + self.seconds_per_item * (self.batch_size - 1)
        return self.instance_count * self.batch_size / full_s


@dataclass(frozen=True)
class Answer:
    """A request that was admitted: when, how long it took, its level."""

    came_s: float
    took_s: float
    level: int


@dataclass
class Run:
    """What a simulation has seen; refusals are times and levels."""

    answers: list[Answer] = field(default_factory=list)
    refusals: list[tuple[float, int]] = field(default_factory=list)
    most_outstanding: int = 0
    gates: list[AdmissionGate] = field(default_factory=list)

    def goodput_per_s(self, from_s: float, to_s: float) -> float:
        ended = sum(from_s <= each.came_s + each.took_s < to_s for each in self.answers)
        return ended / (to_s - from_s)

    def quantile_s(self, part: float, from_s: float, to_s: float, level: int = 0) -> float:
        took = sorted(
            each.took_s
            for each in self.answers
            if from_s <= each.came_s < to_s and level in {0, each.level}
        )
        return took[min(len(took) - 1, int(part * len(took)))]

    def refused(self, from_s: float, to_s: float, level: int = 0) -> int:
        return sum(from_s <= at < to_s and level in {0, of} for at, of in self.refusals)

    def admitted(self, from_s: float, to_s: float, level: int = 0) -> int:
        return sum(from_s <= a.came_s < to_s and level in {0, a.level} for a in self.answers)


@dataclass
class _Request:
    came_ns: int
    gate: AdmissionGate
    outstanding: int
    level: int


@dataclass(frozen=True)
class Load:
    """What comes.

    Attributes:
        rate_per_s: Requests per second at a time.
        duration_s: How long requests come.
        level_of: Draws a request's priority level.
        is_poisson: Whether requests come by chance; else evenly.
        left_s: Within which each wants its answer; 0 for any time.
    """

    rate_per_s: Callable[[float], float]
    duration_s: float
    level_of: Callable[[random.Random], int] = lambda _: 0
    is_poisson: bool = True
    left_s: float = 0.0


class _Simulation:
    def __init__(self, model: Model, load: Load, gates: list[AdmissionGate], seed: int) -> None:
        self.run = Run(gates=gates)
        self._model = model
        self._load = load
        self._chance = random.Random(seed)
        self._queues: dict[int, deque[_Request]] = {}
        self._events: list[tuple[int, int, Callable[[int], None]]] = []
        self._order = itertools.count()
        self._free = model.instance_count
        self._besides_ns = int(model.besides_s * NS_PER_S)

    def play(self) -> None:
        self._at(0, self._come)
        while self._events:
            now_ns, _, what = heapq.heappop(self._events)
            what(now_ns)

    def _at(self, time_ns: int, what: Callable[[int], None]) -> None:
        heapq.heappush(self._events, (time_ns, next(self._order), what))

    def _come(self, now_ns: int) -> None:
        load, now_s = self._load, now_ns / NS_PER_S
        rate = load.rate_per_s(now_s)
        if rate <= 0:
            gap_s = 0.001
        else:
            gap_s = self._chance.expovariate(rate) if load.is_poisson else 1 / rate
            self._ask(now_ns)
        if now_s + gap_s < load.duration_s:
            self._at(now_ns + max(1, int(gap_s * NS_PER_S)), self._come)

    def _ask(self, now_ns: int) -> None:
        run = self.run
        gate = self._chance.choice(run.gates)
        level = self._load.level_of(self._chance)
        if gate.admit(now_ns, level, int(self._load.left_s * NS_PER_S)) is not None:
            run.refusals.append((now_ns / NS_PER_S, level))
            return
        request = _Request(now_ns, gate, gate.outstanding, level)
        self._at(now_ns + self._besides_ns // 2, partial(self._arrive, request))
        total = sum(each.outstanding for each in run.gates)
        run.most_outstanding = max(run.most_outstanding, total)

    def _arrive(self, request: _Request, now_ns: int) -> None:
        self._queues.setdefault(request.level, deque()).append(request)
        self._start(now_ns)

    def _start(self, now_ns: int) -> None:
        model = self._model
        while self._free and any(self._queues.values()):
            batch: list[_Request] = []
            for level in sorted(self._queues):
                queue = self._queues[level]
                while queue and len(batch) < model.batch_size:
                    batch.append(queue.popleft())
            self._free -= 1
            took_s = model.execution_s + model.seconds_per_item * (len(batch) - 1)
            if model.jitter:
                took_s *= 1 - model.jitter + self._chance.expovariate(1 / model.jitter)
            took_ns = max(1, int(took_s * NS_PER_S))
            self._at(now_ns + took_ns, partial(self._end, batch, took_ns))

    def _end(self, batch: list[_Request], took_ns: int, now_ns: int) -> None:
        self._free += 1
        self._start(now_ns)
        later_ns = self._besides_ns - self._besides_ns // 2
        self._at(now_ns + later_ns, partial(self._answer, batch, took_ns))

    def _answer(self, batch: list[_Request], took_ns: int, now_ns: int) -> None:
        told_ns = 0 if self._model.is_silent else took_ns
        for each in batch:
            queue_ns = -1
            if self._model.tells_queue:
                queue_ns = now_ns - each.came_ns - took_ns - self._besides_ns
            each.gate.answered(
                now_ns, each.came_ns, each.outstanding, told_ns, each.level, queue_ns
            )
            took_s = (now_ns - each.came_ns) / NS_PER_S
            self.run.answers.append(Answer(each.came_ns / NS_PER_S, took_s, each.level))


def simulate(
    model: Model,
    load: Load,
    *,
    ingress_count: int = 1,
    rules: AdmissionRules | None = None,
    seed: int = 1,
) -> Run:
    """Offer a load to a model behind one gate for each ingress, which share it by chance."""
    gates = [AdmissionGate("m", rules or AdmissionRules(), 0) for _ in range(ingress_count)]
    simulation = _Simulation(model, load, gates, seed)
    simulation.play()
    return simulation.run
