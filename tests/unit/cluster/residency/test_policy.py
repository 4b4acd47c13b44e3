# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Those go that were used longest ago, never what is in use or pinned."""

import random
from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.residency.policy import Key, ResidencyLimits, Resident, room_left, to_rest
from tests.support.examples import examples

GB = 1 << 30


def resident(name: str, used_s: float, **fields: object) -> Resident:
    return Resident((name, 1), used_s, **fields)  # type: ignore[arg-type]


def names(keys: tuple[Key, ...]) -> list[str]:
    return [name for name, _ in keys]


def test_those_used_longest_ago_go_when_there_are_too_many() -> None:
    residents = [resident(name, used_s) for name, used_s in (("a", 3), ("b", 1), ("c", 2))]
    assert names(to_rest(residents, {}, ResidencyLimits(1), 100)) == ["b", "c"]
    assert to_rest(residents, {}, ResidencyLimits(3), 100) == ()
    assert to_rest(residents, {}, ResidencyLimits(0), 100) == ()


def test_room_is_made_for_those_that_are_being_woken() -> None:
    residents = [resident("a", 1), resident("b", 2)]
    assert names(to_rest(residents, {}, ResidencyLimits(2), 100, arriving=1)) == ["a"]


def test_what_is_pinned_in_use_or_used_just_now_stays() -> None:
    residents = [
        resident("pinned", 1, is_pinned=True),
        resident("busy", 2, is_in_use=True),
        resident("sequences", 3, least_idle_s=200.0),
        resident("idle", 4),
        resident("new", 99.5),
    ]
    assert names(to_rest(residents, {}, ResidencyLimits(1), 100)) == ["idle"]


def test_memory_is_made_free_from_the_high_mark_down_to_the_low_one() -> None:
    residents = [resident(str(at), at, sizes_bytes={"n": GB}) for at in range(10)]
    limits = ResidencyLimits(memory_fraction=0.5, low_fraction=0.8)
    assert to_rest(residents, {"n": 20 * GB}, limits, 100) == ()
    assert names(to_rest(residents, {"n": 19 * GB}, limits, 100)) == ["0", "1", "2"]


def test_memory_of_one_node_is_not_made_free_on_another() -> None:
    residents = [
        resident("far", 1, sizes_bytes={"far": GB}),
        resident("near", 2, sizes_bytes={"near": 2 * GB}),
        resident("both", 3, sizes_bytes={"far": GB, "near": GB}),
    ]
    limits = ResidencyLimits(memory_fraction=0.5)
    assert names(to_rest(residents, {"far": 9 * GB, "near": 4 * GB}, limits, 100)) == ["near"]


@pytest.mark.parametrize(
    ("fields", "left", "text"),
    [
        ({}, 1, "others are being started"),
        ({"is_in_use": True}, 0, "'m' in use"),
        ({"is_pinned": True}, 0, "'m' pinned (ondemand.pinned)"),
        ({"least_idle_s": 200.0}, 0, "'m' kept for sequences"),
        ({"used_s": 99.5}, 0, "'m' used just now"),
    ],
    ids=["idle", "in use", "pinned", "sequences", "just used"],
)
def test_what_may_go_is_room_and_what_stays_is_named(
    fields: dict[str, object], left: int, text: str
) -> None:
    there = [resident("m", **({"used_s": 1.0} | fields))]  # type: ignore[arg-type]
    assert room_left(there, ResidencyLimits(1), 100) == (
        left,
        f"--ondemand-max-models=1 lets no more model versions have instances ({text}); raise it, or"
        " wait until one of these is idle",
    )


def test_of_many_that_stay_three_are_named() -> None:
    residents = [resident(f"m{at}", 1.0, is_in_use=at < 5, is_pinned=at == 5) for at in range(6)]
    left, text = room_left(residents, ResidencyLimits(5), 100)
    assert left == -1
    assert "('m0', 'm1', 'm2' and 2 more in use; 'm5' pinned (ondemand.pinned))" in text
    assert room_left(residents, ResidencyLimits(), 100) == (None, "")


def zipf_trace(seed: int, models: int, length: int) -> list[int]:
    weights = [1 / rank for rank in range(1, models + 1)]
    return random.Random(seed).choices(range(models), weights, k=length)


def residents_of(used: "OrderedDict[int, float]") -> list[Resident]:
    return [resident(f"{at:04}", used_s) for at, used_s in used.items()]


@given(seed=st.integers(0, 1 << 30), models=st.integers(1, 60), cap=st.integers(1, 12))
@settings(max_examples=examples(40), deadline=None)
def test_over_a_zipf_trace_residents_are_those_of_an_lru_of_the_cap(
    seed: int, models: int, cap: int
) -> None:
    limits = ResidencyLimits(cap, least_stay_s=0.0)
    used: OrderedDict[int, float] = OrderedDict()
    lru: OrderedDict[int, None] = OrderedDict()
    for now_s, model in enumerate(zipf_trace(seed, models, 300)):
        arriving = int(model not in used)
        for name, _ in to_rest(residents_of(used), {}, limits, now_s, arriving=arriving):
            del used[int(name)]
        used[model] = now_s
        lru.pop(model, None)
        lru[model] = None
        while len(lru) > cap:
            lru.popitem(last=False)
        assert set(used) == set(lru)


@given(
    seed=st.integers(0, 1 << 30),
    cap=st.integers(1, 8),
    pinned=st.sets(st.integers(0, 29), max_size=4),
    busy_s=st.floats(0, 20),
)
@settings(max_examples=examples(40), deadline=None)
def test_over_a_zipf_trace_nothing_pinned_or_in_use_goes_and_the_cap_holds_else(
    seed: int, cap: int, pinned: set[int], busy_s: float
) -> None:
    limits = ResidencyLimits(cap, least_stay_s=1.0)
    used: dict[int, float] = {}
    for step, model in enumerate(zipf_trace(seed, 30, 200)):
        now_s = step / 2
        used[model] = now_s
        residents = [
            resident(str(at), since_s, is_in_use=now_s - since_s < busy_s, is_pinned=at in pinned)
            for at, since_s in used.items()
        ]
        chosen = to_rest(residents, {}, limits, now_s)
        for name, _ in chosen:
            since_s = used.pop(int(name))
            assert int(name) not in pinned
            assert now_s - since_s >= max(busy_s, limits.least_stay_s)
        stays = [
            at
            for at, since_s in used.items()
            if at in pinned or now_s - since_s < max(busy_s, limits.least_stay_s)
        ]
        assert len(used) <= max(cap, len(stays))


@given(seed=st.integers(0, 1 << 30), size_bytes=st.integers(1, GB))
@settings(max_examples=examples(40), deadline=None)
def test_memory_stays_below_the_high_mark_and_is_not_freed_at_each_wake(
    seed: int, size_bytes: int
) -> None:
    limits = ResidencyLimits(memory_fraction=0.8, low_fraction=0.5, least_stay_s=0.0)
    total_bytes = 50 * size_bytes
    used: dict[int, float] = {}
    frees = wakes = 0
    for now_s, model in enumerate(zipf_trace(seed, 100, 400)):
        wakes += model not in used
        used[model] = now_s
        residents = [
            resident(str(at), since_s, sizes_bytes={"n": size_bytes})
            for at, since_s in used.items()
        ]
        chosen = to_rest(residents, {"n": total_bytes}, limits, now_s + 1)
        frees += bool(chosen)
        for name, _ in chosen:
            del used[int(name)]
        assert len(used) * size_bytes <= 0.8 * total_bytes
    # Each time twenty leave of forty.
    assert frees <= wakes / 20
