# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An event loop whose clock jumps to the next timer, so that tests of minutes take milliseconds."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class NeverReturnsError(Exception):
    """Raised by blocking work that stands for a call that hangs."""


class _JumpingSelector(selectors.DefaultSelector):
    offset_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        events = super().select(0)
        if timeout is None and not events:
            raise RuntimeError("virtual-time deadlock: no timer and no I/O can wake the loop")
        if timeout and not events:
            self.offset_s += timeout
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A selector loop on virtual time."""

    def __init__(self) -> None:
        self._jump = _JumpingSelector()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.offset_s

    def run_in_executor(
        self, executor: object, func: Callable[..., T], *args: object
    ) -> "asyncio.Future[T]":
        """Run blocking work at once: on a thread it would take time of another clock."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except NeverReturnsError:
            pass
        except Exception as error:
            future.set_exception(error)
        return future


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
