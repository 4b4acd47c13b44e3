# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Links to instances that go silent, cannot be reached, or answer in unforeseen ways."""

import asyncio
import logging

import pytest

from backends.api.errors import UnavailableError
from backends.api.request import SEQUENCE_START
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.client import SILENT_PERIODS, LaneClient
from deployments.routing.links import Heartbeat, LinkSet, OnLost
from deployments.routing.node_pools import NodePools
from deployments.routing.pool import Link, ModelPools
from deployments.routing.router import Router
from tests.support import virtual_time
from tests.support.cluster_of_instances import Instance, Routed, request, table
from tests.support.lane_rig import SECRET, Sink, echo, until


class _Reports:
    """What a router told the controller."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str]] = []

    async def __call__(self, name: str, incarnation: str, reason: str) -> None:
        self.rows.append((name, incarnation, reason))


class _Watching(Routed):
    """A router that breaks off with silent instances; the test says when a period has passed."""

    def __init__(self, *instances: Instance) -> None:
        super().__init__(*instances)
        self.reports = _Reports()
        self.router = Router(
            "node",
            SECRET,
            self.slabs,
            # An hour: no period passes by itself.
            heartbeat=Heartbeat(3600.0, self.reports),
        )

    async def pass_periods(self, count: int) -> None:
        for _ in range(count):
            self.router.links.check()
            for _ in range(50):
                await asyncio.sleep(0)


async def _on_both(here: _Watching) -> list[Sink]:
    await until(lambda: len(here.model.pool.lanes) == 2)
    sinks = [Sink() for _ in range(4)]
    for sink in sinks:
        here.router.submit(here.model, request(), sink)
    await until(lambda: all(len(each.handler.requests) == 2 for each in here.instances))
    return sinks


async def test_requests_of_a_stopped_instance_are_answered_by_another() -> None:
    stopped, other = Instance(), Instance()
    async with _Watching(stopped, other) as here:
        sinks = await _on_both(here)
        stopped.turning.is_paused = True
        await here.pass_periods(SILENT_PERIODS + 1)
        await until(lambda: len(other.handler.requests) == 4)
        for server_request in other.handler.requests:
            echo(server_request)
        await asyncio.gather(*(sink.ended for sink in sinks))
        assert [sink.error for sink in sinks] == [None] * 4
        stopped.turning.is_paused = False


async def test_a_stopped_instance_is_reported_to_the_controller_with_the_reason() -> None:
    stopped, other = Instance(), Instance()
    async with _Watching(stopped, other) as here:
        await _on_both(here)
        stopped.turning.is_paused = True
        await here.pass_periods(SILENT_PERIODS + 1)
        name = stopped.endpoint.name
        assert here.reports.rows == [
            (name, stopped.incarnation, f"instance {name} showed no progress for 3600 s")
        ]
        stopped.turning.is_paused = False


async def test_instances_that_compute_long_keep_their_requests() -> None:
    async with _Watching(Instance(), Instance()) as here:
        await _on_both(here)
        await here.pass_periods(3 * SILENT_PERIODS)
        assert not here.reports.rows
        assert [len(each.handler.requests) for each in here.instances] == [2, 2]


async def test_a_sequence_on_a_stopped_instance_ends_with_an_error() -> None:
    stopped = Instance()
    async with _Watching(stopped) as here:
        await until(lambda: here.model.pool.lanes)
        sink = Sink()
        here.router.submit(here.model, request(correlation_id=7, flags=SEQUENCE_START), sink)
        await until(lambda: stopped.handler.requests)
        stopped.turning.is_paused = True
        await here.pass_periods(SILENT_PERIODS + 1)
        await sink.ended
        assert isinstance(sink.error, UnavailableError)
        stopped.turning.is_paused = False


async def test_an_instance_that_leaves_the_table_is_still_watched() -> None:
    leaving = Instance()
    async with _Watching(leaving, Instance(echo)) as here:
        await until(lambda: len(here.model.pool.lanes) == 2)
        sinks = [Sink(), Sink()]
        for sink in sinks:
            here.router.submit(here.model, request(), sink)
        await until(lambda: leaving.handler.requests)
        here.router.update(table(here.instances[1], leaving=(leaving,)))
        leaving.turning.is_paused = True
        await here.pass_periods(SILENT_PERIODS + 1)
        await asyncio.gather(*(sink.ended for sink in sinks))
        assert [sink.error for sink in sinks] == [None] * 2
        leaving.turning.is_paused = False


def test_an_unforeseen_fault_of_a_connection_is_tried_again() -> None:
    attempts = 0

    async def connect(link: Link, on_lost: OnLost) -> LaneClient:
        nonlocal attempts
        attempts += 1
        raise TypeError("a message that nobody understands")

    async def main() -> None:
        pools = NodePools(lambda pool: None)
        links = LinkSet("node", connect, lambda link: None, node_pools=pools)
        endpoint = InstanceEndpoint("m/1#0", "i", "node", "", ("", 0))
        links.sync({"m"}, {("m/1#0", "i"): (endpoint, ("m", 1))}, {}, ModelPools())
        await asyncio.sleep(10)
        assert attempts > 10
        await links.close()
        before = attempts
        await asyncio.sleep(10)
        assert attempts == before

    virtual_time.run(main())


@pytest.mark.parametrize(
    ("outage_s", "lines"),
    [
        # An instance that starts again.
        (2, []),
        (15, ["lane to m/1#0: no lane to instance 'm/1#0': Connection refused; trying again"]),
    ],
)
def test_a_lane_that_cannot_be_opened_for_long_is_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture, outage_s: float, lines: list[str]
) -> None:
    attempts = 0

    async def connect(link: Link, on_lost: OnLost) -> LaneClient:
        nonlocal attempts
        attempts += 1
        raise UnavailableError("no lane to instance 'm/1#0': Connection refused")

    async def main() -> None:
        pools = NodePools(lambda pool: None)
        links = LinkSet("node", connect, lambda link: None, node_pools=pools)
        endpoint = InstanceEndpoint("m/1#0", "i", "node", "", ("", 0))
        links.sync({"m"}, {("m/1#0", "i"): (endpoint, ("m", 1))}, {}, ModelPools())
        await asyncio.sleep(outage_s)
        await links.close()

    with caplog.at_level(logging.INFO):
        virtual_time.run(main())
    assert attempts > 7
    assert [row.message for row in caplog.records if "m/1#0" in row.message] == lines


def test_a_router_without_a_heartbeat_timeout_sets_no_timer() -> None:
    async def connect(link: Link, on_lost: OnLost) -> LaneClient:
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> None:
        pools = NodePools(lambda pool: None)
        links = LinkSet("node", connect, lambda link: None, node_pools=pools)
        endpoint = InstanceEndpoint("m/1#0", "i", "node", "", ("", 0))
        links.sync({"m"}, {("m/1#0", "i"): (endpoint, ("m", 1))}, {}, ModelPools())
        await asyncio.sleep(0)
        assert not links._is_checking
        await links.close()

    virtual_time.run(main())
