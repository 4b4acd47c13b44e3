# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where a controller's instances start, one after the other and at once."""

import asyncio
from collections import Counter
from dataclasses import replace

from cluster.instances.device_leases import DeviceLeases
from cluster.instances.placer import Placer
from cluster.placement.demand import ClusterResources, NodeResources
from cluster.placement.node_devices import NodeDevices
from cluster.placement.nodes import SharedLook
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.spec import InstanceDescription, InstanceSpec
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.instance_host import spec


class _World:
    """Nodes whose Ray never counts what is started on them."""

    def __init__(self, names: str, cpus: float = 8.0) -> None:
        self.nodes = tuple(
            NodeResources(name, {"CPU": cpus}, {"CPU": cpus}, names=frozenset((name,)))
            for name in names
        )
        self.looks = 0
        self.is_away = False
        self.waits: list[str] = []
        self.placer = self.a_new_controller()

    def a_new_controller(self) -> Placer:
        look = SharedLook(self._look)
        self.placer = Placer(look, DeviceLeases(look, NodeDevices(None)))  # type: ignore[arg-type]  # there is no GPU to ask for
        return self.placer

    async def _look(self) -> ClusterResources:
        self.looks += 1
        await asyncio.sleep(0.01)
        if self.is_away:
            raise ConnectionError("no head")
        return ClusterResources(self.nodes)

    async def place(self, wanted: InstanceSpec) -> str:
        placed = await self.placer.wait_assigned(wanted, self.waits.append)
        return "" if placed.node is None else placed.node.node_id


def wanting(index: int, cpus: float = 0.001, name: str = "m", nodes: str = "") -> InstanceSpec:
    made = spec(index, name)
    pins = {"placement.nodes": nodes} if nodes else {}
    return replace(made, num_cpus=cpus, config=replace(made.config, parameters=pins))


def live(of: InstanceSpec, node_id: str) -> InstanceDescription:
    endpoint = InstanceEndpoint(of.name, "i", node_id, "", ("", 0))
    return InstanceDescription(of, of.config, endpoint, 1, 1)


@in_virtual_time
async def test_instances_that_start_at_once_are_apart_after_one_look() -> None:
    world = _World("abc")
    nodes = await asyncio.gather(*(world.place(wanting(index)) for index in range(6)))
    assert Counter(nodes) == {"a": 2, "b": 2, "c": 2}
    assert world.looks == 1


@in_virtual_time
async def test_what_ray_does_not_count_yet_is_given_once() -> None:
    world = _World("ab", cpus=4.0)
    nodes = [await world.place(wanting(index, cpus=3.0)) for index in range(3)]
    assert nodes == ["a", "b", ""]


@in_virtual_time
async def test_an_instance_that_starts_anew_may_be_where_it_was() -> None:
    world = _World("ab")
    first, second = wanting(0), wanting(1)
    assert [await world.place(first), await world.place(second)] == ["a", "b"]
    assert await world.place(first) == "a"


@in_virtual_time
async def test_a_new_controller_learns_places_from_the_instances_it_adopts() -> None:
    world = _World("ab")
    await world.place(wanting(0))
    placer = world.a_new_controller()
    placer.loaded(live(wanting(0), "a"))
    assert await world.place(wanting(1)) == "b"
    placer.release(wanting(0).name)
    placer.release(wanting(1).name)
    placer.release("never placed")
    assert await world.place(wanting(2)) == "a"


@in_virtual_time
async def test_a_pinned_instance_starts_when_its_node_has_room_again() -> None:
    world = _World("ab", cpus=1.0)
    here = wanting(0, cpus=1.0, nodes="a")
    assert await world.place(here) == "a"
    coming = asyncio.create_task(world.place(wanting(1, cpus=1.0, nodes="a")))
    await asyncio.sleep(0.5)
    assert not coming.done()
    assert "none of its nodes (a) has free" in world.waits[0]
    world.placer.release(here.name)
    assert await coming == "a"


@in_virtual_time
async def test_one_more_node_may_help_who_is_pinned_to_a_node_that_is_not_there() -> None:
    world = _World("ab", cpus=1.0)
    await world.place(wanting(0, cpus=1.0, nodes="a"))
    full, lost = wanting(1, cpus=1.0, nodes="a"), wanting(2, cpus=1.0, nodes="a,c")
    tasks = [asyncio.create_task(world.place(each)) for each in (full, lost)]
    await asyncio.sleep(0.5)
    assert set(world.placer.waiting_for_nodes) == {lost.name}
    for task, each in zip(tasks, (full, lost), strict=True):
        task.cancel()
        world.placer.release(each.name)
    assert not world.placer.waiting_for_nodes


@in_virtual_time
async def test_who_was_displaced_waits_until_the_other_has_room() -> None:
    world = _World("ab")
    high, low = wanting(0, name="high"), wanting(1, name="low")
    world.placer.waits(high, "waiting for resources")
    world.placer.displaced(low.name, high.name)
    coming = asyncio.create_task(world.place(low))
    await asyncio.sleep(20)
    assert not coming.done()
    assert set(world.waits) == {
        f"waiting until {high.name}, which has a higher priority, has got its room"
    }
    world.placer.has_room(high.name)
    assert await coming == "a"
    assert not world.placer.waiting


@in_virtual_time
async def test_who_is_given_a_place_waits_no_longer() -> None:
    world = _World("ab")
    world.placer.waits(wanting(0), "waiting for resources")
    assert list(world.placer.waiting) == [wanting(0).name]
    await world.place(wanting(0))
    assert not world.placer.waiting


@in_virtual_time
async def test_who_ends_while_it_waits_holds_nobody_up() -> None:
    world = _World("ab")
    world.placer.waits(wanting(0), "waiting for resources")
    world.placer.displaced(wanting(1).name, wanting(0).name)
    coming = asyncio.create_task(world.place(wanting(1)))
    await asyncio.sleep(1)
    world.placer.release(wanting(0).name)
    assert await coming == "a"


@in_virtual_time
async def test_while_the_head_is_away_ray_chooses_and_who_is_pinned_waits() -> None:
    world = _World("ab")
    world.is_away = True
    assert await world.place(wanting(0)) == ""
    coming = asyncio.create_task(world.place(wanting(1, nodes="b")))
    await asyncio.sleep(1)
    assert world.waits == [
        "waiting for word of the nodes, which Ray does not give; it is asked again"
    ]
    world.is_away = False
    assert await coming == "b"
