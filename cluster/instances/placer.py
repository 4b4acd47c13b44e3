# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Gives instances their place before they start: a device, and else a node.

Where instances are is this process's memory. A controller that starts anew learns it from those it
adopts.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from backends.config.placement import read_placement
from cluster.instances.device_leases import DeviceLeases
from cluster.placement.demand import ClusterResources, Waits
from cluster.placement.node_choice import Occupancy, choose_node
from cluster.placement.planner import demand_of
from deployments.instance.spec import InstanceDescription, InstanceSpec, NodeAssignment

_log = logging.getLogger(__name__)

# Ray's numbers are that old at most: what is given away in between is counted here.
_REPORT_AGE_S: Final = 2.0
# Nobody tells that a node has room again.
_RETRY_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """An instance that waits for room: its recipe, and what it waits for."""

    spec: InstanceSpec
    reason: str


@dataclass(frozen=True, slots=True)
class _Promise:
    """What an instance will reserve that was given its place, and when that was."""

    node_id: str
    amounts: Mapping[str, float]
    at_s: float


class Placer:
    """The places of all instances of one controller.

    Attributes:
        on_waits: Called when an instance waits for room.
        on_loaded: Each is called when an instance is loaded, or was found alive.
        waiting: Who waits for room, by the instance's name.
        waiting_for_nodes: Who waits in the controller and may start on one more node, by name:
            Ray has room for them.
        kept_free: Ids of nodes that no instance is placed on, as if they drained.
    """

    def __init__(
        self, look: Callable[[], Awaitable[ClusterResources]], devices: DeviceLeases
    ) -> None:
        self.devices = devices
        self.on_waits: Callable[[], None] = lambda: None
        self.on_loaded: list[Callable[[InstanceDescription], None]] = []
        self.kept_free: frozenset[str] = frozenset()
        self._look = look
        # By generation: the node of each instance.
        self._nodes: dict[Hashable, dict[str, str]] = {}
        self._generations: dict[str, Hashable] = {}
        self._counts: Counter[str] = Counter()
        self._promises: dict[str, _Promise] = {}
        self._released = asyncio.Event()
        self.waiting: dict[str, Waiting] = {}
        self.waiting_for_nodes: dict[str, InstanceSpec] = {}
        # Who makes room for whom.
        self._displaced: dict[str, str] = {}

    @property
    def nodes_in_use(self) -> frozenset[str]:
        """Ids of the nodes that have instances, also such as start or end."""
        return frozenset(self._counts)

    def has_place(self, name: str) -> bool:
        """Whether an instance has a place, also one that is about to end."""
        return name in self._generations

    def waits(self, spec: InstanceSpec, reason: str) -> None:
        """Note that an instance waits for room, until it has some, or is released."""
        self.waiting[spec.name] = Waiting(spec, reason)
        self.on_waits()

    def has_room(self, name: str) -> None:
        """Note that an instance waits no longer: it loads, or is about to."""
        self.waiting_for_nodes.pop(name, None)
        if self.waiting.pop(name, None) is not None:
            self._tell_released()

    def displaced(self, name: str, by: str) -> None:
        """Have an instance wait for its place until another one has got room."""
        self._displaced[name] = by

    async def wait_assigned(
        self, spec: InstanceSpec, on_blocked: Callable[[str], None]
    ) -> InstanceSpec:
        """Wait until there is a device for an instance, or a node if it is tied to some.

        Args:
            spec: Its recipe.
            on_blocked: Called with what it waits for, each time it is looked for in vain.

        Returns:
            The recipe with the place; as it was where Ray chooses.

        Raises:
            InvalidArgumentError: A parameter of its model is malformed.
            UnavailableError: Every GPU that it could have is above its load limit.
        """
        while self._displaced.get(spec.name) in self.waiting:
            by = self._displaced[spec.name]
            on_blocked(f"waiting until {by}, which has a higher priority, has got its room")
            await self._wait_released()
        self._displaced.pop(spec.name, None)

        def waits(outcome: Waits) -> None:
            self.waiting_for_nodes.pop(spec.name, None)
            if outcome.ends_with_node:
                self.waiting_for_nodes[spec.name] = spec
            on_blocked(outcome.reason)

        spec = replace(await self.devices.wait_assigned(spec, waits), node=None)
        if spec.device is not None:
            self._note(spec, spec.device.node_id)
            self.has_room(spec.name)
            return spec
        while True:
            outcome = await self._choose(spec)
            if isinstance(outcome, Waits):
                waits(outcome)
                await self._wait_released()
                continue
            if outcome is not None:
                self._note(spec, outcome.node_id)
            self.has_room(spec.name)
            return replace(spec, node=outcome)

    async def _choose(self, spec: InstanceSpec) -> NodeAssignment | Waits | None:
        try:
            cluster = await self._look()
        except Exception as error:
            # Ray's client raises what it likes.
            _log.warning("the nodes are not known: %s", error)
            if not read_placement(spec.config).nodes:
                return None
            return Waits(
                "waiting for word of the nodes, which Ray does not give; it is asked again",
                ends_with_node=False,
            )
        there = cluster.with_draining(self.kept_free)
        return choose_node(spec, there, self._occupancy(spec))

    def loaded(self, description: InstanceDescription) -> None:
        """Note an instance that is loaded, or was found alive, and where that is."""
        self.devices.loaded(description)
        spec = description.spec
        self._promises.pop(spec.name, None)
        self._put(spec, description.endpoint.node_id)
        self.has_room(spec.name)
        for each in self.on_loaded:
            each(description)

    def release(self, name: str) -> None:
        """Take an instance's place back; one that has none is no error."""
        self.devices.release(name)
        self._promises.pop(name, None)
        self._displaced.pop(name, None)
        self.waiting_for_nodes.pop(name, None)
        waited = self.waiting.pop(name, None) is not None
        if self._take(name) or waited:
            self._tell_released()

    def _tell_released(self) -> None:
        self._released.set()
        self._released = asyncio.Event()

    async def _wait_released(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_RETRY_S):
                await self._released.wait()

    def _note(self, spec: InstanceSpec, node_id: str) -> None:
        now_s = asyncio.get_running_loop().time()
        wanted = demand_of(spec).as_resources()
        self._promises[spec.name] = _Promise(node_id, wanted, now_s)
        self._put(spec, node_id)

    def _put(self, spec: InstanceSpec, node_id: str) -> None:
        self._take(spec.name)
        # A generation is spread on its own: the one that it replaces is about to go.
        generation = spec.model_key, spec.version, spec.generation
        self._generations[spec.name] = generation
        self._nodes.setdefault(generation, {})[spec.name] = node_id
        self._counts[node_id] += 1

    def _take(self, name: str) -> bool:
        generation = self._generations.pop(name, None)
        if generation is None:
            return False
        nodes = self._nodes[generation]
        node_id = nodes.pop(name)
        if not nodes:
            del self._nodes[generation]
        self._counts[node_id] -= 1
        if not self._counts[node_id]:
            del self._counts[node_id]
        return True

    def _occupancy(self, spec: InstanceSpec) -> Occupancy:
        self._take(spec.name)
        since_s = asyncio.get_running_loop().time() - _REPORT_AGE_S
        self._promises = {
            name: promise
            for name, promise in self._promises.items()
            if promise.at_s >= since_s and name != spec.name
        }
        promised: dict[str, dict[str, float]] = {}
        for promise in self._promises.values():
            there = promised.setdefault(promise.node_id, {})
            for name, amount in promise.amounts.items():
                there[name] = there.get(name, 0.0) + amount
        alike = self._nodes.get((spec.model_key, spec.version, spec.generation), {})
        return Occupancy(alike.values(), self._counts, promised)
