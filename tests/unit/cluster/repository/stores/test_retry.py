# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from cluster.repository.stores.errors import Failure, Kind, StatusError, failure_of
from cluster.repository.stores.retry import RetryPolicy

POLICY = RetryPolicy(attempts=5, base_s=1, cap_s=4, deadline_s=100)
AWAY = Failure(Kind.AWAY)


def test_the_bound_doubles_up_to_the_cap():
    waits = [POLICY.wait_s(attempt, 0, AWAY, lambda: 1.0) for attempt in range(1, 6)]
    assert waits == [1, 2, 4, 4, None]


def test_what_does_not_pass_is_not_tried_again():
    assert POLICY.wait_s(1, 0, Failure(Kind.DENIED), lambda: 0.5) is None


def test_the_store_may_ask_for_more_but_not_for_ever():
    assert POLICY.wait_s(1, 0, Failure(Kind.THROTTLED, retry_after_s=3), lambda: 0.0) == 3
    assert POLICY.wait_s(1, 0, Failure(Kind.THROTTLED, retry_after_s=999), lambda: 0.0) == 4


def test_no_attempt_begins_after_the_deadline():
    assert POLICY.wait_s(1, 99.5, AWAY, lambda: 1.0) is None


@given(st.integers(1, 4), st.floats(0, 1, exclude_max=True))
def test_waits_lie_between_nothing_and_the_bound(attempt: int, drawn: float):
    wait = POLICY.wait_s(attempt, 0, AWAY, lambda: drawn)
    assert wait is not None
    assert 0 <= wait <= 4


def test_failures_are_told_along_the_chain_of_causes():
    error = ValueError("as libraries wrap them")
    error.__cause__ = StatusError(503, "busy", "7")
    failure = failure_of(error)
    assert (failure.kind, failure.retry_after_s) == (Kind.THROTTLED, 7.0)


def test_statuses_and_classes_have_a_meaning():
    assert failure_of(StatusError(404)).kind is Kind.MISSING
    assert failure_of(StatusError(500)).kind is Kind.AWAY
    assert failure_of(StatusError(400)).kind is Kind.REFUSED
    assert failure_of(TimeoutError()).kind is Kind.AWAY
    assert failure_of(ConnectionResetError()).kind is Kind.AWAY
    assert failure_of(ValueError("x")).kind is Kind.REFUSED
