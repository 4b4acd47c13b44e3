# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of an instance's place, as tables of cases."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from backends.api.model_config import InstanceGroup, ModelConfig
from cluster.placement.demand import ClusterResources, NodeResources
from cluster.placement.devices import Admission
from cluster.placement.explanation import (
    InstanceStatus,
    Situation,
    explain_instance,
    node_name,
)
from cluster.placement.planner import PoolRequest, plan_pool
from cluster.placement.preemption import Devices, Occupant, priority_of
from deployments.instance.spec import DeviceAssignment, InstanceSpec, NodeAssignment
from tests.support import gpu_clusters
from tests.support.gpu_clusters import GB, gpu, lease

ZONE = "ray.io/availability-zone"
WAITS = "instance m/1#0@1 is waiting for resources"


def spec(cpus: float = 1, name: str = "m", count: int = 1, **parameters: str) -> InstanceSpec:
    given = {f"placement.{key}": text for key, text in parameters.items()}
    given["ray_num_cpus"] = f"{cpus:g}"
    group = InstanceGroup("g", "KIND_CPU", count)
    config = ModelConfig(name, instance_group=(group,), parameters=given)
    return plan_pool(config, PoolRequest(1, 1, "/m"), ClusterResources())[-1]


def node(name: str, free: float = 8, **labels: str) -> NodeResources:
    total = {"CPU": 8.0}
    shown = {ZONE if key == "zone" else key: value for key, value in labels.items()}
    return NodeResources(name, total, {"CPU": free}, shown, frozenset((name, f"host-{name}")))


def situation(nodes: tuple[NodeResources, ...], *there: tuple[InstanceSpec, str]) -> Situation:
    occupants = tuple(Occupant(each, node_id, priority_of(each)) for each, node_id in there)
    return Situation(ClusterResources(nodes), occupants)


def live(of: InstanceSpec, *nodes: NodeResources) -> list[str]:
    now = situation(nodes, (of, "a"), (replace(of, name="m/1#1@1"), "b"))
    row = explain_instance(InstanceStatus(of, "a"), now)
    assert (row["state"], row["node"]) == ("live", {"id": "a", "name": "host-a"})
    why: list[str] = row["why"]
    return why


ZONES = (node("a", zone="x"), node("b", zone="x"), node("c", zone="y"))


def test_a_spread_instance_says_how_many_of_its_kind_are_around_it() -> None:
    assert live(replace(spec(), node=NodeAssignment("a")), *ZONES) == [
        f"strategy spread: of 2 live instances of the version 2 in {ZONE}=x, 1 on the node; 3 nodes"
        " to choose from"
    ]


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (spec(), "Ray chose the node: there was no other, or none had room when it started"),
        (
            replace(spec(), node=NodeAssignment("b")),
            "Ray chose the node: the one that was chosen for it was full, or has gone",
        ),
        (
            replace(spec(), device=DeviceAssignment("a", "GPU-7", 3)),
            "GPU 3 (GPU-7) was leased to it, which others may share",
        ),
        (
            replace(spec(), device=DeviceAssignment("a", "MIG-7", 3, is_exclusive=True)),
            "GPU 3 (MIG-7) was leased to it, to it alone",
        ),
        (
            spec(bundles='[{"CPU": 1}, {"CPU": 2}]', bundle_strategy="PACK"),
            "Ray has reserved its 2 bundles (PACK)",
        ),
    ],
)
def test_who_chose_the_place_is_said_first(of: InstanceSpec, expected: str) -> None:
    assert live(of, *ZONES)[0] == expected


def test_of_a_cluster_of_one_node_no_choice_is_told() -> None:
    assert live(spec(), node("a")) == ["it is the only node of the cluster"]


def test_the_rules_and_the_nodes_they_rule_out_are_said() -> None:
    of = spec(labels='{"disk": "nvme"}')
    nodes = (node("a", disk="nvme"), node("b"), replace(node("c"), is_draining=True))
    assert live(of, *nodes)[1:] == [
        "the node has the labels disk=nvme",
        "strategy spread: of 2 live instances of the version 1 on the node; 1 node to choose from",
        "node host-b is none for it: its labels do not meet disk=nvme of placement.labels",
        "node host-c is none for it: it drains",
    ]
    pinned = replace(spec(nodes="host-a"), node=NodeAssignment("a", is_required=True))
    assert "placement.nodes names host-a" in live(pinned, *ZONES)


def waiting(of: InstanceSpec, now: Situation) -> Mapping[str, Any]:
    row = explain_instance(InstanceStatus(of, reason=WAITS), now)
    assert (row["state"], row["waits_for"]) == ("waiting", WAITS)
    return row


@pytest.mark.parametrize(
    ("of", "verdict", "unblock"),
    [
        pytest.param(
            spec(4),
            "CPU: needs 4, 1 free of 8",
            [
                "free CPU 3 on node host-a, of which p/1#0@1 have most",
                "add a node that has CPU 4: Ray's autoscaler sees the demand",
                "a placement.priority above 0 could have idle instances of other models make room;"
                " it is 0",
            ],
            id="reserved by others",
        ),
        pytest.param(
            spec(4, priority="1"),
            "CPU: needs 4, 1 free of 8",
            [
                "free CPU 3 on node host-a, of which p/1#0@1 have most",
                "add a node that has CPU 4: Ray's autoscaler sees the demand",
                "p/1#0@1 of a lower priority would make room, once idle for a while; what is busy"
                " stays",
            ],
            id="reserved by others of a lower priority",
        ),
        pytest.param(
            spec(9),
            "CPU: needs 9, 1 free of 8",
            ["add a node that has CPU 9, or have the model reserve less (ray_num_cpus, ...)"],
            id="more than a node has",
        ),
        pytest.param(
            spec(1, labels='{"disk": "nvme"}'),
            "not this one: its labels do not meet disk=nvme of placement.labels",
            [
                "start a node with labels disk=nvme; none that is alive and does not drain is one"
                " for it"
            ],
            id="labels",
        ),
        pytest.param(
            spec(4, nodes="host-a"),
            "CPU: needs 4, 1 free of 8",
            [
                "free CPU 3 on node host-a, of which p/1#0@1 have most",
                "a placement.priority above 0 could have idle instances of other models make room;"
                " it is 0",
            ],
            id="pinned: another node is no help",
        ),
        pytest.param(
            spec(1, bundles='[{"CPU": 8}]'),
            "has room for 0 of 1 bundles, each taken alone",
            ["free what its bundles need, or add nodes: Ray's autoscaler sees the demand"],
            id="a gang that has to wait",
        ),
        pytest.param(
            spec(1, bundles='[{"CPU": 9}]'),
            "has room for 0 of 1 bundles, each taken alone",
            ["add nodes that have its bundles, or make these smaller"],
            id="a gang that is too large",
        ),
        pytest.param(spec(0.5), "has room", [], id="it is about to start"),
    ],
)
def test_what_waits_says_what_is_missing_and_what_would_help(
    of: InstanceSpec, verdict: str, unblock: list[str]
) -> None:
    now = situation((node("a", 1),), (spec(6, "p"), "a"))
    row = waiting(of, now)
    assert row["nodes"] == [{"id": "a", "name": "host-a", "verdict": verdict}]
    assert row["unblock"] == unblock


def test_memory_of_a_gpu_that_is_missing_is_said_by_node() -> None:
    there = gpu_clusters.cluster({"a": (gpu(0, used=70 * GB),), "b": (gpu(0, "b", used=1 * GB),)})
    of = gpu_clusters.specs_of(InstanceGroup("g", "KIND_GPU", 1, gpus=(0,)), there=there)[0]
    leases = {"p/1#0@1": lease("a", "GPU-a0", "p", measured_bytes=70 * GB)}
    now = Situation(there, (), {of.name: Devices(leases, Admission(30 * GB))})
    verdicts = [each["verdict"] for each in waiting(of, now)["nodes"]]
    assert verdicts[0].startswith("waiting for GPU memory: needs 30.00 GiB")
    assert verdicts[1] == "has room"


def test_an_instance_without_a_reason_is_starting() -> None:
    row = explain_instance(InstanceStatus(spec()), situation((node("a"),)))
    assert (row["state"], row["unblock"]) == ("starting", [])
    leaving = InstanceStatus(spec(), "a", is_leaving=True)
    assert explain_instance(leaving, situation((node("a"),)))["state"] == "leaving"


def test_a_gang_says_its_bundles_and_how_they_lie() -> None:
    of = spec(1, bundles='[{"CPU": 8}, {"CPU": 2}]', bundle_strategy="SPREAD")
    row = waiting(of, situation((node("a"),)))
    assert (row["bundles"], row["bundle_strategy"]) == ([{"CPU": 8}, {"CPU": 2}], "SPREAD")
    there = explain_instance(InstanceStatus(of, "a"), situation((node("a"),)))
    assert there["why"][0] == "Ray has reserved its 2 bundles (SPREAD)"


def test_who_holds_most_is_named_first_and_five_of_them_at_most() -> None:
    cpus = (1, 3, 2, 5, 4)
    holders = [(spec(each, f"p{each}"), "a") for each in cpus]
    row = waiting(spec(4), situation((node("a", 0),), *holders))
    five = "of which p5/1#0@1, p4/1#0@1, p3/1#0@1, p2/1#0@1, p1/1#0@1"
    assert f"{five} have most" in row["unblock"][0]
    row = waiting(spec(4), situation((node("a", 0),), *holders, (spec(0.5, "p"), "a")))
    assert f"{five} and 1 more have most" in row["unblock"][0]


def test_five_nodes_that_are_none_for_it_are_named_and_the_rest_counted() -> None:
    drains = tuple(replace(node(name), is_draining=True) for name in "bcdefg")
    placed = replace(spec(), node=NodeAssignment("a"))
    why = live(placed, node("a"), *drains[:5])
    assert [each for each in why if "is none for it" in each][-1].startswith("node host-f")
    assert not any(each.startswith("nor are") for each in why)
    assert "nor are 1 more nodes" in live(placed, node("a"), *drains)


def test_what_an_instance_needs_is_said_whether_it_has_a_place_or_not() -> None:
    now = situation((node("a"),))
    for status in (InstanceStatus(spec(2), "a"), InstanceStatus(spec(2), reason=WAITS)):
        assert explain_instance(status, now)["needs"] == {"CPU": 2}


def test_a_node_is_called_by_its_host_name_also_in_a_list() -> None:
    names = [node_name(each, situation(ZONES).cluster) for each in ("b", "0123456789abcdef")]
    assert names == ["host-b", "01234567"]


def test_a_node_that_ray_does_not_list_is_called_by_its_id() -> None:
    row = explain_instance(InstanceStatus(spec(), "0123456789abcdef"), situation(()))
    assert row["node"] == {"id": "0123456789abcdef", "name": "01234567"}
