# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The only instance of a model is on another node, and the network between them misbehaves."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import numpy as np
import pytest

from backends.api.model_config import ModelConfig, SequenceBatching
from backends.api.request import (
    SEQUENCE_END,
    SEQUENCE_START,
    InferenceRequest,
    tensor_from_numpy,
)
from deployments.contracts.routing_table import (
    Model,
    ModelReadyState,
    ModelVersion,
    RoutingTable,
)
from deployments.lane.client import SILENT_PERIODS
from deployments.routing.links import Heartbeat
from deployments.routing.router import Router
from deployments.slabs.pool import SlabPool
from tests.support.bad_network import BadNetwork
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import SECRET, Sink, inflight_count, until
from tests.support.pool_rig import PooledInstance, request_for

PLAIN = ModelConfig("m", max_batch_size=8)
SEQUENCES = ModelConfig(
    "m", max_batch_size=4, sequence_batching=SequenceBatching(max_sequence_idle_us=60_000_000)
)


class Distant:
    """A router and an instance with a network between them.

    Attributes:
        network: The network.
        instance: The instance.
        reports: Instances that the controller was told of.
    """

    def __init__(self, network: BadNetwork, instance: PooledInstance, config: ModelConfig) -> None:
        self.network = network
        self.instance = instance
        self.reports: list[str] = []
        # An hour: no period passes by itself.
        heartbeat = Heartbeat(3600.0, self._report)
        self.router = Router("here", SECRET, SlabPool(1 << 20), heartbeat=heartbeat)
        there = {"node_id": "there", "incarnation": "only"}
        endpoint = replace(instance.endpoint, **there, tcp=network.address)
        entry = ModelVersion(1, ModelReadyState.READY, config=config, instances=(endpoint,))
        self.router.update(RoutingTable(1, {"m": Model("m", (entry,))}, initialised=True))

    async def _report(self, name: str, incarnation: str, reason: str) -> None:
        self.reports.append(name)

    @property
    def lanes(self):
        return self.router.find("m").pool.lanes

    def send(self, request: InferenceRequest) -> Sink:
        sink = Sink()
        self.router.submit(self.router.find("m"), request, sink)
        return sink

    async def answered(self, request: InferenceRequest) -> None:
        sink = self.send(request)
        await sink.ended
        assert sink.error is None
        given, found = request.inputs[0], sink.responses[-1].outputs[0]
        assert bytes(found.data) == bytes(given.data)

    async def pass_periods(self, count: int) -> None:
        for _ in range(count):
            self.router.links.check()
            await asyncio.sleep(0)

    async def nothing_is_left(self) -> None:
        """Wait until neither end has a request."""
        await until(lambda: not any(lane.outstanding for lane in self.lanes))
        await until(lambda: not inflight_count(self.instance.server))


@contextlib.asynccontextmanager
async def distant(config: ModelConfig = PLAIN) -> AsyncIterator[Distant]:
    async with (
        PooledInstance(config, ScriptedModel()) as instance,
        BadNetwork(instance.endpoint.tcp) as network,
    ):
        here = Distant(network, instance, config)
        await until(lambda: here.lanes)
        try:
            yield here
        finally:
            network.heal()
            await here.router.close()


def large_request() -> InferenceRequest:
    value = np.arange(150_528, dtype=np.float32).reshape(1, -1)
    return InferenceRequest("m", inputs=[tensor_from_numpy("IN", value)])


async def test_what_a_network_cuts_into_pieces_is_answered_right() -> None:
    async with distant() as here:
        here.network.piece_bytes = 701
        requests = [large_request(), *(request_for(str(at)) for at in range(14)), large_request()]
        await asyncio.gather(*map(here.answered, requests))
        await here.nothing_is_left()
        assert here.network.connection_count == 1


async def test_a_sequence_goes_on_over_a_network_that_stands_still_for_a_while() -> None:
    async with distant(SEQUENCES) as here:
        await here.answered(request_for(correlation_id=7, flags=SEQUENCE_START))
        here.network.cut()
        waiting = here.send(request_for(correlation_id=7))
        await here.pass_periods(SILENT_PERIODS)
        here.network.heal()
        await waiting.ended
        assert waiting.error is None
        await here.answered(request_for(correlation_id=7, flags=SEQUENCE_END))
        assert here.network.connection_count == 1


async def test_requests_under_way_when_the_node_is_cut_off_are_answered_once_when_it_is_back() -> (
    None
):
    async with distant() as here:
        here.network.cut()
        under_way = [here.send(request_for(str(at))) for at in range(16)]
        await here.pass_periods(SILENT_PERIODS + 1)
        assert len(here.reports) == 1
        assert not any(sink.ended.done() for sink in under_way)
        here.network.heal()
        # A second outcome would be an error of the sink.
        await asyncio.gather(*(sink.ended for sink in under_way))
        assert not any(sink.error for sink in under_way)
        await here.nothing_is_left()


async def test_requests_that_come_while_a_node_is_cut_off_are_answered_when_it_is_back() -> None:
    async with distant() as here:
        here.network.cut()
        here.send(request_for())
        await here.pass_periods(SILENT_PERIODS + 1)
        waiting = [here.send(request_for(str(at))) for at in range(16)]
        await asyncio.sleep(0)
        assert not any(sink.ended.done() for sink in waiting)
        here.network.heal()
        await asyncio.gather(*(sink.ended for sink in waiting))
        assert not any(sink.error for sink in waiting)
        await here.nothing_is_left()


@pytest.mark.parametrize("end", [BadNetwork.end_towards_router, BadNetwork.end_towards_instance])
async def test_a_lane_that_is_closed_one_way_only_is_replaced(
    end: Callable[[BadNetwork], None],
) -> None:
    async with distant() as here:
        here.instance.model.gate.clear()
        under_way = here.send(request_for())
        await until(here.instance.model.entered.is_set)
        end(here.network)
        await until(lambda: here.network.connection_count == 2)
        assert not under_way.ended.done()
        here.instance.model.gate.set()
        await under_way.ended
        assert under_way.error is None
        await here.answered(request_for())
        await here.nothing_is_left()
        assert here.network.connection_count == 2
