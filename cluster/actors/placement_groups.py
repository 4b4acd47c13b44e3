# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Placement groups: those of gang instances, and those by which nodes are asked for.

The group of a gang instance has the instance's name. It is detached, as the instance's actor is: it
outlives the controller that made it, and is found again by its name. Calls block.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import ray
from ray._raylet import PlacementGroupID
from ray.util.placement_group import PlacementGroup

from deployments.instance.spec import InstanceSpec

_PREFIX: Final = "manta:"
# No instance has such a name.
_NODE: Final = "node "
_REMOVED: Final = "REMOVED"


def create_group(spec: InstanceSpec) -> Any:
    """Create the group of a gang instance and return it before it has its bundles.

    What an earlier attempt has left under the name is removed.

    Raises:
        ValueError: The recipe has no gang.
    """
    if spec.gang is None:
        raise ValueError(f"instance {spec.name} reserves no bundles")
    remove_group(spec.name)
    labels = [dict(spec.label_selector) for _ in spec.gang.bundles]
    return ray.util.placement_group(
        [dict(bundle) for bundle in spec.gang.bundles],
        strategy=spec.gang.strategy,
        name=_PREFIX + spec.name,
        lifetime="detached",
        bundle_label_selector=labels if spec.label_selector else None,
    )


def ask_for_node(key: str, resources: Mapping[str, float], labels: Mapping[str, str]) -> None:
    """Have Ray wait for room on a node that some labels fit, which its autoscaler hears of.

    Args:
        key: Of the request; another with the same replaces it.
        resources: What the node must have.
        labels: Conditions on its labels, in Ray's syntax.
    """
    remove_group(_NODE + key)
    # Not detached: it ends with the controller, if nobody has withdrawn it.
    ray.util.placement_group(
        [dict(resources)], name=_PREFIX + _NODE + key, bundle_label_selector=[dict(labels)]
    )


def withdraw_node(key: str) -> None:
    """Ask for a node no longer; one that was not asked for is no error."""
    remove_group(_NODE + key)


def remove_group(name: str) -> None:
    """Remove the group of an instance; one that has none is no error."""
    for group_name, group in _groups():
        if group_name == name:
            ray.util.remove_placement_group(group)


def remove_groups(all_but: Collection[str]) -> None:
    """Remove the groups of all instances but those of some names."""
    for name, group in _groups():
        if name not in all_but:
            ray.util.remove_placement_group(group)


def _groups() -> Iterator[tuple[str, Any]]:
    table: dict[str, dict[str, Any]] = ray.util.placement_group_table()
    for identity, row in table.items():
        if row["name"].startswith(_PREFIX) and row["state"] != _REMOVED:
            name = row["name"].removeprefix(_PREFIX)
            yield name, PlacementGroup(PlacementGroupID(bytes.fromhex(identity)))
