# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which policies a server has, and which comes before which."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from cluster.controller.controller import ModelController
from cluster.controller.ownership import Owner
from cluster.controller.policies import POLICIES
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.controller_fakes import FakeHost, controller_of, write_model

# Each before the one below it.
ORDER = (
    "evacuation",
    "wall clock",
    "preemption",
    "residency",
    "rollouts",
    "autoscaling",
    "node demand",
    "consolidation",
    "unused actors",
    "repositories",
    "unread models",
    "prestarting",
    "prefetching",
)
CONSOLIDATING = {"consolidate_nodes": True, "ingress_label_selector": '{"ingress": "true"}'}
ALWAYS = {
    "evacuation",
    "wall clock",
    "preemption",
    "rollouts",
    "autoscaling",
    "unused actors",
    "prestarting",
}


def policies_of(controller: ModelController) -> list[str]:
    return list(controller._reconciler._turns)


def test_the_order_of_precedence_is_that_of_the_table() -> None:
    assert tuple(policy.name for policy in POLICIES) == ORDER


def test_a_drain_is_seen_within_two_seconds() -> None:
    assert POLICIES[0].period_s == 2.0
    # Also after errors.
    assert POLICIES[0].longest_s == 2.0


def test_a_wall_clock_is_compared_each_second_also_after_errors() -> None:
    (row,) = (policy for policy in POLICIES if policy.name == "wall clock")
    assert (row.period_s, row.longest_s) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({"model_control_mode": "explicit"}, {"unread models"}),
        ({"model_control_mode": "none"}, {"unread models"}),
        ({"model_control_mode": "poll"}, {"repositories"}),
        ({"model_control_mode": "ondemand"}, {"repositories", "residency"}),
        (CONSOLIDATING, {"consolidation", "unread models"}),
        ({"prefetch_cache_fraction": 0.5}, {"prefetching", "unread models"}),
    ],
)
def test_a_server_has_the_policies_of_its_options_in_order(
    options: dict[str, object], more: set[str], tmp_path: Path
) -> None:
    @in_virtual_time
    async def check(folder: Path) -> None:
        controller = await controller_of(folder, FakeHost(), **options)
        found = policies_of(controller)
        assert set(found) == ALWAYS | more
        assert all(ORDER.index(one) < ORDER.index(two) for one, two in pairwise(found))

    check(tmp_path)


@in_virtual_time
async def test_nodes_are_asked_for_where_the_cluster_may_have_an_autoscaler(folder: Path) -> None:
    controller = await controller_of(folder, FakeHost(), Owner(lease_s=20.0))
    assert "node demand" in policies_of(controller)


@in_virtual_time
async def test_in_a_pass_the_policies_share_one_look_at_the_cluster(folder: Path) -> None:
    write_model(folder, "a")
    host = FakeHost()
    options = {
        "model_control_mode": "ondemand",
        **CONSOLIDATING,
        "prestart_workers": 1,
        "prefetch_cache_fraction": 0.5,
    }
    await controller_of(folder, host, **options)
    await asyncio.sleep(9.9)
    before = host.looks
    await asyncio.sleep(0.2)
    assert host.looks == before + 1


@in_virtual_time
async def test_residency_is_looked_at_from_the_beginning_and_when_an_instance_waits(
    folder: Path,
) -> None:
    host = FakeHost()
    controller = await controller_of(folder, host, model_control_mode="ondemand")
    await asyncio.sleep(0.1)
    residency = controller._reconciler._turns["residency"]
    assert residency.ended_s >= 0.0
    await asyncio.sleep(1.0)
    before_s = residency.ended_s
    host.placer.on_waits()
    await asyncio.sleep(0.1)
    assert residency.ended_s > before_s


@in_virtual_time
async def test_nothing_is_polled_before_live_instances_are_adopted(folder: Path) -> None:
    write_model(folder, "a")
    host = FakeHost().restarted()
    host.fail_always["find_live_instances"] = RuntimeError("no head")
    options = {"model_control_mode": "poll", "repository_poll_secs": 1}
    controller = await controller_of(folder, host, **options)
    await asyncio.sleep(10.0)
    assert not controller._lifecycle.records
    host.fail_always.clear()
    await asyncio.sleep(20.0)
    write_model(folder, "b")
    await asyncio.sleep(5.0)
    assert all(controller._lifecycle.records[name].ready_versions for name in "ab")
