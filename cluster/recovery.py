# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Puts the instances that an earlier controller left in service again."""

import logging
from collections import defaultdict
from collections.abc import Callable

from backends.api.errors import TritonError
from cluster.loading import Pool
from cluster.model_lifecycle import ModelLifecycle
from cluster.model_source import RepositorySource
from cluster.planner import replan_pool
from cluster.pool import InstancePool, LiveInstance, find_live_instances, kill_instances

_log = logging.getLogger(__name__)


async def adopt_live_instances(source: RepositorySource, lifecycle: ModelLifecycle) -> int:
    """Adopt what is alive and fits the options; returns how many instances there were."""
    live = await find_live_instances()
    pools: dict[tuple[str, int], dict[int, list[LiveInstance]]] = defaultdict(dict)
    for found in live:
        generations = pools[found.name.model_name, found.name.version]
        generations.setdefault(found.name.generation, []).append(found)
    cluster = await source.look_at_cluster()
    for (name, version), generations in pools.items():
        # A reload cut short leaves two generations; the fuller one is the one that served.
        best = max(generations, key=lambda g: (len(generations[g]), g))
        orphans = [i for g, members in generations.items() if g != best for i in members]
        members = generations[best]
        first = members[0].description
        try:
            config = source.complete(first.config)
            plan = replan_pool(config, first.spec, source.cpus_per_instance, cluster)
        except TritonError as error:
            _log.warning("%s/%d is not adopted: %s", name, version, error.message)
            await kill_instances(orphans + members)
            continue
        await kill_instances(orphans)
        alive = {found.name.index for found in members}
        missing = [spec for spec in plan if spec.index not in alive]

        def make(on_change: Callable[[], None]) -> Pool:
            pool = InstancePool(on_change)
            pool.adopt(members, missing)  # noqa: B023 - called before the loop goes on
            return pool

        lifecycle.adopt(version, first.spec.options_digest, config, make)
    return len(live)
