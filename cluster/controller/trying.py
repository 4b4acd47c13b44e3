# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tries again what a controller cannot do without.

A controller often starts because the head has just come back, which is when Ray's calls fail. An
actor whose constructor raises is dead for good, and one that goes on without having recovered hands
out a table without models. A process that ends is started again by Ray.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

_log = logging.getLogger(__name__)

# For how long after the first failure.
TRY_FOR_S: Final = 60.0
_FIRST_DELAY_S: Final = 0.5
_LONGEST_DELAY_S: Final = 8.0


async def try_again(what: str, attempt: Callable[[], Awaitable[T]]) -> T:
    """Make attempts, at growing intervals, until one succeeds.

    An attempt that waits is not broken off: a call of a GCS that is away returns when it is back.

    Args:
        what: What is tried, for the log.
        attempt: Makes one; it must not matter that an earlier one has failed half way.

    Raises:
        Exception: As the last attempt, `TRY_FOR_S` after the first one failed.
    """
    loop = asyncio.get_running_loop()
    until_s: float | None = None
    delay_s = _FIRST_DELAY_S
    while True:
        try:
            return await attempt()
        except Exception as error:
            now_s = loop.time()
            until_s = now_s + TRY_FOR_S if until_s is None else until_s
            if now_s >= until_s:
                raise
            _log.warning("%s failed and is tried again in %g s: %r", what, delay_s, error)
        await asyncio.sleep(delay_s)
        delay_s = min(2 * delay_s, _LONGEST_DELAY_S)


async def try_or_restart(
    what: str, attempt: Callable[[], Awaitable[T]], restart_process: Callable[[], None]
) -> T:
    """`try_again`, and in place of raising end the process, which Ray starts again.

    Args:
        what: What is tried, for the log.
        attempt: As of `try_again`.
        restart_process: Ends the process; see `Process.restart_process`.
    """
    try:
        return await try_again(what, attempt)
    except Exception:
        _log.exception("%s failed for %g s; the process ends, to be started again", what, TRY_FOR_S)
    restart_process()
    # Nothing is left to do until the process has ended.
    end: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    return await end
