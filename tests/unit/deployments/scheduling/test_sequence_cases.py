# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What upstream expects of sequence batches, case by case in virtual time, with an own model.

The cases have upstream's names. The model adds up its input in an implicit state, so that each
answer shows whether a state went astray; where upstream holds its scheduler back until some
requests are queued, the instance here is busy until then.

Triton: server/qa/L0_sequence_batcher/sequence_batcher_test.py,
server/qa/L0_dyna_sequence_batcher/dyna_sequence_batcher_test.py,
server/qa/L0_sequence_corrid_batcher/sequence_corrid_batcher_test.py @e1db8a6
"""

from collections import Counter

import pytest

from backends.api.model_config import SequenceState
from backends.api.request import InferenceResponse
from tests.support.sequence_items import (
    BOTH,
    FIFTH,
    FULL,
    FULL_TOTALS,
    SHORT,
    SHORT_TOTALS,
    Arrivals,
    Instance,
    S,
    SequenceRequest,
    batcher,
    part,
    sequence,
    state_tensor,
)

BUSY = 100
IDLE = 5 * S
NOT_STARTED = "must specify the START flag on the first request of the sequence"


class Sums:
    """An instance of a model that adds up a sequence's inputs."""

    def __init__(self, **fields) -> None:
        busy_us = fields.pop("busy_us", BUSY)
        execution_us = fields.pop("execution_us", 0)
        state = SequenceState("SUM_IN", "SUM_OUT", "INT32", (1,))
        self.run = Instance(
            batcher(states=(state,), **fields),
            execute=self.execute,
            execution_us=execution_us,
            free_us=busy_us,
        )
        self.totals: dict[int | str, int] = {}

    def execute(self, item: SequenceRequest) -> None:
        total = int(item.value("SUM_IN") + item.value("X"))
        self.totals[item.request.correlation_id] = total
        item.respond(InferenceResponse("", "", outputs=[state_tensor("SUM_OUT", total)]))

    def play(self, *sequences: Arrivals) -> "Sums":
        self.run.play([arrival for sequence in sequences for arrival in sequence])
        assert self.run.batcher.pending_count == 0
        return self

    @property
    def sizes(self) -> dict[int, int]:
        """How many batches of each size were executed, null rows counted."""
        return dict(Counter(len(rows) for rows in self.run.rows))


STRATEGIES = pytest.mark.parametrize("strategy", ["direct", "oldest"])


@STRATEGIES
def test_simple_sequence(strategy) -> None:
    sums = Sums(strategy=strategy).play(sequence(5, *range(1, 10)))
    assert (sums.totals, sums.sizes) == ({5: 45}, {1: 9})


@STRATEGIES
def test_length1_sequence(strategy) -> None:
    sums = Sums(strategy=strategy).play([(0, part(99, BOTH, value=42))])
    assert (sums.totals, sums.sizes) == ({99: 42}, {1: 1})
    assert sums.run.batcher.sequence_count == 0


@STRATEGIES
def test_no_sequence_start(strategy) -> None:
    sums = Sums(strategy=strategy)
    sums.play([(0, part(37469245, value=1)), (1, part(37469245, value=2))])
    assert [message for _, _, message in sums.run.refused] == [
        f"inference request for sequence 37469245 to model 'm' {NOT_STARTED}"
    ] * 2
    assert sums.totals == {}


@STRATEGIES
def test_no_sequence_start2(strategy) -> None:
    sums = Sums(strategy=strategy)
    sums.play(sequence(3, 1, 2, 3), [(1 * S, part(3, value=55))])
    assert sums.totals == {3: 6}
    assert [message for _, _, message in sums.run.refused] == [
        f"inference request for sequence 3 to model 'm' {NOT_STARTED}"
    ]


@STRATEGIES
def test_no_sequence_end(strategy) -> None:
    sums = Sums(strategy=strategy)
    sums.play(sequence(4566, 1, 2, ends=False), sequence(4566, 42, 9, at=1))
    assert (sums.totals, sums.sizes) == ({4566: 51}, {1: 4})


# L0_sequence_batcher: the direct strategy, 4 slots


def test_half_batch() -> None:
    sums = Sums().play(sequence(1, 1, 2, 3, 4), sequence(2, 0, 9, 5, 13))
    assert (sums.totals, sums.sizes) == ({1: 10, 2: 27}, {2: 4})


@pytest.mark.parametrize("ids", [(1001, 1002, 1003, 1004), "abcd"], ids=["numbers", "strings"])
def test_skip_batch(ids) -> None:
    first, second, third, fourth = ids
    sums = Sums(controls=()).play(
        sequence(second, 11, 12, 13, 14),
        sequence(fourth, 1111, 1112, 1113, 1114),
        sequence(first, 1, 3, at=1),
        sequence(third, 111, 113, at=1),
    )
    # The longer ones came first and have slots 0 and 1.
    assert sums.sizes == {4: 2, 2: 2}
    assert sums.totals == {first: 4, second: 50, third: 224, fourth: 4450}


def test_full_batch() -> None:
    sums = Sums().play(*(sequence(*each) for each in FULL))
    assert (sums.totals, sums.sizes) == (FULL_TOTALS, {4: 3})


@pytest.mark.parametrize(
    ("shapes", "expected"), [((2, 2, 1, 3), {4: 9}), ((0, 0, 0, 0), {4: 3})], ids=["", "allowed"]
)
def test_ragged_batch(shapes, expected) -> None:
    # Where ragged batches are allowed, shapes leave no signature: test_signature.py.
    signatures = [shape or None for shape in shapes]
    sums = Sums().play(
        *(
            sequence(*each, signature=signature)
            for each, signature in zip(FULL, signatures, strict=True)
        )
    )
    assert (sums.totals, sums.sizes) == (FULL_TOTALS, expected)


@STRATEGIES
def test_backlog(strategy) -> None:
    sums = Sums(strategy=strategy, preferred_batch_size=(4,)).play(
        *(sequence(*each) for each in (*FULL, FIFTH))
    )
    assert (sums.totals, sums.sizes) == ({**FULL_TOTALS, 1005: 33336}, {4: 3, 1: 3})


def test_backlog_fill() -> None:
    sums = Sums().play(
        *(sequence(*each) for each in SHORT), sequence(1005, 11111), sequence(1006, 22222)
    )
    assert (sums.totals, sums.sizes) == ({**SHORT_TOTALS, 1005: 11111, 1006: 22222}, {4: 3})


def test_backlog_fill_no_end() -> None:
    sums = Sums().play(
        *(sequence(*each) for each in SHORT),
        sequence(1005, 11111),
        sequence(1006, 22222, 22223, 22224, after=(2 * S,)),
    )
    assert (sums.totals, sums.sizes) == ({**SHORT_TOTALS, 1005: 11111, 1006: 66669}, {4: 3, 3: 2})


def test_backlog_same_correlation_id() -> None:
    sums = Sums().play(*(sequence(*each) for each in FULL), sequence(1002, 11111, 11113, at=1))
    assert (sums.totals, sums.sizes) == ({**FULL_TOTALS, 1002: 22224}, {4: 3, 1: 2})


def test_backlog_same_correlation_id_no_end() -> None:
    sums = Sums().play(
        sequence(1001, 1, 3, ends=False),
        sequence(1002, 11, 12, 12, 13),
        sequence(1003, 111, 112, 112, 113),
        sequence(1004, 1111, 1112, 1112, 1113),
        sequence(1001, 11111, 11113, at=1),
    )
    expected = {1001: 22224, 1002: 48, 1003: 448, 1004: 4448}
    assert (sums.totals, sums.sizes) == (expected, {4: 4})


@pytest.mark.parametrize(
    "fields",
    [
        {"strategy": "direct"},
        {"strategy": "oldest", "preferred_batch_size": (4,), "max_queue_delay_us": 5 * S},
    ],
    ids=["direct", "oldest"],
)
def test_backlog_sequence_timeout(fields) -> None:
    half = (IDLE / 2,) * 3
    sums = Sums(max_sequence_idle_us=IDLE, **fields).play(
        sequence(1001, 1, 3, after=(IDLE + 1 * S,), ends=False),
        sequence(1002, 11, 12, 12, 13, after=half),
        sequence(1003, 111, 112, 112, 113, after=half),
        sequence(1004, 1111, 1112, 1112, 1113, after=half),
        sequence(1005, 11111, 11113, at=2 * S),
    )
    (refused,) = sums.run.refused
    assert refused[2] == f"inference request for sequence 1001 to model 'm' {NOT_STARTED}"
    assert sums.totals == {1001: 1, 1002: 48, 1003: 448, 1004: 4448, 1005: 22224}


@pytest.mark.parametrize(
    ("utilization", "wait_us", "expected"),
    [
        (0.0, 0, [(1 * S, [1001, 1002]), (1 * S, ["", 1002])]),
        (0.5, 0, [(1 * S, [1001, 1002]), (4 * S, ["", 1002])]),
        (1.0, 2 * S, [(3 * S, [1001, 1002]), (6 * S, ["", 1002])]),
    ],
    ids=["no_min_util", "half_min_util", "full_min_util"],
)
def test_queue_delay(utilization, wait_us, expected) -> None:
    sums = Sums(busy_us=1 * S, minimum_slot_utilization=utilization, max_queue_delay_us=3 * S).play(
        sequence(1001, 1, ends=False),
        sequence(1002, 11, 12, at=1 * S, after=(wait_us,), ends=False),
    )
    assert sums.run.left == expected
    assert (sums.totals, sums.sizes) == ({1001: 1, 1002: 23}, {2: 2})


TIMED_OUT = "timeout of the corresponding sequence has been expired"


def test_request_timeout() -> None:
    sums = Sums(max_batch_size=1, busy_us=0, execution_us=5 * S).play(
        sequence(1, 1, 2, 3, timeout_us=3 * S), sequence(2, 1, 2, 3, at=1 * S, timeout_us=3 * S)
    )
    assert [at_us for at_us, _ in sums.run.left] == [0, 5 * S, 10 * S]
    assert sums.totals == {1: 6}
    dropped = [(item.request.correlation_id, message) for item, message in sums.run.dropped]
    assert dropped == [(2, TIMED_OUT)] * 3


def test_send_request_after_timeout() -> None:
    sums = Sums(max_batch_size=1, busy_us=0, execution_us=5 * S).play(
        sequence(1, 1, 2, 3, timeout_us=3 * S),
        sequence(2, 1, 2, 3, at=1 * S, after=(2 * S, 2 * S), timeout_us=3 * S),
    )
    assert [message for _, message in sums.run.dropped] == [TIMED_OUT] * 2
    (refused,) = sums.run.refused
    assert refused[2] == f"inference request for sequence 2 to model 'm' {NOT_STARTED}"


# L0_dyna_sequence_batcher: the oldest strategy, 4 candidates, batches of 4 wanted

WANT_4 = {"strategy": "oldest", "preferred_batch_size": (4,), "max_queue_delay_us": 5 * S}
MULTI = ((1001, 1, 3), *FULL[1:])
MULTI_TOTALS = {**FULL_TOTALS, 1001: 4}


@pytest.mark.parametrize(
    ("gap_us", "shapes", "expected"),
    [
        (1 * S, (0, 0, 0, 0), {4: 2, 3: 1}),
        (0, (0, 0, 0, 0), {4: 2, 3: 1}),
        (0, (4, 3, 1, 2), {1: 11}),
    ],
    ids=["sequence", "parallel_sequence", "sequence_different_shape"],
)
def test_dyna_multi(gap_us, shapes, expected) -> None:
    # sequence_different_shape_allow_ragged is the first: ragged inputs leave no signature.
    sums = Sums(**WANT_4).play(
        *(
            sequence(*each, at=index * gap_us, signature=shape or None)
            for index, (each, shape) in enumerate(zip(MULTI, shapes, strict=True))
        )
    )
    assert (sums.totals, sums.sizes) == (MULTI_TOTALS, expected)


def test_dyna_backlog_fill() -> None:
    sums = Sums(**WANT_4).play(
        *(sequence(*each) for each in SHORT[:3]),
        sequence(*SHORT[3], after=(3 * S, 0)),
        sequence(1005, 11111, at=2 * S),
        sequence(1006, 22222, at=2 * S),
    )
    assert (sums.totals, sums.sizes) == ({**SHORT_TOTALS, 1005: 11111, 1006: 22222}, {4: 3})


def test_dyna_backlog_fill_no_end() -> None:
    sums = Sums(**WANT_4).play(
        *(sequence(*each) for each in SHORT[:3]),
        sequence(*SHORT[3], after=(3 * S, 0)),
        sequence(1005, 11111, at=2 * S),
        sequence(1006, 22222, 22223, 22224, at=2 * S, after=(2 * S,)),
    )
    assert (sums.totals, sums.sizes) == ({**SHORT_TOTALS, 1005: 11111, 1006: 66669}, {4: 3, 1: 2})
