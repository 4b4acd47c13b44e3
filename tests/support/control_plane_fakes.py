# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A repository in memory, and a lifecycle over real pools whose actors are in memory."""

import asyncio
import contextlib
import dataclasses
import inspect
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import wraps

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
from cluster.devices.inventory import Inventory
from cluster.instances.device_leases import DeviceLeases
from cluster.instances.placer import Placer
from cluster.instances.pool import InstancePool
from cluster.instances.prober import Prober
from cluster.models.contracts import Candidate, LifecycleSettings
from cluster.models.lifecycle import ModelLifecycle
from cluster.models.override import Override, choose_override
from cluster.models.states import ModelRecord
from cluster.placement.demand import ClusterResources
from cluster.placement.node_devices import NodeDevices
from cluster.placement.planner import PoolRequest, plan_pool, replan_pool
from deployments.contracts.routing_table import ModelReadyState
from deployments.instance.spec import InstanceSpec
from deployments.metrics.counters import decode
from tests.support import virtual_time
from tests.support.instance_host import LOAD_S, FakeActor, FakeHost

DRAIN_S = 2.0
KILL_S = 0.05


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
    test: Callable[..., Coroutine[object, object, None]],
) -> Callable[..., None]:
    @wraps(test)
    def run(*arguments: object, **fixtures: object) -> None:
        virtual_time.run(test(*arguments, **fixtures))

    run.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]  # pytest asks for it
    del run.__wrapped__  # else pytest sees a coroutine function
    return run


def now() -> float:
    return asyncio.get_running_loop().time()


async def error_of(work: Coroutine[object, object, None]) -> TritonError:
    with pytest.raises(TritonError) as caught:
        await work
    return caught.value


async def quietly(work: Awaitable[object]) -> None:
    """Wait for what may be refused."""
    with contextlib.suppress(TritonError):
        await work


class World:
    """What a test sets up and looks at afterwards.

    Attributes:
        candidates: The repositories, by key.
        has_namespaces: Whether each repository has its own names.
        routers_s: How long routers take to know what has changed.
        composed: Ensembles that were completed, and with which configs.
        misfits: By ensemble: why it does not fit its models.
        overrides: What models were read with.
        notices: What the source was told of candidates, in order.
        directory_digest: Of every model's directory.
        counts: How many instances versions that autoscale shall have.
        cluster: The nodes that plans are made for.
        host: Where the actors are; its log has ``known``, too, when the routers know the records
            as they were.
        pools: All there were, by age.
        placer: Gives instances their places.
        leases: Who has which device.
        prober: Finds those that hang.
    """

    def __init__(
        self,
        *candidates: Candidate,
        thread_count: int = 4,
        retry_count: int = 0,
        cluster: ClusterResources | None = None,
        patience_s: float = 0.0,
        requests_s: float = math.inf,
    ) -> None:
        self.candidates = {candidate.key: candidate for candidate in candidates}
        self.has_namespaces = any(candidate.namespace for candidate in candidates)
        self.states: list[dict[str, str]] = []
        self.routers_s = 0.0
        self.released: list[str] = []
        self.notices: list[str] = []
        self.overrides: list[Override] = []
        self.directory_digest = "as it was"
        self.pools: list[InstancePool] = []
        self.composed: list[tuple[str, dict[str, ModelConfig]]] = []
        self.misfits: dict[str, str] = {}
        self.counts = InstanceCounts()
        self.cluster = cluster or ClusterResources()
        self.host = FakeHost()
        self.host.node, self.host.kill_s, self.host.drain_s = "n", KILL_S, requests_s
        self.prober = Prober(patience_s)
        self.leases = DeviceLeases(self._look, NodeDevices(self._inventory))
        self.placer = Placer(self._look, self.leases)
        self._generation = 0
        self.lifecycle = ModelLifecycle(
            self,
            self._make_pool,
            self._changed,
            LifecycleSettings(thread_count, retry_count, DRAIN_S),
            self._routers_know,
        )

    def _make_pool(self, on_change: Callable[[], None]) -> InstancePool:
        pool = InstancePool(on_change, self.host, self.prober, self.placer)
        self.pools.append(pool)
        return pool

    async def _look(self) -> ClusterResources:
        return self.cluster

    async def _inventory(self, node_id: str) -> Inventory:
        return self.cluster.devices.get(node_id, Inventory())

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
            self.host.log.append("known")

    def record(self, name: str) -> ModelRecord:
        return self.lifecycle.records[name]

    def state(self, name: str, version: int = 1) -> ModelReadyState:
        return self.record(name).versions[version].state

    def reason(self, name: str, version: int = 1) -> str:
        return self.record(name).versions[version].reason

    def endpoints(self, name: str, version: int = 1) -> list[str]:
        """Return the actor names of those that routers know."""
        known = self.record(name).versions[version].instances
        return [self.host.named[endpoint.incarnation] for endpoint in known]

    def past(self, name: str) -> dict[str, int]:
        """Return how many executions instances had, by node, that have left version 1."""
        counted = self.record(name).versions[1].past
        return {node: decode(counts).execution_count for node, counts in counted.items()}

    @property
    def alive(self) -> list[str]:
        """Names of the actors that nobody has killed."""
        return [actor.spec.name for actor in self.host.alive]

    def actor(self, name: str) -> FakeActor:
        return next(actor for actor in self.host.alive if actor.spec.name == name)

    async def lose(self, name: str) -> None:
        """Have the processes of a model's instances die, which Ray starts again."""
        for actor in self.host.alive:
            if actor.spec.model_name == name:
                self.host.crash(actor)
        await asyncio.sleep(LOAD_S / 10)

    async def twice(self, unload: str) -> None:
        """Unload a model twice, the second time while the first is under way."""
        first = asyncio.create_task(self.lifecycle.unload(unload))
        await asyncio.sleep(0.02)
        await asyncio.gather(first, self.lifecycle.unload(unload))

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
