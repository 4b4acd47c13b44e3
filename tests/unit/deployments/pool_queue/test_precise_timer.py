# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Deadlines in nanoseconds: never early, in order, each once."""

import asyncio
import contextlib
import time
from pathlib import Path

import pytest

from deployments.pool_queue.precise_timer import PreciseTimer
from tests.support.lane_rig import until


def _descriptor_count():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_deadlines_come_in_their_order_and_never_early(run):
    async def main():
        with contextlib.closing(PreciseTimer()) as timer:
            now_ns = time.monotonic_ns()
            called = []
            for delay_us in (3000, 100, 900, 0, -5, 900):
                at_ns = now_ns + delay_us * 1000
                timer.call_at_ns(
                    at_ns, lambda at_ns=at_ns: called.append((at_ns, time.monotonic_ns()))
                )
            await until(lambda: len(called) == 6)
            assert [at_ns for at_ns, _ in called] == sorted(at_ns for at_ns, _ in called)
            assert all(at_ns <= then_ns for at_ns, then_ns in called)

    run(main)


def test_a_cancelled_deadline_is_not_called(run):
    async def main():
        with contextlib.closing(PreciseTimer()) as timer:
            called = []
            now_ns = time.monotonic_ns()
            first = timer.call_at_ns(now_ns, lambda: called.append("first"))
            second = timer.call_at_ns(now_ns, lambda: called.append("second"))
            timer.call_at_ns(now_ns + 1000, lambda: called.append("third"))
            first.cancel()
            first.cancel()
            await until(lambda: called == ["second", "third"])
            second.cancel()

    run(main)


def test_a_deadline_may_set_and_cancel_others_and_may_raise(run, caplog):
    async def main():
        with contextlib.closing(PreciseTimer()) as timer:
            called = []
            now_ns = time.monotonic_ns()

            def first():
                called.append("first")
                other.cancel()
                timer.call_at_ns(now_ns - 1, lambda: called.append("sooner"))
                timer.call_at_ns(time.monotonic_ns() + 100_000, lambda: called.append("later"))
                raise RuntimeError("a fault")

            timer.call_at_ns(now_ns, first)
            other = timer.call_at_ns(now_ns + 1, lambda: called.append("other"))
            await until(lambda: called == ["first", "sooner", "later"])

    run(main)
    assert "a deadline raised" in caplog.text


def test_cancelled_deadlines_do_not_pile_up(run):
    async def main():
        with contextlib.closing(PreciseTimer()) as timer:
            far_ns = time.monotonic_ns() + 10**12
            for _ in range(10_000):
                timer.call_at_ns(far_ns, lambda: None).cancel()
            assert not timer._deadlines
            called = []
            timer.call_at_ns(time.monotonic_ns(), lambda: called.append(1))
            await until(lambda: called)

    run(main)


def test_a_closed_timer_calls_nothing_and_holds_no_descriptor(run):
    async def main():
        count = _descriptor_count()
        timer = PreciseTimer()
        timer.call_at_ns(time.monotonic_ns(), lambda: pytest.fail("called"))
        timer.close()
        timer.close()
        await asyncio.sleep(0.005)
        assert _descriptor_count() == count

    run(main)
