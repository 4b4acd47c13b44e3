# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The dynamic batcher, instant by instant."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import Phase, UnavailableError
from backends.api.model_config import DynamicBatching, ModelConfig, QueuePolicy
from deployments.scheduling.dynamic_batcher import DynamicBatcher
from deployments.scheduling.factory import make_scheduler
from deployments.scheduling.priority_queue import QueueRules
from tests.support.examples import examples
from tests.support.queued_items import FakeItem, play


def items(*sizes: int) -> list[FakeItem]:
    return [FakeItem(f"r{i}", size) for i, size in enumerate(sizes)]


def at(instants: list[float], requests: list[FakeItem]) -> list[tuple[float, FakeItem]]:
    return list(zip(instants, requests, strict=True))


def policy(**fields) -> QueueRules:
    return QueueRules(QueuePolicy(**fields))


def test_without_delay_a_lone_request_leaves_at_once():
    run = play(DynamicBatcher(8), at([5], items(1)))
    assert run.left == [(5, ["r0"])]


def test_without_delay_everything_queued_leaves_when_the_instance_is_free():
    run = play(DynamicBatcher(8), at([0, 1, 2, 3], items(1, 1, 1, 1)), execution_us=50)
    assert run.left == [(0, ["r0"]), (50, ["r1", "r2", "r3"])]


def test_at_500_us_the_batch_of_3_left():
    batcher = DynamicBatcher(8, (), max_queue_delay_us=500)
    run = play(batcher, at([0, 100, 400], items(1, 1, 1)))
    assert run.left == [(500, ["r0", "r1", "r2"])]


def test_a_full_batch_does_not_wait_for_the_delay():
    batcher = DynamicBatcher(4, (), max_queue_delay_us=500)
    run = play(batcher, at([0, 10, 20, 30, 40], items(1, 1, 1, 1, 1)))
    assert run.left == [(30, ["r0", "r1", "r2", "r3"]), (540, ["r4"])]


def test_a_preferred_size_leaves_without_waiting():
    batcher = DynamicBatcher(8, (2, 4), max_queue_delay_us=500)
    run = play(batcher, at([0, 100, 200], items(1, 1, 1)))
    assert run.left == [(100, ["r0", "r1"]), (700, ["r2"])]


def test_the_largest_reachable_preferred_size_wins():
    batcher = DynamicBatcher(8, (2, 4), max_queue_delay_us=500)
    run = play(batcher, at([0, 1, 2, 3, 4, 5], items(8, 1, 1, 1, 1, 1)), execution_us=100)
    assert run.left == [(0, ["r0"]), (100, ["r1", "r2", "r3", "r4"]), (505, ["r5"])]


def test_without_delay_a_preferred_size_is_preferred_to_a_larger_batch():
    batcher = DynamicBatcher(8, (4,))
    run = play(batcher, at([0, 1, 2, 3, 4, 5, 6], items(1, 1, 1, 1, 1, 1, 1)), execution_us=100)
    assert run.left == [(0, ["r0"]), (100, ["r1", "r2", "r3", "r4"]), (200, ["r5", "r6"])]


def test_after_the_delay_everything_pending_leaves_though_its_size_is_not_preferred():
    batcher = DynamicBatcher(8, (4,), max_queue_delay_us=100)
    run = play(batcher, at([0, 1, 2, 3, 4, 5, 6], items(8, 1, 1, 1, 1, 1, 1)), execution_us=300)
    assert run.left == [(0, ["r0"]), (300, ["r1", "r2", "r3", "r4", "r5", "r6"])]


def test_what_is_pending_leaves_when_the_next_request_would_pass_the_largest_preferred_size():
    batcher = DynamicBatcher(8, (4,), max_queue_delay_us=500)
    run = play(batcher, at([0, 10], items(3, 2)))
    assert run.left == [(10, ["r0"]), (510, ["r1"])]


def test_a_client_batch_counts_its_rows_and_is_never_split():
    batcher = DynamicBatcher(4)
    run = play(batcher, at([0, 1, 2, 3], items(4, 3, 2, 2)), execution_us=10)
    assert run.left == [(0, ["r0"]), (10, ["r1"]), (20, ["r2", "r3"])]


def test_another_shape_at_the_head_blocks_the_ones_behind_it():
    requests = items(8, 1, 1, 1)
    for request, shape in zip(requests, ("x", "x", "y", "x"), strict=True):
        request.signature = shape
    run = play(DynamicBatcher(8), at([0, 1, 2, 3], requests), execution_us=10)
    assert [names for _, names in run.left] == [["r0"], ["r1"], ["r2"], ["r3"]]


def test_another_shape_sends_the_batch_before_its_delay():
    requests = items(1, 1)
    requests[1].signature = "other"
    run = play(DynamicBatcher(8, (), max_queue_delay_us=500), at([0, 100], requests))
    assert run.left == [(100, ["r0"]), (600, ["r1"])]


def test_a_request_cancelled_while_its_batch_forms_makes_room():
    batcher = DynamicBatcher(8, (), max_queue_delay_us=500)
    first, second = items(1, 1)
    first.enqueue_ns, second.enqueue_ns = 0, 100_000
    assert batcher.enqueue(first, 0)
    assert batcher.next_batch(0).wake_at_ns == 500_000
    assert not batcher.enqueue(second, 100_000)
    first.is_cancelled = True
    decision = batcher.next_batch(500_000)
    assert [item for item, _ in decision.dropped] == [first]
    assert decision.batch == []
    assert decision.wake_at_ns == 600_000
    assert batcher.next_batch(600_000).batch == [second]


def test_a_growing_batch_does_not_wake_the_instance():
    batcher = DynamicBatcher(4, (), max_queue_delay_us=500)
    wakes = [batcher.enqueue(item, 0) for item in items(1, 1, 1, 1)]
    assert wakes == [True, False, False, True]


def test_request_over_max_queue_size_is_unavailable():
    batcher = DynamicBatcher(8, (), 0, policy(max_queue_size=2))
    for item in items(1, 1):
        batcher.enqueue(item, 0)
    late = FakeItem("late", request_id="7")
    with pytest.raises(
        UnavailableError, match=r"^\[request id: 7\] Exceeds maximum queue size$"
    ) as caught:
        batcher.enqueue(late, 0)
    assert caught.value.phase is Phase.ENQUEUE
    batcher.next_batch(0)
    batcher.enqueue(late, 0)


def test_a_request_that_waited_its_timeout_is_rejected():
    batcher = DynamicBatcher(8, (), 0, policy(default_timeout_us=100))
    run = play(batcher, at([0, 10, 150], items(8, 1, 1)), execution_us=200)
    assert run.left == [(0, ["r0"]), (200, ["r2"])]
    assert run.dropped == [(200, "r1", "Request timeout expired")]


def test_a_timeout_shorter_than_the_delay_ends_the_wait():
    batcher = DynamicBatcher(8, (), 500, policy(default_timeout_us=100))
    run = play(batcher, at([0], items(1)))
    assert run.left == []
    assert run.dropped == [(100, "r0", "Request timeout expired")]


@pytest.mark.parametrize(
    ("allowed", "timeout_us", "expires_us"),
    [(True, 50, 50), (True, 500, 100), (False, 50, 100)],
    ids=["shorter", "longer", "not allowed"],
)
def test_only_an_allowed_shorter_timeout_overrides_the_default(allowed, timeout_us, expires_us):
    rules = policy(default_timeout_us=100, allow_timeout_override=allowed)
    batcher = DynamicBatcher(8, (), 1000, rules)
    run = play(batcher, [(0, FakeItem("a", timeout_us=timeout_us))])
    assert [at_us for at_us, _, _ in run.dropped] == [expires_us]


@pytest.mark.parametrize(("backend", "warns"), [("python", True), ("mine", False)])
def test_a_library_for_custom_batching_is_used_with_backends_in_c_only(backend, warns, caplog):
    config = ModelConfig(
        "m",
        backend=backend,
        max_batch_size=4,
        dynamic_batching=DynamicBatching(),
        parameters={"TRITON_BATCH_STRATEGY_PATH": "/x/libvolume.so"},
    )
    run = play(make_scheduler(config), at([5], items(1)))
    assert run.left == [(5, ["r0"])]
    assert warns == ("model 'm' names a library in TRITON_BATCH_STRATEGY_PATH" in caplog.text)


def test_a_stopped_batcher_refuses_and_gives_up_what_it_holds_in_order():
    batcher = DynamicBatcher(8, (), max_queue_delay_us=500)
    requests = items(1, 5, 5)
    for item in requests:
        batcher.enqueue(item, 0)
    batcher.stop()
    with pytest.raises(UnavailableError):
        batcher.enqueue(FakeItem("late"), 0)
    assert batcher.pending_count == 3
    assert batcher.clear() == requests
    assert batcher.pending_count == 0


ARRIVALS = st.lists(
    st.tuples(st.integers(0, 300), st.integers(1, 6), st.sampled_from("xxxy"), st.booleans()),
    max_size=40,
)
BATCHERS = st.builds(
    lambda max_size, preferred, delay: (
        max_size,
        tuple(sorted({min(size, max_size) for size in preferred})),
        delay,
    ),
    st.integers(6, 12),
    st.lists(st.integers(1, 12), max_size=3),
    st.sampled_from([0, 50, 200]),
)


def build(arrivals):
    requests = []
    for number, (gap_us, size, shape, is_cancelled) in enumerate(arrivals):
        at_us = (requests[-1][0] if requests else 0) + gap_us
        item = FakeItem(f"r{number}", size, shape)
        item.is_cancelled = is_cancelled and number % 5 == 0
        requests.append((at_us, item))
    return requests


@settings(max_examples=examples(150), deadline=None)
@given(arrivals=ARRIVALS, batcher=BATCHERS, execution_us=st.sampled_from([0, 30, 400]))
def test_requests_are_neither_lost_nor_repeated_nor_reordered_nor_held_too_long(
    arrivals, batcher, execution_us
):
    max_size, _, delay_us = batcher
    requests = build(arrivals)
    by_name = {item.name: item for _, item in requests}
    arrived = {item.name: at_us for at_us, item in requests}
    run = play(DynamicBatcher(*batcher), requests, execution_us)

    ran = [name for _, names in run.left for name in names]
    assert ran == [item.name for _, item in requests if not item.is_cancelled]
    assert {name for _, name, _ in run.dropped} == set(by_name) - set(ran)
    free_at = 0.0
    for left_at, names in run.left:
        assert sum(by_name[name].batch_size for name in names) <= max_size
        assert len({by_name[name].signature for name in names}) == 1
        assert left_at <= max(free_at, arrived[names[0]] + delay_us)
        free_at = left_at + execution_us

    again = play(DynamicBatcher(*batcher), build(arrivals), execution_us)
    assert (again.left, again.dropped) == (run.left, run.dropped)
