# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Schedulers that are held back until some requests are queued.

Triton: server/qa/L0_batcher/batcher_test.py, test.sh @e1db8a6
"""

import pytest

from backends.api.errors import UnavailableError
from backends.api.model_config import DynamicBatching, ModelConfig, QueuePolicy
from deployments.scheduling.factory import make_scheduler
from deployments.scheduling.holds import Holds, holds_of
from tests.support.queued_items import FakeItem, PoolRun, play
from tests.support.sequence_items import START, part, sequence_config

DELAY = "TRITONSERVER_DELAY_SCHEDULER"
BACKLOG = "TRITONSERVER_BACKLOG_DELAY_SCHEDULER"


def dynamic(*preferred: int, delay_us: int = 0, **fields) -> ModelConfig:
    return ModelConfig(
        "m", max_batch_size=8, dynamic_batching=DynamicBatching(preferred, delay_us, **fields)
    )


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, Holds(0, 0)),
        ({DELAY: "12"}, Holds(12, 0)),
        ({DELAY: " 8x", BACKLOG: "+2"}, Holds(8, 2)),
        ({DELAY: "many", BACKLOG: ""}, Holds(0, 0)),
        ({DELAY: "-1"}, Holds(0, 0)),
    ],
)
def test_the_environment_says_how_many_requests_are_waited_for(environ, expected):
    assert holds_of(environ) == expected


@pytest.mark.parametrize("names", ["A", "AB", "ABCD"])
def test_a_dynamic_batcher_waits_for_the_requests_of_its_pool(names):
    run = PoolRun(dynamic(4), names, holds=Holds(12))
    run.play((index, FakeItem(str(index))) for index in range(11))
    assert run.left == []
    run.enqueue(FakeItem("last"))
    run.run()
    assert run.sizes == {4: 3}


def test_a_hold_is_over_for_good():
    run = PoolRun(dynamic(), "A", holds=Holds(3))
    run.play((0, FakeItem(name)) for name in "abc")
    run.enqueue(FakeItem("d"))
    run.run()
    assert run.names == [["a", "b", "c"], ["d"]]


@pytest.mark.parametrize(
    ("sizes", "count", "preferred", "delay_us", "expected"),
    [
        ((3, 7), 2, (2, 6), 0, [[3], [7]]),
        ((1, 3, 5), 3, (2, 6), 500_000, [[1, 3], [5]]),
        ((1, 1, 1, 1), 4, (2, 6), 0, [[1, 1], [1, 1]]),
        ((1, 1, 1, 1, 1, 1), 6, (2, 6), 0, [[1] * 6]),
    ],
    ids=["sum_gt_max_preferred", "delayed", "aligned", "use_biggest_preferred"],
)
def test_batches_are_formed_of_what_the_hold_let_gather(
    sizes, count, preferred, delay_us, expected
):
    scheduler = make_scheduler(dynamic(*preferred, delay_us=delay_us), Holds(count))
    items = [FakeItem(str(index), size) for index, size in enumerate(sizes)]
    run = play(scheduler, [(index * 10, item) for index, item in enumerate(items)])
    by_name = {item.name: item.batch_size for item in items}
    assert [[by_name[name] for name in names] for _, names in run.left] == expected


def test_what_is_held_back_expires_and_counts_for_max_queue_size():
    policy = QueuePolicy(max_queue_size=2, default_timeout_us=300)
    run = PoolRun(dynamic(default_queue_policy=policy), "A", holds=Holds(5))
    run.enqueue(*(FakeItem(name) for name in "abc"))
    run.run()
    assert [item.name for item, _ in run.refused] == ["c"]
    assert [item.name for item, _ in run.dropped] == ["a", "b"]
    assert {type(error) for _, error in run.dropped} == {UnavailableError}


def test_models_without_batching_are_not_held_back():
    run = PoolRun(ModelConfig("m"), "A", holds=Holds(5))
    run.enqueue(FakeItem("a"))
    assert run.names == [["a"]]


def test_a_backlog_alone_holds_nothing_back():
    run = PoolRun(sequence_config(1), "A", holds=Holds(0, 5))
    run.enqueue(part(1, START))
    assert len(run.left) == 1


def test_requests_in_the_backlog_do_not_count_as_queued_in_slots():
    run = PoolRun(sequence_config(1), "AB", holds=Holds(3))
    run.enqueue(part(1, START), part(2, START), part(3, START), part(4, START))
    assert run.left == []
    run.enqueue(part(2))
    assert len(run.left) == 2


def test_oldest_batches_are_held_back_per_instance():
    run = PoolRun(sequence_config(2, strategy="oldest"), "AB", holds=Holds(2))
    run.enqueue(part(1, START), part(2, START), part(1))
    assert run.left == []
    run.enqueue(part(3, START))
    assert [(name, len(rows)) for _, name, rows in run.left] == [("A", 2)]


def test_a_stopped_scheduler_takes_nothing_and_clear_gives_up_what_is_held_back():
    scheduler = make_scheduler(dynamic(), Holds(5))
    item = FakeItem("a")
    scheduler.enqueue(item, 0)
    scheduler.stop()
    with pytest.raises(UnavailableError):
        scheduler.enqueue(FakeItem("b"), 0)
    assert scheduler.clear() == [item]
