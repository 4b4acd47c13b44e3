# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Kills of instance actors that are known to have happened.

Ray may lose a kill, and a call of its GCS may fail or hang. A killed actor's name is free.
"""

import asyncio
import logging
from typing import Any, Final

from cluster.instances.host import InstanceHost
from deployments.instance.spec import InstanceSpec

_log = logging.getLogger(__name__)

# How long it may take until a kill is known to have happened, and how often that is looked at.
_KNOWN_WITHIN_S: Final = 10.0
_LOOK_S: Final = 0.1
KILL_AGAIN_S: Final = 5.0


async def is_killed(host: InstanceHost, handle: Any, spec: InstanceSpec) -> bool:
    """Kill an actor for good; whether it is known that it is dead and what it reserved released."""
    try:
        async with asyncio.timeout(_KNOWN_WITHIN_S):
            await host.kill(handle)
            while True:
                if await host.look_up(spec.name) is None:
                    break
                await asyncio.sleep(_LOOK_S)
            await host.release(spec)
    except Exception as error:
        # Ray's client raises what it likes.
        cause = str(error) or type(error).__name__
        _log.warning("instance %s is not known to be dead: %s", spec.name, cause)
        return False
    return True


async def kill_until_dead(host: InstanceHost, handle: Any, spec: InstanceSpec) -> None:
    """Kill an actor again and again, until it is known to be dead."""
    while True:
        if await is_killed(host, handle, spec):
            return
        await asyncio.sleep(KILL_AGAIN_S)
