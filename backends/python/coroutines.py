# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the coroutines of models with ``async def execute``.

The only asyncio below the server: a model's coroutine needs an event loop, which must not be the
server's.
"""

import asyncio
import logging
import selectors
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from backends.api.backend import Pause

logger = logging.getLogger(__name__)


class _Running:
    """A coroutine for which the executing thread waits, on locks that the loop releases."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.coroutine = coroutine
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_ended = False
        self._told = _acquired()
        self._awake = _acquired()
        self._resumed = _acquired()

    def wait(self, pause: Pause | None) -> None:
        """Wait for the end; in a pause while the loop really waits."""
        while True:
            self._told.acquire()
            if self.is_ended or pause is None:
                return
            with pause():
                self._awake.acquire()
            self._resumed.release()

    def end(self) -> None:
        """Tell who waits that this is the end."""
        self.is_ended = True
        self._told.release()

    def pause(self) -> None:
        """Have who waits pause."""
        self._told.release()

    def resume(self) -> None:
        """Have who waits end the pause, and return when it has."""
        self._awake.release()
        self._resumed.acquire()


def _acquired() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


class _PausingSelector(selectors.DefaultSelector):
    """Has the executing thread pause while the loop really waits: only that thread can.

    Attributes:
        running: What it waits for; None while it does not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.running: _Running | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        running = self.running
        if running is None or (timeout is not None and timeout <= 0):
            return super().select(timeout)
        running.pause()
        try:
            return super().select(timeout)
        finally:
            running.resume()


class CoroutineRunner:
    """An event loop of a model's own, on a thread of its own, from the first coroutine on.

    It runs between executions too, so that what a coroutine leaves behind goes on.

    Args:
        pause: What the loop waits in when it has nothing to do; None for no matter what.

    Triton: python_backend/src/pb_stub.cc Stub::RunCoroutine, GetAsyncEventLoop
    """

    def __init__(self, pause: Pause | None = None) -> None:
        self._pause = pause
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runner: threading.Thread | None = None
        self._selector: _PausingSelector | None = None
        self._is_closing = False
        # The loop itself holds tasks by weak references.
        self._task: asyncio.Task[None] | None = None

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end, and return its result."""
        loop = self._started_loop()
        running = _Running(coroutine)
        loop.call_soon_threadsafe(self._begin, loop, running)
        running.wait(self._pause)
        error, running.error = running.error, None
        if error is None:
            return running.result
        try:
            raise error
        finally:
            # Its traceback has this frame, and requests are in other frames of it.
            del error

    def start(
        self, coroutine: Coroutine[Any, Any, Any], done: Callable[[BaseException | None], None]
    ) -> None:
        """Run a coroutine; ``done`` is told how it ended."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._started_loop())
        future.add_done_callback(lambda ended: done(_ending(ended)))

    def run_pending(self) -> None:
        """Wait until all started coroutines have ended."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(_all_done(), self._loop).result()

    def close(self) -> None:
        """Cancel what still runs and close the loop."""
        loop, self._loop = self._loop, None
        if loop is None or self._runner is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result()
        self._is_closing = True
        loop.call_soon_threadsafe(loop.stop)
        self._runner.join()
        loop.close()

    def _started_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            if self._pause is None:
                self._loop = asyncio.new_event_loop()
            else:
                self._selector = _PausingSelector()
                self._loop = asyncio.SelectorEventLoop(self._selector)
            self._runner = threading.Thread(
                target=self._run_loop, args=(self._loop,), name="model-coroutines", daemon=True
            )
            self._runner.start()
        return self._loop

    def _begin(self, loop: asyncio.AbstractEventLoop, running: _Running) -> None:
        self._task = loop.create_task(self._run_to_end(running))
        if self._selector is not None:
            self._selector.running = running

    async def _run_to_end(self, running: _Running) -> None:
        # Who waits is told from in here: a callback of the task would come a turn later.
        try:
            running.result = await running.coroutine
        except BaseException as error:
            running.error = error
        finally:
            self._task = None
            if self._selector is not None:
                self._selector.running = None
            running.end()

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._is_closing:
            try:
                loop.run_forever()
            except BaseException as error:
                # A task of the model's that exits ends itself, and no other.
                logger.warning("a task of the model ended with %s", type(error).__name__)


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
