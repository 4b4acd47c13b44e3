# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The rate limiter of one node: which instance may execute next with the resources there are.

Every instance that needs resources is a *member*. It asks, holds its whole demand from the grant
until its execution is done, and may ask again in the same message. While an execution waits for a
model it has called, it pauses: what it holds is free for others, the called model among them, and
it is granted again, before anybody else, when the execution goes on. So models that call each other
cannot wait for each other's resources for ever, as they do in Triton.

Among those that ask, the lowest ``executions * priority`` is first, as in Triton. Two things are
better than there. Whoever is first and does not fit keeps only those waiting that need one of the
same resources, not everybody. And idle time earns nothing: who asks after a long rest is not taken
to be further behind than the last one that was granted, so that nobody is starved by it.

Triton: core/src/rate_limiter.cc @73aad7c
"""

import enum
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from backends.api.errors import InvalidArgumentError
from backends.api.evolving import evolves

# In place of the index of a device.
ALL_DEVICES: Final = -1
GLOBAL: Final = -2


class Resource(NamedTuple):
    """A resource of one device, or with the device `GLOBAL` of the whole node."""

    device: int
    name: str


@dataclass(frozen=True, slots=True)
class Limit:
    """How many there are of a resource, on one device or with `ALL_DEVICES` on each."""

    name: str
    count: int
    device: int = ALL_DEVICES


@dataclass(frozen=True, slots=True)
class ResourceDemand:
    """What an instance needs to execute.

    Attributes:
        resources: How many of each resource.
        priority: Its share is 1 / priority of that of priority 1; 0 means 1.
    """

    resources: Mapping[Resource, int]
    priority: int = 1


evolves(Limit, ResourceDemand)


class ClaimPhase(enum.Enum):
    """Where a member is."""

    IDLE = "idle"
    ASKING = "asking"
    HOLDING = "holding"
    PAUSED = "paused"
    RESUMING = "resuming"


class ClaimEvent(enum.Enum):
    """What a member says."""

    ASK = "ask"
    DONE = "done"
    DONE_AND_ASK = "done and ask"
    DECLINE = "decline"
    PAUSE = "pause"
    RESUME = "resume"


_NEXT: Final = {
    (ClaimPhase.IDLE, ClaimEvent.ASK): ClaimPhase.ASKING,
    (ClaimPhase.HOLDING, ClaimEvent.DONE): ClaimPhase.IDLE,
    (ClaimPhase.HOLDING, ClaimEvent.DONE_AND_ASK): ClaimPhase.ASKING,
    (ClaimPhase.HOLDING, ClaimEvent.DECLINE): ClaimPhase.IDLE,
    (ClaimPhase.HOLDING, ClaimEvent.PAUSE): ClaimPhase.PAUSED,
    (ClaimPhase.PAUSED, ClaimEvent.RESUME): ClaimPhase.RESUMING,
}
# What says that there was an execution, rather than a pause or nothing to execute.
_EXECUTED: Final = {ClaimEvent.DONE, ClaimEvent.DONE_AND_ASK}


@dataclass(slots=True, eq=False)
class _Member:
    demand: ResourceDemand
    phase: ClaimPhase = ClaimPhase.IDLE
    # Executions times priority, and that number as it counts while the member asks.
    score: int = 0
    rank: int = 0
    # Tells apart who waits equally: who came first.
    turn: int = 0

    @property
    def order(self) -> tuple[bool, int, int]:
        is_asking = self.phase is ClaimPhase.ASKING
        return (is_asking, self.rank if is_asking else 0, self.turn)


class ResourceArbiter:
    """Grants resources to members, each named by its owner.

    Every method that may lead to grants returns the names of those granted, in order.

    Args:
        limits: How many there are of each resource; without any, of each as many as the member
            that needs most of it.
        is_open: Whether to grant at all; `open` does so later.
    """

    def __init__(self, limits: Sequence[Limit] = (), *, is_open: bool = True) -> None:
        self._limits = tuple(limits)
        self._is_open = is_open
        self._members: dict[str, _Member] = {}
        self._totals: dict[Resource, int] = {}
        self._held: Counter[Resource] = Counter()
        self._turns = itertools.count()
        # The highest rank that was granted.
        self._reached = 0

    @property
    def is_open(self) -> bool:
        """Whether it grants."""
        return self._is_open

    @property
    def totals(self) -> Mapping[Resource, int]:
        """How many there are of each resource that a member needs."""
        return self._totals

    @property
    def held(self) -> Mapping[Resource, int]:
        """How many of each resource are held."""
        return +self._held

    def phase(self, name: str) -> ClaimPhase:
        """Return where a member is."""
        return self._members[name].phase

    def open(self) -> list[str]:
        """Begin to grant."""
        self._is_open = True
        return self._allocate()

    def join(
        self, name: str, demand: ResourceDemand, phase: ClaimPhase = ClaimPhase.IDLE
    ) -> list[str]:
        """Take in a member.

        Args:
            name: The instance that wants to join.
            demand: What it needs.
            phase: Where it is. One that comes from another arbiter may hold what it was granted
                there; it goes on holding it.

        Raises:
            InvalidArgumentError: There is too little of a resource for it ever to execute, or a
                resource is a global one here and one of devices elsewhere.
        """
        others = (member.demand for member in self._members.values())
        self._totals = count_resources([*others, demand], self._limits)
        member = _Member(demand, score=self._reached)
        self._members[name] = member
        self._enter(member, phase)
        if phase is ClaimPhase.HOLDING:
            self._held.update(demand.resources)
        return self._allocate()

    def apply(self, name: str, event: ClaimEvent) -> list[str]:
        """Note what a member says.

        Raises:
            ValueError: It cannot say so where it is.
        """
        member = self._members[name]
        phase = _NEXT.get((member.phase, event))
        if phase is None:
            raise ValueError(f"a member that is {member.phase.value} cannot say {event.value}")
        if member.phase is ClaimPhase.HOLDING:
            self._held.subtract(member.demand.resources)
            if event in _EXECUTED:
                member.score += max(1, member.demand.priority)
        self._enter(member, phase)
        return self._allocate()

    def leave(self, name: str) -> list[str]:
        """Forget a member; what it held is free."""
        member = self._members.pop(name)
        if member.phase is ClaimPhase.HOLDING:
            self._held.subtract(member.demand.resources)
        demands = [member.demand for member in self._members.values()]
        self._totals = count_resources(demands, self._limits)
        return self._allocate()

    def _enter(self, member: _Member, phase: ClaimPhase) -> None:
        member.phase = phase
        member.turn = next(self._turns)
        if phase is ClaimPhase.ASKING:
            member.score = member.rank = max(member.score, self._reached)

    def _allocate(self) -> list[str]:
        if not self._is_open:
            return []
        waiting = [
            (member.order, name, member)
            for name, member in self._members.items()
            if member.phase in {ClaimPhase.ASKING, ClaimPhase.RESUMING}
        ]
        granted = []
        # What somebody ahead waits for is not taken by those behind.
        wanted: set[Resource] = set()
        for _, name, member in sorted(waiting, key=lambda each: each[0]):
            resources = member.demand.resources
            if wanted.isdisjoint(resources) and self._fits(resources):
                self._held.update(resources)
                if member.phase is ClaimPhase.ASKING:
                    self._reached = max(self._reached, member.rank)
                member.phase = ClaimPhase.HOLDING
                granted.append(name)
            else:
                wanted.update(resources)
        return granted

    def _fits(self, resources: Mapping[Resource, int]) -> bool:
        return all(
            self._held[resource] + count <= self._totals[resource]
            for resource, count in resources.items()
        )


def count_resources(
    demands: Iterable[ResourceDemand], limits: Sequence[Limit] = ()
) -> dict[Resource, int]:
    """Return how many there are of each resource that one of several instances needs.

    Args:
        demands: What each instance needs.
        limits: How many there are; without any, of each as many as the instance that needs most of
            it. With some, there is nothing of what they do not name; the lower one counts where two
            speak of the same resource and device, and a global resource has the highest count that
            is given under its name.

    Raises:
        InvalidArgumentError: There is less than one instance needs, or a resource is both global
            and one of devices.
    """
    totals: dict[Resource, int] = {}
    for demand in demands:
        for resource, count in demand.resources.items():
            totals[resource] = max(totals.get(resource, 0), count)
    if limits:
        for resource, needed in totals.items():
            totals[resource] = _limit_of(resource, limits)
            if totals[resource] < needed:
                raise InvalidArgumentError(
                    f'Resource count for "{resource.name}" is limited to {totals[resource]} which '
                    "will prevent scheduling of one or more model instances, the minimum required "
                    f"count is {needed}"
                )
    global_names = {resource.name for resource in totals if resource.device == GLOBAL}
    for resource in totals:
        if resource.device != GLOBAL and resource.name in global_names:
            raise InvalidArgumentError(
                f'Resource "{resource.name}" is present as both global and device-specific '
                "resource in the model configuration."
            )
    return totals


def _limit_of(resource: Resource, limits: Sequence[Limit]) -> int:
    by_device: dict[int, int] = {}
    for limit in limits:
        if limit.name == resource.name:
            lower = min(limit.count, by_device.get(limit.device, limit.count))
            by_device[limit.device] = lower
    if resource.device == GLOBAL:
        return max(by_device.values(), default=0)
    return max(by_device.get(resource.device, 0), by_device.get(ALL_DEVICES, 0))
