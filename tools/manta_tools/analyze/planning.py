# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How many instances and nodes a load needs, from what was measured on one node.

The rule: of the levels that were measured and keep the limits, take the one with the most
throughput for an instance. What one instance did there it does on other nodes too: instances are
added, never loaded more. So nothing is assumed of loads in between, and of loads above. What is
extrapolated, more instances on a node than were measured there together, and more nodes than one,
is said.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from backends.api.errors import InvalidArgumentError
from manta_tools.analyze.objectives import Bound, Goal, Judge
from manta_tools.analyze.records import Measured
from manta_tools.analyze.tags import THROUGHPUT

_HOURS_PER_MONTH: Final = 730.0
_SECONDS_PER_HOUR: Final = 3600.0
_MILLION: Final = 1e6
# Sums of resources that differ by less are equal.
_EPSILON: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Level:
    """What a configuration did under one load.

    Attributes:
        model: The model.
        instances: How many there were, on one node.
        throughput: Inferences a second of all of them together.
        metrics: By tag.
        source: Where it comes from: the variant and its load.
    """

    model: str
    instances: int
    throughput: float
    metrics: Mapping[str, float]
    source: str


@dataclass(frozen=True, slots=True)
class Demand:
    """A load that shall be served.

    Attributes:
        model: The model.
        rate: Inferences a second.
        limits: What each inference has to keep.
        needs: What one instance takes of a node, by resource: CPU, GPU, memory_mb.
    """

    model: str
    rate: float
    limits: tuple[Bound, ...]
    needs: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Node:
    """The nodes there may be, all alike.

    Attributes:
        offers: What one offers, by resource.
        price_per_hour: In any currency; 0.0 for unknown.
        most: How many there may be; 0 for any number.
    """

    offers: Mapping[str, float]
    price_per_hour: float = 0.0
    most: int = 0


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a plan that is one model's.

    Attributes:
        demand: What is asked.
        level: The measurement that it rests on.
        instances: How many it needs.
        utilisation: Which part of what they can do at that level is asked of them.
    """

    demand: Demand
    level: Level
    instances: int
    utilisation: float


@dataclass(frozen=True, slots=True)
class Plan:
    """How a load is served.

    Attributes:
        shares: By model.
        nodes: On each node its instances by model.
        spares: Nodes beyond those that the load needs, for nodes that are lost.
        price_per_hour: Of all nodes; 0.0 for unknown.
        cost_per_million: Of a million inferences at the load that is asked; 0.0 for unknown.
        assumptions: What was not measured, a sentence each.
        headroom: By model, the load above the one asked that its instances carry, as a part of it.
    """

    shares: tuple[Share, ...]
    nodes: tuple[Mapping[str, int], ...]
    spares: int
    price_per_hour: float = 0.0
    cost_per_million: float = 0.0
    assumptions: tuple[str, ...] = ()
    headroom: Mapping[str, float] = field(default_factory=dict)

    @property
    def node_count(self) -> int:
        """Return how many nodes it takes, spares included."""
        return len(self.nodes) + self.spares

    @property
    def price_per_month(self) -> float:
        """Return the price of 730 hours."""
        return self.price_per_hour * _HOURS_PER_MONTH


def level_of(measured: Measured, model: str, instances: int, source: str) -> Level:
    """Return a measurement of a model as a level.

    Raises:
        InvalidArgumentError: It failed, or has no throughput.
    """
    throughput = measured.metrics.get(model, {}).get(THROUGHPUT, 0.0)
    if measured.error or throughput <= 0.0 or instances < 1:
        raise InvalidArgumentError(
            f"the measurement of model '{model}' ({source}) has no throughput, expected one that "
            "succeeded"
        )
    return Level(model, instances, throughput, dict(measured.metrics[model]), source)


def plan(
    demands: Sequence[Demand], levels: Sequence[Level], node: Node, *, lost_nodes: int = 0
) -> Plan:
    """Return how the demands are served together.

    Args:
        demands: One for each model.
        levels: What was measured of them.
        node: What a node offers.
        lost_nodes: How many nodes may be lost without more being asked of an instance than was
            measured.

    Raises:
        InvalidArgumentError: A model has no level that keeps its limits, an instance fits no node,
            or there may not be so many nodes.
    """
    shares = tuple(_share(demand, levels) for demand in demands)
    nodes = _packed(shares, node)
    count = len(nodes) + lost_nodes
    if node.most and count > node.most:
        raise InvalidArgumentError(
            f"the load needs {count} nodes, {lost_nodes} of them for nodes that are lost, expected "
            f"at most {node.most}; allow more, or ask less"
        )
    price = node.price_per_hour * count
    rate = sum(demand.rate for demand in demands)
    return Plan(
        shares,
        nodes,
        lost_nodes,
        price,
        price / (rate * _SECONDS_PER_HOUR) * _MILLION if rate else 0.0,
        tuple(_assumptions(shares, nodes)),
        {share.demand.model: 1.0 / share.utilisation - 1.0 for share in shares},
    )


def best_level(demand: Demand, levels: Sequence[Level]) -> Level:
    """Return the level that keeps the limits with the most throughput for an instance.

    A limit on a metric that was not measured is not kept.

    Raises:
        InvalidArgumentError: There is none; the message says how near the nearest comes.
    """
    of_model = [each for each in levels if each.model == demand.model]
    if not of_model:
        raise InvalidArgumentError(
            f"nothing was measured of model '{demand.model}', expected measurements; run "
            f"'manta analyze {demand.model}' first"
        )
    kept = [each for each in of_model if _keeps(each, demand.limits)]
    if not kept:
        raise InvalidArgumentError(_nothing_keeps(demand, of_model))
    return max(kept, key=lambda each: each.throughput / each.instances)


def _share(demand: Demand, levels: Sequence[Level]) -> Share:
    if demand.rate <= 0.0:
        raise InvalidArgumentError(
            f"the load of model '{demand.model}' is {demand.rate:g}, expected inferences a second "
            "above 0"
        )
    level = best_level(demand, levels)
    of_each = level.throughput / level.instances
    instances = max(1, math.ceil(demand.rate / of_each - _EPSILON))
    return Share(demand, level, instances, demand.rate / (instances * of_each))


def _keeps(level: Level, limits: Sequence[Bound]) -> bool:
    return all(
        bound.tag in level.metrics and bound.excess(level.metrics[bound.tag]) == 0.0
        for bound in limits
        # What all instances do together is the plan's to reach.
        if bound.tag != THROUGHPUT
    )


def _nothing_keeps(demand: Demand, levels: Sequence[Level]) -> str:
    judge = Judge((Goal(demand.model, constraints=demand.limits),))
    limits = ", ".join(f"{b.tag} {b.side} {b.limit:g}" for b in demand.limits)
    parts = [
        f"{bound.tag} came to {nearest:g}"
        for bound in judge.goals[0].constraints
        if (found := [each.metrics[bound.tag] for each in levels if bound.tag in each.metrics])
        and bound.excess(nearest := min(found) if bound.side == "max" else max(found)) > 0.0
    ]
    reached = "; ".join(parts) or "each is kept by some, all of them by none, or not measured"
    return (
        f"no measured load of model '{demand.model}' keeps {limits}: {reached}; measure lower "
        "loads, or other configurations"
    )


def _packed(shares: Sequence[Share], node: Node) -> tuple[Mapping[str, int], ...]:
    """Put instances on nodes, the largest first, each on the first node that has room.

    First fit, in falling order of size, takes at most 11/9 of the best number of nodes, and one.
    """
    order = sorted(shares, key=lambda share: _size(share.demand, node), reverse=True)
    nodes: list[dict[str, int]] = []
    free: list[dict[str, float]] = []
    for share in order:
        needs = {name: amount for name, amount in share.demand.needs.items() if amount > 0.0}
        at = 0
        for _ in range(share.instances):
            while at < len(nodes) and not _fits(needs, free[at]):
                at += 1
            if at == len(nodes):
                nodes.append({})
                free.append(dict(node.offers))
            for name, amount in needs.items():
                free[at][name] -= amount
            nodes[at][share.demand.model] = nodes[at].get(share.demand.model, 0) + 1
    return tuple(nodes)


def _size(demand: Demand, node: Node) -> float:
    """Return which part of a node an instance takes, of what it takes most of.

    Raises:
        InvalidArgumentError: It fits no node.
    """
    if not _fits(demand.needs, node.offers):
        raise InvalidArgumentError(
            f"an instance of model '{demand.model}' takes {_shown(demand.needs)}, expected at most "
            f"what a node offers: {_shown(node.offers)}"
        )
    parts = (amount / node.offers[name] for name, amount in demand.needs.items() if amount > 0.0)
    return max(parts, default=0.0)


def _fits(needs: Mapping[str, float], free: Mapping[str, float]) -> bool:
    return all(
        amount <= free.get(name, 0.0) + _EPSILON for name, amount in needs.items() if amount > 0.0
    )


def _shown(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in resources.items()) or "nothing"


def _assumptions(shares: Sequence[Share], nodes: Sequence[Mapping[str, int]]) -> Iterator[str]:
    for share in shares:
        model, level = share.demand.model, share.level
        most = max(each.get(model, 0) for each in nodes)
        if most > level.instances:
            yield (
                f"{most} instances of model '{model}' on a node do {most / level.instances:g} times"
                f" what {level.instances} did ({level.source}): not measured"
            )
    if len(nodes) > 1:
        yield f"{len(nodes)} nodes do {len(nodes)} times what one does: measured was one"
    if len(shares) > 1 and any(len(each) > 1 for each in nodes):
        yield "models on one node do not slow each other down: not measured together"
