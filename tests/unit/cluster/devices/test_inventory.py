# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.devices.inventory import AMD, Gpu, Inventory, MigDevice, mig_profile_of

PARTS = (MigDevice("MIG-aa", "1g.10gb"), MigDevice("MIG-ab", "1g.10gb"))
NODE = Inventory(
    (
        Gpu(0, 0, "GPU-aa", compute_capability=(7, 5)),
        Gpu(1, 1, "GPU-ab", compute_capability=(8, 0)),
        Gpu(2, 2, "GPU-b", compute_capability=(12, 0)),
        Gpu(3, 3, "GPU-c", is_mig=True, mig_devices=PARTS, compute_capability=(9, 0)),
    )
)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        pytest.param(None, [(0, 0), (1, 1), (2, 2), (3, 3)], id="unset"),
        pytest.param("", [], id="empty"),
        pytest.param("2,0", [(0, 2), (1, 0)], id="another order"),
        pytest.param("1, 2", [(0, 1), (1, 2)], id="a space"),
        pytest.param("GPU-b,1", [(0, 2), (1, 1)], id="a UUID"),
        pytest.param("GPU-a", [(0, 0)], id="the beginning of two UUIDs"),
        pytest.param("1,7,2", [(0, 1)], id="what names nothing ends the list"),
        pytest.param("-1", [], id="minus one"),
        pytest.param("MIG-ab", [(0, 3)], id="MIG"),
        pytest.param("NoDevFiles", [], id="NoDevFiles"),
    ],
)
def test_indices_are_places_among_what_is_visible(
    text: str | None, seen: list[tuple[int, int]]
) -> None:
    assert [(gpu.index, gpu.physical_index) for gpu in NODE.visible(text).gpus] == seen


def test_of_a_divided_gpu_only_the_named_parts_are_visible() -> None:
    (one,) = NODE.visible("MIG-ab").gpus
    assert one.devices == (PARTS[1],)
    (both,) = NODE.visible("MIG-ab,MIG-aa").gpus
    assert both.devices == (PARTS[1], PARTS[0])


@given(st.lists(st.sampled_from(["0", "1", "2", "3", "9", "GPU-b", "MIG-aa", "x", ""])))
def test_visible_gpus_are_numbered_from_zero_and_are_some_of_those_there(names: list[str]) -> None:
    found = NODE.visible(",".join(names)).gpus
    assert [gpu.index for gpu in found] == list(range(len(found)))
    assert {gpu.uuid for gpu in found} <= {gpu.uuid for gpu in NODE.gpus}


@pytest.mark.parametrize(
    ("minimum", "left"),
    [(6.0, [0, 1, 2, 3]), (7.5, [0, 1, 2, 3]), (8.0, [1, 2, 3]), (9.0, [2, 3]), (13.0, [])],
)
def test_gpus_of_too_low_a_compute_capability_are_not_used_and_leave_the_others_their_indices(
    minimum: float, left: list[int]
) -> None:
    assert [gpu.index for gpu in NODE.usable(4, minimum).gpus] == left


def test_a_gpu_that_tells_no_capability_and_one_of_another_vendor_are_used() -> None:
    gpus = (Gpu(0, 0, "GPU-a"), Gpu(1, 1, "GPU-b", vendor=AMD, compute_capability=(1, 0)))
    assert Inventory(gpus).usable(2, 6.0).gpus == gpus


def test_gpus_that_ray_was_not_told_of_are_not_touched() -> None:
    whole = replace(NODE, gpus=NODE.gpus[:3])
    assert [gpu.index for gpu in whole.usable(2).gpus] == [0, 1]


def test_rays_number_says_nothing_of_a_node_with_mig() -> None:
    # Whether it counts GPUs or parts depends on how Ray was started.
    assert len(NODE.usable(1).gpus) == 4


@pytest.mark.parametrize(
    ("resource", "profile"),
    [
        ("mig_1g.10gb", "1g.10gb"),
        ("mig-3g.40gb", "3g.40gb"),
        ("mig_1g.10gb+me", "1g.10gb+me"),
        ("mig_1c.3g.40gb", "1c.3g.40gb"),
        ("mig", ""),
        ("migraine", ""),
        ("GPU", ""),
        ("my_mig_1g.10gb", ""),
    ],
)
def test_a_resource_may_name_a_mig_profile(resource: str, profile: str) -> None:
    assert mig_profile_of(resource) == profile
