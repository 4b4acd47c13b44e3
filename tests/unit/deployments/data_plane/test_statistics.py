# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Counters of many models are gathered in the time that one takes."""

import asyncio
from dataclasses import replace

import pytest

from backends.api.errors import UnavailableError
from deployments.contracts.routing_table import (
    InstanceEndpoint,
    Model,
    ModelReadyState,
    ModelVersion,
    RoutingTable,
)
from deployments.data_plane.data_plane import DataPlane
from deployments.data_plane.statistics import DEADLINE_S, Recent
from deployments.lane.client import LaneClient
from deployments.metrics.counters import Snapshot, encode
from deployments.metrics.node_roles import NodeRoles
from deployments.routing.pool import Link
from deployments.routing.router import Router
from deployments.slabs.pool import SlabPool
from tests.support import virtual_time
from tests.support.cluster_of_instances import CONFIG
from tests.support.memory_plane import Repository

ANSWER_S = 0.5


class Lane(LaneClient):
    """Answers a call after half a second, or never."""

    def __init__(self, answer: bytes | None) -> None:
        self.answer = answer
        self.calls = 0

    async def call(self, method: str, payload: bytes, timeout_s: float) -> bytes:
        self.calls += 1
        if self.answer is None:
            await asyncio.sleep(timeout_s)
            raise UnavailableError("no answer")
        await asyncio.sleep(ANSWER_S)
        return self.answer


class Server:
    """A data plane over models with one instance each."""

    def __init__(self, *answers: bytes | None, is_cached: bool = False) -> None:
        config = replace(CONFIG, response_cache=is_cached)
        self.router = Router("node", b"secret", SlabPool(1 << 20))
        models = {
            f"m{at}": Model(f"m{at}", (ModelVersion(1, ModelReadyState.READY, config=config),))
            for at in range(len(answers))
        }
        self.router.update(RoutingTable(1, models, initialised=True))
        self.lanes = [Lane(answer) for answer in answers]
        for name, lane in zip(models, self.lanes, strict=True):
            pool = self.router.find(name).pool
            endpoint = InstanceEndpoint(f"{name}/1#0", "", "node", "", ("", 0))
            pool.links.append(Link(endpoint, pool, is_local=True))
            pool.links[0].lane = lane
        self.control = Repository()
        self.plane = DataPlane("triton", self.router, SlabPool(1 << 20), self.control)

    async def counts(self) -> list[int]:
        rows = (await self.plane.statistics())["model_stats"]
        return [row["inference_count"] for row in rows]


def counted(count: int) -> bytes:
    return encode(Snapshot(inference_count=count))


def test_statistics_of_300_models_take_as_long_as_those_of_one() -> None:
    async def main() -> None:
        here = Server(*(counted(at) for at in range(300)))
        assert await here.counts() == list(range(300))
        assert asyncio.get_running_loop().time() == ANSWER_S

    virtual_time.run(main())


def test_instances_that_hang_cost_one_deadline_and_only_their_own_counts() -> None:
    async def main() -> None:
        here = Server(counted(1), None, None, b"\xc1", counted(5))
        assert await here.counts() == [1, 0, 0, 0, 5]
        assert asyncio.get_running_loop().time() == DEADLINE_S

    virtual_time.run(main())


def test_a_controller_that_hangs_costs_no_more_than_the_deadline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        here = Server(counted(1), is_cached=True)

        async def hang() -> list[bytes]:
            await asyncio.sleep(60)
            return []

        here.control.router_reports = hang  # type: ignore[method-assign]
        assert await here.counts() == [1]
        assert asyncio.get_running_loop().time() == DEADLINE_S
        assert "only the counters of this process are shown" in caplog.text

    virtual_time.run(main())


def test_what_is_made_is_shared_by_all_who_ask_before_its_making_begins() -> None:
    async def main() -> None:
        begun: list[float] = []
        loop = asyncio.get_running_loop()

        async def make() -> int:
            begun.append(loop.time())
            await asyncio.sleep(1)
            return len(begun)

        recent = Recent(make)
        first = [asyncio.create_task(recent.new()) for _ in range(5)]
        await asyncio.sleep(0.5)
        later = [asyncio.create_task(recent.new()) for _ in range(5)]
        assert await asyncio.gather(*first, *later) == [1] * 5 + [2] * 5
        assert begun == [0, 1]
        assert await recent.at_most_old(1) == 2
        await asyncio.sleep(2)
        assert await recent.at_most_old(1) == 3

    virtual_time.run(main())


def test_making_that_failed_is_tried_again_by_the_next_who_asks() -> None:
    async def main() -> None:
        outcomes = iter([ValueError("once"), None])

        async def make() -> str:
            error = next(outcomes)
            if error is not None:
                raise error
            return "made"

        recent = Recent(make)
        with pytest.raises(ValueError, match="once"):
            await recent.new()
        assert await recent.new() == "made"

    virtual_time.run(main())


def test_a_node_without_an_ingress_is_told_once_and_by_name() -> None:
    async def main() -> None:
        here = Server(counted(1), counted(2))
        (link,) = here.router.find("m1").pool.links
        link.endpoint = replace(link.endpoint, node_id="far")

        async def page(*with_ingress: str) -> str:
            async def read() -> NodeRoles:
                return NodeRoles(with_ingress, ("far", "empty"))

            here.plane.page.read_node_roles = read
            return (await here.plane.metrics_text()).decode()

        own = 'nv_inference_count{model="m0",version="1"} 1'
        far = 'nv_inference_count{model="m1",node="far",version="1"} 2'
        alone = await page("node")
        assert own in alone
        assert far in alone
        assert 'model="m1",version="1"} 0' in alone
        assert 'model="m0",node=' not in alone
        assert "empty" not in alone
        assert 'node="' not in await page()

    virtual_time.run(main())
