# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from deployments.grpc.rpc.deadlines import Deadlines
from deployments.http2.credit import Credit

S = 1_000_000_000


class Call:
    def __init__(self, deadlines: Deadlines) -> None:
        self.deadlines = deadlines
        self.done = False
        self.expired = False

    def finish(self) -> None:
        self.done = True
        self.deadlines.forget_one()

    def expire(self) -> None:
        self.expired = True
        self.finish()


@given(st.lists(st.tuples(st.integers(1, 100), st.booleans())), st.integers(0, 100))
def test_exactly_the_undone_calls_that_are_due_expire(
    plan: list[tuple[int, bool]], now_ns: int
) -> None:
    deadlines = Deadlines(lambda _: None)
    calls = []
    for deadline_ns, finished in plan:
        call = Call(deadlines)
        deadlines.add(deadline_ns, call)
        calls.append((deadline_ns, finished, call))
    for _, finished, call in calls:
        if finished:
            call.finish()
    next_ns = deadlines.expire(now_ns)
    for deadline_ns, finished, call in calls:
        assert call.expired == (not finished and deadline_ns <= now_ns)
    waiting = [deadline_ns for deadline_ns, _, call in calls if not call.done]
    assert next_ns == min(waiting, default=None)


def test_a_timer_is_asked_for_only_by_a_new_earliest_deadline() -> None:
    armed: list[int] = []
    deadlines = Deadlines(armed.append)
    for deadline_ns in (50, 60, 40, 45):
        deadlines.add(deadline_ns, Call(deadlines))
    assert armed == [50, 40]


def test_calls_that_end_early_do_not_pile_up() -> None:
    deadlines = Deadlines(lambda _: None)
    alive = Call(deadlines)
    deadlines.add(99 * S, alive)
    for _ in range(20_000):
        call = Call(deadlines)
        deadlines.add(60 * S, call)
        call.finish()
    assert len(deadlines) < 5000
    deadlines.expire(100 * S)
    assert alive.expired


def test_credit_comes_back_with_time_and_work_up_to_its_capacity() -> None:
    credit = Credit(10, 5, 0)
    assert all(credit.spend(1, 0) for _ in range(10))
    assert not credit.spend(1, 0)
    assert credit.spend(5, 1 * S)
    assert not credit.spend(1, 1 * S)
    credit.refund(1000)
    assert not credit.spend(11, 1 * S)
    assert credit.spend(10, 1 * S)
