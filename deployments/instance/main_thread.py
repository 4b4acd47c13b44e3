# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The main thread of an instance's process, for the model's code where Ray leaves it free.

Python runs handlers of signals on that thread and lets no other set them. In workers of an embedded
Ray `cluster.instances.ray_thread` moves Ray's loop off it; elsewhere there is no offer, and a model
has a thread of its own.
"""

import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

import setproctitle


class MainThread:
    """Runs calls on the thread that serves, one after the other.

    Attributes:
        rest: What Ray's own thread does 100 times a second, beside looking for work; None for
            nothing.
    """

    def __init__(self) -> None:
        self.rest: Callable[[], object] | None = None
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._is_offered = False
        self._is_over = threading.Event()

    @property
    def is_offered(self) -> bool:
        """Whether a thread serves, or is about to."""
        return self._is_offered

    def offer(self) -> None:
        """Have calls wait for `serve`, which is about to be called."""
        self._is_offered = True

    def serve(self) -> None:
        """Run what is handed over on the calling thread, until `end`."""
        while True:
            call = self._calls.get()
            if call is None:
                self._is_over.set()
                return
            call()

    def run(self, call: Callable[[], object], name: str) -> None:
        """Have a call run there, or on a thread of this name where there is no offer."""
        if self._is_offered:
            self._calls.put(call)
        else:
            threading.Thread(target=_titled, args=(call, name), name=name, daemon=True).start()

    def let_alarms_end(self) -> None:
        """Have SIGALRM end the process, which a model may have handled, once no call runs."""
        if self._is_offered:
            self._calls.put(_let_alarms_end)

    def end(self, timeout_s: float) -> bool:
        """Have `serve` return; whether it did, and did not wait for a call, in time."""
        self._calls.put(None)
        return self._is_over.wait(timeout_s)


def _titled(call: Callable[[], object], name: str) -> None:
    setproctitle.setthreadtitle(name)
    call()


def _let_alarms_end() -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


MAIN: Final = MainThread()
