# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Lets the thread of Ray's loop rest in an instance's process, which Ray wakes 100 times a second.

That thread hands calls of the actor to the threads that run them. Between calls it wakes every
10 ms, takes the GIL and looks for signals: four fifths of what an idle actor costs
(docs/performance.md, "What an idle server takes"). Ray has no option for it. So it naps inside that
look, and between two naps hands on what has come meanwhile: a call of a resting instance waits up
to `NAP_S`.

Where the loop has a thread of its own (`deployments.instance.main_thread`), the look is ours. On
the main thread, what it looks for is ours to give: a signal is noted again and again, without the
kernel, and its handler naps. Real signals end such a nap.

What needs no such thread goes on: executions, lanes, answers, calls that wait already, and Ray's
SIGKILL.
"""

import _thread
import asyncio
import signal
import threading
from types import FrameType
from typing import Final

from deployments.instance.main_thread import MAIN, MainThread

NAP_S: Final = 0.4
# A model that was just loaded is likely to be called again: reloaded, unloaded, asked about.
AFTER_S: Final = 10.0

# Nobody sends it; no process of ours handles another real-time signal.
_SIGNAL: Final = signal.SIGRTMAX
# From one nap to the next: the time between two of Ray's looks, in which it hands calls on.
_AWAKE_S: Final = 0.01


class Rest:
    """The rest of one process's Ray thread.

    Args:
        nap_s: How long one nap lasts.
        main: The process's main thread.
    """

    def __init__(self, nap_s: float = NAP_S, main: MainThread = MAIN) -> None:
        self._nap_s = nap_s
        self._main = main
        # Held while there is rest, released once to end it.
        self._alarm = threading.Lock()
        self._alarm.acquire()
        self._is_over = False
        self.is_napping = False

    def prepare(self) -> None:
        """Take the signal; on another thread than the main one nothing happens, now and later."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(_SIGNAL, self._nap)

    def begin(self, loop: asyncio.AbstractEventLoop, after_s: float = AFTER_S) -> None:
        """Have naps follow one another; called on ``loop``, whose thread is not the one to rest."""
        loop.call_later(after_s, self._send_to_sleep, loop)

    def end(self) -> None:
        """End the present nap, if any, and let none follow; on the loop's thread."""
        if not self._is_over:
            self._is_over = True
            self._main.rest = None
            self._alarm.release()

    def _send_to_sleep(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._is_over:
            return
        if self._main.is_offered:
            self._main.rest = self._sleep
            return
        if self.is_napping:
            # Noted now, the next nap would be over with this one.
            delay_s = _AWAKE_S
        else:
            # Does nothing where nobody has prepared for it.
            _thread.interrupt_main(_SIGNAL)
            delay_s = self._nap_s + _AWAKE_S
        loop.call_later(delay_s, self._send_to_sleep, loop)

    def _nap(self, _number: int, _frame: FrameType | None) -> None:
        self._sleep()

    def _sleep(self) -> None:
        if self._is_over or self.is_napping:
            return
        self.is_napping = True
        try:
            self._alarm.acquire(timeout=self._nap_s)
        finally:
            self.is_napping = False
