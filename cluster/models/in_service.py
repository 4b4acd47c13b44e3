# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is done to the instances of one version in service: resizes, rests, wakes, moves.

Which of it may be done while what else is: `cluster.models.operation`.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from backends.api.errors import TritonError
from backends.api.model_identifier import shown
from cluster.models.contracts import Choose, OnBlocked
from cluster.models.states import LifecycleEvent
from cluster.models.version_loader import Loaded
from cluster.models.versions import RESIZE_DRAIN_S, ModelVersions
from cluster.placement.planner import instances_by_node

_log = logging.getLogger(__name__)


async def resize(versions: ModelVersions, version: int, count: int, on_blocked: OnBlocked) -> None:
    """Give a version another count of instances that take requests; one without any is left alone.

    New instances take requests once each of them is ready or waits for room. Those that are too
    many take none any more and end when their requests and sequences have ended.

    Raises:
        TritonError: A new instance failed to load; there are as many as before.
    """
    pool, record = versions.pools.get(version), versions.record.versions.get(version)
    if pool is None or record is None or record.config is None or not pool.specs:
        return
    serving = Loaded(pool, record.config)
    everywhere = instances_by_node(versions.records.all_endpoints())
    outcome = await versions.loader.resize(version, serving, count, everywhere)
    await _let_leave(versions, outcome, on_blocked, RESIZE_DRAIN_S)


def rest(versions: ModelVersions, version: int) -> bool:
    """Let all instances of a version go; see `cluster.models.dormancy`."""
    pool, candidate = versions.pools.get(version), versions.candidate
    if pool is None or candidate is None or version not in candidate.digests:
        return False
    names = [spec.name for spec in pool.specs]
    record = versions.record.versions[version]
    if not (names and record.is_ready):
        return False
    versions.records.note(versions.record.with_version(replace(record, is_dormant=True)))
    pool.commit(names)
    versions.records.event(versions.name, version, LifecycleEvent.RESTED)
    versions.succession.shrink(pool)
    return True


def displace(
    versions: ModelVersions, version: int, instances: Collection[str], by: str
) -> Mapping[str, str]:
    """Let instances go for another one, ``by``; each is followed by one that waits for room.

    Returns:
        By the name of an instance that goes: that of the one that follows it.
    """
    pool = versions.pools.get(version)
    if pool is None:
        return {}
    followers = pool.displace(instances)
    for each in followers:
        _log.info("'%s' version %d: %s makes room for %s", shown(versions.name), version, each, by)
    versions.succession.shrink(pool)
    return followers


async def wake(versions: ModelVersions, version: int, on_blocked: OnBlocked) -> None:
    """Start one instance of a dormant version, then the others its config asks for.

    Raises:
        TritonError: The first instance failed to load; the version is dormant as before.
    """
    candidate = versions.candidate
    if candidate is None:
        return
    serving = versions.serving(candidate, version)
    await versions.loader.wake(candidate, version, serving, on_blocked)
    serving.pool.commit(())
    versions.records.event(versions.name, version, LifecycleEvent.WOKEN)
    try:
        others = await versions.loader.regroup(candidate, version, serving, on_blocked)
    except TritonError:
        # It is awake, and the loader has said why there is one instance.
        return
    await _let_leave(versions, others, on_blocked)


async def move(
    versions: ModelVersions,
    version: int,
    choose: Choose,
    on_blocked: OnBlocked,
    drain_s: float | None = None,
) -> None:
    """Start others for some instances of a version; each lets one of those go when it is ready.

    Raises:
        TritonError: An instance failed to load; nothing has changed.
    """
    pool, candidate = versions.pools.get(version), versions.candidate
    leaving = () if pool is None else choose(pool)
    if candidate is None or not leaving:
        return
    serving = replace(versions.serving(candidate, version), leaving=leaving)
    moved = await versions.loader.move(candidate, version, serving, on_blocked)
    await _let_leave(versions, moved, on_blocked, drain_s)


async def _let_leave(
    versions: ModelVersions, changed: Loaded, on_blocked: OnBlocked, drain_s: float | None = None
) -> None:
    """Put what is staged in service, and let instances go, each when its successor is ready."""
    staying = changed.pool.commit(changed.leaving)
    versions.succession.shrink(changed.pool, drain_s)
    await versions.succession.replace({changed.pool: staying}, drain_s, on_blocked)
