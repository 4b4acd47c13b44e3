# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The thread on which an ingress checks chosen keys, one after the other."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class KeyThread:
    """One thread, which begins with the first check."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, "key-check")

    def run(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run ``work`` on the thread, then ``done`` on the loop with its error, if there is one."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)

        def ended(future: asyncio.Future[None]) -> None:
            # Cancelled means closed: nobody waits any more.
            if not future.cancelled():
                done(future.exception())

        running.add_done_callback(ended)

    def close(self) -> None:
        """Begin no further check."""
        self._threads.shutdown(wait=False, cancel_futures=True)
