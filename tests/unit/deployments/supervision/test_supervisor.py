# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tasks whose ends are seen."""

import asyncio
import itertools
import logging

import pytest

from deployments.supervision.supervisor import LONGEST_DELAY_S, Supervisor
from tests.support.virtual_time import run


def test_a_failed_task_is_logged_under_its_name(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[BaseException] = []

    async def fail() -> None:
        raise ValueError("no such thing")

    async def main() -> None:
        supervisor = Supervisor("controller")
        await asyncio.wait({supervisor.spawn("poll", fail(), failures.append)})

    with caplog.at_level(logging.ERROR):
        run(main())
    assert "controller: task 'poll' failed" in caplog.text
    assert "no such thing" in caplog.text
    assert [type(each) for each in failures] == [ValueError]


def test_a_kept_task_starts_again_after_errors_and_after_ends() -> None:
    starts: list[float] = []

    async def main() -> Supervisor:
        supervisor = Supervisor("router")
        loop = asyncio.get_running_loop()

        async def work() -> None:
            starts.append(loop.time())
            if len(starts) == 1:
                raise RuntimeError("first")
            if len(starts) > 3:
                await asyncio.sleep(3600)

        supervisor.keep("watch", work)
        await asyncio.sleep(60)
        await supervisor.close()
        return supervisor

    supervisor = run(main())
    assert supervisor.restarts == {"watch": 3}
    assert starts == pytest.approx([0, 0.1, 0.3, 0.7])


def test_a_task_that_keeps_failing_starts_no_more_often_than_the_longest_delay() -> None:
    starts: list[float] = []

    async def main() -> None:
        supervisor = Supervisor("router")

        async def work() -> None:
            starts.append(asyncio.get_running_loop().time())
            raise RuntimeError

        supervisor.keep("watch", work)
        await asyncio.sleep(600)
        await supervisor.close()

    run(main())
    gaps = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert gaps[-10:] == pytest.approx([LONGEST_DELAY_S] * 10)


def test_close_cancels_every_task_and_what_comes_later() -> None:
    async def main() -> None:
        supervisor = Supervisor("instance")
        forever = [supervisor.spawn("wait", asyncio.sleep(1e9)) for _ in range(3)]
        await supervisor.close()
        late = supervisor.spawn("late", asyncio.sleep(1e9))
        await asyncio.wait({late})
        assert all(task.cancelled() for task in [*forever, late])

    run(main())


def test_a_task_may_close_the_supervisor_it_runs_under() -> None:
    async def main() -> None:
        supervisor = Supervisor("controller")
        other = supervisor.spawn("wait", asyncio.sleep(1e9))
        await supervisor.spawn("end", supervisor.close())
        assert other.cancelled()

    run(main())
