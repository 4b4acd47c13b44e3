# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A reactor turned by the test's own event loop, so that tests may touch its lanes anywhere."""

import asyncio
from collections.abc import Callable
from typing import Any

from deployments.lane.hosts import ReactorHost
from deployments.lane.reactor import Reactor, Timer


class LoopReactor(Reactor):
    """Turns whenever there is something to do."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._epoll.fileno(), self.turn, 0.0)

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        super().call_soon(callback, *args)
        self._loop.call_soon(self.turn, 0.0)

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        timer = super().call_later(delay_s, callback, *args)
        # Timers of the loop may be early by its resolution.
        self._loop.call_later(delay_s + 0.002, self.turn, 0.0)
        return timer

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> None:
        super().call_soon_threadsafe(callback, *args)
        self._loop.call_soon_threadsafe(self.turn, 0.0)


class LoopReactorHost(ReactorHost):
    """Lanes on such a reactor."""

    def __init__(self) -> None:
        super().__init__(LoopReactor(), asyncio.get_running_loop())
