# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""On which node an instance without a device starts. Pure.

Ray knows no pools: it cannot keep the instances of one version apart, least of all over zones. So
the node is chosen here, among those that have room, and Ray is told to prefer it. Where none has
room nothing is chosen. The instance is then demand in Ray, with its labels, which an autoscaler can
meet.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from backends.config.placement import PlacementRules, read_placement
from cluster.placement.affinity import affinity_to, allowed, unmet
from cluster.placement.demand import (
    ClusterResources,
    NodeResources,
    Waits,
    blocked_reason,
    fits,
    rendered,
)
from cluster.placement.gang import gang_blocked
from cluster.placement.planner import demand_of
from deployments.instance.spec import InstanceSpec, NodeAssignment


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Where instances are, or are about to start.

    Attributes:
        alike: The nodes of those of the same generation, one for each.
        counts: How many of all models each node has.
        promised: By node: what was given away and Ray does not count yet.
    """

    alike: Iterable[str] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    promised: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def has_room(self, node: NodeResources, wanted: Mapping[str, float]) -> bool:
        """Whether a node has as much left."""
        promised = self.promised.get(node.node_id)
        if promised:
            wanted = {name: amount + promised.get(name, 0.0) for name, amount in wanted.items()}
        return fits(wanted, node.available)


def choose_node(
    spec: InstanceSpec, cluster: ClusterResources, occupancy: Occupancy
) -> NodeAssignment | Waits | None:
    """Choose a node for an instance that is about to start.

    Returns:
        The node; None leaves it to Ray.

    Raises:
        InvalidArgumentError: A parameter of its model is malformed.
    """
    if spec.gang is not None:
        return None
    rules = read_placement(spec.config)
    there = allowed(cluster, rules)
    wanted = demand_of(spec).as_resources()
    fitting = [node for node in there if occupancy.has_room(node, wanted)]
    if rules.nodes and not fitting:
        return _pinned_in_vain(rules, there, wanted)
    if not fitting or (len(cluster.nodes) == 1 and not rules.nodes):
        return None
    affinity = affinity_to(cluster, rules, Counter(occupancy.alike))
    sign, counts = affinity.sign, occupancy.counts

    def rank(node: NodeResources) -> tuple[object, ...]:
        return affinity.of(node), sign * counts.get(node.node_id, 0), node.node_id

    return NodeAssignment(min(fitting, key=rank).node_id, is_required=bool(rules.nodes))


def blocked_by(spec: InstanceSpec, cluster: ClusterResources) -> str:
    """Say why no node can take an instance that was given its place; empty when one can."""
    there = cluster
    if spec.device is not None:
        there = cluster.only(spec.device.node_id)
    elif spec.node is not None and spec.node.is_required:
        there = cluster.only(spec.node.node_id)
    else:
        suited = [node for node in cluster.nodes if not unmet(spec.label_selector, node.labels)]
        if not suited and spec.label_selector:
            shown = ", ".join(f"{key}={value}" for key, value in spec.label_selector.items())
            return f"waiting for a node with the labels {shown}, which none has"
        there = replace(cluster, nodes=tuple(node for node in suited if not node.is_draining))
    if spec.gang is not None:
        return gang_blocked(spec.gang, there)
    return blocked_reason(demand_of(spec), there)


def _pinned_in_vain(
    rules: PlacementRules, there: tuple[NodeResources, ...], wanted: Mapping[str, float]
) -> Waits:
    names = ", ".join(rules.nodes)
    if not there:
        return Waits(
            f"waiting for one of its nodes ({names}), of which none is alive and meets its labels;"
            " start one, or change placement.nodes"
        )
    return Waits(
        f"waiting for resources: needs {rendered(wanted)}, which none of its nodes ({names}) has"
        " free; unload what is there, or change placement.nodes",
        ends_with_node=not all(any(name in node.names for node in there) for name in rules.nodes),
    )
