# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Has nodes fetch the files of dormant models in stores, one model at a time, while nothing starts.

At most one model is read of a repository in a look, and only if a node may lack it.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import name_of, shown
from backends.config.placement import read_placement
from cluster.controller.host import NodeFiles, Nodes
from cluster.controller.repository_source import RepositorySource
from cluster.devices.inventory import mig_profile_of
from cluster.instances.node_files import NodeFilesSettings
from cluster.instances.placer import Placer
from cluster.models.lifecycle import ModelLifecycle
from cluster.models.states import ModelRecord
from cluster.placement.demand import ClusterResources
from cluster.placement.planner import PoolRequest, demand_of, plan_pool
from cluster.residency.prefetch import Content, Dormant, Prefetches
from deployments.model_files.contracts import ModelFiles
from deployments.model_files.prefetch import Prefetched

_log = logging.getLogger(__name__)

# Looks without anything to do before the next.
_IDLE_LOOKS: Final = 4
# How soon a prefetch gives way to a start.
_STOP_S: Final = 0.5

_Version = tuple[int, ModelConfig, ModelFiles]


@dataclass(slots=True, eq=False)
class Prefetching:
    """What the controller does about it.

    Attributes:
        fetching: What fetches files there.
        placer: Starts nothing on nodes that are emptied, which fetch nothing either.
        source: Reads those that were never loaded.
        settings: Of the nodes' caches.
        fraction: Part of a cache up to which files are fetched.
    """

    nodes: Nodes
    fetching: NodeFiles
    placer: Placer
    lifecycle: ModelLifecycle
    source: RepositorySource
    settings: NodeFilesSettings
    fraction: float
    _prefetches: Prefetches = field(default_factory=Prefetches)
    # By model: when it was last seen with instances.
    _used_s: dict[str, float] = field(default_factory=dict)
    _idle_looks: int = 0

    async def look(self) -> None:
        """Have one model fetched, unless something starts; it lasts as long as that."""
        self._note_uses()
        if self._idle_looks:
            self._idle_looks -= 1
        elif not self._starting:
            self._idle_looks = _IDLE_LOOKS
            if await self._fetch_one():
                self._idle_looks = 0

    @property
    def _starting(self) -> frozenset[str]:
        return self.lifecycle.dormancy.waking_names | self.lifecycle.loading_names

    def _note_uses(self) -> None:
        now_s = asyncio.get_running_loop().time()
        records = self.lifecycle.records
        self._used_s = {name: at_s for name, at_s in self._used_s.items() if name in records}
        for name, record in records.items():
            if any(version.instances for version in record.versions.values()):
                self._used_s[name] = now_s

    async def _fetch_one(self) -> bool:
        """Fetch one model; return whether there was one."""
        models = list(self._dormant())
        if not models:
            return False
        now_s = asyncio.get_running_loop().time()
        cluster = await self.nodes.read_cluster()
        cluster = cluster.with_draining(self.placer.kept_free)
        self._prefetches.saw(models, cluster, now_s)
        for node_id in self._prefetches.unseen(now_s):
            keys = self._prefetches.keys
            view = await self.fetching.view_of_cache(node_id, keys, self.fraction)
            self._prefetches.looked(node_id, view, now_s)
        model = self._prefetches.choose(models, cluster, now_s)
        if model is None:
            return False
        try:
            await self._fetch(model, cluster)
        except TritonError as error:
            if self._prefetches.failed(model, asyncio.get_running_loop().time()):
                cause = error.__cause__ if isinstance(error.__cause__, TritonError) else error
                text = "files of model '%s' are not fetched beforehand, it is tried again: %s"
                _log.warning(text, shown(model.name), cause.message)
        else:
            self._prefetches.succeeded(model)
        return True

    async def _fetch(self, model: Dormant, cluster: ClusterResources) -> None:
        versions = await self._read(model)
        contents = [self._content(*version, cluster) for version in versions]
        self._prefetches.read(model, contents)
        for content, (_, _, files) in zip(contents, versions, strict=True):
            node_ids = self._prefetches.lacking(content, cluster)
            if self._starting - {model.name}:
                return
            await self._fetch_to(node_ids, model.name, content.key, files)

    async def _fetch_to(
        self, node_ids: Collection[str], name: str, key: str, files: ModelFiles
    ) -> None:
        """Have nodes fetch files at the same time; one of them asks the store.

        Raises:
            TritonError: One of them has failed; the others have gone on.
        """

        async def fetch(node_id: str) -> None:
            answer: Prefetched = await self.fetching.prefetch(
                self.settings, node_id, name_of(name), files, self.fraction
            )
            self._prefetches.answered(node_id, key, answer)

        fetching = asyncio.gather(*map(fetch, node_ids), return_exceptions=True)
        while not (await asyncio.wait({fetching}, timeout=_STOP_S))[0]:
            # What waits for this model waits for this very download.
            if self._starting - {name}:
                await self.fetching.stop_prefetch(node_ids)
        for error in fetching.result():
            if isinstance(error, BaseException):
                raise error

    def _dormant(self) -> Iterator[Dormant]:
        for name, record in self.lifecycle.records.items():
            stamp = self._stamp(name, record)
            if stamp:
                yield Dormant(name, stamp, self._used_s.get(name, float("-inf")))

    def _stamp(self, name: str, record: ModelRecord) -> bytes | tuple[tuple[int, str], ...]:
        """Return what tells whether a model's files are others; empty of one without any."""
        if record.is_on_demand and not record.ready_versions:
            return self.source.watch.digest_of(name)
        versions = tuple((v, each.digest) for v, each in record.versions.items() if each.is_dormant)
        if versions:
            candidate = self.lifecycle.model_of(name).versions.candidate
            if candidate is not None and candidate.files is not None:
                return versions
        return ()

    async def _read(self, model: Dormant) -> list[_Version]:
        """Return the versions of a model that have no instance, with config and files."""
        record = self.lifecycle.records[model.name]
        if isinstance(model.stamp, bytes):
            candidate = await self.source.peek(model.name)
            files = candidate.files or {}
            return [(version, candidate.config, files[version]) for version in files]
        loaded = self.lifecycle.model_of(model.name).versions.candidate
        there = {} if loaded is None or loaded.files is None else loaded.files
        return [
            (number, version.config, there[number])
            for number, version in record.versions.items()
            if version.is_dormant and version.config is not None and number in there
        ]

    def _content(
        self, version: int, config: ModelConfig, files: ModelFiles, cluster: ClusterResources
    ) -> Content:
        request = PoolRequest(
            0, version, files.location, cpus_per_instance=self.source.cpus_per_instance
        )
        demands = {
            frozenset(demand_of(spec).as_resources().items())
            for spec in plan_pool(config, request, cluster)
        }
        # MIG devices are no resources of most nodes: any node that has the rest may have one.
        wanted = tuple(
            {name: amount for name, amount in demand if not mig_profile_of(name)}
            for demand in demands
        )
        key = replace(files, agents=()).key()
        return Content(version, key, read_placement(config), wanted)
