# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A request that avoids an instance goes to another one while there is one."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.model_config import DynamicBatching, ModelConfig, QueuePolicy
from deployments.scheduling.pool_scheduler import AVOID_NS
from tests.support.queued_items import FakeItem, PoolRun

SINGLE = ModelConfig("m")
BATCHING = ModelConfig("m", max_batch_size=4, dynamic_batching=DynamicBatching())
DELAYED = ModelConfig(
    "m",
    max_batch_size=4,
    dynamic_batching=DynamicBatching(preferred_batch_size=(4,), max_queue_delay_us=300),
)
TIMED = ModelConfig(
    "m",
    max_batch_size=1,
    dynamic_batching=DynamicBatching(default_queue_policy=QueuePolicy(default_timeout_us=500)),
)


def sent_again(run: PoolRun, *names: str, avoid: str) -> list[FakeItem]:
    """Queue requests that avoid an instance."""
    items = [FakeItem(name, enqueue_ns=run.now_ns) for name in names]
    for item in items:
        run.queue.enqueue(item, run.now_ns)
        run.queue.avoid(item, avoid, run.now_ns)
    run.look()
    return items


@pytest.mark.parametrize("config", [SINGLE, BATCHING, DELAYED])
def test_another_instance_that_is_free_gets_it(config: ModelConfig) -> None:
    for avoid, other in ("AB", "BA"):
        run = PoolRun(config, "AB")
        sent_again(run, "a", avoid=avoid)
        run.run()
        assert run.homes == {avoid: [], other: ["a"]}


@pytest.mark.parametrize("config", [SINGLE, BATCHING])
def test_it_waits_for_another_instance_and_others_pass(config: ModelConfig) -> None:
    run = PoolRun(config, "A", execution_us=500)
    run.enqueue(FakeItem("a"))
    run.join("B")
    sent_again(run, "b", "c", avoid="B")
    run.enqueue(FakeItem("d"))
    run.run()
    assert run.homes["B"] == ["d"]
    assert sorted(run.homes["A"]) == ["a", "b", "c"]


def test_a_batch_is_what_is_left_of_it() -> None:
    run = PoolRun(BATCHING, "A", execution_us=500)
    run.enqueue(FakeItem("a"))
    for name in "bcd":
        run.enqueue(FakeItem(name))
    sent_again(run, "e", avoid="B")
    run.join("B")
    run.look()
    run.run()
    assert run.homes == {"A": ["a", "e"], "B": ["b", "c", "d"]}


def test_where_there_is_no_other_instance_it_goes_there_all_the_same() -> None:
    run = PoolRun(SINGLE, "A")
    sent_again(run, "a", avoid="A")
    assert run.run().homes == {"A": ["a"]}


@pytest.mark.parametrize("event", ["leave", "retire"])
def test_when_the_other_instance_goes_it_does_not_wait_for_it(event: str) -> None:
    run = PoolRun(SINGLE, "A", execution_us=500)
    run.enqueue(FakeItem("a"))
    run.join("B")
    sent_again(run, "b", avoid="B")
    assert "b" not in run.homes["B"]
    if event == "leave":
        run.leave("A")
    else:
        run.queue.retire("A")
        run.look()
    assert run.homes["B"] == ["b"]


def test_its_timeout_ends_it_while_it_waits_for_another_instance() -> None:
    run = PoolRun(TIMED, "A", execution_us=5000)
    run.enqueue(FakeItem("a"))
    run.join("B")
    (item,) = sent_again(run, "b", avoid="B")
    run.run()
    assert [dropped for dropped, _ in run.dropped] == [item]
    assert run.homes["B"] == []


@pytest.mark.parametrize("config", [SINGLE, BATCHING, DELAYED])
def test_while_all_others_are_busy_for_long_it_goes_there_all_the_same(
    config: ModelConfig,
) -> None:
    run = PoolRun(config, "A", execution_us=60_000_000)
    run.enqueue(FakeItem("a"))
    run.run(run.now_us + 1000)
    run.join("B")
    sent_again(run, "b", avoid="B")
    run.run(run.now_us + AVOID_NS // 1000 - 1)
    assert run.homes["B"] == []
    run.run(run.now_us + 2000)
    assert run.homes == {"A": ["a"], "B": ["b"]}


def test_one_that_avoids_for_longer_waits_on() -> None:
    run = PoolRun(SINGLE, "A", execution_us=60_000_000)
    run.enqueue(FakeItem("a"))
    run.join("B")
    sent_again(run, "b", avoid="B")
    run.run(run.now_us + 100_000)
    sent_again(run, "c", avoid="B")
    run.run(run.now_us + 150_000)
    assert run.homes["B"] == ["b"]
    run.run()
    assert run.homes == {"A": ["a", "c"], "B": ["b"]}


@given(st.integers())
def test_each_is_executed_once_and_none_where_it_avoids(seed: int) -> None:
    chance = random.Random(seed)
    run = PoolRun(chance.choice([SINGLE, BATCHING, DELAYED]), "ABC", execution_us=100)
    avoided: dict[str, str] = {}
    for at in range(40):
        if chance.random() < 0.5:
            run.enqueue(FakeItem(str(at)))
        else:
            avoided[str(at)] = avoid = chance.choice("ABC")
            sent_again(run, str(at), avoid=avoid)
        run.run(run.now_us + chance.randrange(80))
    run.run()
    executed = [name for names in run.homes.values() for name in names]
    assert sorted(executed) == sorted(str(at) for at in range(40))
    assert not [name for name, avoid in avoided.items() if name in run.homes[avoid]]
