# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""On which node instances start, as tables of cases."""

from collections import Counter
from dataclasses import replace

import pytest

from backends.api.model_config import InstanceGroup, ModelConfig
from cluster.placement.demand import ClusterResources, NodeResources, Waits
from cluster.placement.devices import Admission, assign_device
from cluster.placement.leases import Leases
from cluster.placement.node_choice import Occupancy, blocked_by, choose_node
from cluster.placement.planner import PoolRequest, plan_pool
from deployments.instance.spec import InstanceSpec, NodeAssignment
from tests.support import gpu_clusters

ZONE = "ray.io/availability-zone"


def node(name: str, free: float = 8, zone: str = "", **labels: str) -> NodeResources:
    total = {"CPU": 8.0}
    where = {**labels, **({ZONE: zone} if zone else {})}
    names = frozenset((name, f"10.0.0.{name}"))
    return NodeResources(name, total, {"CPU": free}, where, names)


def spec(**parameters: str) -> InstanceSpec:
    given = {f"placement.{key}": text for key, text in parameters.items()}
    given["ray_num_cpus"] = given.pop("placement.cpus", "1")
    group = InstanceGroup("g", "KIND_CPU", 1)
    config = ModelConfig("m", instance_group=(group,), parameters=given)
    return plan_pool(config, PoolRequest(1, 1, "/m"), ClusterResources())[0]


def chosen(
    wanted: InstanceSpec, nodes: tuple[NodeResources, ...], alike: str = "", others: str = ""
) -> str:
    """Return the node of an instance; each letter is a node that an instance is on."""
    occupancy = Occupancy(tuple(alike), Counter(alike + others))
    outcome = choose_node(wanted, ClusterResources(nodes), occupancy)
    assert not isinstance(outcome, Waits)
    return "" if outcome is None else outcome.node_id


ABC = (node("a"), node("b"), node("c"))
ZONES = (node("a", zone="x"), node("b", zone="x"), node("c", zone="y"))


@pytest.mark.parametrize(
    ("nodes", "alike", "others", "expected"),
    [
        pytest.param(ABC, "", "", "a", id="the first of equals"),
        pytest.param(ABC, "a", "", "b", id="not where one of its kind is"),
        pytest.param(ABC, "aab", "", "c", id="where fewest of its kind are"),
        pytest.param(ABC, "abc", "ab", "c", id="of equals where fewest of all models are"),
        pytest.param(ABC, "", "aab", "c", id="a first instance where fewest of all models are"),
        pytest.param(ABC, "a", "bbbb", "c", id="other models only break ties"),
        pytest.param(ZONES, "a", "", "c", id="another zone before another node"),
        pytest.param(ZONES, "ac", "", "b", id="zones even: the free node"),
        pytest.param(ZONES, "abc", "", "c", id="the zone with fewer, though the node has one"),
        pytest.param((node("a", 0.5), *ABC[1:]), "bc", "", "b", id="not where there is no room"),
        pytest.param((node("a", 0.5), node("b", 0)), "", "", "", id="no room anywhere: Ray's"),
        pytest.param(ABC[:1], "", "", "", id="one node: Ray's"),
        pytest.param((replace(ABC[0], is_draining=True), *ABC[1:]), "b", "", "c", id="not drains"),
    ],
)
def test_instances_of_a_version_keep_apart(
    nodes: tuple[NodeResources, ...], alike: str, others: str, expected: str
) -> None:
    assert chosen(spec(), nodes, alike, others) == expected


@pytest.mark.parametrize(
    ("nodes", "alike", "others", "expected"),
    [
        pytest.param(ABC, "b", "", "b", id="where one of its kind is"),
        pytest.param(ABC, "", "acc", "c", id="a first instance where most are"),
        pytest.param(ABC, "b", "ccc", "b", id="its kind before the others"),
        pytest.param(ZONES, "c", "", "c", id="zones too"),
        pytest.param((*ZONES[:2], node("c", 0, "y")), "bc", "", "b", id="where there is room"),
        pytest.param((node("a", 0, "x"), *ZONES[1:]), "aac", "", "c", id="its kind on the node"),
        pytest.param(
            (node("a", 0, "y"), *ZONES[1:]), "a", "", "c", id="no room there: the same zone"
        ),
    ],
)
def test_a_model_that_packs_keeps_together(
    nodes: tuple[NodeResources, ...], alike: str, others: str, expected: str
) -> None:
    assert chosen(spec(strategy="pack"), nodes, alike, others) == expected


def test_the_domains_are_those_that_the_model_names() -> None:
    racks = (node("a", rack="1", zone="x"), node("b", rack="1", zone="y"), node("c", rack="2"))
    assert chosen(spec(spread_over="rack"), racks, "a") == "c"
    assert chosen(spec(spread_over=""), racks, "a") == "b"


def test_nodes_without_the_label_are_one_domain() -> None:
    mixed = (node("a", zone="x"), node("b"), node("c"))
    assert chosen(spec(), mixed, "b") == "a"
    assert chosen(spec(), mixed, "abc") == "a"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ('{"disk": "nvme"}', "b"),
        ('{"disk": "!nvme"}', "a"),
        ('{"disk": "in(nvme,ssd)", "ray.io/availability-zone": "y"}', "c"),
        ('{"disk": "tape"}', ""),
    ],
)
def test_only_nodes_with_the_labels_are_chosen(labels: str, expected: str) -> None:
    nodes = (node("a"), node("b", disk="nvme"), node("c", disk="ssd", zone="y"))
    wanted = spec(labels=labels)
    assert chosen(wanted, nodes) == expected
    # Where nothing is chosen Ray, and its autoscaler, still know them.
    assert wanted.label_selector


def test_of_what_nothing_is_promised_all_that_is_free_is_room() -> None:
    occupancy = Occupancy(promised={"a": {"GPU": 1.0}})
    assert occupancy.has_room(node("a"), {"CPU": 8})
    assert not occupancy.has_room(node("a"), {"CPU": 9})


def test_what_is_promised_is_no_room() -> None:
    occupancy = Occupancy(promised={"a": {"CPU": 7.5}})
    assert choose_node(spec(), ClusterResources(ABC), occupancy) == NodeAssignment("b")
    assert choose_node(spec(cpus="0.5"), ClusterResources(ABC), occupancy) == NodeAssignment("a")


@pytest.mark.parametrize("names", ["b", "10.0.0.b", "c,b"])
def test_a_pinned_instance_is_tied_to_a_node_of_its_own(names: str) -> None:
    outcome = choose_node(spec(nodes=names), ClusterResources(ABC[:2]), Occupancy())
    assert outcome == NodeAssignment("b", is_required=True)


def test_a_pinned_instance_is_pinned_also_where_there_is_one_node() -> None:
    outcome = choose_node(spec(nodes="a"), ClusterResources(ABC[:1]), Occupancy())
    assert outcome == NodeAssignment("a", is_required=True)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        (ABC[:1], "waiting for one of its nodes (b, c), of which none is alive"),
        (
            (ABC[0], node("b", 0)),
            "waiting for resources: needs CPU 1, which none of its nodes (b, c) has free",
        ),
    ],
)
def test_a_pinned_instance_waits_for_its_nodes(
    nodes: tuple[NodeResources, ...], reason: str
) -> None:
    outcome = choose_node(spec(nodes="b,c"), ClusterResources(nodes), Occupancy())
    assert isinstance(outcome, Waits)
    assert outcome.reason.startswith(reason)


GPUS = gpu_clusters.cluster({name: (gpu_clusters.gpu(0, name),) for name in "ab"})


def _gpu_node(**parameters: str) -> str:
    given = {f"placement.{key}": text for key, text in parameters.items()}
    wanted = gpu_clusters.specs_of(InstanceGroup("g", "KIND_GPU", 1, gpus=(0,)), given)[0]
    labelled = [
        replace(n, labels={"disk": n.node_id}, names=frozenset((n.node_id,))) for n in GPUS.nodes
    ]
    leases = Leases({"m/1#0@1": gpu_clusters.lease("a", "GPU-a0", "m")})
    outcome = assign_device(
        replace(wanted, name="m/1#1@1"), replace(GPUS, nodes=tuple(labelled)), leases, Admission()
    )
    assert isinstance(outcome, InstanceSpec)
    return "" if outcome.device is None else outcome.device.node_id


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, "b"),
        ({"strategy": "pack"}, "a"),
        ({"labels": '{"disk": "a"}'}, "a"),
        ({"nodes": "a"}, "a"),
        ({"labels": '{"disk": "c"}'}, ""),
    ],
)
def test_gpus_are_chosen_by_the_same_rules(parameters: dict[str, str], expected: str) -> None:
    assert _gpu_node(**parameters) == expected


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (spec(), ""),
        (spec(cpus="9"), "waiting for resources: needs CPU 9, which no node has"),
        (spec(labels='{"disk": "tape"}'), "waiting for a node with the labels disk=tape, which"),
        (
            replace(spec(cpus="4"), node=NodeAssignment("a", is_required=True)),
            "waiting for resources: needs CPU 4, which every node has reserved already",
        ),
        (replace(spec(cpus="4"), node=NodeAssignment("a")), ""),
    ],
)
def test_what_waits_in_ray_has_a_reason(wanted: InstanceSpec, reason: str) -> None:
    text = blocked_by(wanted, ClusterResources((node("a", 0.5), node("b"))))
    assert text.startswith(reason)
    assert bool(text) is bool(reason)


def test_room_on_a_node_that_drains_is_none() -> None:
    nodes = (node("a", 0), replace(node("b"), is_draining=True))
    assert blocked_by(spec(), ClusterResources(nodes)) == (
        "waiting for resources: needs CPU 1, which every node has reserved already"
    )
