# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A model that is loaded by its first use is waited for by whoever meets it."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

import pytest

from backends.api.errors import InternalError, TritonError, UnavailableError
from deployments.contracts.routing_table import (
    UNLOADED_REASON,
    Model,
    ModelReadyState,
    ModelVersion,
    RoutingTable,
)
from deployments.contracts.wake_limits import DEFAULT_WAKES, WakeLimits
from deployments.routing.wakes import Wakes, waits_for
from tests.support import virtual_time
from tests.support.cluster_of_instances import table

UNREAD = RoutingTable(1, {"m": Model("m", is_on_demand=True)}, initialised=True)


class World:
    """A router's table, and a controller that loads in a second."""

    def __init__(self, limits: WakeLimits = DEFAULT_WAKES, load_s: float = 1.0) -> None:
        self.table = UNREAD
        self.calls: list[tuple[str, int]] = []
        self.error: TritonError | None = None
        self.away = 0
        self.load_s = load_s
        self.wakes = Wakes(self.wake, limits)

    async def wake(self, key: str, version: int) -> TritonError | None:
        self.calls.append((key, version))
        if self.away:
            self.away -= 1
            raise UnavailableError("the model controller cannot be reached")
        await asyncio.sleep(self.load_s)
        if self.error is None:
            # Routers hear of it some time after the answer.
            asyncio.get_running_loop().call_later(0.1, self.arrive)
        return self.error

    def arrive(self) -> None:
        self.table = table()
        self.wakes.table_changed()

    def use(self) -> Awaitable[None]:
        use = self.wakes.first_use("m", lambda: self.table)
        assert use is not None
        return use


def test_all_that_meet_the_model_wait_for_one_load_and_for_the_table() -> None:
    async def main() -> None:
        world = World()
        await asyncio.gather(*(world.use() for _ in range(100)))
        assert world.calls == [("m", -1)]
        assert world.table.ready("m") is not None
        assert world.wakes.first_use("m", lambda: world.table) is None

    virtual_time.run(main())


def test_a_model_that_is_not_loaded_on_demand_has_no_first_use() -> None:
    async def main() -> None:
        wakes = World().wakes
        assert wakes.first_use("m", table) is None
        assert wakes.first_use("unknown", lambda: UNREAD) is None

    virtual_time.run(main())


def test_a_failed_load_is_everybodys_error_and_the_next_use_loads_again() -> None:
    async def main() -> None:
        world = World()
        world.error = InternalError("no such file")
        outcomes = await asyncio.gather(world.use(), world.use(), return_exceptions=True)
        assert outcomes == [world.error, world.error]
        world.error = None
        await world.use()
        assert len(world.calls) == 2

    virtual_time.run(main())


def test_a_use_survives_a_controller_that_is_away() -> None:
    async def main() -> None:
        world = World()
        world.away = 2
        await world.use()
        assert len(world.calls) == 3

    virtual_time.run(main())


def test_a_use_is_asked_for_again_when_the_load_found_no_room_and_told_why_in_the_end() -> None:
    async def main() -> None:
        world = World(WakeLimits(wait_s=60), load_s=20.0)
        # An answer without the model in the table: it was given up.
        world.arrive = lambda: None  # type: ignore[method-assign]
        use = asyncio.ensure_future(world.use())
        await asyncio.sleep(30)
        assert len(world.calls) == 1
        model = replace(world.table.models["m"], waits_for="'n' holds the room")
        world.table = RoutingTable(2, {"m": model}, initialised=True)
        world.wakes.table_changed()
        with pytest.raises(UnavailableError, match="within 60 s: 'n' holds the room; the request"):
            await use
        assert len(world.calls) == 2

    virtual_time.run(main())


def test_what_a_start_waits_for_is_what_the_versions_say_that_start() -> None:
    def after(*versions: ModelVersion, text: str = "") -> str:
        model = Model("m", versions, waits_for=text)
        return waits_for(RoutingTable(1, {"m": model}), "m")

    unloaded = ModelVersion(1, ModelReadyState.UNAVAILABLE, UNLOADED_REASON)
    dormant = ModelVersion(2, ModelReadyState.READY, "waiting for GPU memory", is_dormant=True)
    loading = ModelVersion(3, ModelReadyState.LOADING, "waiting for a node")
    assert after(unloaded, dormant, loading) == "waiting for GPU memory; waiting for a node"
    assert after(unloaded, dormant, text="no room") == "no room"
    assert after(unloaded) == ""
    assert waits_for(RoutingTable(), "m") == ""


def test_a_use_beyond_the_bounds_is_refused_with_a_time_to_retry() -> None:
    async def main() -> None:
        world = World(WakeLimits(request_count=1, wait_s=60), load_s=1000)
        first = asyncio.ensure_future(world.use())
        await asyncio.sleep(0)
        with pytest.raises(UnavailableError, match="1 requests wait for it already") as refused:
            await world.use()
        assert refused.value.retry_after_s >= 1
        with pytest.raises(UnavailableError, match="none has started within 60 s"):
            await first
        assert asyncio.get_running_loop().time() == 60

    virtual_time.run(main())
