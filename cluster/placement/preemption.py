# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which idle instances make room for one of a higher priority that waits. Pure.

The answer is found by trial: would it fit if these were gone? So all that placement knows counts,
Ray's resources as well as devices and their memory. Of one node the lowest priorities go, and no
more than are needed; of several nodes the one whose loss has the lowest priority, then the fewest.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from backends.api.errors import TritonError
from backends.config.placement import read_placement, read_priority
from cluster.devices.inventory import Inventory
from cluster.placement.affinity import allowed
from cluster.placement.demand import ClusterResources, NodeResources, Waits, fits
from cluster.placement.devices import (
    Admission,
    assign_device,
    may_have_device,
)
from cluster.placement.leases import Lease, Leases
from cluster.placement.planner import demand_of
from deployments.instance.spec import InstanceSpec


@dataclass(frozen=True, slots=True)
class Occupant:
    """An instance that may have to leave, with the place it was given and its model's priority."""

    spec: InstanceSpec
    node_id: str
    priority: int


@dataclass(frozen=True, slots=True)
class Devices:
    """Who has which device, and what bounds their use; see `assign_device`."""

    leases: Mapping[str, Lease] = field(default_factory=dict)
    admission: Admission = Admission()


def priority_of(spec: InstanceSpec) -> int:
    """Return the priority of an instance's model."""
    return read_priority(spec.config)


def to_displace(
    spec: InstanceSpec,
    cluster: ClusterResources,
    idle: Iterable[Occupant],
    devices: Devices,
) -> tuple[str, ...]:
    """Return the actor names of the instances that shall leave, as `to_leave`; mostly none.

    Only idle ones of a lower priority do.
    """
    priority = priority_of(spec)
    lower = [each for each in idle if each.priority < priority]
    return to_leave(spec, cluster, lower, devices)


def to_leave(
    spec: InstanceSpec,
    cluster: ClusterResources,
    idle: Iterable[Occupant],
    devices: Devices,
) -> tuple[str, ...]:
    """Return the actor names of the instances that leave, whatever their priority.

    None leave where the instance would fit without that, or could not even so. A gang has nobody
    leave, and does not leave.

    Args:
        spec: The recipe of the one that waits.
        cluster: The nodes there are, what is free on each, and their GPUs.
        idle: Instances that may leave; those of the lowest priority go first.
        devices: The devices that instances have.
    """
    if spec.gang is not None:
        return ()
    rules = read_placement(spec.config)
    lower: dict[str, list[_Leaver]] = {}
    for each in idle:
        if each.spec.gang is None:
            lower.setdefault(each.node_id, []).append(_leaver(each))
    wanted = demand_of(spec).as_resources()
    leases: dict[str, dict[str, Lease]] = {}
    for name, lease in devices.leases.items() if may_have_device(spec) else ():
        leases.setdefault(lease.device.node_id, {})[name] = lease
    best: tuple[tuple[object, ...], tuple[str, ...]] | None = None
    for node in allowed(cluster, rules):
        there = Devices(leases.get(node.node_id, {}), devices.admission)
        trial = _Trial(spec, wanted, node, cluster.devices.get(node.node_id), there)
        if trial.fits_without(()):
            return ()
        chosen = _enough(trial, lower.get(node.node_id, ()))
        if chosen:
            cost = (max(each.priority for each in chosen), len(chosen), node.node_id)
            names = tuple(each.name for each in chosen)
            best = (cost, names) if best is None or cost < best[0] else best
    return () if best is None else best[1]


@dataclass(frozen=True, slots=True, eq=False)
class _Leaver:
    """An instance that might leave: its name, its priority and what that would free in Ray."""

    name: str
    priority: int
    amounts: Mapping[str, float]


def _leaver(occupant: Occupant) -> _Leaver:
    spec = occupant.spec
    return _Leaver(spec.name, occupant.priority, demand_of(spec).as_resources())


def _enough(trial: "_Trial", lower: Collection[_Leaver]) -> Sequence[_Leaver]:
    """Return who leaves of one node; nobody where all together are not enough."""
    order = sorted(lower, key=lambda each: (each.priority, each.name))
    if not trial.fits_without(order):
        return ()
    if not may_have_device(trial.spec):
        return _enough_of_ray(trial, order)
    chosen = order
    for each in reversed(order):
        fewer = [other for other in chosen if other is not each]
        if trial.fits_without(fewer):
            chosen = fewer
    return chosen


def _enough_of_ray(trial: "_Trial", order: Sequence[_Leaver]) -> Sequence[_Leaver]:
    """Return the same where only Ray's resources count: no sum is made anew for each."""
    offered = trial.offered_without(order, trial.wanted)
    chosen = []
    for each in reversed(order):
        less = {name: free - each.amounts.get(name, 0.0) for name, free in offered.items()}
        if fits(trial.wanted, less):
            offered = less
        else:
            chosen.append(each)
    return chosen[::-1]


@dataclass(frozen=True, slots=True)
class _Trial:
    """An instance on one node, which others leave."""

    spec: InstanceSpec
    wanted: Mapping[str, float]
    node: NodeResources
    inventory: Inventory | None
    devices: Devices

    def fits_without(self, gone: Sequence[_Leaver]) -> bool:
        spec, wanted = self.spec, self.wanted
        if may_have_device(spec):
            names = {each.name for each in gone} | {spec.name}
            kept = Leases({n: each for n, each in self.devices.leases.items() if n not in names})
            cluster = self._cluster_without(gone)
            try:
                outcome = assign_device(spec, cluster, kept, self.devices.admission)
            except TritonError:
                return False
            if isinstance(outcome, Waits):
                return False
            wanted = demand_of(outcome).as_resources()
        return fits(wanted, self.offered_without(gone, wanted))

    def offered_without(
        self, gone: Sequence[_Leaver], wanted: Mapping[str, float]
    ) -> dict[str, float]:
        """Return what Ray has of what is wanted; what a node does not offer to it is a device's."""
        available, total = self.node.available, self.node.total
        offered = {name: available.get(name, 0.0) for name in wanted if name in total}
        for each in gone:
            for name in offered:
                offered[name] += each.amounts.get(name, 0.0)
        return offered

    def _cluster_without(self, gone: Sequence[_Leaver]) -> ClusterResources:
        if self.inventory is None:
            return ClusterResources((self.node,))
        freed_bytes: Counter[str] = Counter()
        for each in gone:
            lease = self.devices.leases.get(each.name)
            if lease is not None:
                freed_bytes[lease.device.uuid] += lease.measured_bytes
        inventory = _freed(self.inventory, freed_bytes)
        return ClusterResources((self.node,), {self.node.node_id: inventory})


def _freed(inventory: Inventory, freed_bytes: Mapping[str, int]) -> Inventory:
    def used(before: int | None, uuid: str) -> int | None:
        return None if before is None else max(0, before - freed_bytes.get(uuid, 0))

    gpus = []
    for gpu in inventory.gpus:
        parts = tuple(
            replace(part, used_bytes=used(part.used_bytes, part.uuid)) for part in gpu.mig_devices
        )
        gpus.append(replace(gpu, used_bytes=used(gpu.used_bytes, gpu.uuid), mig_devices=parts))
    return replace(inventory, gpus=tuple(gpus))
