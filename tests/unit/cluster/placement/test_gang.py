# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instances that need several bundles at once, as tables of cases."""

import json

import pytest

from backends.api.model_config import InstanceGroup, ModelConfig
from backends.config.placement import BundleStrategy
from cluster.placement.demand import ClusterResources, NodeResources
from cluster.placement.devices import may_have_device
from cluster.placement.gang import can_hold
from cluster.placement.node_choice import Occupancy, blocked_by, choose_node
from cluster.placement.planner import PoolRequest, plan_pool
from deployments.instance.spec import Gang, InstanceSpec

EIGHT = {"GPU": 8.0}


def planned(
    bundles: list[dict[str, float]], kind: str = "KIND_GPU", **parameters: str
) -> InstanceSpec:
    given = {"placement.bundles": json.dumps(bundles), **parameters}
    config = ModelConfig("m", instance_group=(InstanceGroup("g", kind, 1),), parameters=given)
    return plan_pool(config, PoolRequest(1, 1, "/m"), ClusterResources())[0]


@pytest.mark.parametrize(
    ("kind", "parameters", "num_gpus", "first"),
    [
        pytest.param("KIND_GPU", {}, 8, {"GPU": 8, "CPU": 0.001}, id="a GPU instance has them all"),
        pytest.param("KIND_GPU", {"ray_num_gpus": "2"}, 2, {"GPU": 8, "CPU": 0.001}, id="or less"),
        pytest.param("KIND_GPU", {"ray_num_gpus": "9"}, 9, {"GPU": 9, "CPU": 0.001}, id="or more"),
        pytest.param("KIND_CPU", {}, 0, {"GPU": 8, "CPU": 0.001}, id="a CPU instance has none"),
        pytest.param("KIND_MODEL", {}, 0, {"GPU": 8, "CPU": 0.001}, id="one that starts others"),
        pytest.param("KIND_CPU", {"ray_num_cpus": "3"}, 0, {"GPU": 8, "CPU": 3}, id="CPUs too"),
        pytest.param(
            "KIND_CPU",
            {"ray_resources": '{"fast": 1}'},
            0,
            {"GPU": 8, "CPU": 0.001, "fast": 1},
            id="own resources too",
        ),
    ],
)
def test_the_process_takes_its_share_of_the_first_bundle(
    kind: str, parameters: dict[str, str], num_gpus: float, first: dict[str, float]
) -> None:
    spec = planned([EIGHT, EIGHT], kind, **parameters)
    assert spec.num_gpus == num_gpus
    assert spec.gang == Gang((first, EIGHT), "STRICT_PACK")


def test_an_instance_without_bundles_is_no_gang() -> None:
    config = ModelConfig("m", instance_group=(InstanceGroup("g", "KIND_CPU", 1),))
    assert plan_pool(config, PoolRequest(1, 1, "/m"), ClusterResources())[0].gang is None


def test_ray_places_a_gang_and_chooses_its_gpus() -> None:
    spec = planned([EIGHT])
    nodes = tuple(NodeResources(name, EIGHT, EIGHT) for name in "ab")
    assert not may_have_device(spec)
    assert choose_node(spec, ClusterResources(nodes), Occupancy()) is None


@pytest.mark.parametrize(
    ("strategy", "bundles", "rooms", "fits"),
    [
        (BundleStrategy.STRICT_PACK, (4, 4), (8,), True),
        (BundleStrategy.STRICT_PACK, (4, 4), (7, 7), False),
        (BundleStrategy.STRICT_SPREAD, (4, 4), (8,), False),
        (BundleStrategy.STRICT_SPREAD, (4, 4), (4, 4), True),
        (BundleStrategy.STRICT_SPREAD, (2, 8), (8, 2), True),
        (BundleStrategy.STRICT_SPREAD, (2, 8), (8, 1), False),
        (BundleStrategy.PACK, (4, 4), (4, 4), True),
        (BundleStrategy.PACK, (2, 6, 8), (8, 8), True),
        (BundleStrategy.PACK, (3, 3, 5, 5), (8, 8), True),
        (BundleStrategy.SPREAD, (4, 4), (8,), True),
        (BundleStrategy.SPREAD, (4, 4), (7,), False),
        (BundleStrategy.STRICT_PACK, (4,), (), False),
    ],
)
def test_all_bundles_have_room_at_once_or_none(
    strategy: BundleStrategy, bundles: tuple[int, ...], rooms: tuple[int, ...], fits: bool
) -> None:
    gang = Gang(tuple({"GPU": float(each)} for each in bundles), strategy.value)
    assert can_hold(gang, [{"GPU": float(each)} for each in rooms]) is fits


NODES = ClusterResources(
    (
        NodeResources("a", EIGHT | {"CPU": 8.0}, EIGHT | {"CPU": 8.0}, {"disk": "nvme"}),
        NodeResources("b", EIGHT | {"CPU": 8.0}, {"GPU": 1.0, "CPU": 8.0}),
    )
)
APART = {"placement.bundle_strategy": "STRICT_SPREAD"}


@pytest.mark.parametrize(
    ("bundles", "parameters", "reason"),
    [
        ([{"GPU": 8}], {}, ""),
        ([{"GPU": 8}, {"GPU": 1}], APART, ""),
        (
            [{"GPU": 8}, {"GPU": 8}],
            APART,
            "waiting for resources: needs GPU 8, CPU 0.001; GPU 8 at once (STRICT_SPREAD), of"
            " which a part is reserved already",
        ),
        (
            [{"GPU": 8}, {"GPU": 8}],
            {},
            "waiting for resources: needs GPU 8, CPU 0.001; GPU 8 at once (STRICT_PACK), which the"
            " nodes do not have",
        ),
        (
            [{"GPU": 4}],
            {"placement.labels": '{"disk": "!nvme"}'},
            "waiting for resources: needs GPU 4, CPU 0.001 at once (STRICT_PACK), of which a part"
            " is reserved already",
        ),
    ],
)
def test_a_gang_that_waits_has_a_reason(
    bundles: list[dict[str, float]], parameters: dict[str, str], reason: str
) -> None:
    assert blocked_by(planned(bundles, **parameters), NODES) == reason


def test_a_gpu_instance_whose_first_bundle_has_no_gpu_takes_none() -> None:
    spec = planned([{"CPU": 1.0}, EIGHT])
    assert spec.num_gpus == 0
