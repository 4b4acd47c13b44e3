# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A search asks for what it does not know, and for nothing twice."""

from manta_tools.analyze.records import Candidate, Load, Measured, Trial
from manta_tools.analyze.searching.steps import SteppedSearch, side_by_side


def trial(level):
    return Trial(Candidate(()), (Load("m", "concurrency", level),))


def count_down(start):
    outcomes = []
    for level in range(start, 0, -1):
        outcomes += yield [trial(level)]
    return [each.trial.loads[0].level for each in outcomes]


def run(search):
    asked = []
    while trials := search.ask():
        asked.append([each.loads[0].level for each in trials])
        for each in trials:
            search.tell(Measured(each, {}))
    return asked


def test_a_width_of_one_runs_searches_in_turn():
    search = SteppedSearch(lambda: side_by_side(map(count_down, (2, 20)), 1))
    assert run(search)[:4] == [[2], [1], [20], [19]]


def test_searches_side_by_side_are_asked_together():
    search = SteppedSearch(lambda: side_by_side(map(count_down, (2, 20, 30)), 2))
    assert run(search)[:4] == [[2, 20], [1, 19], [18, 30], [17, 29]]


def test_what_searches_return_keeps_their_order():
    results = []

    def steps():
        results.extend((yield from side_by_side(map(count_down, (3, 1)), 2)))

    run(SteppedSearch(steps))
    assert results == [[3, 2, 1], [1]]


def test_a_trial_that_was_told_is_not_asked_for():
    search = SteppedSearch(lambda: count_down(3))
    search.tell(Measured(trial(2), {}))
    assert run(search) == [[3], [1]]


def test_a_trial_that_comes_twice_at_once_is_asked_for_once():
    def steps():
        assert len((yield [trial(1), trial(1)])) == 2

    assert run(SteppedSearch(steps)) == [[1]]


def test_a_search_without_steps_is_over():
    assert SteppedSearch(lambda: side_by_side([], 1)).ask() == []
