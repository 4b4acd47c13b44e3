# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Puts the instances that an earlier controller left in service again.

A version is adopted with the instances it has. What it has too few or too many of is settled by
the load that follows, which knows the instance groups as they are now. No load follows for a model
whose files came with its load; its groups cannot have changed since.

Of several generations that serve the fuller one is adopted. The others end by draining, the newer
ones too: a controller that died while it reloaded may have told routers of them already.
"""

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from backends.api.errors import TritonError
from backends.config.autoscaling import is_autoscaled
from cluster.controller.host import Actors
from cluster.controller.repository_source import RepositorySource
from cluster.instances.live import LiveInstance
from cluster.instances.pool import InstancePool
from cluster.models.contracts import MakePool
from cluster.models.lifecycle import ModelLifecycle
from cluster.placement.planner import ActorName
from deployments.instance.spec import InstanceSpec

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a controller has found.

    Attributes:
        count: Instances that were alive.
        outdated: Those of other generations than the one adopted. Routers may send requests to
            them for as long as they have the earlier controller's table, and sequences may run
            there.
        late: Returns those that were silent and have answered since; they were replaced.
    """

    count: int
    outdated: tuple[LiveInstance, ...]
    late: Callable[[], Awaitable[list[LiveInstance]]]


async def adopt_live_instances(
    actors: Actors,
    source: RepositorySource,
    lifecycle: ModelLifecycle,
    is_as_given: Callable[[str], bool],
) -> Recovered:
    """Adopt what is alive and fits the options, and kill what does not fit them.

    It may be called again after it has raised: nothing is adopted before all that may raise.

    Args:
        actors: The instances.
        source: Knows the options.
        lifecycle: Gets what is adopted.
        is_as_given: Tells of a model whether its files came with its load.
    """
    found_alive = await actors.find_live_instances()
    live = found_alive.described
    specs = [found.description.spec for found in live]
    await source.files.adopt(specs)
    await source.adopt_files({spec.model_dir for spec in specs})
    pools: dict[tuple[str, int], dict[int, list[LiveInstance]]] = defaultdict(dict)
    for found in live:
        generations = pools[found.name.model_key, found.name.version]
        generations.setdefault(found.name.generation, []).append(found)
    # Configs are completed for the GPUs there are.
    await source.look_at_cluster()
    outdated: list[LiveInstance] = []
    misfits: list[LiveInstance] = []
    adoptions: list[Callable[[], None]] = []
    for (name, version), generations in pools.items():
        best = _serving_generation(generations)
        outdated += [i for g, members in generations.items() if g != best for i in members]
        members = generations.get(best, [])
        taken = _indices(found_alive.silent, name, version, best)
        if members:
            # The newest was made from the newest config.
            newest = max(members, key=lambda found: found.name.index).description
            missing: Iterable[InstanceSpec] = ()
            try:
                config = source.complete(newest.config)
                if is_autoscaled(config):
                    # As many as there are; what is wanted else its load will tell.
                    source.counts.put(name, version, _serving_count(members))
                elif is_as_given(name):
                    alive = {found.name.index for found in members}
                    plan = await source.replan(config, newest.spec)
                    missing = [spec for spec in plan if spec.index not in alive]
            except TritonError as error:
                _log.warning("%s/%d is not adopted: %s", name, version, error.message)
                misfits += members
            else:
                digest = newest.spec.options_digest
                files_dir = newest.spec.model_dir if is_as_given(name) else ""
                make = _adopting(actors, members, missing, taken)
                adoptions.append(
                    partial(
                        lifecycle.model_of(name).versions.adopt,
                        version,
                        digest,
                        config,
                        make,
                        files_dir,
                    )
                )
    if misfits:
        await actors.kill_instances(misfits)
    for adopt in adoptions:
        adopt()
    return Recovered(len(live), tuple(outdated), found_alive.late)


def _indices(
    names: Iterable[ActorName], model_key: str, version: int, generation: int
) -> frozenset[int]:
    of_pool = (model_key, version, generation)
    return frozenset(
        name.index for name in names if (name.model_key, name.version, name.generation) == of_pool
    )


def _serving_generation(generations: Mapping[int, Iterable[LiveInstance]]) -> int:
    """Return the generation that served; -1 when there are only instances that drain.

    A reload cut short leaves two: the fuller one is the one that served.
    """
    serving = {
        generation: sum(not found.description.is_draining for found in members)
        for generation, members in generations.items()
    }
    return max(serving, key=lambda g: (serving[g], g)) if any(serving.values()) else -1


def _serving_count(members: Iterable[LiveInstance]) -> int:
    described = (found.description for found in members)
    return sum(not (each.is_draining or each.spec.group.passive) for each in described)


def _adopting(
    actors: Actors,
    members: Iterable[LiveInstance],
    missing: Iterable[InstanceSpec],
    taken: frozenset[int],
) -> MakePool:
    def make(on_change: Callable[[], None]) -> InstancePool:
        pool = actors.make_pool(on_change)
        pool.adopt(members, missing, taken)
        return pool

    return make
