# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A controller that has been replaced, unknown to itself, changes nothing any more."""

import asyncio

import pytest

from cluster.controller.durable_state import DurableState
from cluster.controller.store import FencedStore, SupersededError
from cluster.models.override import Override
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.controller_fakes import WRITE_S, FakeStore


@in_virtual_time
async def test_each_controller_has_a_higher_number_than_any_before() -> None:
    store = FakeStore()
    numbers = [(await FencedStore.claim(store)).number for _ in range(3)]
    assert numbers == [1, 2, 3]
    assert len(store.values) == 1


@in_virtual_time
async def test_of_controllers_that_start_at_once_one_stays() -> None:
    store = FakeStore()
    fences = await asyncio.gather(*(FencedStore.claim(store) for _ in range(5)))
    assert len({fence.number for fence in fences}) == 5
    latest = max(fences, key=lambda fence: fence.number)
    await latest.check()
    for fence in fences:
        if fence is not latest:
            with pytest.raises(SupersededError, match="replaced"):
                await fence.check()


@in_virtual_time
async def test_a_controller_believed_dead_writes_nothing_and_is_told() -> None:
    store = FakeStore()
    told: list[str] = []
    earlier = await DurableState.create(store, lambda: told.append("earlier"))
    earlier.saved.wanted = ["a"]
    earlier.save_override("a", Override("{}", {"file:1/x": b"first"}))
    await earlier.save()
    later = await DurableState.restore(store, lambda: told.append("later"))
    earlier.saved.wanted = ["b"]
    earlier.save_override("a", Override("{}", {"file:1/x": b"stale"}))
    await earlier.save()
    assert set(told) == {"earlier"}
    later.saved.wanted = ["a", "c"]
    await later.save()
    again = await DurableState.restore(store)
    assert again.saved.wanted == ["a", "c"]
    assert again.overrides["a"].files == {"file:1/x": b"first"}


@in_virtual_time
async def test_a_write_that_was_under_way_at_the_takeover_is_not_read() -> None:
    store = FakeStore()
    earlier = await DurableState.create(store)
    store.go_away()
    earlier.saved.wanted = ["stale"]
    earlier.schedule()
    # It has made sure that there is no successor, and its write is on the way.
    await asyncio.sleep(2 * WRITE_S)
    late = dict(store.values)
    store.come_back()
    later = await DurableState.restore(store)
    later.saved.wanted = ["new"]
    await later.save()
    await asyncio.sleep(1)
    assert late
    assert (await DurableState.restore(store)).saved.wanted == ["new"]
