# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the coroutines of models with ``async def execute``.

The only asyncio below the server: a model's coroutine needs an event loop, which must not be the
server's.
"""

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from backends.api.backend import Pause


class _PausingSelector(selectors.DefaultSelector):
    """Waits in a context of the model's where it really waits."""

    def __init__(self, pause: Pause) -> None:
        super().__init__()
        self._pause = pause

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        with self._pause():
            return super().select(timeout)


class CoroutineRunner:
    """An event loop of a model's own, created when first needed.

    Args:
        pause: What the loop waits in when it has nothing to do; None for no matter what.
    """

    def __init__(self, pause: Pause | None = None) -> None:
        self._pause = pause
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runner: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end on the calling thread, and return its result."""
        return self._started_loop().run_until_complete(coroutine)

    def start(
        self, coroutine: Coroutine[Any, Any, Any], done: Callable[[BaseException | None], None]
    ) -> None:
        """Run a coroutine on a thread of the loop's own; ``done`` is told how it ended.

        A runner is used through either `run` or `start`, never both.
        """
        loop = self._started_loop()
        if self._runner is None:
            self._runner = threading.Thread(
                target=loop.run_forever, name="model-coroutines", daemon=True
            )
            self._runner.start()
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        future.add_done_callback(lambda ended: done(_ending(ended)))

    def run_pending(self) -> None:
        """Wait until all started coroutines have ended."""
        if self._loop is not None and self._runner is not None:
            asyncio.run_coroutine_threadsafe(_all_done(), self._loop).result()

    def close(self) -> None:
        """Cancel what still runs and close the loop."""
        loop = self._loop
        if loop is None:
            return
        if self._runner is not None:
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            self._runner.join()
        else:
            loop.run_until_complete(_cancel_all())
        loop.close()

    def _started_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            pause = self._pause
            self._loop = (
                asyncio.new_event_loop()
                if pause is None
                else asyncio.SelectorEventLoop(_PausingSelector(pause))
            )
        return self._loop


def run_elsewhere(coroutine: Coroutine[Any, Any, Any], timeout_s: float) -> Any:
    """Run a coroutine on a thread and loop of its own, for callers that may be in a loop.

    Raises:
        TimeoutError: It took longer than ``timeout_s``; it goes on, and nobody hears of it.
    """
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(asyncio.run(coroutine))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="model-coroutine", daemon=True).start()
    return future.result(timeout_s)


def _ending(future: "Future[Any]") -> BaseException | None:
    if future.cancelled():
        return asyncio.CancelledError("the model was unloaded")
    return future.exception()


def _others() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def _all_done() -> None:
    await asyncio.gather(*_others(), return_exceptions=True)


async def _cancel_all() -> None:
    for task in _others():
        task.cancel()
    await _all_done()
