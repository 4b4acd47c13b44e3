# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A lifecycle over the server's own pools, whose actors are in memory, on virtual time."""

import asyncio
from collections.abc import Callable

from cluster.devices.inventory import Inventory
from cluster.instances.device_leases import DeviceLeases
from cluster.instances.placer import Placer
from cluster.instances.pool import InstancePool
from cluster.instances.prober import Prober
from cluster.models.contracts import Candidate
from cluster.placement.demand import ClusterResources
from cluster.placement.node_devices import NodeDevices
from tests.support.control_plane_fakes import World
from tests.support.instance_host import FakeActor, FakeHost

KILL_S = 0.05


class PooledWorld(World):
    """A world with real pools, which get their places from a real placer.

    What `World` says of its own pools (``fail``, ``blocked``, ``log``) does not hold here.

    Attributes:
        host: Where the actors are.
        placer: Gives them their places.
        leases: Who has which device.
        made: All pools there were, by age.
        prober: Finds those that hang.
    """

    def __init__(
        self,
        *candidates: Candidate,
        cluster: ClusterResources | None = None,
        retry_count: int = 0,
        patience_s: float = 0.0,
    ) -> None:
        self.host = FakeHost()
        self.host.kill_s = KILL_S
        self.made: list[InstancePool] = []
        super().__init__(*candidates, retry_count=retry_count)
        self.cluster = cluster or ClusterResources()
        self.prober = Prober(patience_s)
        self.leases = DeviceLeases(self._look, NodeDevices(self._inventory))
        self.placer = Placer(self._look, self.leases)

    def _make_pool(self, on_change: Callable[[], None]) -> InstancePool:
        pool = InstancePool(on_change, self.host, self.prober, self.placer)
        self.made.append(pool)
        return pool

    async def _look(self) -> ClusterResources:
        return self.cluster

    async def _inventory(self, node_id: str) -> Inventory:
        return self.cluster.devices.get(node_id, Inventory())

    @property
    def alive(self) -> list[str]:
        """Names of the actors that nobody has killed."""
        return [actor.spec.name for actor in self.host.alive]

    def actor(self, name: str) -> FakeActor:
        return next(actor for actor in self.host.alive if actor.spec.name == name)

    async def twice(self, unload: str) -> None:
        """Unload a model twice, the second time while the first is under way."""
        first = asyncio.create_task(self.lifecycle.unload(unload))
        await asyncio.sleep(0.02)
        await asyncio.gather(first, self.lifecycle.unload(unload))
