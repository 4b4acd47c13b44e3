# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which node a request goes to, and when it is taken back."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.pool_queue.messages import Load
from deployments.routing.node_choice import (
    asked_in_vain,
    choose,
    choose_for_sequence,
    for_lease,
    full_for_sequences,
    take_back,
    to_ask,
)
from deployments.routing.node_view import NodeView, expected_wait_ns

MS = 1_000_000
S = 1000 * MS


class Queue:
    def __init__(self, load: Load) -> None:
        self.load = load


def load(waiting: int = 0, free: int = 0, execution_ms: float = 10.0, **fields: float) -> Load:
    return Load("m", 1, waiting, free, 4, execution_ms * MS, **fields)


def own(waiting: int = 0, free: int = 0, **fields: float) -> NodeView:
    return NodeView("own", is_own=True, queue=Queue(load(waiting, free, **fields)))


def other(name: str, waiting: int = 0, free: int = 0, at_ns: int = 0, **fields: float) -> NodeView:
    view = NodeView(name)
    view.learned(load(waiting, free, **fields), at_ns)
    return view


def test_own_node_with_a_free_instance_is_chosen() -> None:
    views = [own(free=1), other("b", free=4)]
    assert choose(views, 0, Random(1)) is views[0]


def test_request_goes_to_another_node_when_that_saves_more_than_the_way() -> None:
    views = [own(waiting=20), other("b", free=4)]
    assert choose(views, 0, Random(1)) is views[1]


def test_request_stays_when_little_is_saved() -> None:
    views = [own(waiting=0), other("b", free=4)]
    assert choose(views, 0, Random(1)) is views[0]


def test_short_executions_are_not_worth_the_way() -> None:
    views = [own(waiting=4, execution_ms=0.1), other("b", free=4, execution_ms=0.1)]
    assert choose(views, 0, Random(1)) is views[0]


def test_request_stays_while_leases_can_be_had() -> None:
    views = [own(waiting=8), other("b", free=4)]
    assert choose(views, 0, Random(1)) is views[0]


def test_request_stays_when_all_nodes_are_full() -> None:
    views = [own(waiting=40), other("b", waiting=25)]
    assert choose(views, 0, Random(1)) is views[0]


def test_request_does_not_wait_for_leases_where_executions_are_shared() -> None:
    views = [own(waiting=40, batch_size=4.0), other("b", free=4, batch_size=4.0)]
    assert choose(views, 0, Random(1)) is views[1]


def test_request_does_not_wait_for_leases_of_a_pool_of_one() -> None:
    views = [own(waiting=8), NodeView("b", is_single=True)]
    assert choose(views, 0, Random(1)) is views[1]


def test_what_was_sent_since_counts() -> None:
    views = [own(waiting=20), other("b", free=4)]
    chosen = []
    for _ in range(40):
        chosen.append(choose(views, 0, Random(1)))
        chosen[-1].sent()
    assert 4 <= sum(view is views[1] for view in chosen) <= 16


def test_routers_that_know_the_same_choose_different_nodes() -> None:
    views = [own(waiting=40), *(other(str(index), waiting=1) for index in range(9))]
    chosen = [choose(views, 0, Random(seed)).node for seed in range(90)]
    assert max(chosen.count(name) for name in set(chosen)) < 25


def test_what_was_said_ages() -> None:
    busy, idle = other("b", waiting=40), other("c", free=4)
    waits = [(expected_wait_ns(busy, at), expected_wait_ns(idle, at)) for at in (0, 20 * MS, S)]
    assert waits[0][0] > waits[1][0] > waits[2][0] > waits[2][1] > waits[1][1] > waits[0][1]


def test_silent_node_is_probed_once_in_a_while_and_else_not_chosen() -> None:
    views = [own(waiting=40), other("b", free=4, at_ns=0)]
    assert choose(views, 5 * S, Random(1)) is views[1]
    assert choose(views, 5 * S + MS, Random(1)) is views[0]
    assert choose(views, 6 * S, Random(1)) is views[1]


def test_silent_node_is_chosen_when_there_is_no_other() -> None:
    only = other("b", free=4, at_ns=0)
    assert choose([only], 50 * S, Random(1)) is only


def test_silent_node_comes_back_when_it_says_something() -> None:
    views = [own(waiting=40), other("b", free=4, at_ns=0)]
    choose(views, 5 * S, Random(1))
    views[1].learned(load(free=4), 5 * S)
    assert choose(views, 5 * S + MS, Random(1)) is views[1]


def test_own_node_is_tried_before_it_has_said_anything() -> None:
    views = [NodeView("own", is_own=True), other("b", free=4)]
    assert choose(views, 0, Random(1)) is views[0]


def test_request_that_waits_is_taken_back_for_a_free_instance() -> None:
    views = [own(waiting=8), other("b", free=1)]
    views[0].waiting_count = 3
    assert take_back(views, 0) == [(views[0], views[1], 1)]


def test_no_more_is_taken_back_than_there_are_free_instances() -> None:
    views = [own(waiting=30), other("b", free=2), other("c", free=1)]
    views[0].waiting_count = 30
    moves = take_back(views, 0)
    assert sum(move.request_count for move in moves) == 3


def test_nothing_is_taken_back_between_nodes_that_are_nearly_equal() -> None:
    views = [own(waiting=8), other("b", waiting=6)]
    views[0].waiting_count = 8
    assert take_back(views, 0) == []


def test_requests_come_home_to_an_idle_own_node_from_one_that_has_executed_nothing_yet() -> None:
    views = [own(free=2, execution_ms=100.0), other("b", waiting=1, execution_ms=0.0)]
    views[1].waiting_count = 1
    assert take_back(views, 0) == [(views[1], views[0], 1)]


def test_an_idle_node_of_slow_executions_takes_over_from_a_node_that_has_executed_nothing_yet() -> (
    None
):
    views = [other("b", waiting=2, execution_ms=0.0), other("c", free=2, execution_ms=100.0)]
    views[0].waiting_count = 1
    assert take_back(views, 0) == [(views[0], views[1], 1)]


def test_what_waits_at_a_silent_node_is_taken_back() -> None:
    views = [own(waiting=8), other("b", free=4, at_ns=0)]
    views[1].sent()
    views[1].sent()
    assert take_back(views, 5 * S) == [(views[1], views[0], 2)]


def test_silent_node_that_was_just_probed_has_time_to_answer() -> None:
    views = [own(waiting=40), other("b", free=4, at_ns=0)]
    choose(views, 5 * S, Random(1)).sent()
    assert take_back(views, 5 * S + 10 * MS) == []
    assert take_back(views, 5 * S + 300 * MS)


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 4)), min_size=2, max_size=12),
    st.integers(0, 50),
)
def test_moved_requests_are_not_moved_back(loads: list[tuple[int, int]], mine: int) -> None:
    views = [
        other(str(at), waiting, 0 if waiting else free) for at, (waiting, free) in enumerate(loads)
    ]
    views[0].waiting_count = min(mine, loads[0][0])
    for move in take_back(views, 0):
        for _ in range(move.request_count):
            move.source.waiting_count -= 1
            move.target.sent()
        said = move.source.load
        said.waiting_count -= move.request_count
    assert all(move.target is not views[0] for move in take_back(views, 0))


def test_a_lease_is_used_for_the_requests_that_wait_longest() -> None:
    views = [own(waiting=2), other("b", waiting=40), other("c", free=1)]
    views[0].waiting_count = views[1].waiting_count = 1
    assert for_lease(views, views[2], 0) is views[1]


def test_a_lease_is_given_back_when_nothing_waits() -> None:
    views = [own(free=1), other("c", free=1)]
    assert for_lease(views, views[1], 0) is None


def test_each_node_is_asked_once_until_it_has_told() -> None:
    views = [own(waiting=2), *(other(str(index)) for index in range(5))]
    views[0].waiting_count = 2
    random = Random(1)
    asked = [view.node for _ in range(5) for view in to_ask(views, 0, random)]
    assert sorted(asked) == [view.node for view in views[1:]]
    views[1].asked_ns = None
    views[2].learned(load(free=1), 0)
    views[3].learned(load(waiting=1), 0)
    assert {view.node for view in to_ask(views, 0, random)} == {"0", "1"}


def test_the_more_requests_wait_the_more_nodes_are_asked() -> None:
    views = [own(waiting=1), *(other(str(index)) for index in range(9))]
    random = Random(1)
    assert to_ask(views, 0, random) == []
    views[0].waiting_count = 1
    first = to_ask(views, 0, random)
    assert first
    assert to_ask(views, 0, random) == []
    views[0].waiting_count = 2
    second = to_ask(views, 0, random)
    assert len(second) == len(first)
    assert not set(first) & set(second)


def test_nobody_is_asked_when_the_way_is_longer_than_the_wait() -> None:
    views = [own(waiting=4, execution_ms=0.1), other("b")]
    views[0].waiting_count = 4
    assert to_ask(views, 0, Random(1)) == []


def test_nodes_that_were_asked_in_vain_are_told_once_and_may_be_asked_again() -> None:
    views = [own(waiting=2), other("b"), other("c"), other("d", batch_size=4.0)]
    views[0].waiting_count = 1
    assert set(to_ask(views, 0, Random(1))) == set(views[1:])
    views[1].asked_ns = None
    assert asked_in_vain(views) == [views[2]]
    assert asked_in_vain(views) == []
    assert set(to_ask(views, 0, Random(1))) == set(views[1:3])


def test_sequence_starts_where_most_slots_are_free() -> None:
    views = [own(free_slot_count=1), other("b", free_slot_count=5), other("c", free_slot_count=3)]
    assert choose_for_sequence(views, 0, Random(1)) is views[1]
    for _ in range(4):
        views[1].sent()
    assert choose_for_sequence(views, 0, Random(1)) is views[2]


def test_sequence_starts_on_the_own_node_when_others_have_no_more_slots() -> None:
    views = [own(free_slot_count=5), other("b", free_slot_count=5)]
    assert choose_for_sequence(views, 0, Random(1)) is views[0]


def test_sequence_starts_where_it_waits_least_when_no_slot_is_free() -> None:
    views = [own(waiting=40), other("b", waiting=2)]
    assert choose_for_sequence(views, 0, Random(1)) is views[1]


def test_sequences_begin_elsewhere_when_their_node_is_full_and_others_are_known_not_to_be() -> None:
    views = [own(waiting=1), other("b", free_slot_count=3), other("c", free_slot_count=2)]
    views[0].waiting_count = 1
    views[1].sent()
    assert full_for_sequences(views, 0) == ([views[0]], 4)
    # What was said so long ago is nothing to go by.
    assert full_for_sequences(views, 2 * S) == ([views[0]], 0)
    # A node that has a slot gives it to what is on the way there.
    assert full_for_sequences([own(free_slot_count=1), *views[1:]], 0) == ([], 0)


def single(name: str) -> NodeView:
    return NodeView(name, is_single=True)


def test_pool_of_one_waits_for_what_was_sent_there() -> None:
    view = single("b")
    view.sent()
    view.answered(10 * MS, 0)
    idle_ns = expected_wait_ns(view, 0)
    view.sent()
    view.sent()
    assert expected_wait_ns(view, 0) - idle_ns == pytest.approx(20 * MS)


def test_pool_of_one_that_others_use_shows_in_longer_answers_for_a_while() -> None:
    alone, shared = single("b"), single("c")
    for view, answers_ms in ((alone, [10] * 30), (shared, [10] + [50] * 29)):
        for answer_ms in answers_ms:
            view.sent()
            view.answered(answer_ms * MS, 0)
    assert expected_wait_ns(shared, 0) > expected_wait_ns(alone, 0) + 20 * MS
    assert expected_wait_ns(shared, 10 * S) < expected_wait_ns(alone, 10 * S) + 2 * MS


def test_nothing_is_taken_back_from_a_pool_of_one() -> None:
    views = [single("own"), other("b", free=4)]
    for _ in range(20):
        views[0].sent()
    assert take_back(views, 0) == []
