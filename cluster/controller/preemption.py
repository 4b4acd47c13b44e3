# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Gives instances of a high priority that wait the room of idle ones of a lower.

Nothing is asked while nobody waits who could displace anybody. Else instances of lower priorities
are asked how often they have executed; those are idle on which nothing runs or waits, and that have
executed nothing for a while.
"""

import asyncio
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from backends.config.placement import read_priority
from cluster.controller.host import Actors, Nodes
from cluster.instances.placer import Waiting
from cluster.models.lifecycle import ModelLifecycle
from cluster.placement.preemption import Devices, Occupant, priority_of, to_displace
from cluster.residency.device_room import RoomMade
from cluster.residency.keeper import Use, sequence_idle_s
from cluster.threads import COMPUTING
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.spec import InstanceSpec

# How long an instance must have executed nothing; with sequences as long as these may be idle.
IDLE_S: Final = 10.0
# What Ray gets to start who waits, once the room is free.
_SETTLE_S: Final = 5.0

_Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Candidate:
    occupant: Occupant
    key: _Key
    incarnation: str


@dataclass(slots=True, eq=False)
class Preemption:
    """Displaces idle instances."""

    nodes: Nodes
    actors: Actors
    lifecycle: ModelLifecycle
    _uses: dict[str, Use] = field(default_factory=dict)
    _room: RoomMade = field(default_factory=lambda: RoomMade(_SETTLE_S))

    async def look(self) -> None:
        """Displace for one of those who wait, the highest priority first."""
        waiting = self.actors.placer.waiting
        self._room.keep(waiting)
        claims = sorted(waiting.values(), key=lambda each: -priority_of(each.spec))
        highest = priority_of(claims[0].spec) if claims else 0
        lower = list(self._candidates(highest)) if claims else []
        if not lower:
            self._uses.clear()
            return
        idle = [each for each in await self._idle(lower) if self._may_go(*each.key)]
        if not idle:
            return
        cluster = await self.nodes.read_cluster()
        devices = self.actors.placer.devices
        occupants = [each.occupant for each in idle]
        in_vain: set[Hashable] = set()
        for claim in claims:
            spec = claim.spec
            alike = (spec.model_key, spec.version, spec.kind, spec.device_id)
            if alike in in_vain or self._room.is_underway(spec.name, self.actors.placer):
                continue
            given = Devices(dict(devices.leases), devices.admission(spec))
            # With thousands of instances it takes longer than the loop may stand still.
            leaving = await COMPUTING.run(to_displace, spec, cluster, occupants, given)
            if leaving and self._displace(claim, [e for e in idle if _name_of(e) in leaving]):
                # What is free is another now.
                return
            in_vain.add(alike)

    def _may_go(self, name: str, version: int) -> bool:
        return self.lifecycle.model_of(name).may_displace(version)

    def _displace(self, claim: Waiting, leaving: Iterable[_Candidate]) -> bool:
        by = claim.spec.name
        gone: list[str] = []
        for each in leaving:
            (name, version), names = each.key, (_name_of(each),)
            followers = self.lifecycle.model_of(name).displace(version, names, by)
            for follower in followers.values():
                self.actors.placer.displaced(follower, by)
            gone += followers
        if gone:
            self._room.begin(by, gone)
        return bool(gone)

    def _candidates(self, highest: int) -> Iterator[_Candidate]:
        """Yield the live instances of models with a lower priority."""
        for name, number, pool in self.lifecycle.pools():
            version = self.lifecycle.records[name].versions[number]
            is_lower = version.config is not None and read_priority(version.config) < highest
            if not (version.is_ready and is_lower):
                continue
            # An endpoint goes by the instance's name without its generation.
            specs = {spec.name.partition("@")[0]: spec for spec in pool.specs}
            for endpoint in version.instances:
                spec = specs.get(endpoint.name.partition("@")[0])
                if spec is not None:
                    yield _candidate(spec, endpoint, (name, number))

    async def _idle(self, candidates: Sequence[_Candidate]) -> list[_Candidate]:
        answers = await self.actors.ask_progress([each.incarnation for each in candidates])
        now_s = asyncio.get_running_loop().time()
        uses: dict[str, Use] = {}
        idle = []
        for each in candidates:
            progress = answers.get(each.incarnation)
            if progress is None or progress.is_busy:
                continue
            count = progress.load.execution_count
            known = self._uses.get(each.incarnation)
            same = known is not None and known.execution_count == count
            use = known if known is not None and same else Use(count, now_s)
            uses[each.incarnation] = use
            if now_s - use.used_s >= max(IDLE_S, sequence_idle_s(each.occupant.spec.config)):
                idle.append(each)
        self._uses = uses
        return idle


def _candidate(spec: InstanceSpec, endpoint: InstanceEndpoint, key: _Key) -> _Candidate:
    occupant = Occupant(spec, endpoint.node_id, priority_of(spec))
    return _Candidate(occupant, key, endpoint.incarnation)


def _name_of(candidate: _Candidate) -> str:
    return candidate.occupant.spec.name
