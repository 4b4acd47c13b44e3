# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which nodes an instance may be on, and which of them it rather is on. Pure."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from backends.config.placement import PlacementRules, Strategy
from cluster.placement.demand import ClusterResources, NodeResources

_CONDITION: Final = re.compile(r"(?P<negation>!?)(?:in\((?P<several>.*)\)|(?P<one>.*))")


def unmet(selector: Mapping[str, str], labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the conditions that labels do not meet, as ``key=condition``; mostly none.

    Ray: src/ray/common/scheduling/label_selector.cc, python/ray/_private/label_utils.py

    Args:
        selector: Conditions by key: ``v``, ``!v``, ``in(v,w)`` or ``!in(v,w)``. A label that a node
            does not have is none of any values.
        labels: The node's.
    """
    return tuple(
        f"{key}={condition}"
        for key, condition in selector.items()
        if not _is_met(condition, labels.get(key))
    )


def _is_met(condition: str, value: str | None) -> bool:
    match = _CONDITION.fullmatch(condition)
    if match is None:
        return False
    several = match["several"]
    values = {match["one"]} if several is None else {each.strip() for each in several.split(",")}
    return (value in values) is not bool(match["negation"])


def refusal(node: NodeResources, rules: PlacementRules) -> str:
    """Say why a node is none for a model, whatever room it has; empty when it is one."""
    if node.is_draining:
        return "it drains"
    if rules.nodes and not node.names.intersection(rules.nodes):
        return f"it is none of placement.nodes ({', '.join(rules.nodes)})"
    conditions = unmet(rules.labels, node.labels) if rules.labels else ()
    if conditions:
        return f"its labels do not meet {', '.join(conditions)} of placement.labels"
    return ""


def allowed(cluster: ClusterResources, rules: PlacementRules) -> tuple[NodeResources, ...]:
    """Return the nodes that a model's instances may be on."""
    return tuple(node for node in cluster.nodes if not refusal(node, rules))


@dataclass(frozen=True, slots=True)
class Affinity:
    """How much an instance likes nodes: the lower the number, the better.

    Attributes:
        rules: Its model's.
        alike: How many instances that it keeps away from, or together with, each node has.
        domains: The same by label and value.
    """

    rules: PlacementRules
    alike: Mapping[str, int]
    domains: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def sign(self) -> int:
        """1 where little is better, -1 where much is."""
        return 1 if self.rules.strategy is Strategy.SPREAD else -1

    def of(self, node: NodeResources) -> tuple[int, ...]:
        """Return a node's number: by the largest domain first where apart is better."""
        sign = self.sign
        there = sign * self.alike.get(node.node_id, 0)
        if not self.rules.spread_over:
            return (there,)
        around = tuple(
            sign * self.domains.get((key, node.labels.get(key, "")), 0)
            for key in self.rules.spread_over
        )
        return (*around, there) if sign > 0 else (there, *around)


def affinity_to(
    cluster: ClusterResources, rules: PlacementRules, alike: Mapping[str, int]
) -> Affinity:
    """Return how much an instance likes nodes, of which each has so many alike."""
    domains: Counter[tuple[str, str]] = Counter()
    for node in cluster.nodes:
        for key in rules.spread_over if node.node_id in alike else ():
            domains[key, node.labels.get(key, "")] += alike[node.node_id]
    return Affinity(rules, alike, domains)
