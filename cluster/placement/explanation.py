# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Why an instance is where it is, or what it waits for and what would change that. Pure.

What is told is how things are now, by the rules by which instances are placed; nobody has noted
how they were when an instance started.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from backends.api.errors import TritonError
from backends.config.placement import PlacementRules, read_placement
from cluster.placement.affinity import affinity_to, allowed, refusal
from cluster.placement.demand import ClusterResources, NodeResources, Waits, fits, rendered
from cluster.placement.devices import assign_device, may_have_device
from cluster.placement.gang import can_hold, gang_blocked
from cluster.placement.leases import Leases
from cluster.placement.planner import demand_of
from cluster.placement.preemption import Devices, Occupant, to_displace
from deployments.instance.spec import InstanceSpec

Row = dict[str, Any]
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """An instance as its pool sees it.

    Attributes:
        spec: Its recipe, with the place it was given.
        node_id: Where it is; empty while it has no loaded process.
        reason: What it waits for, or why it restarts; mostly empty.
        is_leaving: Whether it finishes its last requests.
        is_failing: Whether it has died or failed to load since it was last in service.
        pid: Of its process; 0 while it has none that is loaded.
        restarts: How often its process has died or was replaced since its place was made, as far as
            the controller has seen.
    """

    spec: InstanceSpec
    node_id: str = ""
    reason: str = ""
    is_leaving: bool = False
    is_failing: bool = False
    pid: int = 0
    restarts: int = 0

    @property
    def state(self) -> str:
        """One of leaving, live, waiting and starting."""
        if self.is_leaving:
            return "leaving"
        if self.node_id:
            return "live"
        return "waiting" if self.reason else "starting"


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known when it is asked.

    Attributes:
        cluster: The nodes, what is free on each, and their GPUs.
        occupants: The live instances of all models.
        devices: By the name of an instance: who has what, and what bounds that one.
    """

    cluster: ClusterResources
    occupants: Sequence[Occupant] = ()
    devices: Mapping[str, Devices] = field(default_factory=dict)


def explain_instance(status: InstanceStatus, now: Situation) -> Row:
    """Return an instance's name, state, place and reasons, ready for JSON.

    ``why`` says why it is where it is; ``waits_for``, ``nodes`` and ``unblock`` are of one that has
    no process.
    """
    spec, rules = status.spec, read_placement(status.spec.config)
    row: Row = {"name": spec.name, "state": status.state, "priority": rules.priority}
    row["needs"] = _rounded(demand_of(spec).as_resources())
    if spec.gang is not None:
        row["bundles"] = [_rounded(bundle) for bundle in spec.gang.bundles]
        row["bundle_strategy"] = spec.gang.strategy
    if status.node_id:
        node = _node_of(status.node_id, now.cluster)
        row["node"] = _shown(node)
        if spec.device is not None:
            row["device"] = {"index": spec.device.index, "uuid": spec.device.uuid}
        row["why"] = list(_why(status, node, rules, now))
        return row
    row["waits_for"] = status.reason or f"instance {spec.name} is starting"
    row["nodes"] = [
        {**_shown(node), "verdict": _verdict(spec, node, rules, now)} for node in now.cluster.nodes
    ]
    row["unblock"] = list(_unblock(spec, rules, now)) if status.reason else []
    return row


def _why(
    status: InstanceStatus, node: NodeResources, rules: PlacementRules, now: Situation
) -> Iterator[str]:
    spec = status.spec
    if spec.gang is not None:
        yield f"Ray has reserved its {len(spec.gang.bundles)} bundles ({spec.gang.strategy})"
    elif spec.device is not None:
        yield (
            f"GPU {spec.device.index} ({spec.device.uuid}) was leased to it,"
            f" {'to it alone' if spec.device.is_exclusive else 'which others may share'}"
        )
    elif len(now.cluster.nodes) == 1:
        yield "it is the only node of the cluster"
    elif spec.node is None:
        yield "Ray chose the node: there was no other, or none had room when it started"
    elif spec.node.node_id != status.node_id:
        yield "Ray chose the node: the one that was chosen for it was full, or has gone"
    if rules.nodes:
        yield f"placement.nodes names {', '.join(rules.nodes)}"
    if spec.label_selector:
        shown = ", ".join(f"{key}={value}" for key, value in spec.label_selector.items())
        yield f"the node has the labels {shown}"
    if len(now.cluster.nodes) > 1:
        yield _spread(spec, node, rules, now)
    refused = [other for other in now.cluster.nodes if refusal(other, rules)]
    for other in refused[:_SHOWN]:
        yield f"node {_name(other)} is none for it: {refusal(other, rules)}"
    if len(refused) > _SHOWN:
        yield f"nor are {len(refused) - _SHOWN} more nodes"


def _spread(spec: InstanceSpec, node: NodeResources, rules: PlacementRules, now: Situation) -> str:
    alike = [
        each.node_id
        for each in now.occupants
        if (each.spec.model_key, each.spec.version) == (spec.model_key, spec.version)
    ]
    affinity = affinity_to(now.cluster, rules, Counter(alike))
    parts = [
        f"{affinity.domains[key, node.labels[key]]} in {key}={node.labels[key]}"
        for key in rules.spread_over
        if key in node.labels and (key, node.labels[key]) in affinity.domains
    ]
    parts.append(f"{affinity.alike.get(node.node_id, 0)} on the node")
    there = len(allowed(now.cluster, rules))
    return (
        f"strategy {rules.strategy}: of {len(alike)} live instances of the version"
        f" {', '.join(parts)}; {there} node{'s' * (there != 1)} to choose from"
    )


def _verdict(spec: InstanceSpec, node: NodeResources, rules: PlacementRules, now: Situation) -> str:
    """Say of one node why it does not take the instance, or that it has room."""
    refused = refusal(node, rules)
    if refused:
        return f"not this one: {refused}"
    alone = replace(now.cluster, nodes=(node,))
    if spec.gang is not None:
        bundles = [each for each in spec.gang.bundles if fits(each, node.available)]
        return f"has room for {len(bundles)} of {len(spec.gang.bundles)} bundles, each taken alone"
    if may_have_device(spec):
        given = now.devices.get(spec.name, Devices())
        others = Leases({name: each for name, each in given.leases.items() if name != spec.name})
        try:
            outcome = assign_device(spec, alone, others, given.admission)
        except TritonError as error:
            return error.message
        if isinstance(outcome, Waits):
            return outcome.reason
        spec = outcome
    wanted = demand_of(spec).as_resources()
    missing = [
        f"{name}: needs {wanted[name]:g}, {max(0.0, node.available.get(name, 0)):g} free of"
        f" {node.total.get(name, 0):g}"
        for name in _short(wanted, node)
    ]
    return "; ".join(missing) or "has room"


def _unblock(spec: InstanceSpec, rules: PlacementRules, now: Situation) -> Iterator[str]:
    there = allowed(now.cluster, rules)
    if not there:
        what = [f"labels {key}={value}" for key, value in rules.labels.items()]
        what += [f"name or address {' or '.join(rules.nodes)}"] if rules.nodes else []
        wants = f" with {', '.join(what)}" if what else ""
        yield f"start a node{wants}; none that is alive and does not drain is one for it"
        return
    if spec.gang is not None:
        yield from _unblock_gang(spec, replace(now.cluster, nodes=there))
        return
    wanted = demand_of(spec).as_resources()
    shown = rendered(wanted)
    large = [node for node in there if fits(wanted, node.total)]
    if not large:
        yield f"add a node that has {shown}, or have the model reserve less (ray_num_cpus, ...)"
        return
    full = [node for node in large if not fits(wanted, node.available)]
    for node in full[:_SHOWN]:
        who = _who_holds(wanted, node, now.occupants)
        short = _short(wanted, node)
        missing = {name: wanted[name] - max(0.0, node.available.get(name, 0)) for name in short}
        yield f"free {rendered(missing)} on node {_name(node)}{who}"
    if len(full) == len(large) and not rules.nodes:
        yield f"add a node that has {shown}: Ray's autoscaler sees the demand"
    yield from _unblock_by_priority(spec, rules, now, is_full=len(full) == len(large))


def _unblock_gang(spec: InstanceSpec, cluster: ClusterResources) -> Iterator[str]:
    if spec.gang is None or not gang_blocked(spec.gang, cluster):
        return
    if can_hold(spec.gang, (node.total for node in cluster.nodes)):
        yield "free what its bundles need, or add nodes: Ray's autoscaler sees the demand"
    else:
        yield "add nodes that have its bundles, or make these smaller"


def _unblock_by_priority(
    spec: InstanceSpec, rules: PlacementRules, now: Situation, *, is_full: bool
) -> Iterator[str]:
    given = now.devices.get(spec.name, Devices())
    leaving = to_displace(spec, now.cluster, now.occupants, given)
    if leaving:
        yield (
            f"{_names(leaving)} of a lower priority would make room, once idle for a while; what"
            " is busy stays"
        )
        return
    lower = [each for each in now.occupants if each.priority < rules.priority]
    others = [each for each in now.occupants if each.spec.model_key != spec.model_key]
    if is_full and others and not lower:
        highest = min(each.priority for each in others)
        yield (
            f"a placement.priority above {highest} could have idle instances of other models make"
            f" room; it is {rules.priority}"
        )


def _who_holds(
    wanted: Mapping[str, float], node: NodeResources, occupants: Iterable[Occupant]
) -> str:
    short = _short(wanted, node)
    holders = {
        each.spec.name: sum(demand_of(each.spec).as_resources().get(name, 0.0) for name in short)
        for each in occupants
        if each.node_id == node.node_id
    }
    largest = sorted((n for n, amount in holders.items() if amount), key=lambda n: -holders[n])
    return f", of which {_names(largest)} have most" if largest else ""


def _short(wanted: Mapping[str, float], node: NodeResources) -> list[str]:
    """Return the names of what a node has too little free of."""
    return sorted(name for name in wanted if not fits({name: wanted[name]}, node.available))


def _node_of(node_id: str, cluster: ClusterResources) -> NodeResources:
    found = (node for node in cluster.nodes if node.node_id == node_id)
    return next(found, NodeResources(node_id))


def _shown(node: NodeResources) -> Row:
    return {"id": node.node_id, "name": _name(node)}


def node_name(node_id: str, cluster: ClusterResources) -> str:
    """Return how people know a node, also one that is gone."""
    return _name(_node_of(node_id, cluster))


def _name(node: NodeResources) -> str:
    """Return how people know a node: by its host name or address."""
    names = sorted(node.names - {node.node_id})
    return names[-1] if names else node.node_id[:8]


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _rounded(amounts: Mapping[str, float]) -> Row:
    return {name: round(amount, 4) for name, amount in sorted(amounts.items())}
