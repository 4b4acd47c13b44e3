# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes of instances and routers on one event loop in virtual time, over real sockets.

Everything is the server's own but the threads: an instance's reactor is turned, and its executions
are begun, by the loop whose clock jumps (`tests.support.virtual_time`). So waits of half a minute
take no time, and a history that fails does so again.
"""

import asyncio
import itertools
import os
import random
import time
from collections.abc import Callable
from typing import Any

from backends.api.model_config import ModelConfig
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.executor import Executor
from deployments.instance.lanes import InstanceLanes
from deployments.instance.lead import Lead
from deployments.instance.readiness import Readiness
from deployments.lane.server import LaneServer
from deployments.pool_queue.alarm import LoopClock
from deployments.reactor.reactor import Reactor
from deployments.routing.router import Router
from deployments.scheduling.scheduler import Decision
from deployments.settings.lane_settings import LaneSettings
from deployments.shared_memory.objects import RegionMemory
from deployments.slabs.pool import SlabPool
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import SECRET
from tests.support.pool_node import Node, has_holder

_NS_PER_S = 1_000_000_000
_LOOK_S = 0.001
_names = itertools.count()


async def until(condition: Callable[[], object], within_s: float = 60.0) -> None:
    """Let virtual time pass until a condition holds."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - the conditions are many and have no events
            await asyncio.sleep(_LOOK_S)


def virtual_clock() -> Callable[[], int]:
    """Return a clock in nanoseconds that goes with the running loop's."""
    loop = asyncio.get_running_loop()
    # Later than any real instant that something may have noted.
    start_ns = time.monotonic_ns() + 3600 * _NS_PER_S
    return lambda: start_ns + round(loop.time() * _NS_PER_S)


class _LoopReactor(Reactor):
    """Turned by an event loop: whenever something was posted, a socket is ready or time has come.

    Attributes:
        on_turned: Called after each turn.
        is_stopped: Whether it hangs.
    """

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self.is_stopped = False
        self._is_due = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.on_turned: Callable[[], None] = lambda: None
        super().__init__(clock_ns)
        self._loop.add_reader(self._epoll.fileno(), self.due)

    def due(self) -> None:
        if not (self._is_due or self.is_stopped):
            self._is_due = True
            self._loop.call_soon(self._turn_now)

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> None:
        super().call_soon_threadsafe(callback, *args)
        self.due()

    def call_later(self, delay_s: float, callback: Callable[..., object], /, *args: Any) -> Any:
        self.due()
        return super().call_later(delay_s, callback, *args)

    def close(self) -> None:
        self._loop.remove_reader(self._epoll.fileno())
        self.on_turned = lambda: None
        if self._timer is not None:
            self._timer.cancel()
        super().close()

    def _turn_now(self) -> None:
        self._is_due = False
        if self._epoll.closed or self.is_stopped:
            return
        self.turn(0.0)
        self.on_turned()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        left_s = self._until_timer(None)
        if self._ready:
            self.due()
        elif left_s is not None:
            self._timer = self._loop.call_later(left_s, self.due)


class VirtualInstance:
    """An instance whose executions take virtual time; what `Node` and histories ask of one.

    Args:
        config: Its model's config.
        clock_ns: The virtual clock.
        duration_s: Returns how long the next execution takes.
    """

    def __init__(
        self, config: ModelConfig, clock_ns: Callable[[], int], duration_s: Callable[[], float]
    ) -> None:
        self.model = ScriptedModel()
        self.faults: list[tuple[str, BaseException]] = []
        self._loop = asyncio.get_running_loop()
        self._clock_ns = clock_ns
        self._duration_s = duration_s
        self._executed: Decision[Any] | None = None
        self._wake: asyncio.TimerHandle | None = None
        self.reactor = _LoopReactor(clock_ns)
        self.lead = lead = Lead(
            self.reactor, clock_ns, on_fault=lambda *fault: self.faults.append(fault)
        )
        # As the execution thread has it between executions; there is no follower.
        lead._lock.acquire()
        lead.is_held = True
        self.executor = Executor(config, 1, self.model, lead, clock_ns=clock_ns)
        readiness = Readiness("m", self.model.is_ready)
        handler = InstanceLanes(config, self.executor, self.model, RegionMemory(), readiness)
        self.slabs = SlabPool(1 << 20)
        self.server = LaneServer(handler, reactor=self.reactor, secret=SECRET, slabs=self.slabs)
        uds = f"\0manta-virtual-{os.getpid()}-{next(_names)}"
        tcp = self.server.start(uds, "127.0.0.1")
        self.endpoint = InstanceEndpoint("m/1#0", "", "node", uds, tcp)
        self.reactor.on_turned = self._step
        self.reactor.due()

    def stop(self) -> None:
        """Have it hang: it reads and says nothing, and executes nothing, until `go_on`."""
        self.reactor.is_stopped = True
        self._loop.remove_reader(self.reactor._epoll.fileno())

    def go_on(self) -> None:
        """Have it hang no longer."""
        self.reactor.is_stopped = False
        self._loop.add_reader(self.reactor._epoll.fileno(), self.reactor.due)
        self.reactor.due()

    async def drain(self) -> bool:
        """End it once it has nothing more to do; return whether it had not within its time."""
        self.server.start_draining()
        self.reactor.due()
        # Requests may be under way from routers that have not heard of it, as in `Instance.drain`.
        await asyncio.sleep(_LOOK_S)
        is_drained = await self.executor.drain(30)
        await self.close()
        return is_drained

    async def close(self) -> None:
        """Close its lanes and all that it has."""
        self.server.close()
        self.reactor.due()
        await asyncio.sleep(_LOOK_S)
        if self._wake is not None:
            self._wake.cancel()
        self.reactor.close()
        self.slabs.close()
        assert self.faults == []

    def _step(self) -> None:
        """Begin an execution if there is one to begin."""
        if self._executed is not None:
            return
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        decision = self.executor.decide()
        if decision.batch:
            self._executed = decision
            self._loop.call_later(self._duration_s(), self._end)
        elif decision.wake_at_ns is not None:
            delay_s = max(0, decision.wake_at_ns - self._clock_ns()) / _NS_PER_S
            self._wake = self._loop.call_later(delay_s, self.reactor.due)

    def _end(self) -> None:
        decision, self._executed = self._executed, None
        assert decision is not None
        self.executor.settle(decision, self.executor.execute(decision))
        self.reactor.due()


class VirtualNode(Node):
    """A node whose routers open lanes in random time.

    Args:
        config: The model's config.
        chance: What decides.
        dial_s: The longest time that a lane takes to open.
    """

    def __init__(self, config: ModelConfig, chance: random.Random, dial_s: float = 0.0) -> None:
        super().__init__(config)
        self._chance = chance
        self._dial_s = dial_s

    def made(self, lanes: LaneSettings) -> Router:
        """See `Node.made`."""
        router = super().made(lanes)
        connect = router.links._connect

        async def dial(*args: Any) -> Any:
            await asyncio.sleep(self._chance.random() * self._dial_s)
            return await connect(*args)

        router.links._connect = dial
        return router

    async def joined(self, router: Router) -> None:
        """See `Node.joined`; time is virtual."""
        router.node_pools.clock = LoopClock()
        await until(lambda: has_holder(router))

    async def kill(self, router: Router) -> None:
        """End a router's process: its sockets close, and it does nothing more."""
        self.routers.remove(router)
        membership = router._membership
        assert membership is not None
        server = membership._server
        lanes = [each._connection for each in router.links._lanes]
        lanes += [each.lane._connection for each in membership._remote.values() if each.lane]
        if membership._candidacy.lane is not None:
            lanes.append(membership._candidacy.lane._connection)
        if server is not None:
            lanes += [each.connection for each in server.lanes]
        for lane in lanes:
            if lane.is_connected:
                lane.transport.abort()
        await router.close()
