# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which idle instances make room, as tables of cases."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.model_config import InstanceGroup, ModelConfig
from cluster.placement.demand import ClusterResources, NodeResources, fits
from cluster.placement.devices import Admission
from cluster.placement.planner import PoolRequest, plan_pool
from cluster.placement.preemption import Devices, Occupant, to_displace
from deployments.instance.spec import InstanceSpec
from tests.support import gpu_clusters
from tests.support.examples import examples
from tests.support.gpu_clusters import GB, gpu, lease, mig_gpu, specs_of


def instance(name: str, cpus: float, priority: int, **more: str) -> InstanceSpec:
    given = {"ray_num_cpus": f"{cpus:g}", "placement.priority": f"{priority}", **more}
    group = InstanceGroup("g", "KIND_CPU", 1)
    config = ModelConfig(name, instance_group=(group,), parameters=given)
    return plan_pool(config, PoolRequest(1, 1, "/m"), ClusterResources())[0]


def idle(text: str) -> list[Occupant]:
    """Read ``name@node:cpus/priority`` of each."""
    made = []
    for part in text.split():
        name, _, rest = part.partition("@")
        node, _, numbers = rest.partition(":")
        cpus, _, priority = numbers.partition("/")
        made.append(Occupant(instance(name, float(cpus), int(priority)), node, int(priority)))
    return made


def cluster(free: Mapping[str, float]) -> ClusterResources:
    return ClusterResources(
        tuple(NodeResources(name, {"CPU": 8.0}, {"CPU": cpus}) for name, cpus in free.items())
    )


def displaced(
    wanted: InstanceSpec, free: Mapping[str, float], there: str, devices: Devices | None = None
) -> str:
    names = to_displace(wanted, cluster(free), idle(there), devices or Devices())
    return " ".join(name.partition("/")[0] for name in names)


@pytest.mark.parametrize(
    ("cpus", "free", "there", "expected"),
    [
        pytest.param(4, {"a": 0}, "p@a:8/0", "p", id="a lower one"),
        pytest.param(4, {"a": 0}, "p@a:8/5", "", id="not one of the same priority"),
        pytest.param(4, {"a": 0}, "p@a:8/6", "", id="not one of a higher"),
        pytest.param(4, {"a": 4}, "p@a:4/0", "", id="there is room already"),
        pytest.param(4, {"a": 0}, "p@a:2/0", "", id="nobody where that is not enough"),
        pytest.param(4, {"a": 0}, "p@a:2/0 q@a:2/0", "p q", id="as many as are needed"),
        pytest.param(4, {"a": 2}, "p@a:2/0 q@a:2/1", "p", id="the lowest priority first"),
        pytest.param(4, {"a": 0}, "p@a:1/0 q@a:4/1", "q", id="no one whose going is no use"),
        pytest.param(4, {"a": 0, "b": 0}, "p@a:4/1 q@b:4/0", "q", id="of nodes the lowest"),
        pytest.param(4, {"a": 0, "b": 0}, "p@a:2/0 q@a:2/0 r@b:4/0", "r", id="then the fewest"),
        pytest.param(4, {"a": 0, "b": 0}, "p@a:2/0 q@b:2/0", "", id="not over nodes"),
        pytest.param(9, {"a": 0}, "p@a:8/0", "", id="what no node has helps nobody"),
    ],
)
def test_the_lowest_and_fewest_make_room(
    cpus: float, free: Mapping[str, float], there: str, expected: str
) -> None:
    assert displaced(instance("m", cpus, 5), free, there) == expected


def test_only_nodes_that_the_instance_may_be_on_are_emptied() -> None:
    wanted = instance("m", 4, 5, **{"placement.nodes": "b"})
    nodes = tuple(
        NodeResources(name, {"CPU": 8.0}, {"CPU": 0.0}, names=frozenset((name,))) for name in "ab"
    )
    there = idle("p@a:8/0 q@b:8/1")
    assert to_displace(wanted, ClusterResources(nodes), there, Devices()) == (there[1].spec.name,)


def test_gangs_neither_displace_nor_are_displaced() -> None:
    bundles = {"placement.bundles": '[{"CPU": 4}]'}
    assert displaced(instance("m", 1, 5, **bundles), {"a": 0}, "p@a:8/0") == ""
    gang = Occupant(instance("p", 1, 0, **bundles), "a", 0)
    assert to_displace(instance("m", 4, 5), cluster({"a": 0}), [gang], Devices()) == ()


SMALL = {"ray_resources": '{"mig_1g.10gb": 1}'}
ON_FIRST = InstanceGroup("g", "KIND_GPU", 1, gpus=(0,))


def gpu_instance(name: str, priority: int, **more: str) -> InstanceSpec:
    parameters = {"placement.priority": f"{priority}", **more}
    return specs_of(ON_FIRST, parameters, name)[0]


def test_memory_of_a_gpu_is_made_free() -> None:
    there = gpu_clusters.cluster({"a": (gpu(0, used=70 * GB),)})
    low = [Occupant(gpu_instance(name, 0), "a", 0) for name in ("p", "q")]
    leases = {
        low[0].spec.name: lease("a", "GPU-a0", "p", expected_bytes=10 * GB, measured_bytes=10 * GB),
        low[1].spec.name: lease("a", "GPU-a0", "q", expected_bytes=40 * GB, measured_bytes=40 * GB),
    }
    wanted = gpu_instance("m", 1)
    for needed, expected in ((5, ()), (15, ("p",)), (30, ("q",)), (55, ("p", "q")), (75, ())):
        devices = Devices(leases, Admission(needed * GB))
        names = to_displace(wanted, there, low, devices)
        assert tuple(name.partition("/")[0] for name in names) == expected, needed


def test_a_mig_device_is_made_free() -> None:
    there = gpu_clusters.cluster({"a": (mig_gpu(0, "1g.10gb", "1g.10gb"),)})
    low = [Occupant(gpu_instance(name, at, **SMALL), "a", at) for at, name in enumerate("pq")]
    leases = {
        each.spec.name: lease("a", f"MIG-a0{at}", "n", is_exclusive=True)
        for at, each in enumerate(low)
    }
    wanted = gpu_instance("m", 5, **SMALL)
    assert to_displace(wanted, there, low, Devices(leases)) == (low[0].spec.name,)
    del leases[low[1].spec.name]
    assert to_displace(wanted, there, low, Devices(leases)) == ()


OCCUPANTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 4), st.integers(0, 3)), max_size=8
)


@settings(max_examples=examples(100))
@given(rows=OCCUPANTS, cpus=st.integers(1, 8), priority=st.integers(0, 3))
def test_who_leaves_is_lower_and_needed_and_enough(
    rows: list[tuple[str, int, int]], cpus: int, priority: int
) -> None:
    there = [
        Occupant(instance(f"p{at}", size, each), node, each)
        for at, (node, size, each) in enumerate(rows)
    ]
    taken = {name: sum(size for node, size, _ in rows if node == name) for name in "ab"}
    free = {name: max(0.0, 8.0 - amount) for name, amount in taken.items()}
    wanted = instance("m", cpus, priority)
    names = to_displace(wanted, cluster(free), there, Devices())
    leaving = [each for each in there if each.spec.name in names]
    assert all(each.priority < priority for each in leaving)
    assert len({each.node_id for each in leaving}) <= 1
    needs = {"CPU": float(cpus)}
    for each in leaving:
        rest = sum(other.spec.num_cpus for other in leaving if other is not each)
        assert not fits(needs, {"CPU": free[each.node_id] + rest})
    if leaving:
        everything = sum(each.spec.num_cpus for each in leaving)
        assert fits(needs, {"CPU": free[leaving[0].node_id] + everything})


def test_the_recipe_of_who_leaves_may_carry_its_device() -> None:
    there = gpu_clusters.cluster({"a": (mig_gpu(0, "1g.10gb"),)})
    low = gpu_instance("p", 0, **SMALL)
    held = lease("a", "MIG-a00", "p", is_exclusive=True)
    occupant = Occupant(replace(low, device=held.device), "a", 0)
    wanted = gpu_instance("m", 5, **SMALL)
    assert to_displace(wanted, there, [occupant], Devices({low.name: held})) == (low.name,)


def test_only_what_is_wanted_is_made_free() -> None:
    """A resource that an instance does not reserve is not freed by its going."""
    there = ClusterResources((NodeResources("a", {"CPU": 8.0, "x": 1.0}, {"CPU": 0.0, "x": 0.0}),))
    low = [
        Occupant(instance("p", 4, 0), "a", 0),
        Occupant(instance("q", 4, 0, ray_resources='{"x": 1}'), "a", 0),
    ]
    wanted = instance("m", 4, 1, ray_resources='{"x": 1}')
    assert to_displace(wanted, there, low, Devices()) == (low[1].spec.name,)


def test_no_one_goes_for_a_gpu_of_which_nothing_is_known() -> None:
    there = ClusterResources(
        (NodeResources("a", {"CPU": 8.0, "GPU": 1.0}, {"CPU": 0.0, "GPU": 1.0}),)
    )
    low = [Occupant(instance("p", 8, 0), "a", 0)]
    assert to_displace(gpu_instance("m", 1), there, low, Devices()) == (low[0].spec.name,)
