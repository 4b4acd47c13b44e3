# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The scheduler that does not batch."""

import pytest

from backends.api.errors import UnavailableError
from deployments.scheduling.default_scheduler import DefaultScheduler
from tests.support.queued_items import FakeItem, play


def test_requests_run_one_by_one_in_order_of_arrival():
    arrivals = [(0, FakeItem("a", 4)), (10, FakeItem("b")), (20, FakeItem("c"))]
    run = play(DefaultScheduler(), arrivals, execution_us=100)
    assert run.left == [(0, ["a"]), (100, ["b"]), (200, ["c"])]


def test_a_cancelled_request_is_dropped_when_its_turn_comes():
    arrivals = [(0, FakeItem("a")), (1, FakeItem("b", is_cancelled=True)), (2, FakeItem("c"))]
    run = play(DefaultScheduler(), arrivals, execution_us=100)
    assert run.left == [(0, ["a"]), (100, ["c"])]
    assert run.dropped == [(100, "b", "")]


def test_a_stopped_scheduler_refuses_but_hands_out_what_it_has():
    scheduler = DefaultScheduler()
    first = FakeItem("a")
    scheduler.enqueue(first, 0)
    scheduler.stop()
    with pytest.raises(UnavailableError, match="has stopped accepting new inference requests"):
        scheduler.enqueue(FakeItem("b"), 0)
    assert scheduler.pending_count == 1
    assert scheduler.next_batch(0).batch == [first]


def test_without_sequences_no_sequence_is_known():
    scheduler = DefaultScheduler()
    scheduler.enqueue(FakeItem("a"), 0)
    assert not scheduler.knows(1)
