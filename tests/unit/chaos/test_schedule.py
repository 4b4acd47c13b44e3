# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Schedules of faults: drawn from a seed, written and read."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tests.chaos
from tests.chaos.faults import FAULTS
from tests.chaos.schedule import Event, Kind, Schedule, draw_schedule, parse, render

EACH_CHANGE = Path(tests.chaos.__file__).parent / "schedules" / "each_change.txt"
KINDS = [Kind("kill"), Kind("stop", 2.0, 8.0), Kind("cut", 1.0, 6.0), Kind("rare", rounds=3)]
NAMES = [kind.name for kind in KINDS]
SEEDS = st.integers(min_value=0, max_value=2**64)
LENGTHS_S = st.floats(min_value=0.0, max_value=2000.0)


@given(SEEDS, LENGTHS_S)
def test_the_same_seed_gives_the_same_schedule(seed: int, length_s: float) -> None:
    once = draw_schedule(seed, length_s, KINDS)
    assert once == draw_schedule(seed, length_s, reversed(KINDS))


def test_another_seed_gives_another_schedule() -> None:
    assert len({draw_schedule(seed, 180.0, KINDS).events for seed in range(20)}) == 20


@given(SEEDS, LENGTHS_S)
def test_faults_follow_each_other_and_end_in_time(seed: int, length_s: float) -> None:
    until_s = 0.0
    for event in draw_schedule(seed, length_s, KINDS).events:
        assert event.at_s >= until_s
        until_s = event.at_s + event.lasts_s
    assert until_s <= length_s


@given(SEEDS)
def test_a_fault_lasts_as_long_as_its_kind_says(seed: int) -> None:
    limits = {kind.name: (kind.shortest_s, kind.longest_s) for kind in KINDS}
    for event in draw_schedule(seed, 300.0, KINDS).events:
        shortest_s, longest_s = limits[event.fault]
        assert shortest_s <= event.lasts_s <= longest_s


@given(SEEDS)
def test_each_kind_strikes_before_one_comes_back(seed: int) -> None:
    events = draw_schedule(seed, 1000.0, KINDS).events
    assert {event.fault for event in events[:4]} == set(NAMES)
    assert {event.fault for event in events[4:7]} == set(NAMES) - {"rare"}


def test_a_schedule_without_kinds_is_empty() -> None:
    assert draw_schedule(1, 180.0, []).events == ()


@given(SEEDS, LENGTHS_S)
def test_a_schedule_is_read_as_it_was_written(seed: int, length_s: float) -> None:
    schedule = draw_schedule(seed, length_s, KINDS)
    assert parse(render(schedule), NAMES) == schedule


def test_comments_and_empty_lines_are_passed_over() -> None:
    text = render(Schedule(3, 9.0, (Event(1.0, "kill", 0.0, 4),)))
    assert parse("# broken by\n\n" + text, NAMES).events == (Event(1.0, "kill", 0.0, 4),)


def test_chosen_kinds_keep_their_times() -> None:
    schedule = draw_schedule(5, 180.0, KINDS)
    kills = tuple(event for event in schedule.events if event.fault == "kill")
    assert schedule.choose(["kill"]).events == kills


GOOD = {"at_s": 4.5, "fault": "kill", "lasts_s": 0, "draw": 17}
HEAD = '{"seed": 7, "length_s": 180}\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty; expected a line with seed and length_s"),
        ("{}", 'expected {"seed": 7'),
        ("[1]", 'expected {"seed": 7'),
        ("seed 7", 'expected {"seed": 7'),
        (HEAD + "kill at 4", 'expected {"at_s": 4.5'),
        (HEAD + json.dumps({**GOOD, "draw": "x"}), 'expected {"at_s": 4.5'),
        (HEAD + json.dumps({**GOOD, "fault": "flood"}), "unknown fault 'flood'; expected one of"),
        (HEAD + json.dumps(GOOD) + "\n" + json.dumps({**GOOD, "at_s": 1}), "begins before"),
    ],
)
def test_a_malformed_schedule_is_refused_with_what_was_expected(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint.replace("{", r"\{")):
        parse(text, NAMES)


def test_each_change_meets_each_loss_once() -> None:
    schedule = parse(EACH_CHANGE.read_text(), FAULTS)
    faults = [event.fault for event in schedule.events]
    losses = {name for name in FAULTS if name.startswith(("kill-", "lose-"))}
    # Requests do not pass Serve's controller.
    assert losses - {"kill-serve-controller"} <= set(faults)
    assert {"partition", "reload", "stop-instance"} <= set(faults)
    assert len(faults) == len(set(faults))
    assert schedule.length_s > max(event.at_s + event.lasts_s for event in schedule.events)
