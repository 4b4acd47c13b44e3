# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ten nodes with four instances and two routers each come close to one central queue.

Compared are response times, from a request's arrival at its router to the answer there, in the mean
and at the 99th percentile: waits alone are near zero at low load. The pools' contain all messages;
the central queues need none, but for the informed one (`tests.support.simulated_load`).
Requests come and take as long in all of them. `scripts/simulate_pools.py` prints all cells.
"""

from functools import cache
from itertools import product

import pytest

from tests.support.simulated_load import Cell, Comparison, compare

# A cell is simulated once for all tests of it: the first one asked pays.
pytestmark = pytest.mark.slow

_SERVICES = ("constant", "exponential", "lognormal")
_COUNT = 4000

PLAIN = [Cell(load, service) for load, service in product((0.5, 0.7, 0.9), _SERVICES)]
UNEVEN = [Cell(0.5, "constant", True), Cell(0.9, "constant", True), Cell(0.9, "lognormal", True)]
BATCHING = [
    Cell(load, service, False, True)
    for load, service in ((0.5, "constant"), (0.7, "exponential"), (0.9, "constant"))
]
UNEVEN_BATCHING = [Cell(load, "constant", True, True) for load in (0.5, 0.9)]


@cache
def _result(cell: Cell) -> Comparison:
    return compare(cell, _COUNT, 1)


def _name(cell: Cell) -> str:
    words = ["batching"] * cell.is_batching + ["uneven"] * cell.is_uneven
    return "-".join([*words, cell.service, f"{cell.load:.0%}"])


@pytest.mark.parametrize("cell", PLAIN + UNEVEN + BATCHING + UNEVEN_BATCHING, ids=_name)
def test_pools_are_no_slower_than_a_queue_for_each_node(cell: Cell) -> None:
    """With one central queue on each node for what arrives there."""
    result = _result(cell)
    mean, p99 = result.pools.over(result.by_node)
    assert mean < 1.1
    assert p99 < 1.1


@pytest.mark.parametrize("cell", PLAIN + UNEVEN + BATCHING + UNEVEN_BATCHING, ids=_name)
def test_pools_are_nearly_as_fast_as_one_queue_for_the_cluster(cell: Cell) -> None:
    """With one central queue for all forty instances, which needs no messages."""
    result = _result(cell)
    mean, p99 = result.pools.over(result.central)
    assert mean < 1.5
    assert p99 < 1.5


@pytest.mark.parametrize("cell", PLAIN + UNEVEN, ids=_name)
def test_requests_wait_little_longer_than_when_all_is_known_at_once(cell: Cell) -> None:
    """Waiting and on the way; what is asked and told takes a message and a half on top."""
    result = _result(cell)
    assert result.pools.wait_ms < 1.5 * result.informed.wait_ms + 0.3


@pytest.mark.parametrize("cell", PLAIN + UNEVEN, ids=_name)
def test_nothing_is_faster_than_messages_allow(cell: Cell) -> None:
    result = _result(cell)
    assert result.central.wait_ms < result.bound.wait_ms
    assert result.bound.wait_ms < min(result.informed.wait_ms, result.pools.wait_ms)


@pytest.mark.parametrize("cell", PLAIN, ids=_name)
def test_requests_wait_less_than_in_a_queue_for_each_node(cell: Cell) -> None:
    result = _result(cell)
    assert result.pools.wait_ms < 1.1 * result.by_node.wait_ms


@pytest.mark.parametrize("cell", PLAIN, ids=_name)
def test_requests_stay_on_their_node_while_it_keeps_up(cell: Cell) -> None:
    assert _result(cell).counts["remote"] < cell.load * 0.6


@pytest.mark.parametrize("cell", PLAIN + UNEVEN + BATCHING + UNEVEN_BATCHING, ids=_name)
def test_requests_do_not_go_to_and_fro(cell: Cell) -> None:
    assert _result(cell).counts["move"] < 0.5


@pytest.mark.parametrize("cell", PLAIN + UNEVEN, ids=_name)
def test_few_messages_are_sent_to_ask_and_to_tell(cell: Cell) -> None:
    """For each request; it takes four anyway."""
    assert _result(cell).counts["message"] < 6
