# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests wait for a lane in bounded number and for a bounded time."""

import asyncio
from dataclasses import dataclass, field

import pytest

from backends.api.errors import (
    InternalError,
    RequestCancelledError,
    ResourceExhaustedError,
    TritonError,
    UnavailableError,
)
from deployments.contracts.routing_table import (
    InstanceEndpoint,
    ModelReadyState,
    ModelVersion,
)
from deployments.routing import waiting_requests
from deployments.routing.pool import Link, LinkPool
from deployments.routing.routed_request import RoutedRequest
from deployments.routing.waiting_requests import WaitingRequests
from tests.support import virtual_time
from tests.support.cluster_of_instances import request
from tests.support.lane_rig import Sink


@dataclass
class World:
    """A model whose instances have no lane, and the requests that wait for one."""

    sent: list[RoutedRequest] = field(default_factory=list)
    pool: LinkPool = field(default_factory=LinkPool)

    def __post_init__(self) -> None:
        self.waiting = WaitingRequests()

    def send(self, routed: RoutedRequest) -> None:
        """Note a request that is sent; it waits again while there is no lane."""
        self.sent.append(routed)
        self.waiting.add(self.pool, routed)

    def resend(self, routed: RoutedRequest) -> None:
        self.send(routed)

    def link(self, name: str, *, is_local: bool = True) -> Link:
        endpoint = InstanceEndpoint(name, "", "", "", ("", 0))
        link = Link(endpoint, self.pool, is_local=is_local)
        self.pool.links.append(link)
        return link

    def submit(self, *, local_only: bool = False) -> tuple[RoutedRequest, Sink]:
        sink = Sink()
        routed = RoutedRequest(self.resend, self.pool, request(), sink)
        routed.local_only = local_only
        self.waiting.add(self.pool, routed)
        return routed, sink


def text(error: TritonError | None) -> str:
    assert error is not None
    return error.message


def test_a_request_that_waits_longer_than_the_limit_is_unavailable() -> None:
    async def main() -> None:
        world = World()
        world.link("m/1#0")
        _, first = world.submit()
        await asyncio.sleep(20)
        _, second = world.submit()
        await first.ended
        assert 30 <= asyncio.get_running_loop().time() <= 31
        assert isinstance(first.error, UnavailableError)
        assert text(first.error) == (
            "model 'm' has had no instance that answers for 30 s: no connection to 'm/1#0' could "
            "be opened; the request was not executed, try again"
        )
        assert not second.ended.done()
        await second.ended
        assert 50 <= asyncio.get_running_loop().time() <= 51

    virtual_time.run(main())


def test_a_request_beyond_the_number_that_may_wait_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting_requests, "MOST_REQUESTS", 2)

    async def main() -> None:
        world = World()
        world.link("m/1#0")
        waiting = [world.submit() for _ in range(2)]
        _, refused = world.submit()
        assert isinstance(refused.error, ResourceExhaustedError)
        assert text(refused.error) == (
            "model 'm' has no instance that answers at present, and 2 requests wait for one "
            "already; try again later"
        )
        waiting[0][0].cancel()
        assert isinstance(waiting[0][1].error, RequestCancelledError)
        assert world.submit()[1].error is None

    virtual_time.run(main())


def test_a_request_of_a_model_without_a_link_to_come_fails_at_once() -> None:
    async def main() -> None:
        world = World()
        world.link("m/1#0").closed = True
        assert "no instance that answers" in text(world.submit()[1].error)

    virtual_time.run(main())


def test_a_request_that_needs_this_node_does_not_wait_for_another() -> None:
    async def main() -> None:
        world = World()
        world.link("m/1#0", is_local=False)
        assert "no instance on this node" in text(world.submit(local_only=True)[1].error)
        assert world.submit()[1].error is None

    virtual_time.run(main())


def test_waiting_again_does_not_extend_the_time() -> None:
    async def main() -> None:
        world = World()
        world.link("m/1#0")
        world.send = lambda routed: world.waiting.add(world.pool, routed)  # type: ignore[method-assign]
        _, sink = world.submit()
        for _ in range(6):
            await asyncio.sleep(4)
            world.waiting.send(world.pool)
        await sink.ended
        assert asyncio.get_running_loop().time() <= 31

    virtual_time.run(main())


def test_a_request_that_waits_is_tried_again_though_nothing_happens() -> None:
    async def main() -> None:
        world = World()
        world.link("m/1#0")
        routed, _ = world.submit()
        await asyncio.sleep(2.5)
        assert world.sent == [routed, routed]

    virtual_time.run(main())


def test_what_a_sweep_sends_and_waits_once_more_is_swept_once_a_second() -> None:
    async def main() -> None:
        world = World()
        world.link("m/1#0")
        failures: list[str] = []
        loop = asyncio.get_running_loop()
        # Where an error of the sweep itself would go.
        loop.set_exception_handler(lambda _, context: failures.append(str(context)))
        routed, _ = world.submit()
        await asyncio.sleep(10.5)
        assert world.sent == [routed] * 10
        assert failures == []
        world.waiting.close()

    virtual_time.run(main())


def test_a_request_waits_for_a_model_whose_instances_are_all_lost_and_restart() -> None:
    async def main() -> None:
        world = World()
        lost = ModelVersion(1, ModelReadyState.UNAVAILABLE, is_restarting=True)
        world.waiting.follow(world.pool, lost, "instance m/1#0@1 is restarting: it died")
        _, sink = world.submit()
        await sink.ended
        assert 30 <= asyncio.get_running_loop().time() <= 31
        assert text(sink.error) == (
            "model 'm' has had no instance that answers for 30 s: instance m/1#0@1 is restarting: "
            "it died; the request was not executed, try again"
        )

    virtual_time.run(main())


def test_a_server_that_ends_has_nothing_wait_for_instances_that_restart() -> None:
    async def main() -> None:
        world = World()
        lost = ModelVersion(1, ModelReadyState.UNAVAILABLE, is_restarting=True)
        world.waiting.follow(world.pool, lost)
        _, sink = world.submit()
        world.waiting.exit()
        assert isinstance(sink.error, UnavailableError)

    virtual_time.run(main())


def test_closing_fails_what_waits() -> None:
    async def main() -> None:
        world = World()
        world.link("m/1#0")
        _, sink = world.submit()
        world.waiting.close()
        assert isinstance(sink.error, UnavailableError)

    virtual_time.run(main())


def test_a_fault_met_by_one_request_that_has_waited_loses_no_other() -> None:
    async def main() -> None:
        world = World()
        world.link("m/1#0")
        (broken, failed), (fine, other) = world.submit(), world.submit()

        def send(routed: RoutedRequest) -> None:
            if routed is broken:
                raise ValueError("no such row")
            world.sent.append(routed)

        world.send = send  # type: ignore[method-assign]
        world.waiting.send(world.pool)
        assert isinstance(failed.error, InternalError)
        assert text(failed.error) == (
            "a request that waited for an instance failed: ValueError: no such row; "
            "the server's log says where"
        )
        assert (world.sent, other.error, world.pool.waiting) == ([fine], None, {})

    virtual_time.run(main())


class RaisingSink(Sink):
    def fail(self, error: TritonError, *, final: bool = True) -> None:
        super().fail(error, final=final)
        raise ValueError("a sink with a fault")


def test_a_sink_that_raises_keeps_no_error_from_the_requests_behind_it() -> None:
    async def main() -> None:
        world = World()
        world.link("m/1#0")
        first, (_, second) = RaisingSink(), world.submit()
        routed = RoutedRequest(world.resend, world.pool, request(), first)
        world.pool.waiting = {routed: 0.0, **world.pool.waiting}
        await second.ended
        assert isinstance(first.error, UnavailableError)
        assert isinstance(second.error, UnavailableError)

    virtual_time.run(main())


def test_a_request_that_an_earlier_ones_sink_cancels_is_not_sent() -> None:
    async def main() -> None:
        world = World()
        world.link("m/1#0")
        world.submit()
        later, sink = world.submit()

        def send(routed: RoutedRequest) -> None:
            world.sent.append(routed)
            later.cancel()

        world.send = send  # type: ignore[method-assign]
        world.waiting.send(world.pool)
        assert later not in world.sent
        assert isinstance(sink.error, RequestCancelledError)

    virtual_time.run(main())
