# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How an instance's process ends: because it was asked to, or by a fault of its own.

A thread of ours that dies, or a model that hangs, leaves an instance that accepts requests and
answers none. Such a process must not go on. It closes its lanes, so that routers send what it has
not answered to another instance; it tells whoever waits for its end the reason; then it exits with
a code that Ray answers with a restart.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Final

from backends.api.errors import InternalError

_log = logging.getLogger(__name__)

# Takes the message that says what has failed, and the error.
OnFault = Callable[[str, BaseException], None]

EXIT_CODE: Final = 1
# What closing the lanes may take. If nobody turns the reactor, the exit closes them.
_LANES_TIMEOUT_S = 0.2
# What Ray needs to carry the reason to the controller.
_LAST_WORD_S: Final = 0.3


def log_fault(what: str, error: BaseException) -> None:
    """Only log a fault; for processes that are not an instance's own."""
    _log.error("%s", what, exc_info=error)


class Ending:
    """The end of one instance's process. Every method but `wait` is for any thread.

    Args:
        name: The instance, for the log.
        close_lanes: Begins to close the lanes; called on a thread of its own.
        exit_process: Ends the process at once with an exit code.
        last_word_s: How long the process lives on after the reason was told.
    """

    def __init__(
        self,
        name: str,
        close_lanes: Callable[[], "concurrent.futures.Future[None]"],
        exit_process: Callable[[int], object] = os._exit,
        last_word_s: float = _LAST_WORD_S,
    ) -> None:
        self._name = name
        self._close_lanes = close_lanes
        self._exit_process = exit_process
        self._last_word_s = last_word_s
        self._lock = threading.Lock()
        self._reason = ""
        # The reason; empty for an end that was asked for.
        self._ended: concurrent.futures.Future[str] = concurrent.futures.Future()

    def check(self) -> None:
        """Raise while a fault is ending the process.

        Raises:
            InternalError: The message is the reason.
        """
        if self._reason:
            raise InternalError(self._reason)

    def finish(self) -> None:
        """Let `wait` return: the process was asked to end."""
        with self._lock:
            if not self._ended.done():
                self._ended.set_result("")

    def die(self, what: str, error: BaseException | None = None) -> None:
        """End the process because of a fault; returns at once. The first fault is the reason.

        Args:
            what: What has failed.
            error: The exception, logged with its traceback; None when there is none.
        """
        reason = what if error is None else f"{what}: {type(error).__name__}: {error}"
        with self._lock:
            if self._reason:
                return
            self._reason = reason
        try:
            _log.error("instance %s ends its process: %s", self._name, reason, exc_info=error)
            threading.Thread(target=self._die, name="manta-end").start()
        except BaseException:
            # Without memory for a thread the lanes close with the process.
            self._exit_process(EXIT_CODE)

    async def wait(self) -> None:
        """Return when the process was asked to end.

        Raises:
            InternalError: A fault ends the process; the message is the reason. Only callers that
                wait when it happens are told; for later ones the end of the process is the answer.
        """
        if self._reason:
            await asyncio.Event().wait()
        reason = await asyncio.shield(asyncio.wrap_future(self._ended))
        if reason:
            raise InternalError(reason)

    def _die(self) -> None:
        try:
            with self._lock:
                if not self._ended.done():
                    self._ended.set_result(self._reason)
            with contextlib.suppress(Exception):
                self._close_lanes().result(_LANES_TIMEOUT_S)
            time.sleep(self._last_word_s)
        finally:
            self._exit_process(EXIT_CODE)
