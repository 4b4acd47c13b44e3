# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A lane that records, models whose timing the test decides, and an executor among its threads."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np

from backends.api.backend import ExecuteBatch, ModelInstance
from backends.api.errors import TritonError
from backends.api.model_config import (
    DynamicBatching,
    ModelConfig,
)
from backends.api.request import InferenceRequest, InferenceResponse, tensor_from_numpy
from deployments.instance.ending import OnFault, log_fault
from deployments.instance.executor import Executor
from deployments.instance.lead import Lead
from deployments.lane.server_request import ServerRequest
from deployments.metrics.counters import InstanceStatistics
from deployments.reactor.reactor import Reactor
from deployments.tracing.record import Activity

PLAIN = ModelConfig("m", max_batch_size=8)
BATCHING = ModelConfig("m", max_batch_size=8, dynamic_batching=DynamicBatching())
DECOUPLED = ModelConfig("m", max_batch_size=8, decoupled=True)


class RecordedRequest(ServerRequest):
    """A lane request that keeps its outcomes and checks the terminal one is the last.

    It is never finished, so that a second terminal outcome reaches the assertion below.
    """

    def __init__(self, request: InferenceRequest) -> None:
        super().__init__(None, 0, request)
        self._is_answered = False
        self.outcomes: list[InferenceResponse | TritonError | None] = []
        self.reactor: WatchedReactor | None = None
        self.activities: list[Activity] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def traced(self, activities: list[Activity]) -> None:
        assert not self._is_answered
        self.activities = activities

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        self._take(response, final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        self._take(error, final)

    def _take(self, outcome: InferenceResponse | TritonError | None, final: bool) -> None:
        assert not self._is_answered
        assert self.reactor is not None
        assert self.reactor.turning == threading.get_ident()
        self.outcomes.append(outcome)
        if final:
            self._is_answered = True
            self.done.get_loop().call_soon_threadsafe(self.done.set_result, None)


def lane_request(rows: int = 1, **fields: Any) -> RecordedRequest:
    tensor = tensor_from_numpy("IN", np.full((rows, 2), 7, np.float32))
    return RecordedRequest(InferenceRequest("m", **({"inputs": [tensor]} | fields)))


def echo(batch: ExecuteBatch) -> None:
    for request in batch.requests:
        request.respond(InferenceResponse("", "", "", list(request.request.inputs)))


class ScriptedModel(ModelInstance):
    """Executes by calling ``script``; ``entered`` and ``gate`` let a test hold an execution."""

    def __init__(
        self, script: Callable[[ExecuteBatch], None] = echo, *, held: bool = False
    ) -> None:
        self.script = script
        self.sizes: list[int] = []
        self.threads: set[int] = set()
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.is_closed = False
        if not held:
            self.gate.set()

    def execute(self, batch: ExecuteBatch) -> None:
        self.sizes.append(len(batch.requests))
        self.threads.add(threading.get_ident())
        self.entered.set()
        assert self.gate.wait(30)
        self.script(batch)

    def close(self) -> None:
        self.threads.add(threading.get_ident())
        self.is_closed = True


class WatchedReactor(Reactor):
    """Knows which thread turns it, and that there is only one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.turning = 0
        self.threads: set[int] = set()

    def turn(self, timeout_s: float | None = None) -> None:
        with self._by_this_thread():
            super().turn(timeout_s)

    def run_posted(self) -> None:
        if self.turning == threading.get_ident():
            super().run_posted()
            return
        with self._by_this_thread():
            super().run_posted()

    @contextlib.contextmanager
    def _by_this_thread(self) -> Iterator[None]:
        assert not self.turning
        self.turning = threading.get_ident()
        self.threads.add(self.turning)
        try:
            yield
        finally:
            self.turning = 0


class RunningExecutor:
    """An executor on its threads; requests reach it as from a lane, on the turning thread."""

    def __init__(
        self,
        config: ModelConfig,
        model: ModelInstance,
        clock_ns: Callable[[], int],
        statistics: InstanceStatistics | None = None,
    ) -> None:
        self.reactor = WatchedReactor()
        self.faults: list[tuple[str, BaseException]] = []
        self.has_faults = threading.Event()
        self.on_fault: OnFault = log_fault
        self.lead = Lead(self.reactor, clock_ns, self._on_fault)
        self.executor = Executor(config, 3, model, self.lead, statistics, clock_ns=clock_ns)
        self.statistics = self.executor.statistics
        self.drain = self.executor.drain
        self.close = self.executor.close
        self.knows = self.executor.knows

    def _on_fault(self, what: str, error: BaseException) -> None:
        self.on_fault(what, error)
        self.faults.append((what, error))
        self.has_faults.set()

    def received(self, requests: list[RecordedRequest]) -> None:
        for request in requests:
            request.reactor = self.reactor
        self.reactor.submit(self.executor.received, requests).result(30)

    def look_again(self) -> None:
        self.reactor.submit(self.executor.look_again).result(30)

    @property
    def inflight_count(self) -> int:
        return self.reactor.submit(lambda: self.executor.outbox.outstanding_count).result(30)


@contextlib.asynccontextmanager
async def running(
    config: ModelConfig,
    model: ModelInstance,
    clock_ns: Callable[[], int] = time.monotonic_ns,
    *,
    is_faulty: bool = False,
    statistics: InstanceStatistics | None = None,
) -> AsyncIterator[RunningExecutor]:
    running = RunningExecutor(config, model, clock_ns, statistics)
    thread = threading.Thread(target=running.executor.run)
    thread.start()
    try:
        yield running
    finally:
        if isinstance(model, ScriptedModel):
            model.gate.set()
        assert await running.close(30)
        thread.join()
        running.lead.stop()
        running.reactor.close()
        assert bool(running.faults) == is_faulty


async def outcome(request: RecordedRequest) -> InferenceResponse | TritonError | None:
    async with asyncio.timeout(30):
        await request.done
    return request.outcomes[-1]


async def held(executor: Any, model: ScriptedModel) -> RecordedRequest:
    """Submit a request and return once the model executes it and waits at its gate."""
    request = lane_request()
    executor.received([request])
    await asyncio.to_thread(model.entered.wait, 30)
    return request
