# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A router's watch of the routing table goes on whatever the controller answers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from backends.api.errors import InternalError, UnavailableError, UnsupportedError
from cluster.actors import controller_client
from cluster.actors.controller_client import ControllerClient
from cluster.controller.routing_publisher import RoutingPublisher
from deployments.contracts.routing_table import RoutingTable
from tests.support import virtual_time


class _Method:
    def __init__(self, answer: Callable[..., Awaitable[Any]]) -> None:
        self.remote = answer


class Controller:
    """The handle of an actor with one publisher, and what its next calls fail with."""

    def __init__(self, clock_ns: int = 1000) -> None:
        self.publisher = RoutingPublisher({}, lambda: clock_ns)
        self.publisher.release()
        self.failures: list[Exception] = []
        self.timeouts_s: list[float] = []
        self.routing_table = _Method(self._poll)

    async def _poll(self, known_version: int, timeout_s: float, *rest: Any) -> Any:
        self.timeouts_s.append(timeout_s)
        if self.failures:
            raise self.failures.pop(0)
        return await self.publisher.poll(known_version, timeout_s, *rest)


def test_an_error_raised_in_the_controller_is_retried() -> None:
    async def main() -> None:
        controller = Controller()
        controller.failures = [InternalError("TypeError: 'NoneType'"), ValueError("no actor")]
        tables: list[RoutingTable] = []
        watch = asyncio.create_task(
            ControllerClient(lambda: controller).watch_routing_table(tables.append)
        )
        await asyncio.sleep(2)
        assert not watch.done()
        assert len(tables) == 1
        watch.cancel()

    virtual_time.run(main())


def test_a_controller_of_a_release_that_does_not_list_something_is_unsupported() -> None:
    client = ControllerClient(Controller)
    with pytest.raises(UnsupportedError, match="does not list instances; finish the upgrade"):
        virtual_time.run(client.instances())
    with pytest.raises(UnsupportedError, match="does not list events; finish the upgrade"):
        virtual_time.run(client.events(since=0))


def test_a_report_is_made_when_one_is_asked_for_and_not_with_every_table() -> None:
    async def main() -> None:
        controller = Controller()
        made: list[bytes] = []
        updates: list[RoutingTable] = []

        def report() -> bytes:
            made.append(b"report %d" % len(made))
            return made[-1]

        watch = asyncio.create_task(
            ControllerClient(lambda: controller).watch_routing_table(updates.append, report)
        )
        await asyncio.sleep(1)
        for _ in range(5):
            controller.publisher.changed()
            await asyncio.sleep(1)
        assert len(updates) == 6
        assert len(made) == 1
        assert await controller.publisher.collect("another", 1) == [b"report 1"]
        assert len(updates) == 6
        watch.cancel()

    virtual_time.run(main())


def test_long_polls_of_several_routers_end_apart() -> None:
    async def main() -> None:
        controller = Controller()
        watches = [
            asyncio.create_task(
                ControllerClient(lambda: controller).watch_routing_table(lambda table: None)
            )
            for _ in range(20)
        ]
        await asyncio.sleep(1)
        assert len(set(controller.timeouts_s)) == len(controller.timeouts_s)
        assert all(20 < timeout_s < 40 for timeout_s in controller.timeouts_s)
        for watch in watches:
            watch.cancel()

    virtual_time.run(main())


def test_a_restarted_controller_sends_its_whole_table() -> None:
    async def main() -> None:
        earlier, later = Controller(1000), Controller(5000)
        found = [earlier]
        tables: list[RoutingTable] = []
        watch = asyncio.create_task(
            ControllerClient(lambda: found[0]).watch_routing_table(tables.append)
        )
        await asyncio.sleep(1)
        found[0] = later
        earlier.failures = [ValueError("the actor is gone")]
        await asyncio.sleep(60)
        assert tables[-1] == later.publisher.table()
        watch.cancel()

    virtual_time.run(main())


def test_a_wake_waits_for_a_controller_that_restarts_and_returns_the_error_of_the_load() -> None:
    async def main() -> None:
        failures: list[Exception] = [ValueError("no actor"), ValueError("no actor")]
        calls: list[tuple[str, int]] = []

        async def wake(key: str, version: int) -> InternalError:
            calls.append((key, version))
            return InternalError("no such file")

        class Handle:
            def __init__(self) -> None:
                self.wake = _Method(wake)

        def find() -> Handle:
            if failures:
                raise failures.pop(0)
            return Handle()

        error = await ControllerClient(find).wake("m", 1)
        assert isinstance(error, InternalError)
        assert calls == [("m", 1)]

    virtual_time.run(main())


class Silent:
    """The handle of an actor whose calls take as long as a test says; None is for ever."""

    def __init__(self, load_s: float | None, owner_s: float | None = 0.0) -> None:
        self.load = _Method(lambda *_: self._take(load_s))
        self.owner = _Method(lambda: self._take(owner_s))

    async def _take(self, duration_s: float | None) -> None:
        if duration_s is None:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(duration_s or 0.0)


def test_a_load_takes_as_long_as_it_takes_while_the_controller_answers() -> None:
    virtual_time.run(ControllerClient(lambda: Silent(load_s=1000)).load("m", {}))


def test_a_load_at_a_controller_that_answers_nobody_fails_within_the_bound() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        with pytest.raises(UnavailableError, match=r"controller cannot be reached.*try again"):
            await ControllerClient(lambda: Silent(load_s=None, owner_s=None)).load("m", {})
        assert loop.time() - began_s < 40

    virtual_time.run(main())


def test_a_lookup_that_never_ends_is_one_lookup_and_calls_that_need_it_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lookups: list[Callable[[], Any]] = []

    def never(find: Callable[[], Any]) -> asyncio.Future[Any]:
        lookups.append(find)
        return asyncio.get_running_loop().create_future()

    monkeypatch.setattr(controller_client.GCS, "run", never)

    async def main() -> None:
        client = ControllerClient(lambda: Silent(load_s=0))
        loads = [client.load(f"m{number}", {}) for number in range(10)]
        errors = await asyncio.gather(*loads, return_exceptions=True)
        assert {type(error) for error in errors} == {UnavailableError}
        assert len(lookups) == 1

    virtual_time.run(main())
