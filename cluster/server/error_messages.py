# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Error messages of Ray in a driver: its thread that asks for them, and what it prints.

Ray's thread asks for the next message, which it waits for; while no GCS answers it is told at once
that there is none, and took a whole core: here it pauses. What it is told, such as that a worker
has died, it prints in colour, also into a pipe: Manta logs as much itself.

Ray: python/ray/_private/worker.py listen_error_messages, print_worker_logs
"""

import threading
from typing import Any, Final

from ray._private import worker as driver
from ray._private.worker import global_worker

_PAUSE_S: Final = 0.5


class PausingSubscriber:
    """A subscriber that waits after it had nothing.

    Args:
        subscriber: Ray's.
        stopped: Set when nobody wants messages any more.
    """

    def __init__(self, subscriber: Any, stopped: threading.Event) -> None:
        self._subscriber = subscriber
        self._stopped = stopped

    def poll(self) -> tuple[bytes | None, dict[str, Any] | None]:
        """Return the next message and whose it is; None after a pause if there is none."""
        key, message = self._subscriber.poll()
        if message is None:
            self._stopped.wait(_PAUSE_S)
        return key, message

    def close(self) -> None:
        """Subscribe to nothing any more."""
        self._subscriber.close()


def pause_while_the_head_is_away() -> None:
    """Have this driver's thread of error messages pause where it would ask again at once."""
    worker: Any = global_worker
    subscriber = getattr(worker, "gcs_error_subscriber", None)
    if subscriber is not None and not isinstance(subscriber, PausingSubscriber):
        worker.gcs_error_subscriber = PausingSubscriber(subscriber, worker.threads_stopped)


def print_messages(*, is_wanted: bool) -> None:
    """Have Ray print, or not print, messages and lines of its processes in this driver."""
    driver._worker_logs_enabled = is_wanted  # noqa: SLF001 - Ray's debugger sets it, nothing public
