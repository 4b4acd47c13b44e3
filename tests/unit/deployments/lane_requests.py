# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A lane that records, and models whose timing the test decides."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable

import numpy as np

from backends.api.backend import ExecuteBatch, ModelInstance
from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest, InferenceResponse, tensor_from_numpy
from deployments.executor import Executor


class RecordedRequest:
    """A lane request that keeps its outcomes and checks the terminal one is the last."""

    def __init__(self, request: InferenceRequest) -> None:
        self.request = request
        self.is_cancelled = False
        # Never set, so that a second terminal outcome reaches the assertion below.
        self.is_finished = False
        self.outcomes: list[InferenceResponse | TritonError | None] = []
        self.activities: list[tuple[str, int]] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def traced(self, activities: list[tuple[str, int]]) -> None:
        assert not self.done.done()
        self.activities = activities

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        self._take(response, final)

    def fail(self, error: TritonError) -> None:
        self._take(error, True)

    def _take(self, outcome: InferenceResponse | TritonError | None, final: bool) -> None:
        assert not self.done.done()
        assert asyncio.get_running_loop() is self.done.get_loop()
        self.outcomes.append(outcome)
        if final:
            self.done.set_result(None)


def lane_request(rows: int = 1, **fields: object) -> RecordedRequest:
    tensor = tensor_from_numpy("IN", np.full((rows, 2), 7, np.float32))
    return RecordedRequest(InferenceRequest("m", inputs=[tensor], **fields))


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


@contextlib.asynccontextmanager
async def running(config: ModelConfig, model: ModelInstance) -> AsyncIterator[Executor]:
    executor = Executor(config, 3, model, asyncio.get_running_loop())
    thread = threading.Thread(target=executor.run)
    thread.start()
    try:
        yield executor
    finally:
        if isinstance(model, ScriptedModel):
            model.gate.set()
        assert await executor.close(30)
        thread.join()


async def outcome(request: RecordedRequest) -> InferenceResponse | TritonError | None:
    async with asyncio.timeout(30):
        await request.done
    return request.outcomes[-1]
