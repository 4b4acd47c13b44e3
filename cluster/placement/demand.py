# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What one instance asks of a node, and whether any node can give it. Pure.

A CPU instance reserves a small fraction of a CPU, because a reservation bounds how many models a
box may hold, not how fast they run: fifty models on two cores is what Triton holds. For the same
reason a GPU instance reserves a small fraction of a GPU. ``parameters`` of config.pbtxt override
both.
"""

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from cluster.devices.inventory import Inventory

CPU_RESOURCE = "CPU"
GPU_RESOURCE = "GPU"
GPU_INDEX_RESOURCE = "gpu_{index}"
# Ray gives each node one resource of its own: this and its address.
NODE_PREFIX = "node:"
# Ray counts in ten-thousandths; what is smaller rounds to nothing and would reserve nothing.
SMALLEST_FRACTION = 0.0001
# What Ray counts on every node, and no instance reserves.
NOT_RESERVED = (NODE_PREFIX, "object_store_memory")


@dataclass(frozen=True, slots=True)
class NodeResources:
    """One live Ray node.

    Attributes:
        total: Resources by name.
        available: Those that are not reserved.
        labels: What ``ray start --labels`` and Ray itself say of it.
        names: Its id, address and host name.
        is_draining: Whether it is about to go: nothing is started there.
    """

    node_id: str
    total: Mapping[str, float] = field(default_factory=dict)
    available: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    is_draining: bool = False

    @property
    def gpu_count(self) -> int:
        """GPUs that its Ray knows of."""
        return int(self.total.get(GPU_RESOURCE, 0))

    @property
    def is_emptied(self) -> bool:
        """Whether it drains, and nothing that an instance reserves is reserved any more."""
        return self.is_draining and not any(
            self.available.get(name, 0.0) < amount
            for name, amount in self.total.items()
            if not name.startswith(NOT_RESERVED)
        )


@dataclass(frozen=True)
class ClusterResources:
    """The nodes instances can be placed on.

    What a plan asks of all nodes is looked up once: many plans are made by one look at the cluster.

    Attributes:
        nodes: All that are alive.
        devices: By node: its GPUs, of nodes that have told of any.
    """

    nodes: tuple[NodeResources, ...] = ()
    devices: Mapping[str, Inventory] = field(default_factory=dict)

    @cached_property
    def cores_per_node(self) -> int:
        """Cores of the smallest node that has any, so that thread counts suit every node."""
        cores = [int(node.total.get(CPU_RESOURCE, 0)) for node in self.nodes]
        return min((count for count in cores if count), default=os.cpu_count() or 1)

    @cached_property
    def gpu_ids(self) -> tuple[int, ...]:
        """GPU indices that exist on at least one node."""
        found: set[int] = set()
        for node in self.nodes:
            inventory = self.devices.get(node.node_id)
            if inventory is None:
                found.update(range(node.gpu_count))
            else:
                found.update(gpu.index for gpu in inventory.gpus)
        return tuple(sorted(found))

    def supported(self, min_compute_capability: float) -> "ClusterResources":
        """Return the cluster without GPUs below a compute capability."""
        devices = {
            node.node_id: self.devices[node.node_id].usable(node.gpu_count, min_compute_capability)
            for node in self.nodes
            if node.node_id in self.devices
        }
        return replace(self, devices=devices)

    def only(self, node_id: str) -> "ClusterResources":
        """Return the cluster as one that is tied to a node sees it."""
        return replace(self, nodes=tuple(n for n in self.nodes if n.node_id == node_id))

    def with_draining(self, node_ids: Collection[str]) -> "ClusterResources":
        """Return the cluster as it is when some nodes drain, too."""
        if not node_ids:
            return self
        nodes = (
            replace(node, is_draining=True) if node.node_id in node_ids else node
            for node in self.nodes
        )
        return replace(self, nodes=tuple(nodes))

    def offers(self, resource: str) -> bool:
        """Whether any node has the resource, reserved or not."""
        return resource in self._offered

    @cached_property
    def _offered(self) -> frozenset[str]:
        return frozenset(
            name for node in self.nodes for name, amount in node.total.items() if amount > 0
        )


@dataclass(frozen=True, slots=True)
class RayDemand:
    """What one instance reserves."""

    num_cpus: float = 0.0
    num_gpus: float = 0.0
    resources: Mapping[str, float] = field(default_factory=dict)

    def as_resources(self) -> dict[str, float]:
        """Return the demand by resource name, without zeros."""
        wanted = {CPU_RESOURCE: self.num_cpus, GPU_RESOURCE: self.num_gpus, **self.resources}
        return {name: amount for name, amount in wanted.items() if amount > 0}


def read_demand(config: ModelConfig, default: RayDemand) -> RayDemand:
    """Apply ``ray_num_cpus``, ``ray_num_gpus`` and ``ray_resources`` of the model's parameters.

    Raises:
        InvalidArgumentError: A parameter is not a number, or not a JSON object of numbers.
    """
    parameters = config.parameters
    resources = dict(default.resources)
    if "ray_resources" in parameters:
        resources.update(_resources_parameter(config.name, parameters["ray_resources"]))
    return RayDemand(
        num_cpus=_number_parameter(config, "ray_num_cpus", default.num_cpus),
        num_gpus=_number_parameter(config, "ray_num_gpus", default.num_gpus),
        resources=resources,
    )


def _number_parameter(config: ModelConfig, key: str, default: float) -> float:
    text = config.parameters.get(key)
    if text is None:
        return default
    try:
        return _amount(float(text))
    except ValueError:
        raise InvalidArgumentError(
            f"parameter '{key}' of model '{config.name}' must be a number that is not negative,"
            f" got '{text}'"
        ) from None


def _resources_parameter(model_name: str, text: str) -> dict[str, float]:
    try:
        return {str(name): _amount(float(v)) for name, v in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        raise InvalidArgumentError(
            f"parameter 'ray_resources' of model '{model_name}' must be a JSON object of numbers,"
            f" for example {{\"mig_1g.10gb\": 1}}, got '{text}'"
        ) from None


def _amount(value: float) -> float:
    if not 0 <= value < float("inf"):
        raise ValueError(value)
    return max(value, SMALLEST_FRACTION) if value else 0.0


def blocked_reason(demand: RayDemand, cluster: ClusterResources) -> str:
    """Say why no node can take the instance now; empty when one can.

    The text tells a demand that no node could ever meet from one that waits its turn.
    """
    wanted = demand.as_resources()
    if any(fits(wanted, node.available) for node in cluster.nodes):
        return ""
    text = rendered(wanted)
    if any(fits(wanted, node.total) for node in cluster.nodes):
        return f"waiting for resources: needs {text}, which every node has reserved already"
    best = "; ".join(
        f"{name} {_best(cluster.nodes, name):g} at most on a node" for name in sorted(wanted)
    )
    return f"waiting for resources: needs {text}, which no node has ({best})"


def fits(wanted: Mapping[str, float], offered: Mapping[str, float]) -> bool:
    """Whether what is offered of each resource is as much as wanted."""
    for name, amount in wanted.items():  # noqa: SIM110 - a generator for each node costs more
        if offered.get(name, 0) + 1e-9 < amount:
            return False
    return True


def _best(nodes: Iterable[NodeResources], name: str) -> float:
    return max((node.total.get(name, 0) for node in nodes), default=0)


def rendered(wanted: Mapping[str, float]) -> str:
    """Return amounts for people, by name."""
    return ", ".join(f"{name} {amount:g}" for name, amount in sorted(wanted.items()))


@dataclass(frozen=True, slots=True)
class Waits:
    """No place is to be had now: what an instance waits for in the controller, unknown to Ray.

    Attributes:
        reason: Why, and what would change that.
        ends_with_node: Whether one more node like those there are would.
    """

    reason: str
    ends_with_node: bool = True
