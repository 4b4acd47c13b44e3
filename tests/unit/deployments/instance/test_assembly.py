# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of batches put together, in virtual time."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from deployments.instance.assembly import (
    MAX_INCOMPLETE_COUNT,
    PART_WAIT_NS,
    SEQUENCE_PART_WAIT_NS,
    Assembly,
)
from deployments.lane.batches import BatchPart, Forget


def part(number: int, here: int, total: int = 0, **fields) -> BatchPart:
    return BatchPart(1, number, here, total, **fields)


def add(assembly: Assembly, number: int, items: str, total: int = 0, now_ns: int = 0, **fields):
    return assembly.add(part(number, len(items), total, **fields), list(items), now_ns)


def test_a_batch_of_one_part_is_complete_at_once():
    assembly = Assembly()
    (batch,) = add(assembly, 1, "ab", 2)
    assert batch.items == ["a", "b"]
    assert assembly.deadline_ns is None


def test_parts_come_in_any_order_and_their_slots_with_them():
    assembly = Assembly()
    assert not add(assembly, 1, "ab", slots=[3, 1])
    (batch,) = add(assembly, 1, "c", 3, slots=[2])
    assert (batch.items, batch.slots, batch.is_late) == (["a", "b", "c"], [3, 1, 2], False)


def test_a_part_without_requests_says_how_many_there_are():
    assembly = Assembly()
    assert not add(assembly, 1, "", 1)
    (batch,) = add(assembly, 1, "a")
    assert batch.items == ["a"]


def test_a_batch_may_be_all_of_kept_requests():
    (batch,) = add(Assembly(), 1, "", kept=[4])
    assert (batch.items, batch.kept) == ([], [4])


def test_what_is_not_sent_is_not_waited_for():
    assembly = Assembly()
    assert not add(assembly, 1, "a", 3)
    (batch,) = add(assembly, 1, "b", unsent_count=1)
    assert batch.items == ["a", "b"]


def test_a_batch_waits_for_its_parts_in_bounds_of_time():
    assembly = Assembly()
    add(assembly, 1, "a", 2, now_ns=5)
    add(assembly, 2, "b", 2, now_ns=9)
    assert assembly.deadline_ns == 5 + PART_WAIT_NS
    assert not assembly.expire(4 + PART_WAIT_NS)
    (batch,) = assembly.expire(5 + PART_WAIT_NS)
    assert (batch.number, batch.items, batch.is_late) == (1, ["a"], False)
    assert assembly.deadline_ns == 9 + PART_WAIT_NS
    (late,) = add(assembly, 1, "c")
    assert (late.number, late.items, late.is_late) == (1, ["c"], True)


def test_how_long_a_batch_waits_can_be_chosen():
    assembly = Assembly(SEQUENCE_PART_WAIT_NS)
    add(assembly, 1, "a", 2, now_ns=5)
    assert not assembly.expire(5 + PART_WAIT_NS)
    assert assembly.deadline_ns == 5 + SEQUENCE_PART_WAIT_NS
    (batch,) = assembly.forget(Forget(1, 1, 1, 1))
    assert batch.items == ["a"]


def test_a_batch_whose_parts_may_be_lost_waits_no_longer_than_any():
    assembly = Assembly(SEQUENCE_PART_WAIT_NS)
    add(assembly, 1, "a", 2, now_ns=5)
    assembly.hurry(7)
    assembly.hurry(9)
    assert assembly.deadline_ns == 7 + PART_WAIT_NS


def test_batches_that_wait_are_bounded():
    assembly = Assembly()
    for number in range(MAX_INCOMPLETE_COUNT):
        assert not add(assembly, number, "a", 2)
    (batch,) = add(assembly, MAX_INCOMPLETE_COUNT, "a", 2)
    assert batch.number == 0


def test_forgotten_requests_count_as_come():
    assembly = Assembly()
    add(assembly, 1, "a", 3)
    assert not assembly.forget(Forget(1, 1, 1))
    (batch,) = assembly.forget(Forget(1, 1, 1))
    assert batch.items == ["a"]
    # They had come after all.
    assert not assembly.forget(Forget(1, 1, 1))
    (late,) = add(assembly, 1, "b")
    assert late.is_late


def test_a_part_that_came_is_not_forgotten_and_a_forgotten_one_does_not_count_again():
    assembly = Assembly()
    add(assembly, 1, "a", 4)
    add(assembly, 1, "b", party=1)
    assert not assembly.forget(Forget(1, 1, 1, 1))
    assert not assembly.forget(Forget(1, 1, 1, 2))
    assert not add(assembly, 1, "c", party=2)
    (batch,) = add(assembly, 1, "d", party=3)
    assert batch.items == ["a", "b", "c", "d"]


def test_a_lease_that_is_forgotten_is_over():
    assembly = Assembly()
    (batch,) = assembly.forget(Forget(1, 1, 1))
    assert (batch.items, batch.is_late) == ([], False)
    (late,) = add(assembly, 1, "a", 1)
    assert late.is_late


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("part"), st.integers(1, 3), st.integers(0, 3), st.integers(0, 4)),
        st.tuples(st.just("forget"), st.integers(1, 3), st.integers(1, 3), st.just(0)),
        st.tuples(st.just("wait"), st.just(0), st.integers(0, PART_WAIT_NS), st.just(0)),
    ),
    max_size=30,
)


@given(EVENTS)
def test_each_request_is_given_out_once_and_each_batch_is_done_once(events):
    assembly: Assembly[int] = Assembly()
    now_ns = sent = 0
    given_out: list[int] = []
    done: Counter[int] = Counter()
    for kind, number, count, total in events:
        if kind == "part":
            batches = assembly.add(part(number, count, total), range(sent, sent + count), now_ns)
            sent += count
        elif kind == "forget":
            batches = assembly.forget(Forget(1, number, count))
        else:
            now_ns += count
            batches = assembly.expire(now_ns)
        for batch in batches:
            given_out += batch.items
            done[batch.number] += not batch.is_late
    for batch in assembly.clear():
        given_out += batch.items
        done[batch.number] += not batch.is_late
    assert sorted(given_out) == list(range(sent))
    assert all(count <= 1 for count in done.values())
