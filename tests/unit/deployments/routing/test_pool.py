# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.client import LaneClient
from deployments.routing.pool import LOCAL_MARGIN, LinkPool
from deployments.slabs.pool import SlabPool


def _lane(name: str, *, is_local: bool, outstanding: int = 0, is_draining: bool = False):
    lane = LaneClient(
        InstanceEndpoint(name, "", "", "", ("", 0)),
        same_node=is_local,
        secret=b"a secret of the cluster",
        slabs=SlabPool(1 << 16),
        on_lost=lambda lane, orphans: None,
    )
    lane.outstanding, lane.draining = outstanding, is_draining
    return lane


def _chosen(*lanes: LaneClient, times: int = 4) -> set[str]:
    pool = LinkPool(lanes=list(lanes))
    chosen = [pool.choose() for _ in range(times)]
    return {"" if lane is None else lane.endpoint.name for lane in chosen}


async def test_equal_instances_of_this_node_take_turns() -> None:
    assert _chosen(_lane("a", is_local=True), _lane("b", is_local=True)) == {"a", "b"}


async def test_an_instance_of_this_node_is_chosen_before_one_of_another() -> None:
    assert _chosen(_lane("far", is_local=False), _lane("near", is_local=True)) == {"near"}


async def test_an_instance_of_this_node_may_have_a_margin_of_requests_more() -> None:
    near = _lane("near", is_local=True, outstanding=3 + LOCAL_MARGIN)
    assert _chosen(_lane("far", is_local=False, outstanding=3), near) == {"near"}


async def test_an_instance_of_another_node_takes_what_is_beyond_the_margin() -> None:
    near = _lane("near", is_local=True, outstanding=4 + LOCAL_MARGIN)
    assert _chosen(_lane("far", is_local=False, outstanding=3), near) == {"far"}


async def test_an_instance_that_drains_is_not_chosen_though_it_is_near() -> None:
    near = _lane("near", is_local=True, is_draining=True)
    assert _chosen(_lane("far", is_local=False), near) == {"far"}
