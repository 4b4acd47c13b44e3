# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which node is emptied, so that an autoscaler can remove it. Pure: the cluster and time are given.

A node is under-used when little of it is reserved. When it has been so for a while it is emptied,
one node at a time, if everything on it fits elsewhere by the rules by which instances are placed;
else the while begins anew.
Nothing is placed on it meanwhile, nor for a while after, in which the autoscaler may remove it.
Another node is emptied only when the last has been left alone for as long: what was moved is never
moved on at once.

Instances with a GPU, gangs, and instances tied to nodes keep their node. Instances that keep apart
are moved only where their version is on as many nodes, zones and regions as before.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from backends.config.placement import PlacementRules, Strategy, read_placement
from cluster.placement.demand import NOT_RESERVED, ClusterResources, NodeResources
from cluster.placement.node_choice import Occupancy, choose_node
from cluster.placement.planner import demand_of
from deployments.instance.spec import InstanceSpec, NodeAssignment

# Of every resource that is reserved on an under-used node, the most that may be.
MOST_USED: Final = 0.5
# What a move may take before it is given up.
MOST_MOVING_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Resident:
    """A live instance, and its node."""

    spec: InstanceSpec
    node_id: str


@dataclass(frozen=True, slots=True)
class ConsolidationState:
    """What is remembered between looks.

    Attributes:
        since_s: Since when nodes are under-used.
        emptied: The node that is being emptied, or was last; empty when none is kept free.
        begun_s: When that began.
        settled_s: When it was empty, or was given up; None while instances leave.
    """

    since_s: Mapping[str, float] = field(default_factory=dict)
    emptied: str = ""
    begun_s: float = 0.0
    settled_s: float | None = None

    @property
    def leaving(self) -> frozenset[str]:
        """The node whose instances are to leave now, if any."""
        is_leaving = self.emptied and self.settled_s is None
        return frozenset({self.emptied} if is_leaving else ())

    @property
    def kept_free(self) -> frozenset[str]:
        """The node on which nothing is placed, if any."""
        return frozenset({self.emptied} if self.emptied else ())


def decide(
    state: ConsolidationState,
    cluster: ClusterResources,
    residents: Sequence[Resident],
    removable: Iterable[str],
    now_s: float,
    after_s: float,
) -> ConsolidationState:
    """Look at the nodes once.

    Args:
        state: What the last look returned.
        cluster: The nodes there are.
        residents: All live instances.
        removable: Ids of the nodes that an autoscaler could remove if they were empty.
        now_s: Time, in seconds.
        after_s: For how long a node must be under-used before it is emptied, and how long it is
            kept free.

    Returns:
        What to hand to the next look, and what to do now.

    Raises:
        InvalidArgumentError: A parameter of a model is malformed.
    """
    state = _settled(state, cluster, residents, now_s, after_s)
    if state.emptied:
        return state
    by_node: dict[str, list[Resident]] = {}
    for each in residents:
        by_node.setdefault(each.node_id, []).append(each)
    targets = frozenset(removable)
    under_used = [
        node.node_id
        for node in cluster.nodes
        if node.node_id in targets
        and not node.is_draining
        and by_node.get(node.node_id)
        and _use_of(node) <= MOST_USED
    ]
    since_s = {node_id: state.since_s.get(node_id, now_s) for node_id in under_used}
    due = [node_id for node_id in under_used if now_s - since_s[node_id] >= after_s]
    if not due:
        return ConsolidationState(since_s)
    # The least is moved. One at each look: to try a node takes long where there are thousands.
    chosen = min(due, key=lambda node_id: (len(by_node[node_id]), node_id))
    if can_be_emptied(chosen, cluster, residents):
        return ConsolidationState({}, chosen, now_s)
    return ConsolidationState(since_s | {chosen: now_s})


def _settled(
    state: ConsolidationState,
    cluster: ClusterResources,
    residents: Sequence[Resident],
    now_s: float,
    after_s: float,
) -> ConsolidationState:
    """Return the state with what has become of the node that was emptied."""
    if not state.emptied:
        return state
    if all(node.node_id != state.emptied for node in cluster.nodes):
        return ConsolidationState()
    is_empty = all(each.node_id != state.emptied for each in residents)
    if state.settled_s is None:
        is_over = is_empty or now_s - state.begun_s >= MOST_MOVING_S
        return replace(state, settled_s=now_s) if is_over else state
    is_over = now_s - state.settled_s >= after_s
    return ConsolidationState() if is_over else state


def can_be_emptied(node_id: str, cluster: ClusterResources, residents: Sequence[Resident]) -> bool:
    """Whether everything on a node fits elsewhere, by the rules of placement."""
    without = cluster.with_draining((node_id,))
    counts = Counter(each.node_id for each in residents)
    promised: dict[str, dict[str, float]] = {}
    before: dict[tuple[str, int], list[str]] = {}
    for each in residents:
        before.setdefault(_version_of(each.spec), []).append(each.node_id)
    leaving = [each.spec for each in residents if each.node_id == node_id]
    after = {version: list(before[version]) for version in map(_version_of, leaving)}
    for spec in leaving:
        alike = after[_version_of(spec)]
        alike.remove(node_id)
        target = _target(spec, without, Occupancy(alike, counts, promised))
        if target is None:
            return False
        alike.append(target)
        counts[target] += 1
        given = promised.setdefault(target, {})
        for name, amount in demand_of(spec).as_resources().items():
            given[name] = given.get(name, 0.0) + amount
    labels = {node.node_id: node.labels for node in cluster.nodes}
    rules = {_version_of(spec): read_placement(spec.config) for spec in leaving}
    return all(_keeps_apart(rules[each], before[each], after[each], labels) for each in after)


def _target(spec: InstanceSpec, cluster: ClusterResources, occupancy: Occupancy) -> str | None:
    if spec.device is not None or spec.gang is not None or read_placement(spec.config).nodes:
        return None
    chosen = choose_node(spec, cluster, occupancy)
    return chosen.node_id if isinstance(chosen, NodeAssignment) else None


def _version_of(spec: InstanceSpec) -> tuple[str, int]:
    return spec.model_key, spec.version


def _keeps_apart(
    rules: PlacementRules,
    before: Sequence[str],
    after: Sequence[str],
    labels: Mapping[str, Mapping[str, str]],
) -> bool:
    """Whether a version is on no fewer nodes, and in no fewer domains, than before."""
    if rules.strategy is not Strategy.SPREAD:
        return True

    def domains(node_ids: Sequence[str], key: str) -> int:
        return len({labels.get(node_id, {}).get(key, "") for node_id in node_ids})

    return len(set(after)) >= len(set(before)) and all(
        domains(after, key) >= domains(before, key) for key in rules.spread_over
    )


def _use_of(node: NodeResources) -> float:
    """Return the part that is reserved of that resource of which most is."""
    return max(
        (
            1.0 - node.available.get(name, 0.0) / amount
            for name, amount in node.total.items()
            if amount > 0 and not name.startswith(NOT_RESERVED)
        ),
        default=0.0,
    )
