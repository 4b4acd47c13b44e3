# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which nodes an autoscaler is asked for, because instances wait in the controller. Pure.

An instance that Ray finds no room for is demand there by itself. One that waits for memory of a
GPU, for a MIG device or for one of some nodes is none: by what Ray counts it has room. For such
ones a node is asked for that is none of those there are.

Of each shape one node is asked for at a time: several instances may fit there. When it has come the
request is withdrawn, and they get a while to start. If some did and others still wait, the next is
asked for. If none did, the next is asked for after an interval that doubles.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from cluster.devices.inventory import mig_profile_of
from cluster.placement.affinity import unmet
from cluster.placement.demand import (
    GPU_RESOURCE,
    ClusterResources,
    NodeResources,
    RayDemand,
    fits,
)
from cluster.placement.devices import may_have_device
from deployments.instance.spec import InstanceSpec

# Ray labels each node with its id.
NODE_ID_LABEL: Final = "ray.io/node-id"
# What a node that has come gets to tell of its GPUs, and instances to be placed there.
SETTLE_S: Final = 30.0
# Until the next, when none could be placed there; doubles.
IN_VAIN_S: Final = 600.0
MOST_IN_VAIN_S: Final = 7200.0


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What a node must have.

    Attributes:
        resources: Amounts by name, in the order of the names.
        labels: Conditions in Ray's syntax by key, in the order of the keys.
    """

    resources: tuple[tuple[str, float], ...]
    labels: tuple[tuple[str, str], ...] = ()

    def is_met_by(self, node: NodeResources) -> bool:
        """Whether a node has that, reserved or not."""
        has_labels = not unmet(dict(self.labels), node.labels)
        return has_labels and fits(dict(self.resources), node.total)


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """A node that is asked for.

    Attributes:
        shape: What it must have.
        other_than: Ids of the nodes that it must not be.
    """

    shape: NodeShape
    other_than: frozenset[str] = frozenset()

    @property
    def label_selector(self) -> dict[str, str]:
        """The conditions on its labels, in Ray's syntax."""
        others = ",".join(sorted(self.other_than))
        return {**dict(self.shape.labels), NODE_ID_LABEL: f"!in({others})"}

    def is_met_by(self, node: NodeResources) -> bool:
        """Whether a node is such a one."""
        is_another = node.node_id not in self.other_than and not node.is_draining
        return is_another and self.shape.is_met_by(node)


@dataclass(frozen=True, slots=True)
class Asked:
    """What has been asked for a shape.

    Attributes:
        met_s: When it had come; None while it is waited for.
        waiting: Who waited then, by name.
        vain_count: How many nodes before it have helped nobody.
    """

    request: NodeRequest
    met_s: float | None = None
    waiting: frozenset[str] = frozenset()
    vain_count: int = 0


NodeRequests = Mapping[NodeShape, Asked]


def shape_for(spec: InstanceSpec, cluster: ClusterResources) -> NodeShape | None:
    """Return what a node must have to take an instance that waits in the controller.

    Ray counts neither memory of GPUs nor which one of them is taken: asked for are as many as the
    index implies of the one that the instance has to have. A MIG device that no node offers to Ray
    is expected on any node with a GPU.

    Returns:
        None where the model itself says which node it must be.
    """
    if NODE_ID_LABEL in spec.label_selector:
        return None
    demand = RayDemand(spec.num_cpus, spec.num_gpus, spec.resources).as_resources()
    offered = {n: v for n, v in demand.items() if not mig_profile_of(n) or cluster.offers(n)}
    if may_have_device(spec) and not any(map(mig_profile_of, offered)):
        least = 1.0 if len(offered) < len(demand) else spec.device_id + 1.0
        offered[GPU_RESOURCE] = max(least, offered.get(GPU_RESOURCE, 0.0))
    return NodeShape(tuple(sorted(offered.items())), tuple(sorted(spec.label_selector.items())))


def decide(
    asked: NodeRequests,
    waiting: Mapping[str, NodeShape],
    nodes: Iterable[NodeResources],
    now_s: float,
) -> NodeRequests:
    """Return what is asked for from now on.

    Args:
        asked: What was asked for until now.
        waiting: Who waits in the controller, by name, and on what a node he could start.
        nodes: Those there are.
        now_s: Monotonic clock.
    """
    names: dict[NodeShape, set[str]] = {}
    for name, shape in waiting.items():
        names.setdefault(shape, set()).add(name)
    there = tuple(nodes)
    return {
        shape: _next(asked.get(shape), shape, frozenset(each), there, now_s)
        for shape, each in names.items()
    }


def requests_of(asked: NodeRequests) -> frozenset[NodeRequest]:
    """Return the nodes that have not come yet."""
    return frozenset(each.request for each in asked.values() if each.met_s is None)


def _next(
    before: Asked | None,
    shape: NodeShape,
    names: frozenset[str],
    nodes: tuple[NodeResources, ...],
    now_s: float,
) -> Asked:
    fresh = NodeRequest(shape, frozenset(node.node_id for node in nodes))
    if before is None:
        return Asked(fresh)
    if before.met_s is None:
        has_come = any(map(before.request.is_met_by, nodes))
        return replace(before, met_s=now_s, waiting=names) if has_come else before
    has_helped = not before.waiting <= names
    in_vain_s = min(IN_VAIN_S * 2**before.vain_count, MOST_IN_VAIN_S)
    if now_s < before.met_s + (SETTLE_S if has_helped else in_vain_s):
        return before
    return Asked(fresh, vain_count=0 if has_helped else before.vain_count + 1)
