# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The one writer of what a controller must know again."""

import asyncio

import pytest

from backends.api.errors import UnavailableError
from cluster.controller import durable_state
from cluster.controller.durable_state import DurableState
from cluster.controller.store import StoreWriter
from cluster.models.override import NO_OVERRIDE, Override
from tests.support.control_plane_fakes import in_virtual_time, now
from tests.support.controller_fakes import WRITE_S, FakeStore


@in_virtual_time
async def test_of_values_that_wait_for_one_key_the_latest_is_written() -> None:
    store = FakeStore()
    writer = StoreWriter(store)
    for number in range(100):
        writer.put(b"k", lambda number=number: b"%d" % number)  # type: ignore[misc]
    await writer.written()
    assert store.values == {b"k": b"99"}
    assert store.writes == [b"k"]
    await writer.close()


@in_virtual_time
async def test_a_value_scheduled_during_a_write_comes_after_it() -> None:
    store = FakeStore()
    writer = StoreWriter(store)
    writer.put(b"k", lambda: b"old")
    await asyncio.sleep(WRITE_S / 2)
    writer.put(b"k", lambda: b"new")
    await writer.written()
    assert store.values == {b"k": b"new"}
    assert store.writes == [b"k", b"k"]
    await writer.close()


@in_virtual_time
async def test_a_write_that_failed_is_made_again_unless_a_newer_value_waits() -> None:
    store = FakeStore()
    store.fail = [ConnectionError("the head is gone")]
    writer = StoreWriter(store)
    writer.put(b"a", lambda: b"old")
    writer.put(b"b", lambda: b"kept")
    await asyncio.sleep(WRITE_S / 2)
    writer.put(b"a", lambda: b"new")
    await writer.written()
    assert store.values == {b"a": b"new", b"b": b"kept"}
    await writer.close()


@in_virtual_time
async def test_who_saves_waits_until_the_state_is_in_the_store() -> None:
    store = FakeStore()
    state = await DurableState.create(store)
    state.saved.wanted = ["m"]
    state.save_override("m", Override('{"name": "m"}', {"file:1/x": b"x"}))
    await state.save()
    again = await DurableState.restore(store)
    assert again.saved.wanted == ["m"]
    assert again.has_files_of("m")
    assert again.secret == state.secret


@in_virtual_time
async def test_a_save_does_not_wait_for_ever_and_is_made_up_for() -> None:
    store = FakeStore()
    state = await DurableState.create(store)
    store.go_away()
    state.saved.wanted = ["m"]
    started_s = now()
    await state.save()
    assert now() - started_s < 11
    store.come_back()
    await state.save()
    assert (await DurableState.restore(store)).saved.wanted == ["m"]


@in_virtual_time
async def test_generation_numbers_are_reserved_before_they_are_used() -> None:
    store = FakeStore()
    state = await DurableState.create(store)
    numbers = await asyncio.gather(*(state.next_generation() for _ in range(1500)))
    assert len(set(numbers)) == 1500
    assert (await DurableState.restore(store)).saved.generation >= max(numbers)
    again = await DurableState.restore(store)
    assert await again.next_generation() > max(numbers)


@in_virtual_time
async def test_no_number_is_given_out_that_a_successor_might_use_again() -> None:
    store = FakeStore()
    state = await DurableState.create(store)
    store.go_away()
    with pytest.raises(UnavailableError, match="GCS"):
        await state.next_generation()


@in_virtual_time
async def test_files_that_are_too_big_do_not_leave_those_of_an_earlier_load() -> None:
    store = FakeStore()
    state = await DurableState.create(store)
    state.save_override("m", Override("{}", {"file:1/x": b"old"}))
    await state.save()
    assert not state.save_override("m", Override("{}", {"file:1/x": bytes(65 << 20)}))
    await state.save()
    assert not (await DurableState.restore(store)).has_files_of("m")


def test_files_of_all_loads_together_are_kept_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(durable_state, "MAX_OVERRIDES_BYTES", 100)

    @in_virtual_time
    async def check() -> None:
        store = FakeStore()
        state = await DurableState.create(store)
        given = {name: Override("{}", {"file:1/x": bytes(38)}) for name in "abc"}
        assert [state.save_override(name, given[name]) for name in "abc"] == [True, True, False]
        # In place of its own there is room, also after a restart.
        await state.save()
        again = await DurableState.restore(store)
        assert sorted(again.overrides) == ["a", "b"]
        assert again.save_override("a", given["a"])
        assert not again.save_override("c", given["c"])
        again.save_override("b", NO_OVERRIDE)
        assert again.save_override("c", given["c"])

    check()


@in_virtual_time
async def test_nothing_is_written_after_the_store_was_cleared() -> None:
    store = FakeStore()
    state = await DurableState.create(store)
    state.schedule()
    await state.clear()
    state.schedule()
    await asyncio.sleep(1)
    assert list(store.values) == [b"controller/epoch/%020d" % 1]
