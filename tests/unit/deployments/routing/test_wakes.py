# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests for a dormant version wait, in bounds, while one task has it woken."""

import asyncio
from dataclasses import replace

from backends.api.errors import (
    InternalError,
    RequestCancelledError,
    TritonError,
    UnavailableError,
)
from deployments.contracts.routing_table import (
    InstanceEndpoint,
    Model,
    ModelReadyState,
    ModelVersion,
)
from deployments.contracts.wake_limits import DEFAULT_WAKES, WakeLimits
from deployments.routing.pool import Link, LinkPool
from deployments.routing.routed_request import RoutedRequest
from deployments.routing.router import Router
from deployments.routing.waiting_requests import WaitingRequests
from deployments.routing.wakes import Wakes
from deployments.slabs.pool import SlabPool
from tests.support import virtual_time
from tests.support.cluster_of_instances import Instance, request, table
from tests.support.lane_rig import SECRET, Sink, echo

REQUEST_BYTES = 8
DORMANT = ModelVersion(1, ModelReadyState.READY, is_dormant=True, load_duration_ns=4_000_000_000)
AWAKE = replace(DORMANT, is_dormant=False)


class Controller:
    """What a router asks to wake versions.

    Attributes:
        calls: What was asked for.
        outcomes: What the next calls return; None when there are no more.
        away: How many of the next calls find no controller.
        takes_s: How long an answer takes.
    """

    def __init__(self, *outcomes: TritonError | None, takes_s: float = 1.0) -> None:
        self.calls: list[tuple[str, int]] = []
        self.outcomes = list(outcomes)
        self.away = 0
        self.takes_s = takes_s

    async def wake(self, key: str, version: int) -> TritonError | None:
        self.calls.append((key, version))
        await asyncio.sleep(self.takes_s)
        if self.away:
            self.away -= 1
            raise UnavailableError("the model controller cannot be reached")
        return self.outcomes.pop(0) if self.outcomes else None


class World:
    """One dormant version, and the requests that wait for it."""

    def __init__(self, controller: Controller, limits: WakeLimits = DEFAULT_WAKES) -> None:
        self.sent: list[RoutedRequest] = []
        self.waiting = WaitingRequests()
        self.waiting.wakes = Wakes(controller.wake, limits)
        self.pool = LinkPool(key=("m", 1))
        self.waiting.follow(self.pool, DORMANT)

    def submit(self, pool: LinkPool | None = None) -> tuple[RoutedRequest, Sink]:
        sink = Sink()
        pool = pool or self.pool
        routed = RoutedRequest(self.sent.append, pool, request(), sink)
        self.waiting.add(pool, routed)
        return routed, sink

    def connect(self) -> None:
        """An instance has started, and its lane is open."""
        self.waiting.follow(self.pool, AWAKE)
        self.pool.links.append(
            Link(InstanceEndpoint("m/1#0", "", "", "", ("", 0)), self.pool, is_local=True)
        )
        self.waiting.send(self.pool)


def text(sink: Sink) -> str:
    assert sink.error is not None
    return sink.error.message


def test_a_hundred_requests_for_a_dormant_version_ask_once_and_all_are_sent() -> None:
    async def main() -> None:
        controller = Controller()
        world = World(controller)
        sinks = [world.submit()[1] for _ in range(100)]
        await asyncio.sleep(1)
        world.connect()
        await asyncio.sleep(10)
        assert controller.calls == [("m", 1)]
        assert len(world.sent) == 100
        assert all(sink.error is None for sink in sinks)

    virtual_time.run(main())


def test_a_request_beyond_the_number_that_may_wait_is_told_when_to_retry() -> None:
    async def main() -> None:
        world = World(Controller(), WakeLimits(request_count=2))
        for _ in range(2):
            world.submit()
        _, sink = world.submit()
        assert isinstance(sink.error, UnavailableError)
        assert sink.error.retry_after_s == 4
        assert text(sink) == (
            "model 'm' is being started by the requests that came first, and 2 requests wait for "
            "one already; try again in 4 s"
        )

    virtual_time.run(main())


def test_requests_of_all_dormant_versions_share_the_bound_of_bytes() -> None:
    async def main() -> None:
        world = World(Controller(), WakeLimits(size_bytes=2 * REQUEST_BYTES))
        other = LinkPool(key=("n", 1))
        world.waiting.follow(other, DORMANT)
        first, _ = world.submit()
        world.submit(other)
        assert isinstance(world.submit()[1].error, UnavailableError)
        first.cancel()
        assert world.submit(other)[1].error is None
        assert isinstance(world.submit()[1].error, UnavailableError)

    virtual_time.run(main())


def test_a_request_that_waited_too_long_is_told_what_the_waking_waits_for() -> None:
    async def main() -> None:
        world = World(Controller(takes_s=1000), WakeLimits(wait_s=60))
        _, sink = world.submit()
        world.waiting.follow(world.pool, DORMANT, "'n' holds the room")
        await sink.ended
        assert text(sink) == (
            "model 'm' has no instance, and none has started within 60 s: 'n' holds the room; the"
            " request was not executed, try again"
        )

    virtual_time.run(main())


def test_a_version_that_found_no_room_is_asked_for_again_while_requests_wait() -> None:
    async def main() -> None:
        controller = Controller(takes_s=20)
        world = World(controller, WakeLimits(wait_s=60))
        _, sink = world.submit()
        await sink.ended
        # Of the first three calls the answers say that it was given up.
        assert controller.calls == [("m", 1)] * 3

    virtual_time.run(main())


def test_a_request_waits_for_a_dormant_version_no_longer_than_the_bound() -> None:
    async def main() -> None:
        world = World(Controller(takes_s=1000), WakeLimits(wait_s=60))
        _, sink = world.submit()
        await sink.ended
        assert 60 <= asyncio.get_running_loop().time() <= 61
        assert isinstance(sink.error, UnavailableError)
        assert sink.error.retry_after_s > 0
        assert text(sink) == (
            "model 'm' has no instance, and none has started within 60 s; the request was not "
            "executed, try again"
        )

    virtual_time.run(main())


def test_time_spent_waking_does_not_count_against_the_wait_for_the_lane() -> None:
    async def main() -> None:
        world = World(Controller(takes_s=100))
        _, sink = world.submit()
        await asyncio.sleep(100)
        world.waiting.follow(world.pool, AWAKE)
        await asyncio.sleep(20)
        assert sink.error is None
        world.connect()
        assert len(world.sent) == 1

    virtual_time.run(main())


def test_a_load_that_fails_is_the_error_of_all_that_wait_and_the_next_request_asks_again() -> None:
    async def main() -> None:
        controller = Controller(InternalError("no such file"), None)
        world = World(controller)
        sinks = [world.submit()[1] for _ in range(3)]
        await asyncio.sleep(2)
        assert [text(sink) for sink in sinks] == ["no such file"] * 3
        _, sink = world.submit()
        await asyncio.sleep(1)
        assert len(controller.calls) == 2
        world.connect()
        assert sink.error is None

    virtual_time.run(main())


def test_a_controller_that_is_away_is_asked_again_while_requests_wait() -> None:
    async def main() -> None:
        controller = Controller()
        controller.away = 3
        world = World(controller)
        _, sink = world.submit()
        await asyncio.sleep(20)
        assert len(controller.calls) > 3
        world.connect()
        assert sink.error is None

    virtual_time.run(main())


def test_nobody_is_asked_any_more_when_all_that_waited_have_left() -> None:
    async def main() -> None:
        controller = Controller()
        controller.away = 100
        world = World(controller)
        routed, sink = world.submit()
        await asyncio.sleep(3)
        routed.cancel()
        assert isinstance(sink.error, RequestCancelledError)
        await asyncio.sleep(10)
        count = len(controller.calls)
        await asyncio.sleep(100)
        assert len(controller.calls) == count

    virtual_time.run(main())


def test_a_version_that_becomes_dormant_while_requests_wait_for_it_is_woken() -> None:
    async def main() -> None:
        controller = Controller()
        world = World(controller)
        world.waiting.follow(world.pool, AWAKE)
        draining = Link(InstanceEndpoint("m/1#0", "", "", "", ("", 0)), world.pool, is_local=True)
        world.pool.links.append(draining)
        world.submit()
        world.pool.links.clear()
        world.waiting.follow(world.pool, DORMANT)
        await asyncio.sleep(1)
        assert controller.calls == [("m", 1)]

    virtual_time.run(main())


async def test_a_router_answers_for_a_dormant_version_and_has_it_woken_by_a_request() -> None:
    instance = await Instance(echo).start()
    woken: list[tuple[str, int]] = []

    async def wake(key: str, version: int) -> None:
        woken.append((key, version))
        router.update(table(instance))

    router = Router("node", SECRET, SlabPool(1 << 20))
    router.wake_with(Wakes(wake))
    dormant = replace(table().models["m"].versions[0], is_dormant=True)
    router.update(replace(table(), models={"m": Model("m", (dormant,))}))
    model = router.find("m")
    assert not woken
    sinks = [Sink() for _ in range(100)]
    for sink in sinks:
        router.submit(model, request(), sink)
    await asyncio.gather(*(sink.ended for sink in sinks))
    assert woken == [("m", 1)]
    assert all(sink.error is None and len(sink.responses) == 1 for sink in sinks)
    assert router.find("m") is model
    await router.close()
    await instance.stop()


async def test_a_version_that_goes_to_rest_under_requests_loses_none() -> None:
    first, second = await Instance(echo).start(), await Instance(echo).start()

    async def wake(key: str, version: int) -> None:
        router.update(table(second))

    router = Router("node", SECRET, SlabPool(1 << 20))
    router.wake_with(Wakes(wake))
    router.update(table(first))
    sinks = []
    for at in range(60):
        sinks.append(Sink())
        router.submit(router.find("m"), request(), sinks[-1])
        if at == 30:
            resting = replace(table(leaving=(first,)).models["m"].versions[0], is_dormant=True)
            router.update(replace(table(), models={"m": Model("m", (resting,))}))
    await asyncio.gather(*(sink.ended for sink in sinks))
    assert [sink.error for sink in sinks] == [None] * 60
    await router.close()
    for instance in (first, second):
        await instance.stop()
