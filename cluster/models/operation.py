# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The task of one load, which outlives who asked for it while it is pending."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeGuard

from backends.api.errors import TritonError

_log = logging.getLogger(__name__)

Work = asyncio.Task[None]


def begin(name: str, work: Coroutine[Any, Any, None]) -> Work:
    """Begin an operation whose error is seen also when nobody waits for it any more.

    Args:
        name: What it does, for the log.
        work: The coroutine; it logs its own `TritonError`.
    """
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_see_end)
    return task


def is_running(work: Work | None) -> TypeGuard[Work]:
    """Whether there is an operation that has not ended."""
    return work is not None and not work.done()


async def finished(task: Work) -> None:
    """Wait for the end of a task that nobody cancels, also when who waits is cancelled."""
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _see_end(task: Work) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, TritonError):
        _log.error("%s failed", task.get_name(), exc_info=error)
