# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The parent of a component's asyncio tasks: no task ends without the end being seen.

Two kinds of task:

- `spawn` runs something once. An exception is logged, with its traceback, under the task's name.
- `keep` runs something that must not end. Whenever it ends, by an exception or by returning, the
  end is logged and the task is started again, less and less often while it keeps failing. What
  cannot be had again by starting it anew is not for `keep`: `on_failure` of `spawn` escalates.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

_log = logging.getLogger(__name__)

FIRST_DELAY_S: Final = 0.1
LONGEST_DELAY_S: Final = 10.0
# A task that ran this long before it failed starts again as soon as one that never failed.
STABLE_S: Final = 60.0

Failure = Callable[[BaseException], None]


class Supervisor:
    """Starts tasks on the running loop, sees their ends and cancels them together.

    Args:
        owner: Whose tasks these are, for the log: "controller", "router of ingress".

    Attributes:
        restarts: How often each kept task was started again, by its name.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        self.restarts: dict[str, int] = {}

    def spawn(
        self, name: str, work: Coroutine[Any, Any, Any], on_failure: Failure | None = None
    ) -> asyncio.Task[Any]:
        """Run ``work`` once and return its task, which may be awaited or cancelled.

        Args:
            name: What the task does, for the log.
            work: The coroutine.
            on_failure: Called, after the log line, with the exception that ended the task.

        After `close` the task is cancelled before it starts.
        """
        task = asyncio.get_running_loop().create_task(work, name=f"{self._owner}: {name}")
        self._tasks.add(task)
        task.add_done_callback(lambda ended: self._ended(name, ended, on_failure))
        if self._is_closed:
            task.cancel()
        return task

    def keep(self, name: str, make: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
        """Run what ``make`` makes, again whenever it ends, until the task or `close` cancels it.

        Args:
            name: What the task does, for the log and `restarts`.
            make: Makes the coroutine of each attempt.
        """
        return self.spawn(name, self._keep(name, make))

    async def close(self) -> None:
        """Cancel every task and wait until all have ended."""
        self._is_closed = True
        own = asyncio.current_task()
        while tasks := {task for task in self._tasks if task is not own}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._tasks -= tasks

    async def _keep(self, name: str, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        loop = asyncio.get_running_loop()
        delay_s = FIRST_DELAY_S
        while True:
            started_s = loop.time()
            try:
                await make()
            except Exception:
                _log.exception("%s: task '%s' failed; it starts again", self._owner, name)
            else:
                _log.error("%s: task '%s' ended; it starts again", self._owner, name)
            if loop.time() - started_s >= STABLE_S:
                delay_s = FIRST_DELAY_S
            self.restarts[name] = self.restarts.get(name, 0) + 1
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, LONGEST_DELAY_S)

    def _ended(self, name: str, task: asyncio.Task[Any], on_failure: Failure | None) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        _log.error("%s: task '%s' failed", self._owner, name, exc_info=error)
        if on_failure is not None:
            on_failure(error)
