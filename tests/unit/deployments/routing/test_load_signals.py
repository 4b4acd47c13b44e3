# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What routers tell of the load on versions that autoscale."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from backends.api.errors import UnavailableError
from deployments.contracts.load_report import VersionLoad, decode_loads
from deployments.contracts.routing_table import RoutingTable
from deployments.routing.load_signals import LoadSignals
from deployments.routing.router import Router
from deployments.routing.table_watch import TableWatch
from tests.support.cluster_of_instances import CONFIG, Instance, Routed, request, table
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import Sink, until
from tests.support.pool_cluster import cluster_of
from tests.support.pool_node import node_of, outcome
from tests.support.pool_rig import PooledInstance

AUTOSCALED = replace(CONFIG, parameters={"autoscaling.max_instances": "4"})


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def signals_of(router: Router) -> tuple[LoadSignals, Callable[[], list[VersionLoad]]]:
    """Return signals, and what reads them for one second and returns what they tell."""
    clock = Clock()
    signals = LoadSignals(router, clock)
    signals.refresh()

    def second() -> list[VersionLoad]:
        told: list[VersionLoad] = []
        for _ in range(4):
            clock.now_s += 0.25
            report = signals.sample()
            told += decode_loads(report) if report else []
        return told

    return signals, second


async def test_requests_under_way_are_told_with_how_many_were_sent() -> None:
    instance = Instance()
    async with Routed(instance, config=AUTOSCALED) as here:
        await until(lambda: here.model.pool.lanes)
        _, second = signals_of(here.router)
        for _ in range(3):
            here.router.submit(here.model, request(), Sink())
        assert second() == [VersionLoad("m", 1, 3.0, 3.0)]
        assert second() == [VersionLoad("m", 1, 3.0, 0.0)]


async def test_a_request_that_waits_for_the_first_lane_is_under_way() -> None:
    async with Routed(Instance(), config=AUTOSCALED) as here:
        _, second = signals_of(here.router)
        here.router.submit(here.model, request(), Sink())
        assert second() == [VersionLoad("m", 1, 1.0, 0.0)]


async def test_the_end_of_a_load_is_told_once() -> None:
    instance = Instance(lambda each: each.fail(UnavailableError("no")))
    async with Routed(instance, config=AUTOSCALED) as here:
        await until(lambda: here.model.pool.lanes)
        _, second = signals_of(here.router)
        assert second() == []
        sink = Sink()
        here.router.submit(here.model, request(), sink)
        await sink.ended
        assert second() == [VersionLoad("m", 1, 0.0, 1.0)]
        assert second() == [VersionLoad("m", 1, 0.0, 0.0)]
        assert second() == []


async def test_calls_that_ask_an_instance_for_its_counters_are_no_load() -> None:
    async with Routed(Instance(), config=AUTOSCALED) as here:
        await until(lambda: here.model.pool.lanes)
        _, second = signals_of(here.router)
        await here.router.links.ask(here.router.links_of("m", 1), "health", 5.0)
        assert second() == []


async def test_requests_in_the_queue_of_another_process_are_told_by_who_sent_them() -> None:
    config = replace(AUTOSCALED, name="m")
    async with node_of(config, instance_count=2, router_count=2) as node:
        told = [signals_of(router)[1] for router in node.routers]
        with node.busy():
            sent = [node.send(router=which) for which in (0, 0, 0, 0, 1, 1, 1)]
            await until(lambda: node.held.load.waiting_count == 5)
            counts = [second()[0].ongoing for second in told]
            assert counts == [4.0, 3.0]
        for each in sent:
            await each.sink.ended  # type: ignore[attr-defined]


async def test_nothing_is_read_while_no_version_autoscales() -> None:
    async with Routed(Instance()) as here:
        signals, _ = signals_of(here.router)
        assert not signals.wanted.is_set()
        here.router.update(table(*here.instances, config=AUTOSCALED))
        signals.refresh()
        assert signals.wanted.is_set()
        here.router.update(table(*here.instances, config=CONFIG))
        signals.refresh()
        assert not signals.wanted.is_set()


class Controller:
    """Hands out one table, and takes reports but the first."""

    def __init__(self, first: RoutingTable) -> None:
        self.first = first
        self.reports: list[bytes] = []
        self.is_away = True

    async def watch_routing_table(
        self, update: Callable[[RoutingTable], None], report: Callable[[], bytes]
    ) -> None:
        update(self.first)
        await asyncio.get_running_loop().create_future()

    async def report_load(self, report: bytes) -> None:
        if self.is_away:
            self.is_away = False
            raise UnavailableError("the model controller cannot be reached")
        self.reports.append(report)


@pytest.mark.slow
async def test_a_report_that_nobody_takes_is_followed_by_the_next() -> None:
    async with Routed(Instance(), config=AUTOSCALED) as here:
        controller = Controller(table(*here.instances, config=AUTOSCALED))
        watch = TableWatch("test", controller, here.router.update, here.router)  # type: ignore[arg-type]
        here.router.submit(here.model, request(), Sink())
        await until(lambda: controller.reports)
        (load,) = decode_loads(controller.reports[0])
        assert (load.key, load.version) == ("m", 1)
        assert load.ongoing > 0
        await watch.close()


async def test_a_request_that_its_instance_sends_back_is_sent_once() -> None:
    async with (
        cluster_of(AUTOSCALED, [1]) as cluster,
        PooledInstance(AUTOSCALED, ScriptedModel()) as joining,
    ):
        (node,) = cluster.nodes
        _, second = signals_of(node.routers[0])
        with node.busy():
            sent = [node.send() for _ in range(3)]
            await until(lambda: node.sizes)
            assert second() == [VersionLoad("m", 1, 3.0, 3.0)]
            # The queue is the holder's from now on: what has not begun is sent back.
            node.add(joining)
            node.publish()
            await until(lambda: len(node.sizes) == 2)
            # One executes there, one waits in the queue; neither is one more.
            assert second() == [VersionLoad("m", 1, 3.0, 0.0)]
        for each in sent:
            await outcome(each)
        assert sum(each.bounce_count for each in sent) == 2
