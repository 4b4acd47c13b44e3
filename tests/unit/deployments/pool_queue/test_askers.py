# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which routers hear of a free instance."""

from deployments.pool_queue.askers import Askers, is_shared
from deployments.pool_queue.messages import Load


def load(free: int, waiting: int = 0, batch_size: float = 1.0) -> Load:
    return Load("m", 1, waiting, free, 4, 1e7, batch_size)


def askers(*names: str) -> Askers[str]:
    asked: Askers[str] = Askers()
    for name in names:
        asked.asked(name)
    return asked


def test_as_many_routers_hear_as_there_are_free_instances() -> None:
    asked = askers("a", "b", "c")
    assert asked.answered(load(free=2)) == ["a", "b"]
    assert asked.answered(load(free=2)) == ["c"]
    assert not asked


def test_nobody_hears_while_requests_wait() -> None:
    asked = askers("a")
    assert asked.answered(load(free=1, waiting=1)) == []
    assert asked.answered(load(free=0)) == []
    assert asked


def test_a_router_that_asks_twice_hears_once() -> None:
    assert askers("a", "b", "a").answered(load(free=4)) == ["a", "b"]


def test_a_router_that_has_heard_of_a_free_instance_has_its_answer() -> None:
    asked = askers("a", "b")
    asked.told("a", load(free=0))
    asked.told("b", load(free=1))
    assert asked.answered(load(free=4)) == ["a"]


def test_a_router_that_is_gone_hears_nothing() -> None:
    asked = askers("a", "b")
    asked.forget("a")
    assert asked.answered(load(free=4)) == ["b"]


def test_executions_of_several_requests_are_shared() -> None:
    assert is_shared(load(1, batch_size=4.0))
    assert not is_shared(load(1))
