# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.model_config import InstanceGroup, ModelConfig, RateLimiterResource
from cluster.placement.demand import ClusterResources, NodeResources, RayDemand
from cluster.placement.planner import (
    GPUS_PER_INSTANCE,
    ActorName,
    PoolRequest,
    Regrouping,
    demand_of,
    parse_actor_name,
    plan_pool,
    pool_digest,
    regroup,
    replan_pool,
)
from deployments.instance.spec import InstanceSpec
from deployments.rate_limiter.arbiter import GLOBAL, Limit, Resource, ResourceDemand
from deployments.settings.lane_settings import LaneSettings
from tests.support.examples import examples

REQUEST = PoolRequest(generation=3, version=1, model_dir="/r/m", secret=b"s", options_digest="d")
LAPTOP = ClusterResources((NodeResources("a", {"CPU": 8}, {"CPU": 8}),))
GPU_NODE = ClusterResources((NodeResources("a", {"CPU": 8, "GPU": 2}, {}),))
LABELLED = ClusterResources((NodeResources("a", {"CPU": 8, "GPU": 2, "gpu_0": 1, "gpu_1": 1}, {}),))


def config(*groups: InstanceGroup, **more: object) -> ModelConfig:
    return replace(ModelConfig("m", instance_group=groups), **more)


CPU_PAIR = InstanceGroup("m_0", "KIND_CPU", 2)


def test_each_instance_of_a_group_becomes_a_named_spec() -> None:
    specs = plan_pool(config(CPU_PAIR), REQUEST, LAPTOP)
    assert [spec.name for spec in specs] == ["m/1#0@3", "m/1#1@3"]
    assert [spec.instance_name for spec in specs] == ["m_0_0", "m_0_1"]
    assert {spec.kind for spec in specs} == {"CPU"}
    assert [demand_of(spec) for spec in specs] == [RayDemand(0.001, 0, {})] * 2


def test_cores_are_shared_among_the_instances_of_a_pool() -> None:
    specs = plan_pool(config(CPU_PAIR), REQUEST, LAPTOP)
    assert [spec.thread_count for spec in specs] == [4, 4]
    crowded = plan_pool(config(InstanceGroup("m_0", "KIND_CPU", 20)), REQUEST, LAPTOP)
    assert {spec.thread_count for spec in crowded} == {1}


def test_fifty_models_of_one_instance_fit_on_two_cores() -> None:
    spec = plan_pool(config(InstanceGroup("m_0", "KIND_CPU", 1)), REQUEST, LAPTOP)[0]
    assert 50 * spec.num_cpus <= 2


def test_a_gpu_group_has_count_instances_on_each_listed_gpu() -> None:
    group = InstanceGroup("m_0", "KIND_GPU", 2, gpus=(0, 1))
    specs = plan_pool(config(group), REQUEST, GPU_NODE)
    assert [(s.instance_name, s.device_id) for s in specs] == [
        ("m_0_0", 0),
        ("m_0_0", 1),
        ("m_0_1", 0),
        ("m_0_1", 1),
    ]
    assert {spec.num_gpus for spec in specs} == {GPUS_PER_INSTANCE}


def test_a_group_of_instances_with_mig_devices_has_count_of_them_wherever_these_are() -> None:
    group = InstanceGroup("m_0", "KIND_GPU", 2, gpus=(0, 1))
    wanting = config(group, parameters={"ray_resources": '{"mig_1g.10gb": 1}'})
    specs = plan_pool(wanting, REQUEST, GPU_NODE)
    assert [(s.instance_name, s.device_id) for s in specs] == [("m_0_0", 0), ("m_0_1", 0)]
    assert {spec.resources["mig_1g.10gb"] for spec in specs} == {1}


def test_models_share_a_gpu_by_default() -> None:
    group = InstanceGroup("m_0", "KIND_GPU", 1, gpus=(0,))
    for cluster in (GPU_NODE, LABELLED):
        (spec,) = plan_pool(config(group), REQUEST, cluster)
        wanted = demand_of(spec).as_resources()
        # Of one GPU: a hundred models with one instance each.
        assert 0 < 100 * (wanted.get("GPU", 0) + wanted.get("gpu_0", 0)) <= 1


def test_a_model_may_reserve_a_gpu_for_itself() -> None:
    group = InstanceGroup("m_0", "KIND_GPU", 1, gpus=(0,))
    alone = replace(config(group), parameters={"ray_num_gpus": "1"})
    assert plan_pool(alone, REQUEST, GPU_NODE)[0].num_gpus == 1


def test_a_labelled_gpu_is_reserved_itself() -> None:
    group = InstanceGroup("m_0", "KIND_GPU", 1, gpus=(1,))
    spec = plan_pool(config(group), REQUEST, LABELLED)[0]
    assert (spec.num_gpus, dict(spec.resources)) == (0, {"gpu_1": GPUS_PER_INSTANCE})


def test_parameters_of_the_model_override_the_plan() -> None:
    wanting = config(CPU_PAIR, parameters={"ray_num_cpus": "1.5"})
    assert {spec.num_cpus for spec in plan_pool(wanting, REQUEST, LAPTOP)} == {1.5}


def test_settings_of_the_backend_go_to_each_instance() -> None:
    request = replace(REQUEST, backend_config={"threads": "2"})
    specs = plan_pool(config(CPU_PAIR), request, LAPTOP)
    assert [each.backend_config for each in specs] == [{"threads": "2"}] * 2


def test_an_ensemble_has_no_instances() -> None:
    assert plan_pool(config(has_ensemble_scheduling=True), REQUEST, LAPTOP) == ()


def test_a_config_without_groups_gets_one_instance() -> None:
    assert [s.instance_name for s in plan_pool(config(), REQUEST, LAPTOP)] == ["m_0"]


def test_a_plan_made_again_from_one_of_its_specs_is_the_same() -> None:
    lanes = LaneSettings(slab_threshold_bytes=1 << 20, heartbeat_timeout_s=3.0)
    request = replace(REQUEST, log_level="WARNING", lanes=lanes)
    planned = plan_pool(config(CPU_PAIR), request, LAPTOP)
    assert {spec.lanes for spec in planned} == {lanes}
    assert replan_pool(planned[1].config, planned[1], 0.001, {}, LAPTOP) == planned


def regrouped(before: ModelConfig, after: ModelConfig) -> Regrouping:
    present = plan_pool(before, REQUEST, GPU_NODE)
    return regroup(plan_pool(after, REQUEST, GPU_NODE), present, len(present))


@pytest.mark.parametrize(
    ("before", "after", "added", "leaving"),
    [
        pytest.param([CPU_PAIR], [CPU_PAIR], [], [], id="nothing changed"),
        pytest.param([CPU_PAIR], [replace(CPU_PAIR, count=3)], [2], [], id="one more"),
        pytest.param([CPU_PAIR], [replace(CPU_PAIR, count=1)], [], [1], id="one less"),
        pytest.param(
            [CPU_PAIR],
            [InstanceGroup("a", "KIND_CPU", 1), InstanceGroup("b", "KIND_CPU", 1)],
            [],
            [],
            id="the same in two groups of other names",
        ),
        pytest.param(
            [InstanceGroup("c", "KIND_CPU", 2), InstanceGroup("g", "KIND_GPU", 1, gpus=(0,))],
            [InstanceGroup("g", "KIND_GPU", 3, gpus=(0,)), InstanceGroup("c", "KIND_CPU", 1)],
            [3, 4],
            [1],
            id="other counts of two kinds, in another order",
        ),
        pytest.param(
            [InstanceGroup("g", "KIND_GPU", 1, gpus=(0,))],
            [InstanceGroup("g", "KIND_GPU", 1, gpus=(0, 1))],
            [1],
            [],
            id="one more device",
        ),
        pytest.param([CPU_PAIR], [replace(CPU_PAIR, passive=True)], [2, 3], [0, 1], id="passive"),
        pytest.param([CPU_PAIR], [replace(CPU_PAIR, priority=2)], [2, 3], [0, 1], id="priority"),
        pytest.param(
            [CPU_PAIR],
            [replace(CPU_PAIR, resources=(RateLimiterResource("R", 1),))],
            [2, 3],
            [0, 1],
            id="resources",
        ),
        pytest.param(
            [CPU_PAIR], [replace(CPU_PAIR, host_policy="near")], [2, 3], [0, 1], id="host policy"
        ),
    ],
)
def test_instances_stay_while_a_group_asks_for_their_like(
    before: list[InstanceGroup],
    after: list[InstanceGroup],
    added: list[int],
    leaving: list[int],
) -> None:
    change = regrouped(config(*before), config(*after))
    assert [spec.index for spec in change.added] == added
    assert [spec.name for spec in change.added] == [f"m/1#{index}@3" for index in added]
    assert list(change.leaving) == [f"m/1#{index}@3" for index in leaving]


def test_settings_of_a_host_policy_that_changed_ask_for_other_instances() -> None:
    present = plan_pool(config(CPU_PAIR), REQUEST, LAPTOP)
    bound = replace(REQUEST, host_policies={"cpu": {"cpu-cores": "0-1"}})
    change = regroup(plan_pool(config(CPU_PAIR), bound, LAPTOP), present, 2)
    assert (len(change.added), len(change.leaving)) == (2, 2)


GROUPS = st.lists(
    st.builds(
        InstanceGroup,
        st.sampled_from("ab"),
        st.sampled_from(["KIND_CPU", "KIND_MODEL"]),
        st.integers(1, 3),
        passive=st.booleans(),
    ),
    min_size=1,
    max_size=3,
)


@given(GROUPS, GROUPS)
@settings(max_examples=examples(50))
def test_after_a_change_there_is_what_the_groups_ask_for(
    before: list[InstanceGroup], after: list[InstanceGroup]
) -> None:
    def kinds(specs: Iterable[InstanceSpec]) -> list[tuple[str, bool]]:
        return sorted((spec.kind, spec.group.passive) for spec in specs)

    change = regrouped(config(*before), config(*after))
    present = plan_pool(config(*before), REQUEST, GPU_NODE)
    staying = [spec for spec in present if spec.name not in change.leaving]
    wanted = plan_pool(config(*after), REQUEST, GPU_NODE)
    assert kinds([*staying, *change.added]) == kinds(wanted)
    # None leaves for the sake of another that is its like.
    leaving = [spec for spec in present if spec.name in change.leaving]
    assert not set(kinds(leaving)) & set(kinds(change.added))


@pytest.mark.parametrize(
    ("group", "policies"),
    [
        (InstanceGroup("g", "KIND_CPU", 1), ["cpu"]),
        (InstanceGroup("g", "KIND_MODEL", 1), ["model"]),
        (InstanceGroup("g", "KIND_GPU", 1, gpus=(0, 1)), ["gpu_0", "gpu_1"]),
        (InstanceGroup("g", "KIND_CPU", 1, host_policy="near"), ["near"]),
    ],
)
def test_the_host_policy_is_the_groups_or_its_kinds(
    group: InstanceGroup, policies: list[str]
) -> None:
    names = ("cpu", "model", "gpu_0", "gpu_1", "near")
    request = replace(REQUEST, host_policies={name: {"cpu-cores": name} for name in names})
    specs = plan_pool(config(group), request, GPU_NODE)
    assert [spec.host_policy["cpu-cores"] for spec in specs] == policies
    assert plan_pool(config(group), REQUEST, GPU_NODE)[0].host_policy == {}


@given(
    st.text(min_size=1).filter(lambda text: "/" not in text),
    st.integers(0, 2**63 - 1),
    st.integers(0, 999),
    st.integers(0, 2**40),
)
@settings(max_examples=examples(100))
def test_actor_names_read_back(model: str, version: int, index: int, generation: int) -> None:
    name = ActorName(model, version, index, generation)
    assert parse_actor_name(str(name)) == name


@pytest.mark.parametrize("text", ["model-controller", "m/1#0", "m/x#0@1", "/1#0@1", ""])
def test_other_actors_are_no_instances(text: str) -> None:
    assert parse_actor_name(text) is None


def test_secrets_do_not_show() -> None:
    assert "s3cret" not in repr(replace(REQUEST, secret=b"s3cret"))


@given(st.lists(st.binary(max_size=8), max_size=4), st.lists(st.binary(max_size=8), max_size=4))
@settings(max_examples=examples(100))
def test_digests_are_equal_only_for_equal_parts(one: list[bytes], other: list[bytes]) -> None:
    assert (pool_digest(*one) == pool_digest(*other)) == (one == other)


LIMITED = InstanceGroup(
    "m_0",
    "KIND_GPU",
    1,
    gpus=(0, 1),
    resources=(RateLimiterResource("R", 2), RateLimiterResource("G", 3, is_global=True)),
    priority=4,
)


def test_an_instance_needs_resources_of_its_own_device_and_global_ones() -> None:
    limits = (Limit("R", 4),)
    request = replace(REQUEST, resource_limits=limits)
    group, free = LIMITED, InstanceGroup("m_1", "KIND_CPU", 1)
    specs = plan_pool(config(group, free), request, GPU_NODE)
    assert [spec.demand for spec in specs] == [
        ResourceDemand({Resource(0, "R"): 2, Resource(GLOBAL, "G"): 3}, 4),
        ResourceDemand({Resource(1, "R"): 2, Resource(GLOBAL, "G"): 3}, 4),
        None,
    ]
    assert {spec.resource_limits for spec in specs} == {limits}
    assert replan_pool(config(group, free), specs[2], 0.001, {}, GPU_NODE) == specs


def test_without_the_rate_limiter_no_instance_needs_resources() -> None:
    specs = plan_pool(config(LIMITED), REQUEST, GPU_NODE)
    assert [(spec.demand, spec.resource_limits) for spec in specs] == [(None, None)] * 2
