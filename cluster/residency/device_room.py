# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who rests so that a version that is being woken finds a place: a device, its memory, or a node.

An instance of such a version waits when no device has the memory that its model took before, when
all MIG devices of its profile are taken, when the GPUs are above their load limit, or when no node
has what it reserves. Then those that could go are tried, the one used longest ago first, until it
would fit: `cluster.placement.preemption` does that, with the order of use for a priority. So all
that placement knows counts, and no more go than are needed. Of several devices the one is emptied
whose latest use is the oldest.

Who was chosen gets the time to end, and who waits the time to take the room, before more are
chosen: memory of a GPU is reported some seconds after it was freed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from cluster.instances.placer import Placer, Waiting
from cluster.instances.pool import InstancePool
from cluster.placement.demand import ClusterResources
from cluster.placement.preemption import Devices, Occupant, to_leave
from cluster.residency.policy import Key, Resident
from cluster.threads import COMPUTING

_log = logging.getLogger(__name__)

# What who waits gets to take its place, once the room is free; more than what is between two looks
# at the devices.
SETTLE_S: Final = 10.0


@dataclass(slots=True, eq=False)
class RoomMade:
    """Who makes room for whom; who waits is given time to take it before others are chosen.

    Attributes:
        settle_s: That time, once nobody who leaves has a place any more.
    """

    settle_s: float
    # By who waits: who leaves, and until when that is waited for.
    _made: dict[str, tuple[Sequence[str], float]] = field(default_factory=dict)

    def keep(self, waiting: Collection[str]) -> None:
        """Forget those who do not wait any more."""
        self._made = {name: made for name, made in self._made.items() if name in waiting}

    def begin(self, name: str, leaving: Sequence[str]) -> None:
        """Note who leaves for one that waits."""
        self._made[name] = leaving, _now_s() + self.settle_s

    def is_underway(self, name: str, placer: Placer) -> bool:
        """Whether one that waits may still take the room that is made for it."""
        if name not in self._made:
            return False
        leaving, until_s = self._made[name]
        if any(map(placer.has_place, leaving)):
            self.begin(name, leaving)
            return True
        return _now_s() < until_s


@dataclass(slots=True, eq=False)
class DeviceRoom:
    """Chooses who rests.

    Attributes:
        placer: Knows who waits, and who has which place.
        read_cluster: Returns the nodes, with their GPUs.
        pool_of: Returns the instances of a version.
    """

    placer: Placer
    read_cluster: Callable[[], Awaitable[ClusterResources]]
    pool_of: Callable[[str, int], InstancePool | None]
    _room: RoomMade = field(default_factory=lambda: RoomMade(SETTLE_S))

    async def to_rest(
        self, idle: Collection[Resident], waking: Collection[str]
    ) -> tuple[tuple[Key, ...], bool]:
        """Return which versions rest, for one of those that wait.

        Args:
            idle: Versions that may go.
            waking: Keys of the models that are being woken.

        Returns:
            The versions, mostly none; and whether some version waits for a place.
        """
        claims = [each for each in self.placer.waiting.values() if each.spec.model_key in waking]
        self._room.keep({each.spec.name for each in claims})
        occupants = list(self._occupants(idle)) if claims else []
        if not occupants:
            return (), bool(claims)
        try:
            cluster = await self.read_cluster()
        except Exception as error:
            # Ray's client raises what it likes.
            _log.warning("nobody rests for what waits: %s", error)
            return (), True
        for claim in claims:
            if self._room.is_underway(claim.spec.name, self.placer):
                continue
            chosen = await self._for(claim, cluster, [each for _, each in occupants])
            if chosen:
                keys = {key for key, each in occupants if each.spec.name in chosen}
                # All instances of a version go, wherever they are.
                leaving = [each.spec.name for key, each in occupants if key in keys]
                self._room.begin(claim.spec.name, leaving)
                return tuple(sorted(keys)), True
        return (), True

    async def _for(
        self, claim: Waiting, cluster: ClusterResources, occupants: Sequence[Occupant]
    ) -> tuple[str, ...]:
        devices = self.placer.devices
        cluster = cluster.supported(devices.rules.min_compute_capability)
        given = Devices(dict(devices.leases), devices.admission(claim.spec))
        # With hundreds of instances it takes longer than the loop may stand still.
        return await COMPUTING.run(to_leave, claim.spec, cluster, occupants, given)

    def _occupants(self, idle: Iterable[Resident]) -> Iterator[tuple[Key, Occupant]]:
        """Yield the live instances; what was used longest ago has the lowest priority."""
        order = sorted(idle, key=lambda each: (each.used_s, each.key))
        for rank, resident in enumerate(order):
            pool = self.pool_of(*resident.key)
            for place in pool.places if pool is not None else ():
                if place.node_id and not place.is_leaving:
                    yield resident.key, Occupant(place.spec, place.node_id, rank)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
