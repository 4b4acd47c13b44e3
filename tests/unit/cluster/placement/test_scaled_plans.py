# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Plans with another count of instances than the groups say, and who leaves when they are fewer."""

import dataclasses
import random

from hypothesis import given
from hypothesis import strategies as st

from backends.api.model_config import InstanceGroup, ModelConfig
from cluster.placement.demand import ClusterResources, NodeResources
from cluster.placement.planner import (
    PoolRequest,
    group_count,
    instances_by_node,
    plan_pool,
    regroup,
    replan_pool,
    staying_first,
)
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.spec import InstanceSpec

GPU_NODE = ClusterResources((NodeResources("a", {"CPU": 8, "GPU": 2}, {}),))
PAIR = InstanceGroup("m_0", "KIND_CPU", 2)
ON_GPUS = InstanceGroup("m_0", "KIND_GPU", 1, gpus=(0, 1))


def plan(count: int, *groups: InstanceGroup) -> tuple[InstanceSpec, ...]:
    request = PoolRequest(generation=3, version=1, model_dir="/r/m", instance_count=count)
    return plan_pool(ModelConfig("m", instance_group=groups), request, GPU_NODE)


def test_no_count_is_as_many_as_the_groups_say() -> None:
    assert len(plan(0, PAIR)) == 2
    assert group_count(ModelConfig("m", instance_group=(PAIR, ON_GPUS))) == 4
    assert group_count(ModelConfig("m")) == 1


def test_fewer_are_the_first_of_the_groups() -> None:
    assert [spec.instance_name for spec in plan(1, PAIR)] == ["m_0_0"]


def test_more_go_on_where_the_group_ends() -> None:
    specs = plan(5, PAIR)
    assert [spec.instance_name for spec in specs] == [f"m_0_{n}" for n in range(5)]
    assert [spec.index for spec in specs] == list(range(5))


def test_devices_get_instances_in_turn() -> None:
    specs = plan(5, ON_GPUS)
    assert [(spec.instance_name, spec.device_id) for spec in specs] == [
        ("m_0_0", 0),
        ("m_0_0", 1),
        ("m_0_1", 0),
        ("m_0_1", 1),
        ("m_0_2", 0),
    ]


def test_passive_instances_are_as_many_as_ever() -> None:
    passive = InstanceGroup("m_1", "KIND_CPU", 2, passive=True)
    specs = plan(3, PAIR, passive)
    assert [spec.instance_name for spec in specs] == ["m_0_0", "m_0_1", "m_0_2", "m_1_0", "m_1_1"]


def test_a_generation_is_planned_anew_from_one_of_its_instances() -> None:
    first = plan(0, PAIR)
    config = ModelConfig("m", instance_group=(PAIR,))
    again = replan_pool(config, first[1], 0.001, {}, GPU_NODE, 4)
    change = regroup(again, first, 7)
    assert [spec.name for spec in change.added] == ["m/1#7@3", "m/1#8@3"]
    assert change.leaving == ()


def endpoint(spec: InstanceSpec, node_id: str) -> InstanceEndpoint:
    return InstanceEndpoint(spec.name.rpartition("@")[0], "i", node_id, "u", ("h", 1))


def test_those_without_a_process_leave_first_then_those_on_emptier_nodes_the_youngest_first() -> (
    None
):
    old_full, young_full, old_empty, young_empty, pending = plan(5, PAIR)
    endpoints = [
        endpoint(old_full, "full"),
        endpoint(young_full, "full"),
        endpoint(old_empty, "empty"),
        endpoint(young_empty, "empty"),
    ]
    loads = {"full": 9, "empty": 2}
    shuffled = random.Random(3).sample(plan(5, PAIR), 5)
    assert staying_first(shuffled, endpoints, loads) == [
        old_full,
        young_full,
        old_empty,
        young_empty,
        pending,
    ]


def test_nodes_are_counted_with_the_instances_of_all_models() -> None:
    specs = plan(3, PAIR)
    endpoints = [endpoint(spec, node) for spec, node in zip(specs, "aba", strict=True)]
    assert instances_by_node(endpoints) == {"a": 2, "b": 1}


@given(st.integers(1, 12), st.integers(1, 12), st.lists(st.sampled_from("abc"), max_size=12))
def test_a_resize_starts_or_ends_exactly_what_is_missing_or_too_much(
    before: int, after: int, nodes: list[str]
) -> None:
    present = plan(before, PAIR, dataclasses.replace(ON_GPUS, name="m_1"))
    groups = (PAIR, dataclasses.replace(ON_GPUS, name="m_1"))
    config = ModelConfig("m", instance_group=groups)
    endpoints = [endpoint(spec, node) for spec, node in zip(present, nodes, strict=False)]
    wanted = replan_pool(config, present[0], 0.001, {}, GPU_NODE, after)
    ordered = staying_first(present, endpoints, instances_by_node(endpoints))
    change = regroup(wanted, ordered, before)
    assert before + len(change.added) - len(change.leaving) == after
    assert len({spec.name for spec in (*present, *change.added)}) == before + len(change.added)
