# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which device an instance gets: every rule, over clusters of eight GPUs and with MIG."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError, UnavailableError
from backends.api.model_config import InstanceGroup
from cluster.devices.inventory import AMD, Gpu
from cluster.placement.demand import ClusterResources, NodeResources, Waits
from cluster.placement.devices import Admission, assign_device
from cluster.placement.leases import Lease, Leases
from cluster.placement.planner import demand_of
from deployments.instance.spec import DeviceAssignment, InstanceSpec
from tests.support.gpu_clusters import (
    EIGHT,
    GB,
    TOTAL,
    cluster,
    gpu,
    lease,
    mig_gpu,
    specs_of,
)

TWO_NODES = cluster({name: tuple(gpu(n, name) for n in range(8)) for name in "ab"})
MIXED = cluster({"a": (gpu(0), mig_gpu(1, "3g.40gb", "1g.10gb", "1g.10gb"), mig_gpu(2, "1g.10gb"))})
LABELLED = cluster({"a": (mig_gpu(0, "1g.10gb"),)}, {"mig_1g.10gb": 1})
UNTOLD = ClusterResources((NodeResources("a", {"CPU": 8, "GPU": 8}, {"CPU": 8, "GPU": 8}),))

CPU = InstanceGroup("g", "KIND_CPU", 1)
MODEL = InstanceGroup("g", "KIND_MODEL", 1)
ANY = InstanceGroup("g", "KIND_GPU", 1)
PAIR = InstanceGroup("g", "KIND_GPU", 2, gpus=(0, 1))
SMALL = {"ray_resources": '{"mig_1g.10gb": 1}'}
LARGE = {"ray_resources": '{"mig-3g.40gb": 1}'}
UNBOUNDED = Admission()
QUARTER = {"ray_num_gpus": "0.25"}


def placed(
    specs: Sequence[InstanceSpec], there: ClusterResources, leases: Mapping[str, Lease]
) -> list[str | None]:
    """Assign one after the other; returns where each is: node/UUID, None, or its reason."""
    held, found = Leases(leases), []
    for spec in specs:
        outcome = assign_device(spec, there, held, Admission())
        if isinstance(outcome, Waits):
            found.append(outcome.reason)
            continue
        device = outcome.device
        found.append(None if device is None else f"{device.node_id}/{device.uuid}")
        if device is not None:
            held[spec.name] = Lease(device, spec.model_key)
    return found


@pytest.mark.parametrize(
    ("group", "parameters", "there", "leases", "expected"),
    [
        pytest.param(PAIR, {}, EIGHT, {}, ["a/GPU-a0", "a/GPU-a1"] * 2, id="count on each of gpus"),
        pytest.param(
            replace(PAIR, gpus=(7,)), {}, EIGHT, {}, ["a/GPU-a7"] * 2, id="two share a GPU"
        ),
        pytest.param(
            PAIR,
            {},
            TWO_NODES,
            {},
            ["a/GPU-a0", "b/GPU-b1", "b/GPU-b0", "a/GPU-a1"],
            id="a model spreads over nodes, whose GPUs are counted alike",
        ),
        pytest.param(
            ANY,
            {},
            TWO_NODES,
            {"x": lease("a", "GPU-a0")},
            ["b/GPU-b0"],
            id="an idle GPU first",
        ),
        pytest.param(
            ANY,
            {},
            cluster({"a": (gpu(0, used=9 * GB),), "b": (gpu(0, "b", used=3 * GB),)}),
            {},
            ["b/GPU-b0"],
            id="the GPU with more memory left",
        ),
        pytest.param(
            ANY,
            {},
            cluster({n: (gpu(0, n),) for n in "ab"}, available={"a": {"CPU": 0, "GPU": 0}}),
            {},
            ["b/GPU-b0"],
            id="a node on which Ray has room",
        ),
        pytest.param(CPU, {}, EIGHT, {}, [None], id="KIND_CPU needs none"),
        pytest.param(MODEL, {}, EIGHT, {}, [None], id="KIND_MODEL places itself"),
        pytest.param(ANY, QUARTER, EIGHT, {}, [None], id="of a fraction Ray chooses the GPU"),
        pytest.param(ANY, {}, UNTOLD, {}, [None], id="no node tells its GPUs"),
        pytest.param(
            ANY, {}, cluster({"a": (gpu(0, vendor=AMD),)}), {}, [None], id="AMD is Ray's choice"
        ),
        pytest.param(
            replace(ANY, secondary_devices=(("KIND_NVDLA", 1),)),
            {},
            EIGHT,
            {},
            ["a/GPU-a0"],
            id="secondary devices change nothing",
        ),
        pytest.param(
            replace(ANY, profile=("0", "1")),
            {},
            MIXED,
            {},
            ["a/GPU-a0"],
            id="profiles are TensorRT's",
        ),
        pytest.param(
            replace(ANY, count=3),
            SMALL,
            MIXED,
            {},
            ["a/MIG-a11", "a/MIG-a12", "a/MIG-a20"],
            id="each has a MIG device of its own",
        ),
        pytest.param(ANY, LARGE, MIXED, {}, ["a/MIG-a10"], id="of the profile"),
        pytest.param(CPU, LARGE, MIXED, {}, ["a/MIG-a10"], id="MIG whatever the kind"),
        pytest.param(
            replace(ANY, count=2),
            SMALL,
            MIXED,
            {"x": lease("a", "MIG-a11"), "y": lease("b", "MIG-a12")},
            ["a/MIG-a12", "a/MIG-a20"],
            id="what others have is not free, also when they would share",
        ),
        pytest.param(
            replace(ANY, count=3, gpus=(1,)),
            {},
            MIXED,
            {"x": lease("a", "MIG-a12", is_exclusive=True)},
            ["a/MIG-a10", "a/MIG-a11", "a/MIG-a10"],
            id="the index of a divided GPU means any part that nobody has alone",
        ),
        pytest.param(
            ANY, SMALL, LABELLED, {}, ["a/MIG-a00"], id="a MIG device that Ray counts too"
        ),
        pytest.param(
            ANY,
            {"ray_resources": '{"mig_7g.80gb": 1}'},
            MIXED,
            {},
            [None],
            id="a profile that no node has is for Ray to wait for",
        ),
        pytest.param(
            ANY,
            {"ray_resources": '{"license": 1}'},
            EIGHT,
            {},
            [None],
            id="a resource that no node has is for Ray to wait for",
        ),
    ],
)
def test_placement(
    group: InstanceGroup,
    parameters: Mapping[str, str],
    there: ClusterResources,
    leases: Mapping[str, Lease],
    expected: list[str | None],
) -> None:
    group = group if group.gpus or group.kind != "KIND_GPU" else replace(group, gpus=(0,))
    assert placed(specs_of(group, parameters, there=there), there, leases) == expected


def one(group: InstanceGroup = ANY, parameters: Mapping[str, str] | None = None) -> InstanceSpec:
    return specs_of(group, parameters)[0]


def assigned(
    spec: InstanceSpec,
    there: ClusterResources,
    leases: Mapping[str, Lease] | None = None,
    admission: Admission = UNBOUNDED,
) -> InstanceSpec:
    outcome = assign_device(spec, there, Leases(leases), admission)
    assert isinstance(outcome, InstanceSpec), outcome.reason
    return outcome


def reason(
    spec: InstanceSpec,
    there: ClusterResources,
    leases: Mapping[str, Lease] | None = None,
    admission: Admission = UNBOUNDED,
) -> str:
    outcome = assign_device(spec, there, Leases(leases), admission)
    assert isinstance(outcome, Waits)
    return outcome.reason


def test_the_assignment_says_all_the_process_needs_to_know() -> None:
    first = replace(gpu(0), physical_index=6)
    found = assigned(one(), cluster({"a": (first,)})).device
    assert found == DeviceAssignment("a", "GPU-a0", 0, is_counted=False, is_exclusive=False)
    found = assigned(one(parameters=SMALL), MIXED).device
    assert found == DeviceAssignment("a", "MIG-a11", 1, False, True, "mig_1g.10gb")


def test_ray_reserves_a_mig_device_only_where_a_node_offers_it() -> None:
    spec = one(parameters=SMALL)
    for there, reserved in ((MIXED, {}), (LABELLED, {"mig_1g.10gb": 1})):
        found = assigned(spec, there)
        assert found.ray_resources == demand_of(found).resources == reserved
        # Started anew, it asks for the same.
        assert found.resources == spec.resources
        assert found.num_gpus == spec.num_gpus > 0


def test_an_older_choice_counts_for_nothing() -> None:
    spec = assigned(one(), TWO_NODES)
    assert spec.device is not None
    only_b = cluster({"b": (gpu(0, "b"),)})
    moved = assigned(spec, only_b).device
    assert moved is not None
    assert (spec.device.node_id, moved.node_id) == ("a", "b")


def test_a_taken_mig_device_is_waited_for_with_the_names_of_those_who_have_it() -> None:
    held = {f"n/1#{n}@1": lease("a", uuid) for n, uuid in enumerate(("MIG-a11", "MIG-a12"))}
    there = cluster({"a": (mig_gpu(1, "3g.40gb", "1g.10gb", "1g.10gb"),)})
    assert reason(one(parameters=SMALL), there, held) == (
        "waiting for a MIG device of profile 1g.10gb: 2 on 1 node, all taken (n/1#0@1, n/1#1@1);"
        " unload one of these, or make more such devices"
    )


def test_devices_of_several_nodes_that_are_taken_are_counted() -> None:
    there = cluster({name: (mig_gpu(1, "1g.10gb", node=name),) for name in "ab"})
    held = {f"n/1#0@{name}": lease(name, f"MIG-{name}10") for name in "ab"}
    assert "profile 1g.10gb: 2 on 2 nodes, all taken" in reason(one(parameters=SMALL), there, held)


def test_the_roomiest_gpu_says_how_much_is_missing() -> None:
    there = cluster(
        {
            "a": (gpu(0, used=79 * GB),),
            "b": (gpu(0, "b", used=60 * GB),),
            "c": (gpu(0, "c", used=75 * GB),),
        }
    )
    text = reason(one(), there, {}, Admission(30 * GB))
    assert "GPU 0 of node b has 20.00 GiB left, which processes that are not this server's" in text


def test_a_mig_device_that_is_too_small_or_too_full_is_not_taken() -> None:
    there = cluster({"a": (mig_gpu(0, "1g.10gb"), mig_gpu(1, "1g.10gb"))})
    small = one(parameters=SMALL)
    assert assigned(small, there, {}, Admission(10 * GB)).device is not None
    assert "larger device is needed" in reason(small, there, {}, Admission(10 * GB + 1))
    first = there.devices["a"].gpus[0]
    full = replace(first, mig_devices=(replace(first.mig_devices[0], used_bytes=6 * GB),))
    found = assigned(
        small, cluster({"a": (full, there.devices["a"].gpus[1])}), {}, Admission(5 * GB)
    )
    assert found.device is not None
    assert found.device.uuid == "MIG-a10"
    limited = assigned(
        small, cluster({"a": (full, there.devices["a"].gpus[1])}), {}, Admission(0, {0: 0.5})
    )
    assert limited.device is not None
    assert limited.device.uuid == "MIG-a10"


def test_of_mig_devices_those_of_a_gpu_above_its_limit_are_not_taken() -> None:
    def used(index: int, amount: int) -> Gpu:
        made = mig_gpu(index, "1g.10gb")
        return replace(made, mig_devices=(replace(made.mig_devices[0], used_bytes=amount),))

    there = cluster({"a": (used(0, GB), used(1, 2 * GB))})
    small = one(parameters=SMALL)
    for limits, uuid in (({}, "MIG-a00"), ({0: 0.05}, "MIG-a10"), ({1: 0.05}, "MIG-a00")):
        found = assigned(small, there, {}, Admission(0, limits)).device
        assert found is not None
        assert found.uuid == uuid


def test_a_gpu_that_left_is_waited_for() -> None:
    spec = one(replace(ANY, gpus=(7,)))
    there = cluster({"a": (gpu(0), gpu(1))})
    assert reason(spec, there).startswith("waiting for GPU 7, which no node has")


@pytest.mark.parametrize("amounts", ['{"mig_1g.10gb": 2}', '{"mig_1g.10gb": 1, "mig_3g.40gb": 1}'])
def test_several_mig_devices_for_one_instance_are_refused(amounts: str) -> None:
    spec = one(parameters={"ray_resources": amounts})
    with pytest.raises(InvalidArgumentError, match="an instance can have one MIG device"):
        assign_device(spec, MIXED, Leases(), Admission())


def test_models_share_a_gpu_until_its_memory_does_not_suffice() -> None:
    there = cluster({"a": (gpu(0, used=70 * GB),)})
    held = {"n/1#0@1": lease("a", "GPU-a0", expected_bytes=70 * GB, measured_bytes=70 * GB)}
    assert assigned(one(), there, held, Admission(10 * GB)).device is not None
    assert reason(one(), there, held, Admission(10 * GB + 1)) == (
        "waiting for GPU memory: needs 10.00 GiB, as it took before, and GPU 0 of node a has"
        " 10.00 GiB left, which n/1#0@1 would leave; unload one of these or list another GPU in"
        " 'gpus'"
    )


def test_memory_that_others_are_still_to_take_is_not_free() -> None:
    there = cluster({"a": (gpu(0, used=20 * GB),)})
    loading = {"x": lease("a", "GPU-a0", expected_bytes=50 * GB, measured_bytes=20 * GB)}
    assert "needs 40.00 GiB" in reason(one(), there, loading, Admission(40 * GB))
    assert assigned(one(), there, loading, Admission(30 * GB)).device is not None


def test_a_gpu_with_room_on_another_node_is_taken_instead() -> None:
    there = cluster({"a": (gpu(0, used=79 * GB),), "b": (gpu(0, "b", used=60 * GB),)})
    held = {"x": lease("b", "GPU-b0")}
    found = assigned(one(), there, held, Admission(10 * GB)).device
    assert found is not None
    assert found.node_id == "b"


def test_what_no_gpu_is_large_enough_for_needs_a_larger_one() -> None:
    assert "has 80.00 GiB in all; a larger device is needed" in reason(
        one(), EIGHT, {}, Admission(TOTAL + 1)
    )


@pytest.mark.parametrize("fields", [{"used_bytes": None}, {"memory_bytes": 0}])
def test_a_gpu_that_does_not_tell_its_memory_bounds_nothing(fields: dict[str, int]) -> None:
    there = cluster({"a": (gpu(0, **fields),)})
    admission = Admission(TOTAL, {0: 0.0})
    assert assigned(one(), there, Leases(), admission).device is not None


@pytest.mark.parametrize(
    ("fraction", "used", "is_refused"),
    [(0.5, 40 * GB, False), (0.5, 40 * GB + 1, True), (0.0, 1, True), (0.0, 0, False)],
)
def test_a_gpu_above_its_load_limit_gets_no_more_models(
    fraction: float, used: int, is_refused: bool
) -> None:
    there = cluster({"a": (gpu(0, used=used),)})
    admission = Admission(0, {0: fraction, 1: 0.0})
    if not is_refused:
        assert assigned(one(), there, Leases(), admission).device is not None
        return
    with pytest.raises(UnavailableError) as raised:
        assign_device(one(), there, Leases(), admission)
    assert raised.value.message.startswith(
        "can not create model 'g_0': memory limit set for KIND_GPU 0 has exceeded, model loading is"
        " rejected."
    )


def test_a_limit_on_one_node_leaves_the_same_gpu_of_another() -> None:
    there = cluster({"a": (gpu(0, used=60 * GB),), "b": (gpu(0, "b", used=10 * GB),)})
    found = assigned(one(), there, {}, Admission(0, {0: 0.5})).device
    assert found is not None
    assert found.node_id == "b"


@given(st.lists(st.sampled_from(["small", "large", "first", "second"]), max_size=12))
def test_no_mig_device_that_was_asked_for_is_ever_shared(wishes: list[str]) -> None:
    asks = {
        "small": (ANY, SMALL),
        "large": (ANY, LARGE),
        "first": (replace(ANY, gpus=(1,)), {}),
        "second": (replace(ANY, gpus=(2,)), {}),
    }
    held = Leases()
    for number, wish in enumerate(wishes):
        spec = specs_of(*asks[wish], name=f"m{number}")[0]
        outcome = assign_device(spec, MIXED, held, Admission())
        if isinstance(outcome, InstanceSpec) and outcome.device is not None:
            held[spec.name] = Lease(outcome.device, spec.model_key)
    for lease_ in held.values():
        same = [other for other in held.values() if other.device.uuid == lease_.device.uuid]
        assert len(same) == 1 or not any(other.device.is_exclusive for other in same)


def test_an_instance_knows_the_numa_node_of_its_gpu() -> None:
    there = cluster({"a": (gpu(0, numa_node=1),)})
    first = InstanceGroup("g", "KIND_GPU", 1, gpus=(0,))
    outcome = assign_device(specs_of(first, there=there)[0], there, Leases(), Admission())
    assert isinstance(outcome, InstanceSpec)
    assert outcome.device is not None
    assert outcome.device.numa_node == 1
