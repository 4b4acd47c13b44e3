# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""On which node Ray starts an instance."""

from dataclasses import replace

from ray.util.placement_group import PlacementGroup

from backends.api.model_config import ModelConfig
from deployments.instance.actor import _strategy
from deployments.instance.spec import DeviceAssignment, InstanceSpec, NodeAssignment

SPEC = InstanceSpec(
    1,
    1,
    "/m",
    name="m/1#0@1",
    model_name="m",
    index=0,
    instance_name="m_0_0",
    config=ModelConfig("m"),
    auto_complete=False,
)


def test_an_instance_without_a_device_is_placed_by_ray() -> None:
    assert _strategy(SPEC) == "DEFAULT"


def test_an_instance_with_a_device_is_on_its_node_or_nowhere() -> None:
    tied = _strategy(replace(SPEC, device=DeviceAssignment("ab" * 28, "GPU-1", 0)))
    assert (tied.node_id, tied.soft) == ("ab" * 28, False)


def test_an_instance_with_a_node_is_elsewhere_only_for_want_of_room() -> None:
    chosen = _strategy(replace(SPEC, node=NodeAssignment("ab" * 28)))
    assert (chosen.node_id, chosen.soft) == ("ab" * 28, True)
    assert chosen._spill_on_unavailable


def test_a_pinned_instance_is_on_its_node_or_nowhere() -> None:
    tied = _strategy(replace(SPEC, node=NodeAssignment("ab" * 28, is_required=True)))
    assert (tied.soft, tied._spill_on_unavailable) == (False, False)


def test_a_gang_instance_is_in_its_first_bundle_and_what_it_starts_in_the_others() -> None:
    group = PlacementGroup.empty()
    inside = _strategy(SPEC, group)
    assert inside.placement_group is group
    assert inside.placement_group_bundle_index == 0
    assert inside.placement_group_capture_child_tasks
