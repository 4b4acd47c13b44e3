# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which GPU or MIG device of which node an instance gets. Pure.

Ray counts GPUs and cannot be told which one; it knows no MIG devices at all. So the device is
chosen here, from what the nodes report, and the instance is tied to its node. Left to Ray, as if
there were no reports, are:

- instances that need none: KIND_CPU, and KIND_MODEL, which places itself;
- those whose model says how much of a GPU to reserve (``ray_num_gpus``), or what several bundles
  have (``placement.bundles``): Ray then chooses the GPU;
- all where no node has told of a GPU of NVIDIA.

Two parameters of config.pbtxt decide otherwise. ``ray_resources: {"mig_1g.10gb": 1}`` asks for a
MIG device of that profile, which no other instance has. Where no node offers that resource to Ray
the device alone is what counts. ``secondary_devices`` and ``profile`` are for the backend to read:
the first names accelerators that no driver counts, the second optimization profiles of TensorRT.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import chain
from typing import Final, NamedTuple

from backends.api.errors import InvalidArgumentError, UnavailableError
from backends.config.placement import read_placement
from cluster.devices.inventory import NVIDIA, Gpu, Inventory, MigDevice, mig_profile_of
from cluster.placement.affinity import Affinity, affinity_to, allowed
from cluster.placement.demand import ClusterResources, NodeResources, RayDemand, Waits, fits
from cluster.placement.leases import Lease, Leases
from deployments.instance.spec import DeviceAssignment, InstanceSpec

_RESERVES: Final = "ray_num_gpus"
_GIB: Final = 1 << 30
_SHOWN: Final = 5
_SHOWN_NODE: Final = 8
_NOBODY: Final[Mapping[str, Lease]] = {}


@dataclass(frozen=True, slots=True)
class Admission:
    """What bounds the use of a device.

    Attributes:
        needed_bytes: What the instance took at most when it ran before; 0 while nothing is known.
        load_limits: By GPU index: the fraction of memory above which nothing more is loaded.
    """

    needed_bytes: int = 0
    load_limits: Mapping[int, float] = field(default_factory=dict)


class _Candidate(NamedTuple):
    node: NodeResources
    gpu: Gpu
    device: Gpu | MigDevice
    holders: Mapping[str, Lease]

    @property
    def free_bytes(self) -> int | None:
        """What is left when all who have it have taken what they are expected to."""
        device = self.device
        if device.used_bytes is None or not device.memory_bytes:
            return None
        coming = 0
        for lease in self.holders.values():
            coming += max(0, lease.expected_bytes - lease.measured_bytes)
        return device.memory_bytes - device.used_bytes - coming

    def __str__(self) -> str:
        node = f"GPU {self.gpu.index} of node {self.node.node_id[:_SHOWN_NODE]}"
        if isinstance(self.device, MigDevice):
            return f"MIG device {self.device.uuid} ({self.device.profile}) on {node}"
        return node


def mig_profile(spec: InstanceSpec) -> str:
    """Return the MIG profile that an instance asks for; empty for none.

    Raises:
        InvalidArgumentError: It asks for several MIG devices, of which CUDA shows a process one.
    """
    wanted = {name: n for name, n in spec.resources.items() if n and mig_profile_of(name)}
    if not wanted:
        return ""
    if len(wanted) > 1 or any(amount != 1 for amount in wanted.values()):
        shown = ", ".join(f"'{name}': {amount:g}" for name, amount in sorted(wanted.items()))
        raise InvalidArgumentError(
            f"parameter 'ray_resources' of model '{spec.model_name}' asks for {shown}; an instance"
            " can have one MIG device, as CUDA shows a process one at most: ask for 1 of one"
            " profile, and for more instances with 'count'"
        )
    return mig_profile_of(next(iter(wanted)))


def may_have_device(spec: InstanceSpec) -> bool:
    """Whether the device of an instance may have to be chosen; else the choice is Ray's."""
    if spec.gang is not None:
        return False
    if any(mig_profile_of(name) for name in spec.resources):
        return True
    return spec.kind == "GPU" and _RESERVES not in spec.config.parameters


def assign_device(
    spec: InstanceSpec,
    cluster: ClusterResources,
    leases: Leases,
    admission: Admission,
) -> InstanceSpec | Waits:
    """Choose a device for an instance that is about to start.

    That takes O(devices of the kind) at most, however many leases there are.

    Args:
        spec: Its recipe, of which an older choice counts for nothing.
        cluster: The nodes and their GPUs.
        leases: What others have.
        admission: What bounds the use of a device.

    Returns:
        The recipe with the device; as it was when the choice is Ray's.

    Raises:
        InvalidArgumentError: It asks for several MIG devices.
        UnavailableError: Every GPU that it could have is above its ``--model-load-gpu-limit``.

    Triton: core/src/backend_model_instance.cc TritonModelInstance::VerifyModelLoadGpuFraction
    """
    spec = replace(spec, device=None)
    profile = mig_profile(spec)
    if not may_have_device(spec):
        return spec
    rules = read_placement(spec.config)
    cluster = replace(cluster, nodes=allowed(cluster, rules))
    wanted = _ray_demand(spec, cluster)
    affinity = affinity_to(cluster, rules, leases.instances_by_node(spec.model_key))
    if profile:
        free_mig = _free_mig(profile, cluster, leases, (wanted, admission), affinity)
        if free_mig is not None:
            return _assigned(spec, free_mig, profile, wanted)
    there, suited = _candidates(spec, profile, cluster, leases, wanted)
    if not there:
        return _without_candidates(spec, cluster, profile)
    if not suited:
        # Ray says what the nodes lack, and its autoscaler hears of it.
        return spec
    free = [each for each in suited if not each.holders or (not profile and _is_shared(each))]
    if not free:
        return _all_taken(suited, profile)
    limits = admission.load_limits
    below = [each for each in free if not _is_above_limit(each, limits)] if limits else free
    if not below:
        raise UnavailableError(_limit_text(spec, free))
    rooms = [(each.free_bytes, each) for each in below]
    needed = admission.needed_bytes
    fitting = [room for room in rooms if room[0] is None or needed <= room[0]]
    if not fitting:
        return _no_memory(below, admission.needed_bytes)
    return _assigned(spec, _best(fitting, wanted, affinity), profile, wanted)


def _assigned(
    spec: InstanceSpec, best: _Candidate, profile: str, wanted: Mapping[str, float]
) -> InstanceSpec:
    leased = [name for name in spec.resources if mig_profile_of(name) and name not in wanted]
    return replace(spec, device=_assignment(best, profile, "".join(leased)))


def _free_mig(
    profile: str,
    cluster: ClusterResources,
    leases: Leases,
    bounds: tuple[Mapping[str, float], Admission],
    affinity: Affinity,
) -> _Candidate | None:
    """Return the MIG device that is chosen; None where none is free, whatever the reason.

    Mostly the first device of each of the best nodes is all that is looked at: nodes come in the
    order of `_best`, and the devices of a node in that of `_rank`.
    """
    wanted, admission = bounds
    groups: dict[tuple[int, ...], list[NodeResources]] = {}
    for node in cluster.nodes:
        inventory = cluster.devices.get(node.node_id)
        if inventory is not None and inventory.mig_devices(profile) and fits(wanted, node.total):
            key = (not fits(wanted, node.available), *affinity.of(node))
            groups.setdefault(key, []).append(node)
    for key in sorted(groups):
        firsts = []
        for node in groups[key]:
            devices = cluster.devices[node.node_id].mig_devices(profile, affinity.sign)
            first = _first_free(node, devices, leases, admission)
            if first is not None:
                firsts.append((first.free_bytes, first))
        if firsts:
            return min(firsts, key=lambda room: _rank(room, affinity.sign))[1]
    return None


def _first_free(
    node: NodeResources,
    devices: Sequence[tuple[Gpu, MigDevice]],
    leases: Leases,
    admission: Admission,
) -> _Candidate | None:
    held = leases.on_node(node.node_id)
    limits = admission.load_limits
    for gpu, device in devices:
        if device.uuid in held:
            continue
        candidate = _Candidate(node, gpu, device, _NOBODY)
        free_bytes = candidate.free_bytes
        is_large_enough = free_bytes is None or admission.needed_bytes <= free_bytes
        if is_large_enough and not (limits and _is_above_limit(candidate, limits)):
            return candidate
    return None


def _candidates(
    spec: InstanceSpec,
    profile: str,
    cluster: ClusterResources,
    leases: Leases,
    wanted: Mapping[str, float],
) -> tuple[bool, list[_Candidate]]:
    """Return whether there is any device of the kind, and those on nodes that could ever do."""
    is_there, found = False, []
    for node in cluster.nodes:
        inventory = cluster.devices.get(node.node_id)
        devices = [] if inventory is None else _like(inventory, spec, profile)
        is_there = is_there or bool(devices)
        if devices and fits(wanted, node.total):
            held = leases.on_node(node.node_id)
            found += [
                _Candidate(node, gpu, device, held.get(device.uuid, _NOBODY))
                for gpu, device in devices
            ]
    return is_there, found


def _like(
    inventory: Inventory, spec: InstanceSpec, profile: str
) -> list[tuple[Gpu, Gpu | MigDevice]]:
    """Return what a node has of the kind that an instance asks for, and the GPU that it is on."""
    if profile:
        return list(inventory.mig_devices(profile))
    gpus = [gpu for gpu in inventory.gpus if gpu.vendor == NVIDIA]
    return [(gpu, x) for gpu in gpus if gpu.index == spec.device_id for x in gpu.devices]


def _best(
    rooms: Sequence[tuple[int | None, _Candidate]],
    wanted: Mapping[str, float],
    affinity: Affinity,
) -> _Candidate:
    """Return the best: on nodes with room in Ray, and few of the same model, an idle device.

    A model that packs has many of the same model, and a device that others have too.
    """
    nodes = {each.node.node_id: each.node for _, each in rooms}
    order = {
        node_id: (not fits(wanted, node.available), *affinity.of(node))
        for node_id, node in nodes.items()
    }
    least = min(order.values())
    first = {node_id for node_id, each in order.items() if each == least}
    there = (room for room in rooms if room[1].node.node_id in first)
    return min(there, key=lambda room: _rank(room, affinity.sign))[1]


def _without_candidates(
    spec: InstanceSpec, cluster: ClusterResources, profile: str
) -> InstanceSpec | Waits:
    with_gpus = [node for node in cluster.nodes if node.gpu_count]
    told = [node for node in with_gpus if node.node_id in cluster.devices]
    is_ours = any(g.vendor == NVIDIA for n in told for g in cluster.devices[n.node_id].gpus)
    if profile or not is_ours or len(told) < len(with_gpus):
        return spec
    there = ", ".join(map(str, cluster.gpu_ids))
    return Waits(
        f"waiting for GPU {spec.device_id}, which no node has, or which is in MIG mode without"
        f" MIG devices; the nodes have {there}: change 'gpus' of the instance group, or add a node"
    )


def _ray_demand(spec: InstanceSpec, cluster: ClusterResources) -> dict[str, float]:
    """Return what Ray reserves: MIG devices only where a node offers them to it."""
    wanted = RayDemand(spec.num_cpus, spec.num_gpus, spec.resources).as_resources()
    return {n: v for n, v in wanted.items() if not mig_profile_of(n) or cluster.offers(n)}


def _is_shared(candidate: _Candidate) -> bool:
    return not any(lease.device.is_exclusive for lease in candidate.holders.values())


def _all_taken(candidates: Sequence[_Candidate], profile: str) -> Waits:
    what = f"a MIG device of profile {profile}" if profile else str(candidates[0])
    number = len(candidates)
    nodes = len({each.node.node_id for each in candidates})
    return Waits(
        f"waiting for {what}: {number} on {nodes} node{'s' * (nodes > 1)}, all taken"
        f" ({_names(*(each.holders for each in candidates))}); unload one of these,"
        " or make more such devices"
    )


def _is_above_limit(candidate: _Candidate, limits: Mapping[int, float]) -> bool:
    fraction, device = limits.get(candidate.gpu.index), candidate.device
    if fraction is None or device.used_bytes is None or not device.memory_bytes:
        return False
    return device.used_bytes > int(device.memory_bytes * fraction)


def _limit_text(spec: InstanceSpec, candidates: Sequence[_Candidate]) -> str:
    first = candidates[0]
    return (
        f"can not create model '{spec.instance_name}': memory limit set for KIND_GPU"
        f" {first.gpu.index} has exceeded, model loading is rejected. {_use(first)}; unload a model"
        " there, or raise --model-load-gpu-limit"
    )


def _use(candidate: _Candidate) -> str:
    used, total = candidate.device.used_bytes or 0, candidate.device.memory_bytes
    return f"{candidate} has {_gib(used)} of {_gib(total)} in use"


def _no_memory(candidates: Sequence[_Candidate], needed_bytes: int) -> Waits:
    roomiest = max(candidates, key=lambda each: each.free_bytes or 0)
    free = max(0, roomiest.free_bytes or 0)
    needs = f"waiting for GPU memory: needs {_gib(needed_bytes)}, as it took before, and"
    if needed_bytes > roomiest.device.memory_bytes:
        return Waits(
            f"{needs} {roomiest} has {_gib(roomiest.device.memory_bytes)} in all; a larger device"
            " is needed",
            ends_with_node=False,
        )
    there = _names(roomiest.holders) or "processes that are not this server's"
    return Waits(
        f"{needs} {roomiest} has {_gib(free)} left, which {there} would leave; unload one of these"
        " or list another GPU in 'gpus'"
    )


def _rank(room: tuple[int | None, _Candidate], sign: int) -> tuple[object, ...]:
    free_bytes, candidate = room
    return (
        sign * len(candidate.holders),
        -sign * (free_bytes or 0),
        candidate.node.node_id,
        candidate.gpu.index,
        candidate.device.uuid,
    )


def _assignment(candidate: _Candidate, profile: str, resource: str) -> DeviceAssignment:
    gpu = candidate.gpu
    # Whoever counts GPUs by itself counts all of the node's.
    is_counted = not gpu.is_mig and gpu.physical_index == gpu.index
    return DeviceAssignment(
        node_id=candidate.node.node_id,
        uuid=candidate.device.uuid,
        index=gpu.index,
        is_counted=is_counted,
        is_exclusive=bool(profile),
        resource=resource,
        numa_node=gpu.numa_node,
    )


def _names(*groups: Mapping[str, Lease]) -> str:
    count = sum(map(len, groups))
    more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
    return ", ".join(nsmallest(_SHOWN, chain.from_iterable(groups))) + more


def _gib(number: int) -> str:
    return f"{number / _GIB:.2f} GiB"
