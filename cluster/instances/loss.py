# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Death watch of an instance's actor: returns when its process has ended, or gets nowhere.

A `wait_closed` call that never returns fails the moment Ray knows. One that failed for the network
is no death: then the process is asked whether it is still the same.

And kills that are known to have happened: Ray may lose one, and a call of its GCS may fail or hang.
A killed actor's name is free.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Final

from backends.api.errors import TritonError
from cluster.instances.host import ActorLostError, ActorUnreachableError, InstanceHost, Knock
from cluster.instances.prober import Prober
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.spec import InstanceDescription, InstanceSpec
from deployments.supervision.supervisor import Supervisor

_log = logging.getLogger(__name__)

# How long a connection may take to a process that Ray could not reach, and until the next try.
_KNOCK_S = 2.0
_UNREACHABLE_S = 1.0
# How long it may take until a kill is known to have happened, and how often that is looked at.
_KNOWN_WITHIN_S: Final = 10.0
_LOOK_S: Final = 0.1
KILL_AGAIN_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Watched:
    """A live actor, and where it listens."""

    host: InstanceHost
    handle: Any
    endpoint: InstanceEndpoint

    async def wait_lost(self, prober: Prober, supervisor: Supervisor) -> str:
        """Return how the actor ended; an empty text when it lives and gets nowhere."""
        incarnation = self.endpoint.incarnation
        wedged = prober.watch(
            incarnation, lambda: self.host.call(self.handle, "progress"), self._is_cut_off
        )
        closed = supervisor.spawn("wait for its end", self._wait_closed())
        try:
            await asyncio.wait({closed, wedged}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            prober.forget(incarnation)
            closed.cancel()
        return closed.result() if closed.done() else ""

    async def _wait_closed(self) -> str:
        why = "it closed"
        try:
            while True:
                try:
                    await self.host.call(self.handle, "wait_closed")
                    break
                except ActorUnreachableError:
                    if not await self._serves_on():
                        raise
        except (ActorLostError, TritonError) as error:
            why = cause_of(error)
        return f"died: {why}; restarting"

    async def _serves_on(self) -> bool:
        """Whether a process lives that a call did not reach: only the network had failed.

        As patient as the prober, which finds what hangs.
        """
        while await self.host.knock(self.endpoint.tcp, _KNOCK_S) is not Knock.REFUSED:
            try:
                description: InstanceDescription = await self.host.call(self.handle, "describe")
            except ActorUnreachableError:
                await asyncio.sleep(_UNREACHABLE_S)
            else:
                return description.endpoint.incarnation == self.endpoint.incarnation
        return False

    async def _is_cut_off(self, timeout_s: float) -> bool:
        return await self.host.knock(self.endpoint.tcp, timeout_s) is Knock.SILENT


def cause_of(error: Exception) -> str:
    """Return what an error of a call says."""
    return error.as_string() if isinstance(error, TritonError) else str(error)


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
