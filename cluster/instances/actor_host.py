# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instance actors on Ray."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayError, RuntimeEnvSetupError

from cluster.actors.arbiter import start_arbiter
from cluster.actors.calls import actor_names, call, cause_of, kill_actor, restart_count
from cluster.actors.controller_client import connect_controller
from cluster.actors.kept_secrets import kept_cache
from cluster.actors.lane_secret import kept_lane_secret
from cluster.actors.placement_groups import create_group, remove_group, remove_groups
from cluster.instances.host import (
    ActorLostError,
    ActorUnreachableError,
    EnvironmentFailedError,
)
from cluster.instances.node_files import fetch_to_node
from cluster.instances.reachability import knock
from cluster.placement.demand import ClusterResources
from cluster.release import own_release
from cluster.threads import GCS
from deployments.instance.actor import create_instance_actor
from deployments.instance.spec import NAMESPACE, InstanceSpec


@dataclass(frozen=True, slots=True)
class _Instance:
    """An instance's actor and what its process is called while it runs a call."""

    actor: Any
    title: str


class ActorHost:
    """Implements `cluster.instances.host.InstanceHost`."""

    knock = staticmethod(knock)
    names = staticmethod(GCS.wrapped(actor_names))
    release_all_but = staticmethod(GCS.wrapped(remove_groups))

    def __init__(self, look: Callable[[], Awaitable[ClusterResources]]) -> None:
        self._look = look

    async def resources(self) -> ClusterResources:
        """See `InstanceHost.resources`."""
        return await self._look()

    async def create(self, spec: InstanceSpec) -> _Instance:
        """Create a named, detached actor; see `InstanceHost.create`."""
        try:
            return _Instance(await GCS.run(_create, spec), spec.title)
        except RayError as error:
            raise _lost(error) from error

    async def call(self, handle: _Instance, method: str, *arguments: object) -> Any:
        """Call a method; see `InstanceHost.call`."""
        try:
            ask = getattr(handle.actor, method).options(name=f"{handle.title}.{method}")
            return await call(ask.remote(*arguments))
        except RayError as error:
            raise _lost(error) from error

    async def look_up(self, name: str) -> _Instance | None:
        """Look an actor up; see `InstanceHost.look_up`."""
        try:
            actor = await GCS.run(ray.get_actor, name, namespace=NAMESPACE)
        except ValueError:
            return None
        return _Instance(actor, name.partition("@")[0])

    async def restarts(self, handle: _Instance) -> int:
        """Ask the GCS; see `InstanceHost.restarts`."""
        try:
            return await GCS.run(restart_count, handle.actor)
        except RayError as error:
            raise _lost(error) from error

    async def kill(self, handle: _Instance) -> None:
        """Kill an actor; see `InstanceHost.kill`.

        Ray asks the process first, and sends SIGKILL when it has not ended after
        ``kill_worker_timeout_milliseconds``, 5 s: so a stopped process ends too. Its name is free
        at once.
        """
        await GCS.run(kill_actor, handle.actor)

    async def release(self, spec: InstanceSpec) -> None:
        """Remove a placement group; see `InstanceHost.release`."""
        if spec.gang is not None:
            try:
                await GCS.run(remove_group, spec.name)
            except RayError as error:
                raise _lost(error) from error


def _create(spec: InstanceSpec) -> Any:
    read_cache = None if spec.cache is None else kept_cache
    spec = replace(spec, release=str(own_release()), cache=None, secret=b"")
    group = None if spec.gang is None else create_group(spec)
    try:
        return create_instance_actor(
            spec,
            connect_controller,
            start_arbiter,
            fetch_to_node,
            group,
            read_cache,
            kept_lane_secret,
        )
    except BaseException:
        if group is not None:
            remove_group(spec.name)
        raise


def _lost(error: RayError) -> ActorLostError:
    kinds = {
        RuntimeEnvSetupError: EnvironmentFailedError,
        ActorUnavailableError: ActorUnreachableError,
    }
    found = (ours for theirs, ours in kinds.items() if isinstance(error, theirs))
    return next(found, ActorLostError)(cause_of(error))
