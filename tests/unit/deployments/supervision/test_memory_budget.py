# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the connections of one process may hold together."""

import pytest

from deployments.supervision.memory_budget import MemoryBudget


def test_what_is_over_the_limit_is_refused_and_takes_nothing() -> None:
    budget = MemoryBudget(100)
    assert budget.try_take(60)
    assert not budget.try_take(41)
    assert budget.try_take(40)
    assert (budget.used_bytes, budget.peak_bytes, budget.refused_count) == (100, 100, 1)


def test_bytes_that_exist_already_are_counted_beyond_the_limit() -> None:
    budget = MemoryBudget(100)
    budget.take(150)
    assert not budget.try_take(1)
    budget.give_back(150)
    assert budget.try_take(100)
    assert budget.peak_bytes == 150


def test_more_cannot_be_given_back_than_was_taken() -> None:
    budget = MemoryBudget(100)
    assert budget.try_take(10)
    with pytest.raises(ValueError, match="11 bytes given back of 10 taken"):
        budget.give_back(11)


def test_the_recent_peak_is_that_since_it_was_forgotten() -> None:
    budget = MemoryBudget(100)
    budget.take(80)
    budget.give_back(50)
    assert budget.recent_peak_bytes == 80
    budget.forget_peak()
    assert budget.recent_peak_bytes == 30
    budget.take(20)
    budget.give_back(50)
    assert budget.recent_peak_bytes == 50
    budget.forget_peak()
    assert budget.recent_peak_bytes == 0
    assert budget.peak_bytes == 80
