# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import os

import pytest

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from cluster.placement.demand import (
    SMALLEST_FRACTION,
    ClusterResources,
    NodeResources,
    RayDemand,
    blocked_reason,
    fits,
    read_demand,
)


def cluster(*nodes: tuple[dict[str, float], dict[str, float]]) -> ClusterResources:
    return ClusterResources(
        tuple(NodeResources(str(i), total, free) for i, (total, free) in enumerate(nodes))
    )


def test_gpu_ids_are_those_of_the_largest_node() -> None:
    found = cluster(({"CPU": 8, "GPU": 1}, {}), ({"CPU": 4, "GPU": 2}, {}))
    assert found.gpu_ids == (0, 1)
    assert found.cores_per_node == 4


def test_without_any_node_the_cores_are_those_of_this_machine() -> None:
    assert cluster().cores_per_node == os.cpu_count()


def test_a_resource_of_which_a_node_has_none_is_not_offered() -> None:
    found = cluster(({"CPU": 2, "mig_1g.10gb": 0}, {}), ({"CPU": 1}, {}))
    assert found.offers("CPU")
    assert not found.offers("mig_1g.10gb")


def test_what_is_offered_fits_to_the_last_of_rays_digits() -> None:
    assert fits({"CPU": 1.0}, {"CPU": 1.0 - 1e-10})
    assert not fits({"CPU": 1.0}, {"CPU": 1.0 - 1e-8})
    assert fits({"CPU": 0.0}, {})
    assert not fits({"CPU": 1e-4}, {})


def test_a_node_without_cpus_does_not_set_the_core_count() -> None:
    assert cluster(({"CPU": 0}, {}), ({"CPU": 16}, {})).cores_per_node == 16


def test_parameters_override_the_default_demand() -> None:
    config = ModelConfig(
        "m",
        parameters={
            "ray_num_cpus": "2",
            "ray_num_gpus": "0.5",
            "ray_resources": '{"mig_1g.10gb": 1}',
        },
    )
    demand = read_demand(config, RayDemand(num_cpus=0.01, resources={"gpu_0": 1}))
    assert demand == RayDemand(2, 0.5, {"gpu_0": 1, "mig_1g.10gb": 1})


def test_fractions_too_small_for_ray_are_raised_to_what_it_counts() -> None:
    config = ModelConfig("m", parameters={"ray_num_cpus": "1e-9", "ray_num_gpus": "0"})
    assert read_demand(config, RayDemand(num_gpus=1)) == RayDemand(SMALLEST_FRACTION, 0)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("ray_num_cpus", "two"),
        ("ray_num_cpus", "-1"),
        ("ray_num_gpus", "nan"),
        ("ray_num_gpus", "inf"),
        ("ray_resources", "[1]"),
        ("ray_resources", '{"a": "b"}'),
        ("ray_resources", "{"),
    ],
)
def test_a_malformed_parameter_is_refused_by_name(key: str, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"'{key}' of model 'm'"):
        read_demand(ModelConfig("m", parameters={key: text}), RayDemand())


def test_an_instance_that_fits_is_not_blocked() -> None:
    assert not blocked_reason(RayDemand(0.01), cluster(({"CPU": 2}, {"CPU": 0.5})))


def test_a_demand_of_nothing_fits_a_node_without_resources() -> None:
    assert not blocked_reason(RayDemand(), cluster(({}, {})))


def test_a_full_cluster_is_told_from_one_that_is_too_small() -> None:
    nodes = cluster(({"CPU": 2, "GPU": 1}, {"CPU": 2, "GPU": 0.5}))
    assert blocked_reason(RayDemand(0.01, 1), nodes) == (
        "waiting for resources: needs CPU 0.01, GPU 1, which every node has reserved already"
    )
    assert blocked_reason(RayDemand(0.01, 2), nodes) == (
        "waiting for resources: needs CPU 0.01, GPU 2, which no node has"
        " (CPU 2 at most on a node; GPU 1 at most on a node)"
    )


def test_resources_of_two_nodes_do_not_add_up() -> None:
    nodes = cluster(({"CPU": 4}, {"CPU": 4}), ({"GPU": 1}, {"GPU": 1}))
    assert "no node has" in blocked_reason(RayDemand(1, 1), nodes)


@pytest.mark.parametrize(
    ("is_draining", "free_cpus", "expected"),
    [
        pytest.param(True, 2.0, True, id="drains, and all is free but what an ingress has"),
        pytest.param(True, 1.99, False, id="drains, and an instance has a little"),
        pytest.param(False, 2.0, False, id="does not drain"),
    ],
)
def test_a_node_is_emptied_when_it_drains_and_no_instance_reserves_anything(
    is_draining: bool, free_cpus: float, expected: bool
) -> None:
    total = {"CPU": 2.0, "node:10.0.0.1": 1.0, "object_store_memory": 100.0}
    free = {"CPU": free_cpus, "node:10.0.0.1": 0.5, "node:ingress": 0.5}
    assert NodeResources("n", total, free, is_draining=is_draining).is_emptied is expected


def test_a_resource_that_ray_does_not_list_as_free_is_reserved() -> None:
    assert not NodeResources("n", {"GPU": 1.0}, {}, is_draining=True).is_emptied
