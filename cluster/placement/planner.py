# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""From a config's instance groups to the specs of one generation's instances. Pure.

Triton: core/src/backend_model_instance.cc TritonModelInstance::SetInstances @73aad7c
"""

import hashlib
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from backends.api.model_config import InstanceGroup, ModelConfig
from backends.api.model_identifier import key_of
from backends.config.placement import read_placement
from cluster.devices.inventory import mig_profile_of
from cluster.placement.demand import (
    GPU_INDEX_RESOURCE,
    NODE_PREFIX,
    ClusterResources,
    RayDemand,
    read_demand,
)
from cluster.placement.gang import gang_of, with_bundle
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.spec import GenerationSpec, InstanceSpec
from deployments.rate_limiter.arbiter import GLOBAL, Resource, ResourceDemand

# A thousand instances on a core: memory is what bounds them.
DEFAULT_CPUS_PER_INSTANCE = 0.001
# Hundreds of instances on a GPU; Ray counts in ten-thousandths.
GPUS_PER_INSTANCE = 0.002
_SPEC_KINDS = {"KIND_CPU": "CPU", "KIND_GPU": "GPU", "KIND_MODEL": "MODEL", "KIND_AUTO": "CPU"}
_DEFAULT_POLICIES = {"CPU": "cpu", "GPU": "gpu_{id}", "MODEL": "model"}
_ACTOR_NAME = re.compile(
    r"(?P<model>.+)/(?P<version>\d+)#(?P<index>\d+)@(?P<generation>\d+)", re.ASCII | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class PoolRequest(GenerationSpec):
    """One generation of one model version, as the controller wants it.

    Attributes:
        auto_complete: Whether the backend shall fill in the config.
        cpus_per_instance: CPU fraction an instance reserves.
        host_policies: Settings of each ``--host-policy``, by policy and setting.
        node_resources: Resource of the one node the instances have to be on, and how much; mostly
            empty.
        instance_count: How many instances there shall be; 0 for as many as the groups say.
    """

    auto_complete: bool = False
    cpus_per_instance: float = DEFAULT_CPUS_PER_INSTANCE
    host_policies: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    node_resources: Mapping[str, float] = field(default_factory=dict)
    instance_count: int = 0


@dataclass(frozen=True, slots=True)
class ActorName:
    """The parts of an instance actor's name."""

    model_key: str
    version: int
    index: int
    generation: int

    def __str__(self) -> str:
        return f"{self.model_key}/{self.version}#{self.index}@{self.generation}"


def parse_actor_name(text: str) -> ActorName | None:
    """Read an actor's name back; None when the actor is no model instance."""
    match = _ACTOR_NAME.fullmatch(text)
    if match is None:
        return None
    return ActorName(
        match["model"], int(match["version"]), int(match["index"]), int(match["generation"])
    )


@dataclass(frozen=True, slots=True)
class _Slot:
    instance_name: str
    kind: str
    device_id: int
    group: InstanceGroup

    @property
    def host_policy(self) -> str:
        return self.group.host_policy or _DEFAULT_POLICIES[self.kind].format(id=self.device_id)


def plan_pool(
    config: ModelConfig, request: PoolRequest, cluster: ClusterResources
) -> tuple[InstanceSpec, ...]:
    """Plan one generation's instances.

    Args:
        config: Normalised config: kinds resolved, counts at least 1, GPUs listed.
        request: Which generation of which version.
        cluster: The nodes there are.

    Returns:
        One spec for each instance; none for an ensemble, which runs in its caller.

    Raises:
        InvalidArgumentError: A ``ray_*`` or ``placement.*`` parameter of the config is malformed.
    """
    if config.has_ensemble_scheduling:
        return ()
    slots = _scaled(tuple(_slots(config)), request.instance_count)
    threads = max(1, cluster.cores_per_node // max(1, len(slots)))
    return tuple(
        _spec(index, slot, config, request, cluster, threads) for index, slot in enumerate(slots)
    )


def _slots(config: ModelConfig) -> Iterator[_Slot]:
    groups = config.instance_group or (InstanceGroup(name=config.name, kind="KIND_CPU", count=1),)
    # A MIG device may be on any GPU; the list of a group is then but what completed it.
    is_mig = any(map(mig_profile_of, read_demand(config, RayDemand()).resources))
    for group in groups:
        kind = _SPEC_KINDS[group.kind]
        devices = group.gpus if kind == "GPU" and group.gpus else (0,)
        devices = devices[:1] if is_mig else devices
        count = max(1, group.count)
        for position in range(count):
            for device_id in devices:
                yield _Slot(f"{group.name}_{position}", kind, device_id, group)


def group_count(config: ModelConfig) -> int:
    """Return how many instances that take requests the groups of a config say there are."""
    return sum(not slot.group.passive for slot in _slots(config))


def _scaled(slots: Sequence[_Slot], count: int) -> tuple[_Slot, ...]:
    """Return as many slots as there shall be instances, the groups and devices in turn.

    Passive instances take no requests: they are as many as ever.
    """
    active = [slot for slot in slots if not slot.group.passive]
    if not count or not active:
        return tuple(slots)
    taken = (_again(active[n % len(active)], n // len(active)) for n in range(count))
    return (*taken, *(slot for slot in slots if slot.group.passive))


def _again(slot: _Slot, times: int) -> _Slot:
    """Return a slot as its group would have it with so many times its count more."""
    group, _, position = slot.instance_name.rpartition("_")
    number = int(position) + times * max(1, slot.group.count)
    return replace(slot, instance_name=f"{group}_{number}")


def _spec(
    index: int,
    slot: _Slot,
    config: ModelConfig,
    request: PoolRequest,
    cluster: ClusterResources,
    threads: int,
) -> InstanceSpec:
    rules = read_placement(config)
    default = with_bundle(_default_demand(slot, request, cluster), rules, slot.kind)
    demand = read_demand(config, default)
    demand = replace(demand, resources={**demand.resources, **request.node_resources})
    key = key_of(request.model_namespace, config.name)
    return InstanceSpec(
        **request.shared(),
        name=str(ActorName(key, request.version, index, request.generation)),
        model_name=config.name,
        index=index,
        instance_name=slot.instance_name,
        config=config,
        auto_complete=request.auto_complete,
        kind=slot.kind,
        device_id=slot.device_id,
        thread_count=threads,
        num_cpus=demand.num_cpus,
        num_gpus=demand.num_gpus,
        resources=demand.resources,
        group=slot.group,
        host_policy=dict(request.host_policies.get(slot.host_policy, {})),
        demand=None if request.resource_limits is None else _resource_demand(slot),
        label_selector=rules.labels,
        gang=gang_of(rules, demand),
    )


def _resource_demand(slot: _Slot) -> ResourceDemand | None:
    """Return what an instance needs to execute; of a resource named twice, the last count."""
    resources = {
        Resource(GLOBAL if row.is_global else slot.device_id, row.name): row.count
        for row in slot.group.resources
    }
    return ResourceDemand(resources, slot.group.priority) if resources else None


def _default_demand(slot: _Slot, request: PoolRequest, cluster: ClusterResources) -> RayDemand:
    """Prefer the pinned GPU to any GPU.

    Where nodes label their GPUs with a resource of their own (``gpu_0``, ``gpu_1``), the pinned
    GPU itself is reserved; else Ray's anonymous ``GPU``. As in Triton, models share a GPU until its
    memory is full: what is reserved only ties the instance to a node that has one.
    """
    if slot.kind != "GPU":
        return RayDemand(num_cpus=request.cpus_per_instance)
    pinned = GPU_INDEX_RESOURCE.format(index=slot.device_id)
    if cluster.offers(pinned):
        return RayDemand(num_cpus=request.cpus_per_instance, resources={pinned: GPUS_PER_INSTANCE})
    return RayDemand(num_cpus=request.cpus_per_instance, num_gpus=GPUS_PER_INSTANCE)


def replan_pool(
    config: ModelConfig,
    like: InstanceSpec,
    cpus_per_instance: float,
    host_policies: Mapping[str, Mapping[str, str]],
    cluster: ClusterResources,
    instance_count: int = 0,
) -> tuple[InstanceSpec, ...]:
    """Plan the generation that ``like`` is a member of, from its complete config.

    True of a generation whose groups have never changed in place.
    """
    request = PoolRequest(
        **like.shared(),
        cpus_per_instance=cpus_per_instance,
        host_policies=host_policies,
        node_resources={
            name: n for name, n in like.resources.items() if name.startswith(NODE_PREFIX)
        },
        instance_count=instance_count,
    )
    return plan_pool(config, request, cluster)


def demand_of(spec: InstanceSpec) -> RayDemand:
    """Return what the spec's actor reserves."""
    return RayDemand(spec.num_cpus, spec.num_gpus, spec.ray_resources)


@dataclass(frozen=True, slots=True)
class Regrouping:
    """How a pool comes to have other instance groups.

    Attributes:
        leaving: Actor names of instances that no group asks for any more.
    """

    added: tuple[InstanceSpec, ...] = ()
    leaving: tuple[str, ...] = ()


def regroup(
    plan: Iterable[InstanceSpec], present: Iterable[InstanceSpec], next_index: int
) -> Regrouping:
    """Tell which of a pool's instances stay, as groups and counts have changed.

    An instance stays when the plan has one of the same kind: same device, policies and limits,
    whatever the group's name. Those that stay keep all they have, their thread count and their
    reservation too.

    Args:
        plan: The instances there shall be, of the pool's generation.
        present: The instances there are; those that rather stay come first.
        next_index: Lowest index that no instance of the pool ever had.

    Triton: core/src/backend_model.cc TritonModel::PrepareInstances @73aad7c
    """
    staying: dict[Hashable, list[str]] = {}
    for spec in present:
        staying.setdefault(_signature(spec), []).append(spec.name)
    added = []
    for spec in plan:
        alike = staying.get(_signature(spec))
        if alike:
            alike.pop(0)
            continue
        name = ActorName(spec.model_key, spec.version, next_index, spec.generation)
        added.append(replace(spec, index=next_index, name=str(name)))
        next_index += 1
    leaving = tuple(name for names in staying.values() for name in names)
    return Regrouping(tuple(added), leaving)


def _signature(spec: InstanceSpec) -> Hashable:
    """Return what two instances have in common that can stand for each other."""
    group = replace(spec.group, name="", count=0, gpus=())
    return group, spec.kind, spec.device_id, tuple(sorted(spec.host_policy.items()))


def pool_digest(*parts: str | bytes) -> str:
    """Digest what a pool was made from, so that equal digests mean nothing to reload."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def staying_first(
    specs: Iterable[InstanceSpec],
    endpoints: Iterable[InstanceEndpoint],
    instances_by_node: Mapping[str, int],
) -> list[InstanceSpec]:
    """Return a version's instances, those first that rather stay when there are to be fewer.

    Those without a process go first: nothing is lost with them. Then those on nodes with the fewest
    instances, whatever they are instances of, so that nodes empty and can be removed. Of one node
    the youngest go first: the oldest has its caches warm for the longest.

    Ray: python/ray/serve/_private/deployment_scheduler.py get_replicas_to_stop

    Args:
        specs: What its instances were made from.
        endpoints: Where those listen that are live.
        instances_by_node: How many live instances each node has, of all models.
    """
    nodes = {endpoint.name: endpoint.node_id for endpoint in endpoints}

    def order(spec: InstanceSpec) -> tuple[bool, int, str, int]:
        # An endpoint goes by the instance's name without its generation.
        node_id = nodes.get(spec.name.rpartition("@")[0]) or nodes.get(spec.name) or ""
        return not node_id, -instances_by_node.get(node_id, 0), node_id, spec.index

    return sorted(specs, key=order)


def instances_by_node(endpoints: Iterable[InstanceEndpoint]) -> Mapping[str, int]:
    """Count instances by node."""
    return Counter(endpoint.node_id for endpoint in endpoints)
