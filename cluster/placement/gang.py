# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instances that need resources of several bundles at once, perhaps on several nodes. Pure.

Ray gives all bundles of a placement group or none. Here it is only told whether they could be had.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from backends.config.placement import BundleStrategy, PlacementRules
from cluster.placement.demand import (
    CPU_RESOURCE,
    GPU_RESOURCE,
    ClusterResources,
    RayDemand,
    fits,
)
from deployments.instance.spec import Gang

Amounts = Mapping[str, float]

_ON_ONE_NODE: Final = BundleStrategy.STRICT_PACK
_ON_NODES_OF_THEIR_OWN: Final = BundleStrategy.STRICT_SPREAD


def with_bundle(default: RayDemand, rules: PlacementRules, kind: str) -> RayDemand:
    """Return what an instance's own process takes when its model does not say.

    A GPU instance takes all GPUs of its first bundle, another one none.
    """
    if not rules.bundles:
        return default
    num_gpus = rules.bundles[0].get(GPU_RESOURCE, 0.0) if kind == "GPU" else 0.0
    return RayDemand(default.num_cpus, num_gpus)


def gang_of(rules: PlacementRules, demand: RayDemand) -> Gang | None:
    """Return what a gang instance reserves; None for an instance that is none.

    Args:
        rules: Its model's.
        demand: What its own process takes, which the first bundle has at least.
    """
    if not rules.bundles:
        return None
    first = dict(rules.bundles[0])
    for name, amount in demand.as_resources().items():
        first[name] = max(amount, first.get(name, 0.0))
    return Gang((first, *map(dict, rules.bundles[1:])), rules.bundle_strategy.value)


def gang_blocked(gang: Gang, cluster: ClusterResources) -> str:
    """Say why the nodes that may have a bundle cannot take a gang now; empty when they can."""
    if can_hold(gang, (node.available for node in cluster.nodes)):
        return ""
    bundles = "; ".join(_render(bundle) for bundle in gang.bundles)
    needs = f"waiting for resources: needs {bundles} at once ({gang.strategy})"
    if can_hold(gang, (node.total for node in cluster.nodes)):
        return f"{needs}, of which a part is reserved already"
    return f"{needs}, which the nodes do not have"


def can_hold(gang: Gang, offered: Iterable[Amounts]) -> bool:
    """Whether nodes that offer so much could take all bundles.

    With `PACK` and `SPREAD` the largest bundle is put first where it fits: now and then they could
    be taken although the answer is no.
    """
    rooms = [dict(room) for room in offered]
    strategy = BundleStrategy(gang.strategy)
    if strategy is _ON_ONE_NODE:
        return any(fits(_sum(gang.bundles), room) for room in rooms)
    if strategy is _ON_NODES_OF_THEIR_OWN:
        return _can_match(gang.bundles, rooms)
    for bundle in sorted(gang.bundles, key=lambda each: sum(each.values()), reverse=True):
        room = next((room for room in rooms if fits(bundle, room)), None)
        if room is None:
            return False
        for name, amount in bundle.items():
            room[name] -= amount
    return True


def _can_match(bundles: Sequence[Amounts], rooms: Sequence[Amounts]) -> bool:
    """Whether each bundle can have a room of its own."""
    holder: dict[int, int] = {}

    def seat(bundle: int, tried: set[int]) -> bool:
        for at, room in enumerate(rooms):
            if at in tried or not fits(bundles[bundle], room):
                continue
            tried.add(at)
            if at not in holder or seat(holder[at], tried):
                holder[at] = bundle
                return True
        return False

    return all(seat(bundle, set()) for bundle in range(len(bundles)))


def _sum(bundles: Iterable[Amounts]) -> Amounts:
    total: dict[str, float] = {}
    for bundle in bundles:
        for name, amount in bundle.items():
            total[name] = total.get(name, 0.0) + amount
    return total


def _render(bundle: Amounts) -> str:
    order = sorted(bundle, key=lambda name: (name != GPU_RESOURCE, name != CPU_RESOURCE, name))
    return ", ".join(f"{name} {bundle[name]:g}" for name in order)
