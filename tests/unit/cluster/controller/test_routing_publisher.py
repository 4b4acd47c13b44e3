# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import asyncio

from cluster.controller.routing_publisher import RoutingPublisher
from cluster.models.states import LifecycleEvent, ModelRecord, VersionRecord
from tests.support import virtual_time


def publisher(clock: int = 1000) -> RoutingPublisher:
    subject = RoutingPublisher({}, lambda: clock)
    subject.release()
    return subject


def test_a_waiter_gets_the_table_as_soon_as_it_changes() -> None:
    async def main() -> None:
        subject = publisher()
        known = subject.table().version
        waiting = asyncio.create_task(subject.wait_newer(known, 30))
        await asyncio.sleep(1)
        subject.changed()
        table = await waiting
        assert table is not None
        assert table.version > known
        assert asyncio.get_running_loop().time() == 1

    virtual_time.run(main())


def test_a_waiter_without_a_change_gets_nothing_after_its_timeout() -> None:
    async def main() -> None:
        subject = publisher()
        assert await subject.wait_newer(subject.table().version, 30) is None
        assert asyncio.get_running_loop().time() == 30

    virtual_time.run(main())


def test_versions_grow_even_when_the_clock_stands_still() -> None:
    subject = publisher()
    versions = []
    for _ in range(3):
        subject.changed()
        versions.append(subject.table().version)
    assert versions == sorted(set(versions))


def test_the_first_version_of_a_later_controller_is_higher() -> None:
    earlier = publisher(1_000)
    for _ in range(50):
        earlier.changed()
    assert publisher(2_000).table().version > earlier.table().version


def test_nobody_gets_a_table_before_the_first_release() -> None:
    async def main() -> None:
        subject = RoutingPublisher({}, lambda: 1000)
        waiting = asyncio.create_task(subject.wait_newer(0, 30))
        subject.changed()
        await asyncio.sleep(1)
        assert not waiting.done()
        subject.release()
        assert await waiting is not None

    virtual_time.run(main())


def test_marks_show_in_the_table() -> None:
    subject = publisher()
    assert (subject.table().initialised, subject.table().exiting) == (False, False)
    subject.mark_initialised()
    subject.mark_exiting()
    assert (subject.table().initialised, subject.table().exiting) == (True, True)


def test_models_without_versions_are_not_routed() -> None:
    known = ModelRecord("known").with_version(VersionRecord(1).after(LifecycleEvent.LOAD))
    subject = RoutingPublisher({"known": known, "failed": ModelRecord("failed")}, lambda: 1)
    assert list(subject.table().models) == ["known"]


def test_a_change_is_known_once_every_router_has_asked_for_a_newer_table() -> None:
    async def main() -> None:
        subject = publisher()
        polls = [asyncio.create_task(subject.wait_newer(0, 30, name)) for name in ("a", "b")]
        await asyncio.gather(*polls)
        subject.changed()
        waiting = asyncio.create_task(subject.wait_known(60))
        version = subject.table().version
        again = [asyncio.create_task(subject.wait_newer(version, 30, "a"))]
        await asyncio.sleep(1)
        assert not waiting.done()
        again.append(asyncio.create_task(subject.wait_newer(version, 30, "b")))
        await waiting
        assert asyncio.get_running_loop().time() == 1
        await asyncio.gather(*again)

    virtual_time.run(main())


def test_a_router_that_is_gone_holds_up_one_change_only() -> None:
    async def main() -> None:
        subject = publisher()
        await subject.wait_newer(0, 30, "gone")
        for _ in range(3):
            subject.changed()
            await subject.wait_known(1)
        assert asyncio.get_running_loop().time() == 1

    virtual_time.run(main())


def test_routers_of_an_earlier_controller_are_waited_for() -> None:
    async def main() -> None:
        subject = RoutingPublisher({}, lambda: 1000, router_ids=["early"])
        subject.release()
        waiting = asyncio.create_task(subject.wait_known(5))
        await asyncio.sleep(1)
        assert not waiting.done()
        asking = asyncio.create_task(subject.wait_newer(subject.table().version, 30, "early"))
        await waiting
        assert asyncio.get_running_loop().time() == 1
        asking.cancel()

    virtual_time.run(main())


def test_a_router_of_an_earlier_controller_that_does_not_come_is_taken_for_gone() -> None:
    async def main() -> None:
        subject = RoutingPublisher({}, lambda: 1000, router_ids=["gone"])
        subject.release()
        await subject.wait_known(5)
        assert asyncio.get_running_loop().time() == 5
        assert subject.router_ids == []

    virtual_time.run(main())
