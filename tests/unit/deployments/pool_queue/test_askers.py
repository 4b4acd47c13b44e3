# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which routers hear of a free instance."""

from deployments.pool_queue.askers import answered, is_shared
from deployments.pool_queue.messages import Load


def load(free: int, waiting: int = 0, batch_size: float = 1.0) -> Load:
    return Load("m", 1, waiting, free, 4, 1e7, batch_size)


def test_as_many_routers_hear_as_there_are_free_instances() -> None:
    asked = dict.fromkeys("abc")
    assert answered(asked, load(free=2)) == ["a", "b"]
    assert answered(asked, load(free=2)) == ["c"]
    assert not asked


def test_nobody_hears_while_requests_wait() -> None:
    asked = dict.fromkeys("a")
    assert answered(asked, load(free=1, waiting=1)) == []
    assert answered(asked, load(free=0)) == []
    assert asked


def test_executions_of_several_requests_are_shared() -> None:
    assert is_shared(load(1, batch_size=4.0))
    assert not is_shared(load(1))
