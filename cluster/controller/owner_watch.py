# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ends the server once its owner is gone."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from ray.exceptions import RayError

from cluster.controller.ownership import Lifeline
from cluster.threads import GCS

_log = logging.getLogger(__name__)


async def watch_owner(lifeline: Lifeline, end: Callable[[], Awaitable[None]]) -> None:
    """Wait until the owner is lost, end the server, and return never."""
    owner = lifeline.owner
    while not lifeline.is_lost(time.monotonic()):
        await asyncio.sleep(lifeline.period_s)
        if owner.is_deployed is None:
            continue
        try:
            is_deployed = await GCS.run(owner.is_deployed)
        except RayError as error:
            _log.warning("Serve does not say whether the application is there: %s", error)
            continue
        lifeline.saw_application(time.monotonic(), is_deployed=is_deployed)
    _log.error("the server ends, because its owner is gone: %s", owner.description)
    await end()
    # Nothing is left to watch until the process ends.
    await asyncio.get_running_loop().create_future()
