# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The instance actors that an earlier controller left in the cluster."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError

from backends.api.errors import TritonError
from cluster.actors.calls import actor_names, call, cause_of, kill_actor
from cluster.placement.planner import ActorName, parse_actor_name
from deployments.instance.spec import NAMESPACE, InstanceDescription

_log = logging.getLogger(__name__)

# What an adopted actor gets to describe itself before it counts as hung or still loading.
_ADOPTION_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class LiveInstance:
    """An actor found alive by a controller that did not create it."""

    name: ActorName
    handle: Any = field(repr=False)
    description: InstanceDescription


async def find_live_instances() -> list[LiveInstance]:
    """Describe the instance actors that are alive, and kill those that cannot answer."""
    texts = await asyncio.to_thread(actor_names)
    names = [name for name in map(parse_actor_name, texts) if name is not None]
    found = await asyncio.gather(*(_find_live(name) for name in names))
    return [live for live in found if live is not None]


async def _find_live(name: ActorName) -> LiveInstance | None:
    try:
        handle = await asyncio.to_thread(ray.get_actor, str(name), namespace=NAMESPACE)
    except ValueError:
        return None
    try:
        async with asyncio.timeout(_ADOPTION_TIMEOUT_S):
            return LiveInstance(name, handle, await call(handle.describe.remote()))
    except (RayError, TritonError, TimeoutError) as error:
        _log.warning("instance %s is not adopted: %s", name, cause_of(error))
        await asyncio.to_thread(kill_actor, handle)
        return None


async def kill_instances(instances: Iterable[LiveInstance]) -> None:
    """Kill actors that belong to no generation in service."""
    for instance in instances:
        _log.info("orphan instance %s is killed", instance.name)
        await asyncio.to_thread(kill_actor, instance.handle)
