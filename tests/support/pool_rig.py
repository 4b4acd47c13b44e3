# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An instance with its executor and its lanes, routers that push batches, and one that holds."""

import asyncio
import contextlib
import itertools
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest, InferenceResponse, tensor_from_numpy
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.executor import Executor
from deployments.instance.lanes import InstanceLanes
from deployments.instance.lead import Lead
from deployments.instance.readiness import Readiness
from deployments.lane.batches import Adopted, BatchPart, Done, Holder
from deployments.lane.client import LaneClient, LaneInflight
from deployments.lane.messages import DEFAULT_LIMITS, LaneLimits
from deployments.lane.server import LaneServer
from deployments.reactor.reactor import Reactor
from deployments.scheduling.factory import Conditions
from deployments.scheduling.limited_scheduler import Grant
from deployments.shared_memory.objects import RegionMemory
from deployments.slabs.pool import SlabPool
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import SECRET, Sink, until

EPOCH = 7
_names = itertools.count()


def request_for(identifier: str = "", **fields: Any) -> InferenceRequest:
    tensor = tensor_from_numpy("IN", np.full((1, 2), 7, np.float32))
    return InferenceRequest("m", id=identifier, inputs=[tensor], **fields)


class PoolRouter:
    """A router's end of one lane; implements `PoolEvents` and notes what it is told, in order.

    Attributes:
        told: What came, by name and message.
    """

    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []
        self.lane: LaneClient

    def adopted(self, message: Adopted) -> None:
        self.told.append(("adopted", message))

    def done(self, message: Done) -> None:
        self.told.append(("done", message))

    def granted(self) -> None:
        self.told.append(("granted", None))

    def draining(self) -> None:
        self.told.append(("draining", None))

    def bounced(self, inflight: LaneInflight, waited_ns: int) -> None:
        self.told.append(("bounced", inflight))
        self.told.append(("waited", waited_ns))

    def holder(self, message: Holder) -> None:
        self.told.append(("holder", message))

    def all(self, name: str) -> list[Any]:
        return [message for told, message in self.told if told == name]

    async def next(self, name: str, count: int = 1) -> Any:
        """Wait until something came so often, and return the last of it."""
        await until(lambda: len(self.all(name)) >= count)
        return self.all(name)[count - 1]

    async def adopt(self, epoch: int = EPOCH, **address: Any) -> Adopted:
        count = len(self.all("adopted"))
        self.lane.adopt(Holder(epoch, **address))
        adopted: Adopted = await self.next("adopted", count + 1)
        return adopted

    def push(
        self,
        number: int,
        *requests: InferenceRequest,
        total: int | None = None,
        epoch: int = EPOCH,
        slots: Sequence[int] = (),
        kept: Sequence[int] = (),
        **rest: Any,
    ) -> list[LaneInflight]:
        """Send a part; as a holder does unless ``total`` is 0."""
        count = len(requests)
        total = count if total is None else total
        part = BatchPart(epoch, number, count, total, slots, kept, **rest)
        inflights = [LaneInflight(request, NotingSink(self)) for request in requests]
        self.lane.start_batch(part, inflights)
        return inflights

    def submit(self, request: InferenceRequest) -> LaneInflight:
        return self.lane.submit(request, NotingSink(self))


class NotingSink(Sink):
    """Tells its router of the end, too."""

    def __init__(self, router: PoolRouter) -> None:
        super().__init__()
        self._router = router

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        super().respond(response, final=final)
        self._router.told.append(("response", response and response.id))

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        super().fail(error, final=final)
        self._router.told.append(("error", error))


async def answer(inflight: LaneInflight) -> Any:
    """Return the response or the error that ended a request."""
    sink: Any = inflight.sink
    async with asyncio.timeout(30):
        await sink.ended
    return sink.error or sink.responses[-1]


async def ids(inflights: Sequence[LaneInflight]) -> list[str]:
    """Return the ids of the responses to requests."""
    return [(await answer(each)).id for each in inflights]


class PooledInstance:
    """The instance; requests come to it over real sockets.

    Args:
        config: Its model's config.
        model: Its model.
        claim: Makes the right to execute, for the reactor, where the rate limiter gives it.
        limits: Bounds of its lanes.
        clock_ns: The executor's clock; one that stands still has no part of a batch be late.
    """

    def __init__(
        self,
        config: ModelConfig,
        model: ScriptedModel,
        claim: Callable[[Reactor], Grant] | None = None,
        limits: LaneLimits = DEFAULT_LIMITS,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.model = model
        self.reactor = Reactor()
        self.faults: list[tuple[str, BaseException]] = []
        self.lead = Lead(self.reactor, on_fault=lambda *fault: self.faults.append(fault))
        self.grant: Any = None
        if claim is not None:
            self.grant = claim(self.reactor)
        self.executor = Executor(
            config,
            1,
            model,
            self.lead,
            conditions=Conditions(grant=self.grant),
            clock_ns=clock_ns,
        )
        memory = RegionMemory()
        readiness = Readiness("m", model.is_ready)
        self.handler = InstanceLanes(config, self.executor, model, memory, readiness)
        if self.grant is not None:
            self.grant.serve(self.handler.adoption.granted)
        self.slabs = SlabPool(64 << 20)
        self.server = LaneServer(
            self.handler, reactor=self.reactor, secret=SECRET, slabs=self.slabs, limits=limits
        )
        uds = f"\0manta-pool-{os.getpid()}-{next(_names)}"
        self.endpoint = InstanceEndpoint("m/1#0", "", "node", uds, ("", 0))
        self.thread = threading.Thread(target=self.executor.run)

    async def __aenter__(self) -> Self:
        tcp = self.server.start(self.endpoint.uds, "127.0.0.1")
        self.endpoint = InstanceEndpoint("m/1#0", "", "node", self.endpoint.uds, tcp)
        self.thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.model.gate.set()
        await asyncio.wrap_future(self.reactor.submit(self.server.close))
        assert await self.executor.close(30)
        self.thread.join()
        self.lead.stop()
        if self.grant is not None:
            self.grant.close()
        self.reactor.close()
        self.slabs.close()
        assert self.faults == []
        assert self.executor.outbox.outstanding_count == 0

    async def router(self, **changes: Any) -> PoolRouter:
        """Connect a router."""
        router = PoolRouter()
        arguments: dict[str, Any] = {
            "same_node": True,
            "secret": SECRET,
            "slabs": self.slabs,
            "on_lost": lambda _lane, orphans: router.told.append(("lost", orphans)),
        } | changes
        router.lane = await LaneClient(self.endpoint, **arguments).open()
        router.lane.events = router
        return router

    async def holder(self) -> PoolRouter:
        """Connect a router and have it adopt the instance."""
        holder = await self.router()
        await holder.adopt()
        return holder

    async def entered(self) -> None:
        """Wait until the model executes."""
        assert await asyncio.to_thread(self.model.entered.wait, 30)
        self.model.entered.clear()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let executions wait meanwhile."""
        self.model.gate.clear()
        self.model.entered.clear()
        try:
            yield
        finally:
            self.model.gate.set()


@contextlib.contextmanager
def stopped(instance: PooledInstance) -> Iterator[None]:
    """Have an instance read and say nothing meanwhile."""
    stands, goes_on = threading.Event(), threading.Event()

    def stand() -> None:
        stands.set()
        goes_on.wait()

    instance.reactor.submit(stand)
    assert stands.wait(30)
    try:
        yield
    finally:
        goes_on.set()


@contextlib.asynccontextmanager
async def pooled(
    config: ModelConfig, model: ScriptedModel | None = None, **options: Any
) -> AsyncIterator[PooledInstance]:
    async with PooledInstance(config, model or ScriptedModel(), **options) as instance:
        yield instance
