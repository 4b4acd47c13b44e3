# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The instance actors that an earlier controller left in the cluster."""

import asyncio
import contextlib
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from backends.api.errors import TritonError
from cluster.instances.host import ActorLostError, InstanceHost
from cluster.placement.planner import ActorName, parse_actor_name
from deployments.instance.spec import InstanceDescription

_log = logging.getLogger(__name__)

# What an adopted actor gets to describe itself before it counts as hung or still loading.
_ADOPTION_TIMEOUT_S = 20.0
# Once some have answered, and no other one for so long, nobody waits for the rest.
_SILENCE_S = 4.0


@dataclass(frozen=True, slots=True)
class LiveInstance:
    """An actor found alive by a controller that did not create it."""

    name: ActorName
    handle: Any = field(repr=False)
    description: InstanceDescription


@dataclass(frozen=True, slots=True)
class LiveInstances:
    """The actors that an earlier controller left.

    Attributes:
        described: Those that have described themselves.
        silent: Those that have not, which are asked on for a while: stopped, cut off, or loading.
    """

    described: Collection[LiveInstance]
    silent: Mapping[ActorName, asyncio.Task[LiveInstance | None]] = field(default_factory=dict)

    async def late(self) -> list[LiveInstance]:
        """Return the silent ones that do answer; the others have been killed."""
        found = await asyncio.gather(*self.silent.values())
        return [live for live in found if live is not None]


async def find_live_instances(host: InstanceHost) -> LiveInstances:
    """Describe the instance actors that are alive, and kill those that cannot answer.

    One that is stopped holds up nobody: it is waited for only as long as others answer. What those
    reserved that are not alive is free then.
    """
    names = [name for name in map(parse_actor_name, await host.names()) if name is not None]
    tasks = {name: asyncio.create_task(_find_live(host, name)) for name in names}
    pending = set(tasks.values())
    while pending:
        done, pending = await asyncio.wait(
            pending, timeout=_SILENCE_S, return_when=asyncio.FIRST_COMPLETED
        )
        if not done and len(pending) < len(tasks):
            break
    silent = {name: task for name, task in tasks.items() if not task.done()}
    for name in silent:
        _log.warning("instance %s is silent; it is replaced, and ended when it answers", name)
    found = [task.result() for task in tasks.values() if task.done()]
    described = [live for live in found if live is not None]
    alive = {str(live.name) for live in described}
    await host.release_all_but(alive.union(map(str, silent)))
    return LiveInstances(described, silent)


async def _find_live(host: InstanceHost, name: ActorName) -> LiveInstance | None:
    handle = await host.look_up(str(name))
    if handle is None:
        return None
    try:
        async with asyncio.timeout(_ADOPTION_TIMEOUT_S):
            return LiveInstance(name, handle, await host.call(handle, "describe"))
    except (ActorLostError, TritonError, TimeoutError) as error:
        why = str(error) or f"no answer within {_ADOPTION_TIMEOUT_S:g} s"
        _log.warning("instance %s is not adopted: %s", name, why)
        await host.kill(handle)
        return None


async def retire_instances(
    host: InstanceHost, instances: Iterable[LiveInstance], drain_s: float
) -> None:
    """Have actors that routers have left finish their requests, so long at most; then kill them."""
    await asyncio.gather(*(_retire(host, instance, drain_s) for instance in instances))


async def _retire(host: InstanceHost, instance: LiveInstance, drain_s: float) -> None:
    with contextlib.suppress(ActorLostError, TritonError, TimeoutError):
        async with asyncio.timeout(drain_s + 1):
            await host.call(instance.handle, "drain", drain_s)
    _log.info("instance %s of an earlier generation is ended", instance.name)
    await host.kill(instance.handle)
    await host.release(instance.description.spec)


async def kill_instances(host: InstanceHost, instances: Iterable[LiveInstance]) -> None:
    """Kill actors that belong to no generation in service."""
    for instance in instances:
        _log.info("orphan instance %s is killed", instance.name)
        await host.kill(instance.handle)
        await host.release(instance.description.spec)
