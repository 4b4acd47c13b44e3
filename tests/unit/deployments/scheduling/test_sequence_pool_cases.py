# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What upstream expects of the batches of one, two and four instances, which are held back first.

The cases have upstream's names. Its models are one instance of batches of 4, two of 2 and four of
1; its environment says until when the scheduler is held back.

Triton: server/qa/L0_sequence_batcher/sequence_batcher_test.py, test.sh @e1db8a6
"""

import itertools

import pytest

from backends.api.errors import TritonError
from backends.api.model_config import SequenceState
from backends.api.request import InferenceResponse
from deployments.scheduling.holds import Holds
from tests.support.queued_items import PoolRun
from tests.support.sequence_items import (
    BOTH,
    END,
    FIFTH,
    FULL,
    FULL_TOTALS,
    SHORT,
    SHORT_TOTALS,
    START,
    Arrivals,
    S,
    SequenceRequest,
    part,
    sequence,
    sequence_config,
    state_tensor,
)

INSTANCES = pytest.mark.parametrize("count", [1, 2, 4])
STRATEGIES = pytest.mark.parametrize("strategy", ["direct", "oldest"])
IDLE = 5 * S


class Sums(PoolRun):
    """A pool whose model adds up a sequence's inputs."""

    def __init__(self, count: int, holds: Holds, **fields) -> None:
        state = SequenceState("SUM_IN", "SUM_OUT", "INT32", (1,))
        batch_size = fields.pop("max_batch_size", 4 // count)
        config = sequence_config(batch_size, states=(state,), **fields)
        super().__init__(config, "ABCD"[:count], holds=holds, execute=self.add)
        self.totals: dict[int | str, int] = {}

    def add(self, item: SequenceRequest) -> None:
        total = int(item.value("SUM_IN") + item.value("X"))
        self.totals[item.correlation_id] = total
        item.respond(InferenceResponse("", "", outputs=[state_tensor("SUM_OUT", total)]))

    def sent(self, *sequences: Arrivals) -> "Sums":
        # Requests of parallel clients come in turn, and never two at the same instant.
        arrivals = sorted(itertools.chain(*sequences), key=lambda each: each[0])
        self.play((at + turn / 1000, item) for turn, (at, item) in enumerate(arrivals))
        assert self.queue.pending_count == 0
        return self


@STRATEGIES
@INSTANCES
def test_simple_sequence(count, strategy) -> None:
    sums = Sums(count, Holds(), strategy=strategy).sent(sequence(5, *range(1, 10)))
    assert (sums.totals, sums.sizes) == ({5: 45}, {1: 9})
    assert len({name for _, name, _ in sums.left}) == 1


@INSTANCES
def test_length1_sequence(count) -> None:
    sums = Sums(count, Holds()).sent([(0, part(99, BOTH, value=42))])
    assert (sums.totals, sums.sizes) == ({99: 42}, {1: 1})


@STRATEGIES
@INSTANCES
def test_no_sequence_start2(count, strategy) -> None:
    sums = Sums(count, Holds(), strategy=strategy)
    sums.sent(sequence(3, 1, 2, 3), [(1 * S, part(3, value=55))])
    ((_, error),) = sums.refused
    assert "must specify the START flag" in error.message
    assert sums.totals == {3: 6}


@INSTANCES
def test_half_batch(count) -> None:
    sums = Sums(count, Holds(8)).sent(sequence(1, 1, 2, 3, 4), sequence(2, 0, 9, 5, 13))
    assert sums.totals == {1: 10, 2: 27}
    assert sums.sizes == ({2: 4} if count == 1 else {1: 8})


@INSTANCES
def test_skip_batch(count) -> None:
    sums = Sums(count, Holds(12)).sent(
        sequence(1002, 11, 12, 13, 14),
        sequence(1004, 1111, 1112, 1113, 1114),
        sequence(1001, 1, 3, at=3 * S),
        sequence(1003, 111, 113, at=3 * S),
    )
    assert sums.sizes == {1: {2: 2, 4: 2}, 2: {2: 4, 1: 4}, 4: {1: 12}}[count]


@INSTANCES
def test_full_batch(count) -> None:
    sums = Sums(count, Holds(12)).sent(*(sequence(*each) for each in FULL))
    assert (sums.totals, sums.sizes) == (FULL_TOTALS, {4 // count: 3 * count})


@pytest.mark.parametrize(
    ("shapes", "expected"), [((2, 2, 1, 3), {4: 9}), ((0, 0, 0, 0), {4: 3})], ids=["", "allowed"]
)
def test_ragged_batch(shapes, expected) -> None:
    sums = Sums(1, Holds(12)).sent(
        *(
            sequence(*each, signature=shape or None)
            for each, shape in zip(FULL, shapes, strict=True)
        )
    )
    assert (sums.totals, sums.sizes) == (FULL_TOTALS, expected)


@INSTANCES
def test_backlog(count) -> None:
    sums = Sums(count, Holds(12)).sent(*(sequence(*each) for each in (*FULL, FIFTH)))
    assert sums.totals == {**FULL_TOTALS, 1005: 33336}
    assert sums.sizes == {1: {4: 3, 1: 3}, 2: {2: 6, 1: 3}, 4: {1: 15}}[count]


def test_backlog_fill() -> None:
    sums = Sums(1, Holds(10, 2)).sent(
        *(sequence(*each) for each in SHORT),
        sequence(1005, 11111, at=2 * S),
        sequence(1006, 22222, at=2 * S),
    )
    assert (sums.totals, sums.sizes) == ({**SHORT_TOTALS, 1005: 11111, 1006: 22222}, {4: 3})


def test_backlog_fill_no_end() -> None:
    sums = Sums(1, Holds(10, 3), max_sequence_idle_us=IDLE).sent(
        *(sequence(*each) for each in SHORT),
        sequence(1005, 11111, at=2 * S),
        sequence(1006, 22222, 22223, 22224, at=4 * S, after=(2 * S,)),
    )
    assert (sums.totals, sums.sizes) == ({**SHORT_TOTALS, 1005: 11111, 1006: 66669}, {4: 3, 3: 2})


@INSTANCES
def test_backlog_same_correlation_id(count) -> None:
    sums = Sums(count, Holds(12, 2)).sent(
        *(sequence(*each) for each in FULL), sequence(1002, 11111, 11113, at=3 * S)
    )
    assert sums.totals == {**FULL_TOTALS, 1002: 22224}
    assert sums.sizes == {1: {4: 3, 1: 2}, 2: {2: 6, 1: 2}, 4: {1: 14}}[count]


def test_backlog_same_correlation_id_no_end() -> None:
    sums = Sums(1, Holds(16)).sent(
        sequence(1001, 1, 3, ends=False),
        sequence(1002, 11, 12, 12, 13),
        sequence(1003, 111, 112, 112, 113),
        sequence(1004, 1111, 1112, 1112, 1113),
        sequence(1001, 11111, 11113, at=2 * S),
    )
    expected = {1001: 22224, 1002: 48, 1003: 448, 1004: 4448}
    assert (sums.totals, sums.sizes) == (expected, {4: 4})


@INSTANCES
def test_backlog_sequence_timeout(count) -> None:
    half = (IDLE / 2,) * 3
    sums = Sums(count, Holds(4), max_sequence_idle_us=IDLE).sent(
        sequence(1001, 1, 3, after=(IDLE + 1 * S,), ends=False),
        sequence(1002, 11, 12, 12, 13, after=half),
        sequence(1003, 111, 112, 112, 113, after=half),
        sequence(1004, 1111, 1112, 1112, 1113, after=half),
        sequence(1005, 11111, 11113, at=2 * S),
    )
    ((item, error),) = sums.refused
    assert item.correlation_id == 1001
    assert "must specify the START flag" in error.message
    assert sums.totals == {1001: 1, 1002: 48, 1003: 448, 1004: 4448, 1005: 22224}


@pytest.mark.parametrize(
    ("utilization", "wait_us", "expected"),
    [
        (0.0, 0, [[1001, 1002], ["", 1002]]),
        (0.5, 2 * S, [[1001, 1002], ["", 1002]]),
        (1.0, 2 * S, [[1001, 1002], ["", 1002]]),
    ],
    ids=["no_min_util", "half_min_util", "full_min_util"],
)
def test_queue_delay(utilization, wait_us, expected) -> None:
    sums = Sums(
        1,
        Holds(2),
        max_batch_size=4 if utilization < 1 else 2,
        minimum_slot_utilization=utilization,
        max_queue_delay_us=3 * S,
    ).sent(
        sequence(1001, 1, ends=False),
        sequence(1002, 11, 12, at=1 * S, after=(wait_us,), ends=False),
    )
    ids = [[getattr(row, "correlation_id", "") for row in rows] for _, _, rows in sums.left]
    assert (ids, sums.sizes) == (expected, {2: 2})


# What no case of upstream covers


@pytest.mark.parametrize("count", [2, 4])
def test_an_instance_whose_slot_frees_first_serves_the_backlog(count) -> None:
    sums = Sums(count, Holds(), max_batch_size=1)
    sums.sent(
        *(sequence(number, *range(9), after=(5000,) * 8) for number in range(1, count)),
        sequence(50, 1, 1, at=10),
        sequence(60, 1, 1, at=20),
    )
    home = next(name for name, names in sums.homes.items() if any(n[:3] == "50." for n in names))
    assert any(name.startswith("60.") for name in sums.homes[home])


def test_a_request_that_may_not_start_leaves_the_hold_as_it_is() -> None:
    sums = Sums(2, Holds(2))
    sums.enqueue(part(1, START), part(9, END))
    assert len(sums.refused) == 1
    assert isinstance(sums.refused[0][1], TritonError)
    sums.run()
    assert sums.left == []
