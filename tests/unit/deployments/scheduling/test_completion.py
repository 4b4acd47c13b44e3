# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Outcomes in the order of acceptance."""

from hypothesis import given
from hypothesis import strategies as st

from deployments.scheduling.completion import CompletionQueue


def test_an_early_finisher_waits_for_those_before_it():
    queue: CompletionQueue[str, int] = CompletionQueue()
    for ticket in "abc":
        queue.accept(ticket)
    assert queue.add("c", 3, final=True) == []
    assert queue.add("b", 2, final=False) == []
    assert queue.add("a", 1, final=True) == [("a", 1, True), ("b", 2, False)]
    assert queue.add("b", 22, final=True) == [("b", 22, True), ("c", 3, True)]
    assert len(queue) == 0


def test_the_oldest_request_streams_at_once():
    queue: CompletionQueue[str, int] = CompletionQueue()
    queue.accept("a")
    assert queue.add("a", 1, final=False) == [("a", 1, False)]
    assert queue.add("a", 2, final=True) == [("a", 2, True)]


@given(st.permutations(range(12)), st.integers(1, 3))
def test_everything_is_released_once_and_in_order(order, response_count):
    queue: CompletionQueue[str, int] = CompletionQueue()
    tickets = [str(number) for number in range(12)]
    for ticket in tickets:
        queue.accept(ticket)
    released = []
    for number in order:
        for index in range(response_count):
            final = index == response_count - 1
            released += queue.add(tickets[number], index, final=final)
    expected = [(t, i, i == response_count - 1) for t in tickets for i in range(response_count)]
    assert released == expected
