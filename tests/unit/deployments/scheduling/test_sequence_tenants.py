# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Slots for sequences are shared by tenants according to their weights."""

from collections import Counter

import pytest

from tests.support.queued_items import PoolRun
from tests.support.sequence_items import END, START, STRATEGIES, part, sequence_config

WEIGHTS = {"small": 1.0, "large": 3.0}


def pool(slot_count: int, strategy: str) -> PoolRun:
    return PoolRun(sequence_config(slot_count, strategy=strategy), "A")


def start(number: int, tenant: str, **fields: object):
    return part(number, START, tenant=tenant, weight=WEIGHTS.get(tenant, 1.0), **fields)


def running(run: PoolRun) -> list[int]:
    return [each.id for each in run.queue._scheduler._sequences.homes["A"].running]


def end_oldest(run: PoolRun, started: list[int]) -> int:
    """End the sequence that has run longest; return the one that has its slot now."""
    ended = started.pop(0)
    before = set(running(run))
    run.enqueue(part(ended, END))
    run.run()
    (new,) = set(running(run)) - before
    started.append(new)
    return new


@STRATEGIES
def test_freed_slots_go_to_tenants_by_weight(strategy):
    run = pool(4, strategy)
    run.enqueue(*(start(number, "small") for number in range(1, 41)))
    run.enqueue(*(start(number, "large") for number in range(41, 81)))
    run.run()
    started = list(running(run))
    for _ in range(12):
        end_oldest(run, started)
    assert Counter("small" if each <= 40 else "large" for each in running(run)) == {
        "small": 1,
        "large": 3,
    }


@STRATEGIES
def test_a_tenant_that_comes_late_gets_the_next_slot(strategy):
    run = pool(2, strategy)
    run.enqueue(*(start(number, "small") for number in range(1, 10)))
    run.enqueue(start(20, "large"))
    run.run()
    assert end_oldest(run, [1]) == 20


@STRATEGIES
def test_slots_that_the_others_do_not_want_are_anybodys(strategy):
    run = pool(2, strategy)
    run.enqueue(*(start(number, "small") for number in range(1, 5)), start(5, "large"))
    run.run()
    started = [1, 2]
    assert [end_oldest(run, started) for _ in range(3)] == [5, 3, 4]


@STRATEGIES
def test_a_tenants_own_sequences_start_in_their_order(strategy):
    run = pool(1, strategy)
    run.enqueue(start(1, ""), start(2, "small"), start(3, ""), start(4, "small"), start(5, ""))
    run.run()
    started = [1]
    assert [end_oldest(run, started) for _ in range(4)] == [2, 3, 4, 5]


@STRATEGIES
def test_a_sequence_of_a_tenant_times_out_in_the_backlog(strategy):
    run = pool(1, strategy)
    late = start(2, "large", timeout_us=50)
    run.enqueue(start(1, "small"), late)
    run.run()
    assert [item for item, _ in run.dropped] == [late]


@pytest.mark.parametrize("tenant", ["", "small"])
def test_a_sequence_that_was_taken_over_counts_for_whoever_goes_on_with_it(tenant: str) -> None:
    sequences = pool(2, "direct").queue._scheduler._sequences
    sequences.join("B", {0: 7})
    sequences.admit(part(7, tenant=tenant), 0)
    assert sequences._backlog._running == {tenant: 1}
