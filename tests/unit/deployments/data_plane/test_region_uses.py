# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A region that was unregistered while requests use it stays until the last of them has ended."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backends.api.errors import (
    AlreadyExistsError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)
from backends.api.request import EMPTY, Extent, InferenceRequest, InferenceResponse, Tensor
from deployments.contracts.routing_table import Model, RoutingTable
from deployments.data_plane.data_plane import DataPlane
from deployments.lane.server import ServerRequest
from deployments.settings.server_settings import ServerSettings, SettingsChange, changed
from deployments.supervision.memory_budget import MemoryBudget
from tests.support.cluster_of_instances import Instance, Routed, table
from tests.support.lane_rig import Sink, until
from tests.support.memory_plane import Repository


class Control(Repository):
    """A controller of one router."""

    def __init__(self, here: Routed) -> None:
        super().__init__()
        self.settings = ServerSettings()
        self.error: UnavailableError | None = None
        self._here = here

    async def change_settings(self, change: SettingsChange) -> ServerSettings:
        if self.error is not None:
            raise self.error
        self.settings = changed(self.settings, change)
        self.publish()
        return self.settings

    def publish(self) -> None:
        now = table(*self._here.instances)
        self._here.router.update(
            RoutingTable(now.version, now.models, initialised=True, settings=self.settings)
        )


@pytest.fixture
def key() -> Iterator[str]:
    path = Path(f"/dev/shm/manta-uses-{os.getpid()}")
    path.write_bytes(bytes(64))
    yield path.name
    path.unlink()


class Server:
    """A data plane with one region, and an instance that answers when the test says so."""

    def __init__(self, here: Routed, key: str) -> None:
        self.here = here
        self.key = key
        self.control = Control(here)
        self.plane = DataPlane("", here.router, here.slabs, self.control, allow_client_memory=True)

    async def register(self) -> None:
        await self.plane.settings.register_system("r", self.key, 0, 64)

    async def unregister(self) -> None:
        await self.plane.settings.unregister()

    def names(self) -> list[str]:
        return [region.name for region in self.plane.settings.regions()]

    async def start(self) -> Sink:
        sink, count = Sink(), len(self.asked)
        tensor = Tensor("A", "INT32", (2,), EMPTY, Extent("r", 0, 8))
        asked = InferenceRequest("m", inputs=[tensor], regions={"B": Extent("r", 8, 8)})
        self.plane.infer(self.plane.resolve("m"), asked, sink)
        await until(lambda: len(self.asked) == count + 1)
        return sink

    @property
    def asked(self) -> list[ServerRequest]:
        return self.here.instances[0].handler.requests

    async def answer(self, at: int, sink: Sink) -> None:
        self.asked[at].respond(InferenceResponse("m", "1"), final=True)
        await sink.ended


async def test_a_region_in_use_stays_until_the_request_has_ended(key: str) -> None:
    async with Routed(Instance()) as routed:
        here = Server(routed, key)
        await here.register()
        sink = await here.start()
        await here.unregister()
        assert here.names() == ["r"]
        await here.answer(0, sink)
        assert here.names() == []
        with pytest.raises(NotFoundError, match="Unable to find shared memory region: 'r'"):
            await here.start()
        await until(lambda: not here.control.settings.regions)
        await here.register()
        assert here.names() == ["r"]


async def test_a_region_that_waits_for_its_end_serves_further_requests(key: str) -> None:
    async with Routed(Instance()) as routed:
        here = Server(routed, key)
        await here.register()
        first = await here.start()
        await here.unregister()
        second = await here.start()
        await here.answer(0, first)
        assert here.names() == ["r"]
        with pytest.raises(AlreadyExistsError):
            await here.register()
        await here.answer(1, second)
        assert here.names() == []
        await here.register()
        assert here.names() == ["r"]


async def test_a_region_nothing_uses_leaves_at_once(key: str) -> None:
    async with Routed(Instance()) as routed:
        here = Server(routed, key)
        await here.register()
        await here.answer(0, await here.start())
        assert here.names() == ["r"]
        await here.unregister()
        assert not here.control.settings.regions


async def test_a_request_that_could_not_be_sent_uses_no_region(key: str) -> None:
    async with Routed(Instance()) as routed:
        here = Server(routed, key)
        await here.register()
        model = here.plane.resolve("m")
        tensor = Tensor("A", "INT32", (2,), EMPTY, Extent("r", 0, 8))
        asked = InferenceRequest("m", inputs=[tensor], regions={})
        far = replace(routed.instances[0].endpoint, incarnation="far", node_id="another")
        now = table(routed.instances[0])
        entry = replace(now.models["m"].versions[0], instances=(far,))
        settings = here.control.settings
        routed.router.update(replace(now, models={"m": Model("m", (entry,))}, settings=settings))
        with pytest.raises(UnavailableError, match="no instance on this node"):
            here.plane.infer(model, asked, Sink())
        await here.unregister()
        assert not here.control.settings.regions


async def test_a_region_the_controller_could_not_forget_is_listed_again(
    key: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Routed(Instance()) as routed:
        here = Server(routed, key)
        await here.register()
        sink = await here.start()
        await here.unregister()
        here.control.error = UnavailableError("the model controller cannot be reached")
        await here.answer(0, sink)
        await until(lambda: here.names() == ["r"])
        assert "stays: the model controller cannot be reached" in caplog.text


async def test_copies_out_of_regions_are_in_the_memory_budget_until_the_answer(key: str) -> None:
    async with Routed(Instance()) as routed:
        here = Server(routed, key)
        await here.register()
        budget = here.plane.settings.uses.budget = MemoryBudget(20)
        sinks = [await here.start() for _ in range(2)]
        assert budget.used_bytes == 16
        with pytest.raises(ResourceExhaustedError) as caught:
            await here.start()
        assert caught.value.message == (
            "Server is too busy to copy 8 bytes out of shared memory regions: 16 of 20 bytes for "
            "messages of all connections are in use, try again later"
        )
        for at, sink in enumerate(sinks):
            await here.answer(at, sink)
        assert budget.used_bytes == 0
        await here.unregister()
        assert not here.control.settings.regions
