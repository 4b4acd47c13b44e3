# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The nodes of a cluster while some of them leave."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from ray.exceptions import RayError, RpcError, WorkerCrashedError

from cluster.devices.inventory import Inventory
from cluster.placement import nodes
from cluster.placement.demand import ClusterResources
from cluster.placement.nodes import (
    SHARED_S,
    SharedLook,
    draining_nodes,
    emptied_nodes,
    read_cluster,
    read_devices,
    read_draining,
)
from tests.support import virtual_time
from tests.support.fake_ray import FakeRay

OTHER = "bb" * 28
FOUND = Inventory((), ("no driver",))


async def test_a_node_is_read_with_what_is_free_its_labels_and_all_its_names(fake: FakeRay) -> None:
    fake.add_node(OTHER, {"CPU": 4.0}, Labels={"zone": "a"}, NodeManagerHostname="h2")
    fake.free[OTHER]["CPU"] = 1.0
    _, node = (await read_cluster()).nodes
    assert (node.total, node.available) == ({"CPU": 4.0}, {"CPU": 1.0})
    assert (node.labels, node.names) == ({"zone": "a"}, {OTHER, "10.0.0.1", "h2"})


async def test_a_node_that_has_left_is_none_of_the_cluster(fake: FakeRay) -> None:
    fake.add_node(OTHER, {"CPU": 4.0})
    fake.remove_node(fake.node_id)
    assert [node.node_id for node in (await read_cluster()).nodes] == [OTHER]


async def test_a_node_that_joins_while_it_is_read_has_nothing_free_yet(fake: FakeRay) -> None:
    fake.add_node(OTHER, {"CPU": 4.0}, Labels=None)
    del fake.free[OTHER]
    node = (await read_cluster()).nodes[1]
    assert (node.available, node.labels) == ({}, {})


async def test_a_node_that_drains_is_told_from_the_others(fake: FakeRay) -> None:
    fake.add_node(OTHER, {"CPU": 4.0})
    fake.draining = {OTHER}
    assert await read_draining() == draining_nodes() == {OTHER}
    drains = {node.node_id: node.is_draining for node in (await read_cluster()).nodes}
    assert drains == {fake.node_id: False, OTHER: True}


def test_a_node_is_emptied_that_drains_and_has_nothing_reserved(fake: FakeRay) -> None:
    fake.add_node(OTHER, {"CPU": 4.0})
    fake.draining = {OTHER}
    fake.free[OTHER]["CPU"] = 3.0
    assert emptied_nodes() == frozenset()
    fake.free[OTHER]["CPU"] = 4.0
    assert emptied_nodes() == {OTHER}


async def test_a_head_that_is_away_is_an_error_and_not_a_cluster_without_nodes(
    fake: FakeRay,
) -> None:
    fake.is_away = True
    with pytest.raises(RayError):
        await read_cluster()
    with pytest.raises(RayError):
        await read_draining()


def on_node(fake: FakeRay, monkeypatch: pytest.MonkeyPatch, read: Callable[[], Any]) -> None:
    monkeypatch.setattr(nodes, "_READ_LOCAL", fake.remote(num_cpus=0)(read))


def read_local() -> Inventory:
    return FOUND


async def test_the_devices_of_a_node_are_read_there(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def options(self: Any, **given: Any) -> Any:
        seen.append(given["scheduling_strategy"])
        return self

    on_node(fake, monkeypatch, read_local)
    monkeypatch.setattr(type(nodes._READ_LOCAL), "options", options)
    assert await read_devices(OTHER) == FOUND
    ((strategy),) = seen
    assert (strategy.node_id, strategy.soft) == (OTHER, False)


def test_a_question_that_hangs_is_ended_by_force_and_over_when_its_process_is(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.held = {"read_local"}
    on_node(fake, monkeypatch, read_local)

    async def main() -> None:
        reading = asyncio.create_task(read_devices(OTHER))
        await asyncio.sleep(31.0)
        ((answer, is_forced),) = fake.cancelled
        assert is_forced
        await asyncio.sleep(600.0)
        assert not reading.done()
        answer.answer.set_exception(WorkerCrashedError())
        with pytest.raises(OSError, match="no answer within 30 s"):
            await reading

    virtual_time.run(main())


def test_looks_at_the_same_time_are_one_also_one_that_takes_long_and_one_that_fails() -> None:
    looks: list[float] = []
    found, failures = ClusterResources(), [RpcError("no head")]

    async def look() -> ClusterResources:
        looks.append(asyncio.get_running_loop().time())
        await asyncio.sleep(20.0 if len(looks) == 1 else 0.01)
        if len(looks) == 2:
            raise failures.pop()
        return found

    async def main() -> None:
        shared = SharedLook(look)
        pending = [asyncio.create_task(shared()) for _ in range(100)]
        for _ in range(19):
            await asyncio.sleep(1.0)
            pending.append(asyncio.create_task(shared()))
        assert set(map(id, await asyncio.gather(*pending))) == {id(found)}
        assert looks == [0.0]
        with pytest.raises(RpcError):
            await shared()
        assert await asyncio.gather(shared(), shared()) == [found, found]
        await asyncio.sleep(SHARED_S / 2)
        await shared()
        assert len(looks) == 3
        await asyncio.sleep(SHARED_S)
        await shared()
        assert len(looks) == 4

    virtual_time.run(main())


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RpcError("The task was lost.\n\nThe node with id bb has died\n"), "^The node with id bb"),
        (WorkerCrashedError(), "crashed|died"),
    ],
)
async def test_a_node_that_leaves_while_it_is_asked_is_an_error_on_one_line(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch, error: RayError, said: str
) -> None:
    on_node(fake, monkeypatch, read_local)
    fake.failures["read_local"] = [error]
    with pytest.raises(OSError, match=said) as caught:
        await read_devices(OTHER)
    assert "\n" not in str(caught.value)
