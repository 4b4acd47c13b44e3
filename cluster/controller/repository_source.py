# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Joins repository, config rules and planner for `ModelLifecycle`.

Reading a repository blocks, so it happens on threads.
"""

import asyncio
import logging
import tempfile
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from backends.api.errors import InternalError, NotFoundError, TritonError, UnavailableError
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import name_of, shown
from backends.config.normalisation import normalise, without_groups
from backends.config.pbtxt import edit
from backends.config.validation.composing import with_composing
from backends.config.validation.model import validate, validate_before_auto_complete
from backends.lookup import PYTHON_RUNTIME
from cluster.autoscaling.counts import InstanceCounts
from cluster.controller.backend_options import (
    BackendOptions,
    instance_options,
    stored_runtime_env_of,
)
from cluster.controller.durable_state import DurableState
from cluster.controller.repository_threads import RepositoryThreads
from cluster.controller.repository_watch import RepositoryWatch
from cluster.controller.shared_files import SharedFiles
from cluster.models.contracts import Candidate
from cluster.models.override import NO_OVERRIDE, Override, choose_override
from cluster.options.parsing import ServerOptions
from cluster.placement.demand import ClusterResources
from cluster.placement.environments import environment_stamp, requirements_of
from cluster.placement.planner import plan_pool, pool_digest, replan_pool
from cluster.repository.agents.followed import NodeAgents, TellAgents
from cluster.repository.agents.policy import AgentPolicy
from cluster.repository.agents.prepared import PreparedFiles, PreparedModels
from cluster.repository.contents import RepositoryModel, require_listed
from cluster.repository.remote import open_filesystem
from cluster.repository.repository import ModelRepository
from cluster.repository.skeletons import Skeletons
from cluster.threads import AGENTS, FILES
from deployments.instance.spec import InstanceSpec

_log = logging.getLogger(__name__)

_KINDS_ON_GPUS: Final = ("KIND_AUTO", "KIND_GPU")
# Why a model cannot be read that may be read later, also as a file that is half written.
_MAY_PASS: Final = (InternalError, NotFoundError, UnavailableError)


class RepositorySource:
    """Implements `cluster.models.contracts.ModelSource`.

    Args:
        state: Gives generation numbers and the lanes' key.
        read_cluster: Tells what nodes there are.
        files: Has files that came with a load reach the instances.
        changed: Called when a repository goes away or comes back.
        tell_agents: Tells the agents of models in stores, on all nodes, what came of a load.

    Attributes:
        counts: How many instances versions that autoscale shall have.
        files: The same.
        watch: What is known of the repositories' state.
    """

    def __init__(
        self,
        options: ServerOptions,
        state: DurableState,
        read_cluster: Callable[[], Awaitable[ClusterResources]],
        files: SharedFiles,
        changed: Callable[[], None] = lambda: None,
        tell_agents: TellAgents = lambda *_: None,
    ) -> None:
        self._options = options
        self._state = state
        self.next_generation = state.next_generation
        self._read_cluster = read_cluster
        self.counts = InstanceCounts()
        self.files = files
        self._dropping: set[asyncio.Future[None]] = set()
        self._seen: tuple[ClusterResources, ClusterResources] | None = None
        self._gpu_ids: tuple[int, ...] = ()
        self._backends = BackendOptions(options)
        # What holds for the instances of all models.
        self._common = instance_options(options, state.secret)
        self._skeletons = Skeletons()
        self._tell_agents = tell_agents
        self._prepared = PreparedModels(_agents_folder(state.secret))
        self._opened: RepositoryThreads | None = None
        self.watch = RepositoryWatch(changed)
        try:
            self._open()
        except TritonError as error:
            # What is alive serves without; each use of the repositories opens them again.
            _log.error("the model repositories cannot be opened: %s", error.message)

    @property
    def _threads(self) -> RepositoryThreads:
        """The threads that look at the repositories.

        Raises:
            TritonError: One cannot be opened: of an unknown kind, or its credentials are missing.
        """
        return self._opened or self._open()

    @property
    def _repository(self) -> ModelRepository:
        return self._threads.repository

    def _open(self) -> RepositoryThreads:
        options = self._options
        try:
            repository = ModelRepository(
                options.model_repository,
                model_config_name=options.model_config_name,
                auto_complete=not options.disable_auto_complete_config,
                open_location=lambda location: open_filesystem(location, self._skeletons),
                agents=self._prepared,
                policy=AgentPolicy.of(options.require_signed_models, options.trusted_keys),
                has_namespaces=options.model_namespacing,
            )
        except TritonError:
            raise
        except Exception as error:
            # A store's client raises what it likes.
            text = f"a model repository cannot be opened: {type(error).__name__}: {error}"
            raise InternalError(text) from error
        self.watch.follow(repository.paths)
        opened = self._opened = RepositoryThreads(repository, self.watch)
        return opened

    @property
    def cpus_per_instance(self) -> float:
        """CPU fraction each instance reserves."""
        return self._options.cpus_per_instance

    async def list_names(self, max_age_s: float = 0.0) -> tuple[Collection[str], Collection[str]]:
        """Return the keys of the models of the repositories, and those there are twice.

        Args:
            max_age_s: Of stores: how old the listing may be. That of a large one takes a minute.

        Raises:
            InternalError: No repository can be listed.
        """
        scan = await self._threads.scan(max_age_s)
        require_listed(scan)
        return scan.directories.keys(), scan.duplicates

    async def keys_of(self, name: str) -> tuple[str, ...]:
        """Return keys by name; see `cluster.models.contracts.ModelSource.keys_of`."""
        if not self._options.model_namespacing:
            return (name,)
        await self._threads.probe()
        return await self._threads.run("", self._repository.keys_of, name)

    async def keys_named(self, name: str) -> tuple[str, ...]:
        """Return the keys that a request to load a model means; never none.

        A name that no repository has is its own key, of which `read` says what is wrong with it.
        """
        try:
            return await self.keys_of(name) or (name,)
        except TritonError:
            return (name,)

    def with_namespaces(self, config: ModelConfig, namespaces: Sequence[str]) -> ModelConfig:
        """Edit steps; see `cluster.models.contracts.ModelSource.with_namespaces`."""

        def change(message: Any) -> None:
            for step, namespace in zip(message.ensemble_scheduling.step, namespaces, strict=True):
                step.model_namespace = namespace

        return edit(config, change)

    async def look_at_cluster(self) -> ClusterResources:
        """Return the nodes there are; from now on configs are completed for their GPUs."""
        found = await self._read_cluster()
        if self._seen is None or self._seen[0] is not found:
            min_capability = self._options.min_supported_compute_capability
            # Thousands of models are read by one look.
            self._seen = found, found.supported(min_capability)
        cluster = self._seen[1]
        self._gpu_ids = cluster.gpu_ids
        return cluster

    async def read(self, name: str, override: Override, kept: Override) -> Candidate:
        """Read a model; see `cluster.models.contracts.ModelSource.read`."""
        await self.look_at_cluster()
        reading = await self._threads.begin_read(name, self._read_candidate, name, override, kept)
        try:
            candidate = await asyncio.shield(reading)
        except asyncio.CancelledError:
            # The thread goes on; what it comes to is nobody's any more.
            reading.add_done_callback(self._drop)
            raise
        except TritonError as error:
            cause = error.__cause__
            if isinstance(cause, TritonError):
                self.watch.note_unread(name, may_pass=isinstance(cause, _MAY_PASS))
                _log.error(
                    "Poll failed for model directory '%s': %s",
                    shown(name),
                    cause.message,
                    extra={"model": name_of(name)},
                )
                # Clients match on how the text begins.
                text = f"failed to load '{name_of(name)}', failed to poll from model repository"
                raise InternalError(f"{text}: {cause.message}") from cause
            raise
        self.watch.note_unread(name, may_pass=False)
        return candidate

    async def peek(self, name: str) -> Candidate:
        """Read a model in a store as its first load would; there is nothing to release.

        Raises:
            TritonError: As of `read`; nothing is logged.
        """

        def peek() -> Candidate:
            return self._candidate(*self._read(name, NO_OVERRIDE, NO_OVERRIDE))

        await self.look_at_cluster()
        return await asyncio.shield(await self._threads.begin_read(name, peek))

    def _drop(self, reading: asyncio.Future[Candidate]) -> None:
        if reading.cancelled() or reading.exception() is not None:
            return
        release = asyncio.ensure_future(self.release(reading.result()))
        self._dropping.add(release)
        release.add_done_callback(self._dropping.discard)

    def _read_candidate(self, name: str, override: Override, kept: Override) -> Candidate:
        model, used = self._read(name, override, kept)
        for warning in model.warnings:
            _log.warning("%s", warning)
        if model.files is not None:
            self._skeletons.hold(model.model_dir)
        prepared: tuple[PreparedFiles, ...] = () if model.prepared is None else (model.prepared,)
        prepared += tuple(
            self._prepared.follow(key, NodeAgents(key, self._tell_agents))
            for key in model.agent_keys
        )
        try:
            candidate = replace(self._candidate(model, used), prepared=prepared)
        except BaseException:
            if model.files is not None:
                self._skeletons.release(model.model_dir)
            for files in prepared:
                self._prepared.release(files)
            raise
        if model.files is not None:
            gpu_ids = self._gpu_ids if _depends_on_gpus(model.config) else None
            self.watch.note_read(name, model.digest, gpu_ids)
        return candidate

    def _read(
        self, name: str, override: Override, kept: Override
    ) -> tuple[RepositoryModel, Override]:
        if override.files:
            config_json, files = override.config_json, override.files
            return self._repository.read_model(
                name, override_config_json=config_json, override_files=files
            ), override
        directory = self._repository.open_directory(name)
        used = choose_override(override, kept, directory.digest)
        return self._repository.read_model(
            name, override_config_json=used.config_json, directory=directory
        ), used

    def _candidate(self, model: RepositoryModel, override: Override) -> Candidate:
        config = normalise(model.config, gpu_ids=self._gpu_ids)
        library = self._backends.python_library(config, model.model_dir, model.versions)
        if library:
            config = edit(config, lambda message: setattr(message, "runtime", PYTHON_RUNTIME))
        settings = self._backends.settings(config, library)
        common = (
            without_groups(config).message,
            repr(sorted(settings.items())),
            self._state.secret,
            str(self.cpus_per_instance),
            environment_stamp(config, model.model_dir, library),
            repr((self._common.resource_limits, self._options.lane_tls)),
        )
        return Candidate(
            config=config,
            model_dir=model.model_dir,
            digests={v: pool_digest(model.file_digests[v], *common) for v in model.versions},
            labels=model.labels,
            auto_complete=model.needs_auto_complete and not config.has_ensemble_scheduling,
            is_temporary=model.is_temporary,
            override=override,
            files=model.files,
            namespace=model.namespace,
        )

    def complete(self, config: ModelConfig) -> ModelConfig:
        """Normalise and validate; see `cluster.models.contracts.ModelSource.complete`."""
        config = normalise(config, gpu_ids=self._gpu_ids)
        validate(
            config,
            gpu_ids=self._gpu_ids,
            min_compute_capability=self._options.min_supported_compute_capability,
        )
        return config

    def compose(self, config: ModelConfig, composing: Mapping[str, ModelConfig]) -> ModelConfig:
        """Complete an ensemble's config; see `cluster.models.contracts.ModelSource.compose`."""
        return with_composing(self.complete(config), composing)

    async def plan(
        self,
        candidate: Candidate,
        config: ModelConfig,
        version: int,
        generation: int,
        *,
        auto_complete: bool,
    ) -> Sequence[InstanceSpec]:
        """Plan one generation of a version; see `cluster.models.contracts.ModelSource.plan`."""
        if auto_complete:
            validate_before_auto_complete(config)
        cluster = await self.look_at_cluster()
        files, node = await self.files.share(candidate, cluster)
        if candidate.files is not None:
            files = candidate.files[version]
        cache = (self._options.model_cache_directory, self._options.model_cache_max_bytes)
        key, threads = candidate.key, self._threads
        library = await threads.run(
            key, self._backends.python_library, config, candidate.model_dir, (version,)
        )
        request = replace(
            self._common,
            generation=generation,
            version=version,
            model_dir=candidate.model_dir,
            auto_complete=auto_complete,
            backend_config=self._backends.settings(config, library),
            runtime_env=await threads.run(
                key, stored_runtime_env_of, config, candidate.model_dir, library, files, cache
            ),
            requirements=await threads.run(
                key, requirements_of, config, candidate.model_dir, version, library
            ),
            options_digest=candidate.digests[version],
            node_resources=node,
            model_namespace=candidate.namespace,
            files=files,
            instance_count=self.counts.of(candidate.key, version, config),
        )
        return plan_pool(config, request, cluster)

    async def replan(
        self, config: ModelConfig, like: InstanceSpec, count: int = 0
    ) -> Sequence[InstanceSpec]:
        """Plan another count of instances; see `cluster.models.contracts.ModelSource.replan`."""
        cluster = await self.look_at_cluster()
        policies = self._common.host_policies
        return replan_pool(config, like, self.cpus_per_instance, policies, cluster, count)

    async def release(self, candidate: Candidate) -> None:
        """Remove the files made for a load; nothing when they are the repository's own.

        Of files that repository agents have made, the last user of them does.
        """
        was_last = [await AGENTS.run(self._prepared.release, files) for files in candidate.prepared]
        if all(was_last):
            await self.files.remove(candidate)
        if candidate.files is not None:
            await FILES.run(self._skeletons.release, candidate.model_dir)

    def unchanged(self, names: Iterable[str]) -> frozenset[str]:
        """Return those models that are as they were when they were last read.

        With namespaces none: what an ensemble is made of depends on models of other repositories.
        """
        if self._options.model_namespacing:
            return frozenset()
        return self.watch.unchanged(names, self._gpu_ids)

    async def loaded(self, candidate: Candidate) -> None:
        """Tell repository agents; see `cluster.models.contracts.ModelSource.loaded`."""
        for files in candidate.prepared:
            await AGENTS.run(self._prepared.loaded, files)

    async def unloading(self, candidate: Candidate) -> None:
        """Tell repository agents; see `cluster.models.contracts.ModelSource.unloading`."""
        for files in candidate.prepared:
            await AGENTS.run(self._prepared.unloading, files)

    async def adopt_files(self, directories: Collection[str]) -> None:
        """Keep what repository agents have made for instances of an earlier controller.

        Args:
            directories: From which the live instances were loaded.
        """
        await AGENTS.run(self._prepared.adopt, directories)


def _depends_on_gpus(config: ModelConfig) -> bool:
    """Whether what is made of a config depends on which GPUs there are."""
    if config.instance_group:
        return any(group.kind in _KINDS_ON_GPUS for group in config.instance_group)
    return normalise(config, gpu_ids=()).message != normalise(config, gpu_ids=(0,)).message


def _agents_folder(secret: bytes) -> Path:
    """Return where this server's copies for agents lie; a restarted controller finds them again."""
    name = blake2b(secret, digest_size=8, person=b"agents").hexdigest()
    return Path(tempfile.gettempdir()) / f"manta-agents-{name}"
