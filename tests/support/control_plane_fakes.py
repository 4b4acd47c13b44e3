# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A repository and pools in memory, on virtual time, for tests of the lifecycle."""

import asyncio
import dataclasses
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, cast

import pytest

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    TritonError,
)
from backends.api.model_config import EnsembleStep, InstanceGroup, ModelConfig
from backends.api.model_identifier import name_of, namespace_of
from cluster.autoscaling.counts import InstanceCounts
from cluster.instances.pool import InstancePool
from cluster.models.contracts import Candidate, LifecycleSettings
from cluster.models.lifecycle import ModelLifecycle
from cluster.models.override import Override, choose_override
from cluster.models.states import ModelRecord
from cluster.placement.demand import ClusterResources
from cluster.placement.explanation import InstanceStatus
from cluster.placement.planner import PoolRequest, parse_actor_name, plan_pool, replan_pool
from deployments.contracts.routing_table import InstanceEndpoint, ModelReadyState
from deployments.instance.spec import InstanceSpec
from deployments.metrics.counters import Snapshot
from tests.support import virtual_time

LOAD_S = 1.0
DRAIN_S = 2.0


def model(key: str, versions: Iterable[int] = (1,), count: int = 1, stamp: str = "") -> Candidate:
    name, namespace = name_of(key), namespace_of(key)
    config = ModelConfig(
        name, backend="fake", instance_group=(InstanceGroup(f"{name}_0", "KIND_CPU", count),)
    )
    digests = {v: f"{key}{v}{stamp}" for v in versions}
    return Candidate(config, f"/r/{key}", digests, namespace=namespace)


def ensemble(key: str, *parts: str, version: int = -1) -> Candidate:
    name, namespace = name_of(key), namespace_of(key)
    steps = tuple(EnsembleStep(part, version, {}, {}) for part in parts)
    config = ModelConfig(name, has_ensemble_scheduling=True, ensemble_steps=steps)
    return Candidate(config, f"/r/{key}", {1: key}, namespace=namespace)


def in_virtual_time(
    test: Callable[[], Coroutine[object, object, None]],
) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        virtual_time.run(test())

    del run.__wrapped__  # else pytest sees a coroutine function
    return run


def now() -> float:
    return asyncio.get_running_loop().time()


async def error_of(work: Coroutine[object, object, None]) -> TritonError:
    with pytest.raises(TritonError) as caught:
        await work
    return caught.value


class World:
    """What a test sets up and looks at afterwards.

    Attributes:
        candidates: The repositories, by key.
        has_namespaces: Whether each repository has its own names.
        fail: Errors of loads, by actor name without generation; each is raised once.
        fail_ends: Errors of ending a pool; each is raised once.
        routers_s: How long routers take to know what has changed.
        blocked: Actor names without generation that the cluster has no room for.
        node: Where instances start.
        running: The release that instances run which are started.
        composed: Ensembles that were completed, and with which configs.
        misfits: By ensemble: why it does not fit its models.
        overrides: What models were read with.
        notices: What the source was told of candidates, in order.
        directory_digest: Of every model's directory.
        counts: How many instances versions that autoscale shall have.
        cluster: The nodes that plans are made for.
        log: What happened: ``start``, ``ready``, ``drain`` and ``end`` with actor names, and
            ``known`` when the routers know the records as they were.
    """

    def __init__(self, *candidates: Candidate, thread_count: int = 4, retry_count: int = 0) -> None:
        self.candidates = {candidate.key: candidate for candidate in candidates}
        self.has_namespaces = any(candidate.namespace for candidate in candidates)
        self.fail: dict[str, list[Exception]] = {}
        self.blocked: set[str] = set()
        self.node = "n"
        self.running = ""
        self.unblocked = asyncio.Event()
        self.log: list[str] = []
        self.states: list[dict[str, str]] = []
        self.routers_s = 0.0
        self.fail_ends: list[Exception] = []
        self.loading = 0
        self.most_loading = 0
        self.released: list[str] = []
        self.notices: list[str] = []
        self.overrides: list[Override] = []
        self.directory_digest = "as it was"
        self.pools: list[FakePool] = []
        self.composed: list[tuple[str, dict[str, ModelConfig]]] = []
        self.misfits: dict[str, str] = {}
        self.counts = InstanceCounts()
        self.cluster = ClusterResources()
        self._generation = 0
        self.lifecycle = ModelLifecycle(
            self,
            self._make_pool,
            self._changed,
            LifecycleSettings(thread_count, retry_count, DRAIN_S),
            self._routers_know,
        )

    def _make_pool(self, on_change: Callable[[], None]) -> InstancePool:
        pool = FakePool(self, on_change)
        self.pools.append(pool)
        return cast("InstancePool", pool)

    def _changed(self, _: str) -> None:
        seen = {
            f"{name}/{version}": record.state.value
            for name, at in self.lifecycle.records.items()
            for version, record in at.versions.items()
        }
        if not self.states or self.states[-1] != seen:
            self.states.append(seen)

    async def _routers_know(self) -> None:
        if self.routers_s:
            await asyncio.sleep(self.routers_s)
            self.log.append("known")

    def record(self, name: str) -> ModelRecord:
        return self.lifecycle.records[name]

    def state(self, name: str, version: int = 1) -> ModelReadyState:
        return self.record(name).versions[version].state

    def reason(self, name: str, version: int = 1) -> str:
        return self.record(name).versions[version].reason

    def endpoints(self, name: str, version: int = 1) -> list[str]:
        return [endpoint.name for endpoint in self.record(name).versions[version].instances]

    async def read(self, name: str, override: Override, kept: Override) -> Candidate:
        used = choose_override(override, kept, lambda: self.directory_digest)
        self.overrides.append(used)
        if name not in self.candidates:
            text = f"failed to load '{name}', failed to poll from model repository"
            raise InternalError(text) from NotFoundError(name)
        # A new object each time, as reading files gives.
        digests = self.candidates[name].digests
        if used.config_json is not None:
            digests = {v: f"{digest} {used.config_json}" for v, digest in digests.items()}
        return dataclasses.replace(self.candidates[name], digests=digests, override=used)

    async def keys_of(self, name: str) -> tuple[str, ...]:
        if not self.has_namespaces:
            return (name,)
        return tuple(key for key in self.candidates if name_of(key) == name)

    def with_namespaces(self, config: ModelConfig, namespaces: Sequence[str]) -> ModelConfig:
        steps = zip(config.ensemble_steps, namespaces, strict=True)
        named = tuple(dataclasses.replace(step, model_namespace=space) for step, space in steps)
        return dataclasses.replace(config, ensemble_steps=named)

    def complete(self, config: ModelConfig) -> ModelConfig:
        return dataclasses.replace(config, platform="completed")

    def compose(self, config: ModelConfig, composing: Mapping[str, ModelConfig]) -> ModelConfig:
        self.composed.append((config.name, dict(composing)))
        if self.misfits.get(config.name):
            raise InvalidArgumentError(self.misfits[config.name])
        return config

    async def next_generation(self) -> int:
        self._generation += 1
        return self._generation

    async def plan(
        self,
        candidate: Candidate,
        config: ModelConfig,
        version: int,
        generation: int,
        *,
        auto_complete: bool,
    ) -> Sequence[InstanceSpec]:
        request = PoolRequest(
            generation,
            version,
            candidate.model_dir,
            auto_complete=auto_complete,
            model_namespace=candidate.namespace,
            instance_count=self.counts.of(candidate.key, version, config),
        )
        return plan_pool(config, request, self.cluster)

    async def replan(
        self, config: ModelConfig, like: InstanceSpec, count: int
    ) -> Sequence[InstanceSpec]:
        return replan_pool(config, like, 0.001, {}, ClusterResources(), count)

    async def loaded(self, candidate: Candidate) -> None:
        self.notices.append(f"loaded {candidate.config.name}")

    async def unloading(self, candidate: Candidate) -> None:
        self.notices.append(f"unloading {candidate.config.name}")

    async def release(self, candidate: Candidate) -> None:
        self.released.append(candidate.model_dir)
        self.notices.append(f"release {candidate.config.name}")


class FakePool:
    def __init__(self, world: World, on_change: Callable[[], None]) -> None:
        self._world = world
        self.changed = on_change
        self.live: dict[str, InstanceSpec] = {}
        self.staged: dict[str, InstanceSpec] = {}
        # What is staged and has no room.
        self.waiting: dict[str, InstanceSpec] = {}
        self.going: dict[str, InstanceSpec] = {}
        self.draining: set[str] = set()
        self.past: dict[str, bytes] = {}
        self.counted: dict[str, Snapshot] = {}
        self.reason = ""
        self.staged_config: ModelConfig | None = None
        self.load_duration_ns = 7
        self.next_index = 0
        # Where instances run that are not on "n".
        self.nodes: dict[str, str] = {}

    @property
    def specs(self) -> tuple[InstanceSpec, ...]:
        return tuple(self.live.values())

    @property
    def endpoints(self) -> tuple[InstanceEndpoint, ...]:
        return tuple(_endpoint(name, self.nodes.get(name, "n")) for name in self.live)

    @property
    def leaving(self) -> tuple[InstanceEndpoint, ...]:
        return tuple(map(_endpoint, self.going))

    def on_nodes(self, node_ids: Collection[str]) -> tuple[str, ...]:
        return tuple(each.name for each in self.endpoints if each.node_id in node_ids)

    @property
    def places(self) -> tuple[InstanceStatus, ...]:
        live = [
            InstanceStatus(spec, self.nodes.get(name, "n"), pid=1)
            for name, spec in self.live.items()
        ]
        going = [InstanceStatus(s, "n", is_leaving=True) for s in self.going.values()]
        return (*live, *going)

    @property
    def is_live(self) -> bool:
        return bool(self.live)

    async def _start(self, spec: InstanceSpec) -> None:
        world = self._world
        place = spec.name.rpartition("@")[0]
        self.next_index = max(self.next_index, spec.index + 1)
        if place in world.blocked:
            self.waiting[spec.name] = spec
            self.reason = f"instance {spec.name} is waiting"
            self.changed()
            return
        world.log.append(f"start {spec.name}")
        world.loading += 1
        world.most_loading = max(world.most_loading, world.loading)
        try:
            await asyncio.sleep(LOAD_S)
        finally:
            world.loading -= 1
        if world.fail.get(place):
            raise world.fail[place].pop(0)
        world.log.append(f"ready {spec.name}")
        completed = {"default_model_filename": "found"} if spec.auto_complete else {}
        changes: dict[str, Any] = completed
        self.staged_config = dataclasses.replace(spec.config, **changes)
        self.nodes[spec.name] = world.node
        self.staged[spec.name] = dataclasses.replace(spec, release=world.running)
        self.changed()

    async def stage(
        self, specs: Iterable[InstanceSpec], least: int, on_blocked: Callable[[], None]
    ) -> None:
        await asyncio.gather(*[self._start(spec) for spec in specs])
        if len(self.staged) < min(least, len(self.staged) + len(self.waiting)):
            on_blocked()
            await self.wait_changed()

    async def wait_changed(self) -> None:
        await self._world.unblocked.wait()
        self.reason = ""
        self.staged |= self.waiting
        self.waiting = {}

    def count_anew(self) -> None:
        pass

    def commit(self, leaving: Collection[str]) -> tuple[str, ...]:
        outgoing = [name for name in leaving if name in self.live]
        without = len(outgoing) - len(self.staged) - len(self.waiting)
        count = len(self.staged) + max(0, without)
        self.going |= {name: self.live.pop(name) for name in outgoing[:count]}
        self.live |= self.staged
        self.staged = {}
        if not outgoing[count:]:
            self.waiting = {}
        self.changed()
        return tuple(outgoing[count:])

    def displace(self, names: Collection[str]) -> Mapping[str, str]:
        gone = [name for name in names if name in self.live]
        self.commit(gone)
        self.reason = "; ".join(f"instance after {name} is waiting" for name in gone)
        self.changed()
        return {name: f"after {name}" for name in gone}

    async def unstage(self) -> None:
        names, self.staged, self.waiting = list(self.staged), {}, {}
        self._world.log.extend(f"end {name}" for name in names)

    async def let_go(self, drain_s: float, *, hurries: bool = False) -> None:
        names = [name for name in self.going if name not in self.draining]
        self.draining.update(names)
        self._world.log.extend(f"drain {name}" for name in names)
        await asyncio.sleep(drain_s)
        self._world.log.extend(f"end {name}" for name in names)
        if names:
            self.past["n"] = " ".join(names).encode()
        for name in names:
            self.going.pop(name, None)
        self.changed()

    async def statistics(self) -> Mapping[str, Snapshot]:
        return {name: self.counted[name] for name in self.live if name in self.counted}

    async def close(self, drain_s: float) -> None:
        if self._world.fail_ends:
            raise self._world.fail_ends.pop(0)
        names, self.live, self.staged = [*self.live, *self.staged], {}, {}
        self._world.log.extend(f"drain {name}" for name in names)
        await asyncio.sleep(drain_s)
        self._world.log.extend(f"end {name}" for name in names)

    def lose(self) -> None:
        self.live, self.reason = {}, "instance died; restarting"
        self.changed()

    def recover(self, name: str) -> None:
        self.live, self.reason = {name: _spec(name)}, ""
        self.changed()


def _endpoint(name: str, node: str = "n") -> InstanceEndpoint:
    return InstanceEndpoint(name, f"of {name}", node, "u", ("h", 1))


def _spec(name: str) -> InstanceSpec:
    """Return the spec of an instance as `model` has it."""
    place = parse_actor_name(name)
    version, index = (place.version, place.index) if place else (1, 0)
    group = InstanceGroup("g", "KIND_CPU", 1)
    config = ModelConfig("m")
    return InstanceSpec(
        9,
        version,
        "/r/m",
        name=name,
        model_name="m",
        index=index,
        instance_name="g_0",
        config=config,
        auto_complete=False,
        group=group,
    )
