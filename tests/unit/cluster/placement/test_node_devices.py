# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""When nodes are asked for their GPUs, and what is known of them meanwhile."""

import asyncio

from cluster.devices.inventory import Gpu, Inventory
from cluster.placement.demand import ClusterResources, NodeResources
from cluster.placement.node_devices import MAX_AGE_S, SILENT_AFTER_S, NodeDevices
from tests.support import virtual_time

READ_S = 0.5


def gpus(count: int, capability: tuple[int, int] = (8, 0)) -> Inventory:
    return Inventory(
        tuple(Gpu(n, n, f"GPU-{n}", compute_capability=capability) for n in range(count))
    )


def cluster_of(**gpu_counts: int) -> ClusterResources:
    return ClusterResources(
        tuple(NodeResources(name, {"CPU": 2, "GPU": n}) for name, n in gpu_counts.items())
    )


class _Nodes:
    def __init__(self, **inventories: Inventory | OSError) -> None:
        self.inventories = inventories
        self.asked: list[str] = []
        self.hanging: set[str] = set()

    async def read(self, node_id: str) -> Inventory:
        self.asked.append(node_id)
        while node_id in self.hanging:  # noqa: ASYNC110 - a driver tells nobody that it is back
            await asyncio.sleep(READ_S)
        await asyncio.sleep(READ_S)
        found = self.inventories[node_id]
        if isinstance(found, OSError):
            raise found
        return found


def test_only_nodes_with_gpus_are_asked() -> None:
    async def main() -> None:
        nodes = _Nodes(b=gpus(2))
        found = await NodeDevices(nodes.read).look(cluster_of(a=0, b=2))
        assert nodes.asked == ["b"]
        assert found.devices == {"b": gpus(2)}
        assert found.gpu_ids == (0, 1)

    virtual_time.run(main())


def test_without_gpus_nobody_is_asked_and_the_cluster_is_as_it_was() -> None:
    async def main() -> None:
        nodes, cluster = _Nodes(), cluster_of(a=0)
        assert await NodeDevices(nodes.read).look(cluster) == cluster
        assert nodes.asked == []

    virtual_time.run(main())


def test_a_node_that_goes_before_it_has_told_anything_is_forgotten() -> None:
    async def main() -> None:
        nodes = _Nodes(a=gpus(1), b=gpus(1))
        nodes.hanging.add("a")
        devices = NodeDevices(nodes.read)
        await devices.look(cluster_of(a=1, b=1))
        assert (await devices.look(cluster_of(b=1))).devices == {"b": gpus(1)}
        assert not devices._readings

    virtual_time.run(main())


def test_looks_at_the_same_time_share_a_report_which_is_good_for_a_while() -> None:
    async def main() -> None:
        nodes = _Nodes(a=gpus(1))
        devices = NodeDevices(nodes.read)
        await asyncio.gather(*(devices.look(cluster_of(a=2)) for _ in range(20)))
        await devices.look(cluster_of(a=2))
        assert nodes.asked == ["a"]
        await asyncio.sleep(MAX_AGE_S + 1)
        nodes.inventories["a"] = gpus(2)
        # Nobody waits for what is known, if only of half a minute ago.
        assert (await devices.look(cluster_of(a=2))).gpu_ids == (0,)
        await asyncio.sleep(2 * READ_S)
        assert (await devices.look(cluster_of(a=2))).gpu_ids == (0, 1)

    virtual_time.run(main())


def test_a_node_that_does_not_answer_keeps_what_it_told_before() -> None:
    async def main() -> None:
        nodes = _Nodes(a=gpus(2))
        devices = NodeDevices(nodes.read)
        await devices.look(cluster_of(a=2))
        nodes.inventories["a"] = OSError("gone")
        await asyncio.sleep(1)
        assert await devices.refresh("a", 0.5)
        assert (await devices.look(cluster_of(a=2))).devices == {"a": gpus(2)}

    virtual_time.run(main())


def test_where_a_node_never_told_its_gpus_ray_is_believed() -> None:
    async def main() -> None:
        nodes = _Nodes(a=OSError("gone"), b=Inventory(problems=("NVML: none",)))
        found = await NodeDevices(nodes.read).look(cluster_of(a=1, b=3))
        assert not found.devices
        assert found.gpu_ids == (0, 1, 2)

    virtual_time.run(main())


def test_a_node_that_is_gone_is_forgotten() -> None:
    async def main() -> None:
        nodes = _Nodes(a=gpus(1))
        devices = NodeDevices(nodes.read)
        await devices.look(cluster_of(a=1))
        await devices.look(cluster_of())
        await devices.look(cluster_of(a=1))
        assert nodes.asked == ["a", "a"]

    virtual_time.run(main())


def test_gpus_below_the_smallest_supported_compute_capability_are_not_there() -> None:
    async def main() -> None:
        nodes = _Nodes(a=gpus(2, (5, 2)), b=gpus(1))
        found = await NodeDevices(nodes.read).look(cluster_of(a=2, b=1))
        assert found.gpu_ids == (0, 1)
        assert found.supported(6.0).gpu_ids == (0,)
        assert found.supported(9.0).gpu_ids == ()

    virtual_time.run(main())


def test_only_what_is_stale_is_asked_again() -> None:
    async def main() -> None:
        nodes = _Nodes(a=gpus(1), b=gpus(2))
        devices = NodeDevices(nodes.read)
        await devices.look(cluster_of(a=2))
        await asyncio.sleep(MAX_AGE_S - 1)
        await devices.look(cluster_of(a=2, b=2))
        assert nodes.asked == ["a", "b"]
        await asyncio.sleep(2)
        await devices.look(cluster_of(a=2, b=2))
        await asyncio.sleep(READ_S)
        assert nodes.asked == ["a", "b", "a"]
        assert not await devices.refresh("b", MAX_AGE_S)

    virtual_time.run(main())


def test_the_report_of_a_node_is_what_it_told_last() -> None:
    async def main() -> None:
        devices = NodeDevices(_Nodes(a=gpus(2)).read)
        assert devices.report("a") == Inventory()
        await devices.look(cluster_of(a=2))
        assert devices.report("a") == gpus(2)

    virtual_time.run(main())


def test_a_node_that_says_nothing_keeps_nobody_waiting_but_once_and_is_asked_once() -> None:
    async def main() -> None:
        nodes = _Nodes(a=gpus(1), b=gpus(1))
        nodes.hanging = {"b"}
        devices, waited_s = NodeDevices(nodes.read), 0.0
        loop = asyncio.get_running_loop()
        for _ in range(600):
            begun_s = loop.time()
            found = await devices.look(cluster_of(a=1, b=1))
            assert await devices.refresh("b", 0.0) is False
            waited_s += loop.time() - begun_s
            assert found.devices == {"a": gpus(1)}
            await asyncio.sleep(1)
        assert waited_s <= SILENT_AFTER_S + READ_S
        assert nodes.asked.count("b") == 1
        nodes.hanging = set()
        await asyncio.sleep(3 * READ_S)
        assert (await devices.look(cluster_of(a=1, b=1))).devices == {"a": gpus(1), "b": gpus(1)}

    virtual_time.run(main())


def test_the_gpus_of_a_node_that_falls_silent_are_nobodys_until_it_tells_them_again() -> None:
    async def main() -> None:
        nodes = _Nodes(a=gpus(2))
        devices, cluster = NodeDevices(nodes.read), cluster_of(a=2)
        await devices.look(cluster)
        await asyncio.sleep(1)
        nodes.hanging = {"a"}
        # Who is about to take one hears that it must choose again.
        assert await devices.refresh("a", 0.0)
        found = await devices.look(cluster)
        assert (found.devices, found.gpu_ids) == ({}, (0, 1))
        nodes.inventories["a"] = OSError("no answer within 30 s")
        nodes.hanging = set()
        await asyncio.sleep(3 * READ_S)
        assert (await devices.look(cluster)).devices == {}
        nodes.inventories["a"] = gpus(2)
        await asyncio.sleep(MAX_AGE_S + 1)
        await devices.look(cluster)
        await asyncio.sleep(2 * READ_S)
        assert (await devices.look(cluster)).devices == {"a": gpus(2)}

    virtual_time.run(main())


def test_what_a_look_has_come_to_is_shared_while_nothing_changes() -> None:
    async def main() -> None:
        nodes = _Nodes(a=gpus(1))
        devices, cluster = NodeDevices(nodes.read), cluster_of(a=2)
        found = await devices.look(cluster)
        assert await devices.look(cluster) is found
        await asyncio.sleep(1)
        await devices.refresh("a", 0.5)
        assert await devices.look(cluster) is not found

    virtual_time.run(main())
