# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What upstream's L0_batcher and L0_model_queue expect of batches, case by case in virtual time.

The cases have upstream's names; configs and requests are ours. Where upstream holds its scheduler
back until some requests are queued, the instance here is busy until then.

Triton: server/qa/L0_batcher/batcher_test.py, queue_timeout_test.py;
server/qa/L0_model_queue/model_queue_test.py @e1db8a6
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest

from backends.api.errors import UnavailableError
from backends.api.request import InferenceRequest, tensor_from_numpy
from backends.config.pbtxt import parse_pbtxt
from deployments.scheduling.factory import make_scheduler, make_signature
from tests.support.queued_items import FakeItem, Run, play

S = 1_000_000
MS = 1000
DELAY = 10 * S
DELAYED = "preferred_batch_size: [ 2, 6 ] max_queue_delay_microseconds: 10000000"
PREFERRED = "preferred_batch_size: [ 4, 6 ]"


def config(batching: str, max_batch_size: int = 8, *, ragged: bool = False):
    allow = "allow_ragged_batch: true" if ragged else ""
    text = f"""
      name: "m" max_batch_size: {max_batch_size}
      input [ {{ name: "X" data_type: TYPE_FP32 dims: [ -1 ] {allow} }} ]
      dynamic_batching {{ {batching} }}
    """
    return parse_pbtxt(text, "config.pbtxt")


class Arrival(NamedTuple):
    """A request: when it comes, its rows, the length of each, what it asks for."""

    at_us: float
    rows: int = 1
    length: int = 16
    priority: int = 0
    timeout_us: int = 0
    outputs: tuple[str, ...] = ()


def run_case(model_config, *arrivals: Arrival, busy_us: float = 0, execution_us: float = 0) -> Run:
    """Play the arrivals; they are named a, b, c ..."""
    signature = make_signature(model_config)
    items = []
    for name, each in zip("abcdefghijklmnop", arrivals, strict=False):
        tensor = tensor_from_numpy("X", np.zeros((each.rows, each.length), np.float32))
        request = InferenceRequest("m", inputs=[tensor], outputs=list(each.outputs))
        item = FakeItem(
            name,
            each.rows,
            None if signature is None else signature(request),
            timeout_us=each.timeout_us,
            priority=each.priority,
        )
        items.append((each.at_us, item))
    return play(make_scheduler(model_config), items, execution_us, free_at_us=busy_us)


def batches(run: Run) -> list[tuple[float, str]]:
    return [(at_us, "".join(names)) for at_us, names in run.left]


def one_by_one(count: int, gap_us: float = 1) -> list[Arrival]:
    return [Arrival(index * gap_us) for index in range(count)]


# L0_batcher. Of each: the config, the requests, until when the instance is busy, which requests
# leave together and when.

LATER = 1 * S
TWO = (Arrival(0), Arrival(0))
OF_LENGTH_8 = {"length": 8}
CASES = {
    "static_batch_preferred": (DELAYED, [Arrival(0, 2), Arrival(5, 6)], 0, [(0, "a"), (5, "b")]),
    "static_batch_lt_any_preferred": (DELAYED, [Arrival(0, 1)], 0, [(DELAY, "a")]),
    "static_batch_not_preferred": (DELAYED, [Arrival(0, 3)], 0, [(DELAY, "a")]),
    "static_batch_gt_max_preferred": (DELAYED, [Arrival(0, 7)], 0, [(0, "a")]),
    "multi_batch_different_shape": (
        DELAYED,
        [Arrival(0), Arrival(LATER, **OF_LENGTH_8)],
        0,
        [(LATER, "a"), (LATER + DELAY, "b")],
    ),
    "multi_batch_not_preferred": (
        DELAYED,
        [Arrival(0), Arrival(LATER, 3)],
        0,
        [(DELAY, "ab")],
    ),
    "multi_batch_not_preferred_different_shape": (
        DELAYED,
        [Arrival(0), Arrival(0, 3), Arrival(LATER, **OF_LENGTH_8)],
        0,
        [(LATER, "ab"), (LATER + DELAY, "c")],
    ),
    "multi_batch_preferred_different_shape": (
        DELAYED,
        [Arrival(0), Arrival(0, 3), Arrival(LATER, **OF_LENGTH_8), Arrival(LATER, 5, 8)],
        0,
        [(LATER, "ab"), (LATER, "cd")],
    ),
    "multi_batch_gt_max_preferred": (
        DELAYED,
        [Arrival(0, 3), Arrival(LATER, 7)],
        0,
        [(LATER, "a"), (LATER, "b")],
    ),
    "multi_batch_sum_gt_max_preferred": (
        DELAYED,
        [Arrival(0, 3), Arrival(LATER, 4)],
        0,
        [(LATER, "a"), (LATER + DELAY, "b")],
    ),
    "multi_same_output0": (
        DELAYED,
        [Arrival(0, outputs=("Y",)), Arrival(1, outputs=("Y",))],
        0,
        [(1, "ab")],
    ),
    "multi_same_output1": (
        DELAYED,
        [Arrival(0, outputs=("Z",)), Arrival(1, outputs=("Z",))],
        0,
        [(1, "ab")],
    ),
    "multi_different_outputs": (
        DELAYED,
        [Arrival(0, outputs=("Y",)), Arrival(1, outputs=("Z",))],
        0,
        [(1, "ab")],
    ),
    "multi_different_output_order": (
        DELAYED,
        [Arrival(0, outputs=("Y", "Z")), Arrival(1, outputs=("Z", "Y"))],
        0,
        [(1, "ab")],
    ),
    "multi_batch_delayed_sum_gt_max_preferred": (
        DELAYED,
        [Arrival(0, 3), Arrival(LATER, 4)],
        2 * S,
        [(2 * S, "a"), (LATER + DELAY, "b")],
    ),
    "multi_batch_delayed_use_max_batch": (
        DELAYED,
        [Arrival(0, 3), Arrival(0, 4), Arrival(11 * S, 1)],
        11 * S,
        [(11 * S, "abc")],
    ),
    "multi_batch_delayed_preferred_different_shape": (
        DELAYED,
        [Arrival(0), Arrival(0, 3), Arrival(LATER, **OF_LENGTH_8), Arrival(LATER, 5, 8)],
        2 * S,
        [(2 * S, "ab"), (2 * S, "cd")],
    ),
    "multi_batch_use_biggest_preferred": (DELAYED, one_by_one(6), 9, [(9, "abcdef")]),
    "multi_batch_use_best_preferred": (
        DELAYED,
        [*TWO, Arrival(LATER)],
        2 * S,
        [(2 * S, "ab"), (LATER + DELAY, "c")],
    ),
    "preferred_batch_only_aligned": (PREFERRED, one_by_one(4), 9, [(9, "abcd")]),
    "preferred_batch_only_unaligned": (PREFERRED, one_by_one(5), 9, [(9, "abcd"), (9, "e")]),
    "preferred_batch_only_use_biggest_preferred": (
        PREFERRED,
        one_by_one(7),
        9,
        [(9, "abcdef"), (9, "g")],
    ),
    "preferred_batch_only_use_no_preferred_size": (PREFERRED, one_by_one(3), 9, [(9, "abc")]),
}


@pytest.mark.parametrize("case", CASES)
def test_batcher(case: str) -> None:
    batching, arrivals, busy_us, expected = CASES[case]
    run = run_case(config(batching), *arrivals, busy_us=busy_us)
    assert batches(run) == expected
    assert run.dropped == []


def test_batcher_multi_batch_different_shape_allow_ragged() -> None:
    run = run_case(config(DELAYED, ragged=True), Arrival(0), Arrival(3, **OF_LENGTH_8))
    assert batches(run) == [(3, "ab")]


def test_batcher_multi_batch_preserve_ordering() -> None:
    # The order of answers is the router's: test_router.py.
    batching = "preferred_batch_size: [ 4 ] preserve_ordering: true"
    run = run_case(config(batching, 4), *one_by_one(12), busy_us=100, execution_us=50)
    assert batches(run) == [(100, "abcd"), (150, "efgh"), (200, "ijkl")]


def test_batcher_max_queue_delay_only_non_default() -> None:
    batching = "max_queue_delay_microseconds: 20000"
    run = run_case(config(batching, 100), *one_by_one(12, 1 * MS))
    assert batches(run) == [(20 * MS, "abcdefghijkl")]
    late = run_case(config(batching, 100), *one_by_one(12, 2 * MS), execution_us=50 * MS)
    assert Counter(len(names) for _, names in late.left) == {11: 1, 1: 1}


def test_batcher_max_queue_delay_only_default() -> None:
    run = run_case(config("", 100), *one_by_one(12), execution_us=100)
    assert batches(run) == [(0, "a"), (100, "bcdefghijkl")]


def test_batcher_default_queue_policy_timeout_prompt_response() -> None:
    batching = "preferred_batch_size: [ 1 ] default_queue_policy { timeout_action: REJECT "
    batching += "default_timeout_microseconds: 1000000 max_queue_size: 8 }"
    scheduler = make_scheduler(config(batching, 1))
    running, waiting = FakeItem("running"), FakeItem("waiting", enqueue_ns=2_000_000_000)
    scheduler.enqueue(running, 0)
    assert scheduler.next_batch(0).batch == [running]
    scheduler.enqueue(waiting, 2_000_000_000)
    # The instance is busy all the time; see also test_executor_sequences.py.
    assert scheduler.expire(2_999_999_999) == []
    assert scheduler.deadline_ns == 3_000_000_000
    ((item, error),) = scheduler.expire(3_000_000_000)
    assert (item, error.message) == (waiting, "Request timeout expired")
    assert isinstance(error, UnavailableError)


# L0_model_queue

SIZES = "preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 10000000 "


def queue_config(policy: str, sizes: str = SIZES):
    return config(sizes + policy, 32)


def test_queue_max_queue_size() -> None:
    policy = "preferred_batch_size: [ 4, 8 ] default_queue_policy { max_queue_size: 8 }"
    scheduler = make_scheduler(queue_config(policy, ""))
    scheduler.enqueue(FakeItem("first", 8), 0)
    assert len(scheduler.next_batch(0).batch) == 1
    for number in range(8):
        scheduler.enqueue(FakeItem(f"r{number}"), 500)
    for _ in range(2):
        with pytest.raises(UnavailableError, match="Exceeds maximum queue size"):
            scheduler.enqueue(FakeItem("more"), 500)
    assert len(scheduler.next_batch(1000).batch) == 8


def test_queue_policy_delay() -> None:
    policy = "default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 100000 }"
    arrivals = [Arrival(0, 1), Arrival(200 * MS, 2), Arrival(200 * MS, 2)]
    run = run_case(queue_config(policy), *arrivals)
    assert batches(run) == [(200 * MS, "bc"), (DELAY, "a")]
    assert run.dropped == []


def test_queue_policy_reject() -> None:
    policy = "default_queue_policy { default_timeout_microseconds: 100000 }"
    arrivals = [Arrival(0, 1), Arrival(200 * MS, 2), Arrival(200 * MS, 2)]
    run = run_case(queue_config(policy), *arrivals)
    assert batches(run) == [(200 * MS, "bc")]
    assert run.dropped == [(100 * MS, "a", "Request timeout expired")]


@pytest.mark.parametrize(
    ("timeout_us", "rejected_us"), [(100 * MS, 100 * MS), (10 * S, 1 * S), (0, 1 * S)]
)
def test_queue_timeout_override(timeout_us: int, rejected_us: float) -> None:
    policy = "default_queue_policy { allow_timeout_override: true "
    policy += "default_timeout_microseconds: 1000000 }"
    arrivals = [Arrival(0, timeout_us=timeout_us), Arrival(200 * MS, 2), Arrival(200 * MS, 2)]
    run = run_case(queue_config(policy), *arrivals)
    assert run.dropped == [(rejected_us, "a", "Request timeout expired")]
    assert batches(run) == [(max(200 * MS, rejected_us), "bc")]


@pytest.mark.parametrize(
    ("levels", "default", "asked"),
    [(2, 2, 0), (2**64 - 1, 2**32, 2**32)],
    ids=["priority_levels", "max_priority_levels"],
)
def test_queue_levels(levels: int, default: int, asked: int) -> None:
    policy = f"priority_levels: {levels} default_priority_level: {default}"
    arrivals = [
        Arrival(0, 2),
        Arrival(100 * MS, 1, priority=asked),
        Arrival(300 * MS, 2, priority=1),
    ]
    run = run_case(queue_config(policy), *arrivals)
    assert batches(run) == [(300 * MS, "ca"), (100 * MS + DELAY, "b")]


def test_queue_priority_with_policy() -> None:
    policy = """
      priority_levels: 2 default_priority_level: 2
      default_queue_policy { timeout_action: DELAY allow_timeout_override: true
                             default_timeout_microseconds: 11000000 }
      priority_queue_policy { key: 2 value {
        timeout_action: REJECT allow_timeout_override: true
        default_timeout_microseconds: 11000000 } }
    """
    sizes = "preferred_batch_size: [ 4, 8, 32 ] max_queue_delay_microseconds: 10000000 "
    arrivals = [
        Arrival(0, 2, priority=1),
        Arrival(200 * MS, 1, priority=1, timeout_us=1 * S),
        Arrival(400 * MS, 2, priority=1),
        Arrival(600 * MS, 2, priority=2, timeout_us=2 * S),
        Arrival(800 * MS, 3, priority=2),
        Arrival(1000 * MS, 6, priority=2),
    ]
    run = run_case(queue_config(policy, sizes), *arrivals)
    assert batches(run) == [(1200 * MS, "ac"), (2600 * MS, "be"), (1000 * MS + DELAY, "f")]
    assert run.dropped == [(2600 * MS, "d", "Request timeout expired")]
