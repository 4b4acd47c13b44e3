# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who decides for an instance: what cannot be is not, and an answer is to one question."""

import pytest

from backends.api.model_config import ModelConfig
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.batches import Holder
from deployments.routing.adoption_states import (
    FREE,
    OURS,
    TRANSITIONS,
    AdoptionEvent,
    AdoptionState,
)
from deployments.routing.pool import Link, LinkPool
from tests.support.lane_rig import until
from tests.support.pool_node import answered, node_of

CONFIG = ModelConfig("m")
UNREACHED, ADOPTED = AdoptionState.UNREACHED, AdoptionState.ADOPTED


def test_each_state_is_reached_and_ends_with_the_lane() -> None:
    reached = {UNREACHED}
    for _ in AdoptionState:
        reached |= {after for state in reached for after in TRANSITIONS[state].values()}
    assert reached == set(AdoptionState)
    assert all(TRANSITIONS[each][AdoptionEvent.LOST] is UNREACHED for each in FREE | OURS)
    assert FREE | OURS | {UNREACHED} == reached


def test_what_is_free_can_be_asked_and_what_is_ours_can_be_let_go() -> None:
    can = {
        event: {state for state in AdoptionState if event in TRANSITIONS[state]}
        for event in AdoptionEvent
    }
    assert can[AdoptionEvent.ASK] == FREE
    assert can[AdoptionEvent.LET_GO] == OURS


def test_an_instance_that_nobody_has_asked_cannot_answer() -> None:
    link = Link(InstanceEndpoint("m/1#0", "", "", "", ("", 0)), LinkPool(), is_local=True)
    link.move(AdoptionEvent.CONNECTED)
    assert link.is_on_its_own
    with pytest.raises(KeyError):
        link.move(AdoptionEvent.ANSWERED)


async def test_a_process_that_holds_again_asks_anew_whoever_has_not_answered_before() -> None:
    async with node_of(CONFIG, instance_count=2) as node:
        router = node.routers[0]
        links = router.find("m").pool.links
        (epoch,) = {link.lane.holder.epoch for link in links if link.lane and link.lane.holder}
        lanes = [link.lane for link in links]
        for later in (1, 2):
            router.node_pools.follow(None)
            router.node_pools.hold(Holder(epoch + later))
        await until(
            lambda: all(link.lane and link.lane.holder == Holder(epoch + 2) for link in links)
        )
        await node.serving()
        assert {link.adoption for link in links} == {ADOPTED}
        assert [link.lane for link in links] == lanes
        await answered(*[node.send() for _ in range(4)])


async def test_an_instance_that_is_back_in_the_table_is_adopted_by_its_new_lane_only() -> None:
    async with node_of(CONFIG, instance_count=2) as node:
        router = node.routers[0]
        pool, pools = router.find("m").pool, router.node_pools
        with node.busy():
            running = [node.send() for _ in range(2)]
            await until(lambda: node.sizes == [1, 1])
            before = list(pool.links)
            back = node.instances.pop()
            node.publish()
            node.instances.append(back)
            node.publish()
            (gone,) = [link for link in before if link not in pool.links]
            await until(lambda: all(each.adoption is ADOPTED for each in pool.links))
            (epoch,) = {link.lane.holder.epoch for link in before if link.lane and link.lane.holder}
            pools.follow(None)
            pools.hold(Holder(epoch + 1))
            await until(lambda: all(each.adoption is ADOPTED for each in pool.links))
            assert gone.adoption is AdoptionState.HELD
        await answered(*running)
        await until(lambda: gone.lane is None)
        await until(lambda: node.held.load.free_count == 2)
        await answered(*[node.send() for _ in range(4)])
