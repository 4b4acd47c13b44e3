# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.supervision.memory_account import MemoryAccount
from deployments.supervision.memory_budget import MemoryBudget


def test_a_free_amount_is_not_taken_from_the_budget() -> None:
    budget = MemoryBudget(1000)
    account = MemoryAccount(budget, free_bytes=100)
    assert account.try_hold(100)
    assert budget.used_bytes == 0
    assert account.try_hold(50)
    assert budget.used_bytes == 50
    account.let_go(120)
    assert (budget.used_bytes, account.held_bytes) == (0, 30)


def test_what_the_budget_refuses_is_not_held() -> None:
    budget = MemoryBudget(1000)
    account = MemoryAccount(budget, free_bytes=100)
    assert not account.try_hold(1101)
    assert (budget.used_bytes, account.held_bytes) == (0, 0)
    assert "0 of 1000 bytes" in account.explain("a message")


def test_what_exists_is_held_over_the_limit() -> None:
    budget = MemoryBudget(10)
    account = MemoryAccount(budget, free_bytes=0)
    account.hold(25)
    assert budget.used_bytes == 25


def test_no_more_is_let_go_than_is_held() -> None:
    account = MemoryAccount(MemoryBudget(10))
    with pytest.raises(ValueError, match="1 bytes let go of 0 held"):
        account.let_go(1)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300)), max_size=60))
def test_the_budget_has_what_all_accounts_hold_over_their_free_amounts(
    changes: list[tuple[int, int]],
) -> None:
    budget = MemoryBudget(500)
    accounts = [MemoryAccount(budget, free_bytes=100) for _ in range(2)]
    for kind, count in changes:
        account = accounts[count % 2]
        if kind == 0:
            account.try_hold(count)
        elif kind == 1:
            account.hold(count)
        else:
            account.let_go(min(count, account.held_bytes))
        assert budget.used_bytes == sum(max(0, each.held_bytes - 100) for each in accounts)
    for account in accounts:
        account.let_go(account.held_bytes)
    assert budget.used_bytes == 0
