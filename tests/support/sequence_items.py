# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests of sequences, and an instance on virtual time that executes what a batcher decides."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig, SequenceBatching, SequenceControl
from backends.api.request import (
    SEQUENCE_END,
    SEQUENCE_START,
    InferenceRequest,
    InferenceResponse,
    Tensor,
    tensor_as_numpy,
    tensor_from_numpy,
)
from deployments.scheduling.factory import make_feeder, make_scheduler
from deployments.scheduling.request_terms import RequestTerms
from deployments.scheduling.scheduler import Decision
from deployments.scheduling.sequence_controls import SequenceStates

START, END, BOTH = SEQUENCE_START, SEQUENCE_END, SEQUENCE_START | SEQUENCE_END

CONTROLS = (
    SequenceControl("START", "CONTROL_SEQUENCE_START", "INT32", 0, 1),
    SequenceControl("END", "CONTROL_SEQUENCE_END", "FP32", -1.0, 1.0),
    SequenceControl("READY", "CONTROL_SEQUENCE_READY", "BOOL", False, True),
    SequenceControl("CORRID", "CONTROL_SEQUENCE_CORRID", "UINT64"),
)


@dataclass(eq=False)
class SequenceRequest(RequestTerms):
    """One request of a sequence; its name is ``<id>.<number>``."""

    request: InferenceRequest
    name: str = ""
    enqueue_ns: int = 0
    signature: object = None
    batch_size: int = 1
    is_cancelled: bool = False
    is_rescheduled: bool = False
    states: SequenceStates | None = None
    answer: InferenceResponse | None = None

    def __repr__(self) -> str:
        return self.name

    def respond(self, response: InferenceResponse | None, *, final: bool = True) -> None:
        assert response is not None
        if self.states is not None:
            self.states.take(response)
        self.answer = response

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        raise AssertionError(error)

    def reschedule(self) -> None:
        self.is_rescheduled = True

    def value(self, name: str) -> object:
        (tensor,) = [each for each in self.request.inputs if each.name == name]
        elements = tensor_as_numpy(tensor).ravel()
        return elements[0] if elements.size == 1 else elements


_numbers: dict[object, int] = {}


def part(
    correlation_id: int | str, flags: int = 0, *, value: int = 0, **fields: Any
) -> SequenceRequest:
    """Return a request of a sequence whose only input X holds ``value``."""
    item_fields = {key: fields.pop(key) for key in ("signature", "batch_size") if key in fields}
    tensor = tensor_from_numpy("X", np.array([[value]], np.int32))
    request = InferenceRequest(
        "m", inputs=[tensor], correlation_id=correlation_id, flags=flags, **fields
    )
    number = _numbers[correlation_id] = _numbers.get(correlation_id, 0) + 1
    return SequenceRequest(request, f"{correlation_id}.{number}", **item_fields)


def batcher(
    max_batch_size: int = 4, files: dict[str, bytes] | None = None, **fields: Any
) -> "FedScheduler":
    """Return the scheduler and the feeder of an instance that is on its own.

    Args:
        fields: Of the config's sequence batcher.
    """
    config = sequence_config(max_batch_size, **fields)
    return FedScheduler(make_scheduler(config), make_feeder(config, files or {}))


def sequence_config(max_batch_size: int = 4, **fields: Any) -> ModelConfig:
    """Return a config with these fields of its sequence batcher."""
    fields.setdefault("controls", CONTROLS)
    output = fields.pop("output", ())
    return ModelConfig(
        "m",
        max_batch_size=max_batch_size,
        output=output,
        sequence_batching=SequenceBatching(**fields),
    )


class FedScheduler:
    """A scheduler whose requests are fed as the executor does it: a group at a time."""

    def __init__(self, scheduler: Any, feeder: Any) -> None:
        self.scheduler = scheduler
        self.feeder = feeder
        self._groups: list[Decision[Any]] = []
        self._executing: Decision[Any] | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self.scheduler, name)

    def next_batch(self, now_ns: int) -> Decision[Any]:
        if self._executing is not None:
            self.feeder.executed(self._executing.batch, self._executing.slots)
            self._executing = None
        if self._groups:
            self._executing = self._groups.pop(0)
            return self._executing
        decision: Decision[Any] = self.scheduler.next_batch(now_ns)
        if not decision.batch:
            return decision
        for items, slots in self.feeder.groups(decision.batch, decision.slots):
            rows = self.feeder.feed(items, slots, decision.row_count)
            self._groups.append(Decision(items, rows=rows, slots=slots))
        self._executing = self._groups.pop(0)
        return self._executing._replace(dropped=decision.dropped)


def echo(item: SequenceRequest) -> None:
    """Answer with a copy of the inputs."""
    item.respond(InferenceResponse("", "", outputs=list(item.request.inputs)))


@dataclass
class Instance:
    """Plays an instance: ``left`` holds (instant in µs, ids by row), empty for a null row."""

    batcher: Any
    execute: Callable[[SequenceRequest], None] = echo
    execution_us: float = 0
    now_us: float = 0
    free_us: float = 0
    left: list[tuple[float, list[object]]] = field(default_factory=list)
    ran: list[SequenceRequest] = field(default_factory=list)
    dropped: list[tuple[SequenceRequest, str]] = field(default_factory=list)
    rows: list[list[object]] = field(default_factory=list)
    refused: list[tuple[float, str, str]] = field(default_factory=list)

    @property
    def now_ns(self) -> int:
        return int(self.now_us * 1000)

    def enqueue(self, *items: SequenceRequest) -> None:
        for item in items:
            item.enqueue_ns = self.now_ns
            self.batcher.enqueue(item, self.now_ns)

    def step(self) -> bool:
        """Ask once, if the instance is free; True when something was executed."""
        if self.now_us < self.free_us:
            return False
        decision = self.batcher.next_batch(self.now_ns)
        self.dropped += [(item, error.message) for item, error in decision.dropped]
        assert decision.wake_at_ns is None or decision.wake_at_ns > self.now_ns
        self.wake_at_ns = decision.wake_at_ns
        if not decision.batch:
            return False
        rows = decision.rows or decision.batch
        self.rows.append(list(rows))
        assert [row for row in rows if isinstance(row, SequenceRequest)] == decision.batch
        self.left.append(
            (
                self.now_us,
                [row.request.correlation_id if row in decision.batch else "" for row in rows],
            )
        )
        for item in decision.batch:
            self.execute(item)
        self.ran += decision.batch
        self.free_us = self.now_us + self.execution_us
        return True

    def run(self) -> None:
        """Execute until nothing is left that can run now or after the executions."""
        while self.step():
            self.now_us = max(self.now_us, self.free_us)

    def run_until(self, end_us: float) -> None:
        """Do all that is due before an instant: execute, wake when told to, expire while busy."""
        while True:
            at_us = max(self.now_us, self.free_us)
            deadline_ns = self.batcher.deadline_ns
            if deadline_ns is not None and deadline_ns / 1000 < min(at_us, end_us):
                self.now_us = deadline_ns / 1000
                expired = self.batcher.expire(deadline_ns)
                self.dropped += [(item, error.message) for item, error in expired]
                continue
            if at_us >= end_us:
                return
            self.now_us = at_us
            if self.step():
                continue
            if self.wake_at_ns is None or self.wake_at_ns / 1000 >= end_us:
                return
            self.now_us = self.wake_at_ns / 1000

    def play(self, arrivals: list[tuple[float, SequenceRequest]]) -> None:
        """Run requests that come at these instants, in µs, to their end."""
        for at_us, item in sorted(arrivals, key=lambda each: each[0]):
            self.run_until(at_us)
            self.now_us = at_us
            try:
                self.enqueue(item)
            except TritonError as error:
                self.refused.append((at_us, item.name, error.message))
        self.run_until(float("inf"))

    @property
    def names(self) -> list[str]:
        return [item.name for item in self.ran]


def state_tensor(name: str, *values: int, lead: bool = True) -> Tensor:
    array = np.array([values] if lead else values, np.int32)
    return tensor_from_numpy(name, array)


# Sequences as clients send them: each request at its instant; and those upstream's tests use.
# Triton has them in server/qa/L0_sequence_batcher/sequence_batcher_test.py, at e1db8a6.

S = 1_000_000

Arrivals = list[tuple[float, SequenceRequest]]

FULL = ((1001, 1, 2, 3), (1002, 11, 12, 13), (1003, 111, 112, 113), (1004, 1111, 1112, 1113))
FULL_TOTALS = {1001: 6, 1002: 36, 1003: 336, 1004: 3336}
FIFTH = (1005, 11111, 11112, 11113)
SHORT = ((1001, 1, 2, 3), (1002, 11, 13), (1003, 111, 113), (1004, 1111, 1112, 1113))
SHORT_TOTALS = {1001: 6, 1002: 24, 1003: 224, 1004: 3336}


def sequence(
    correlation_id: int | str,
    *values: int,
    at: float = 0,
    after: tuple[float, ...] = (),
    ends: bool = True,
    **fields: object,
) -> Arrivals:
    """Return a sequence's requests.

    Args:
        at: When the first comes, in µs.
        after: How long before each of the last requests the client waits, in µs.
        ends: Whether the last has the END flag.
    """
    waits = [0.0] * (len(values) - len(after)) + list(after)
    arrivals = []
    for index, value in enumerate(values):
        flags = START if index == 0 else 0
        if ends and index == len(values) - 1:
            flags |= END
        at += waits[index]
        arrivals.append((at, part(correlation_id, flags, value=value, **fields)))
    return arrivals


STRATEGIES = pytest.mark.parametrize("strategy", ["direct", "oldest"])


def instance(**fields: Any) -> Instance:
    execution_us = fields.pop("execution_us", 0)
    return Instance(batcher(**fields), execution_us=execution_us)
