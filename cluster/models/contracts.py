# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What `ModelLifecycle` works with: candidates to load, pools, limits."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.api.request import ParameterValue
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.spec import InstanceSpec


@dataclass(frozen=True, slots=True)
class Override:
    """Config and files given with a load in place of the repository's.

    Attributes:
        config_json: The config as JSON; None for the repository's.
        files: Content by parameter name, ``file:<path in the model's directory>``.
        directory_digest: Digest of the model's directory when it was loaded so; empty with files.
    """

    config_json: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    directory_digest: str = ""


NO_OVERRIDE = Override()


def read_override(name: str, parameters: Mapping[str, ParameterValue | bytes]) -> Override:
    """Read the parameters of a load.

    Raises:
        TritonError: The name or a parameter is refused.

    Triton: core/src/tritonserver.cc TRITONSERVER_ServerLoadModelWithParameters @73aad7c
    """
    if not name:
        raise InternalError("failed to load '', failed to poll from model repository")
    config_json: str | None = None
    files: dict[str, bytes] = {}
    for key, value in parameters.items():
        if key == "config" and isinstance(value, str):
            config_json = value
        elif key.startswith("file:") and isinstance(value, bytes):
            files[key] = value
        else:
            raise InvalidArgumentError(f"unrecognized load parameter '{key}'.")
    return Override(config_json, files)


def choose_override(
    given: Override, kept: Override, read_directory_digest: Callable[[], str]
) -> Override:
    """Return what to read a model with.

    A config without files holds until the model's directory changes, also for loads that give none;
    files hold for their load only.

    Args:
        given: What came with this load.
        kept: What the last successful load used.
        read_directory_digest: Digests the model's directory as it is now.

    Triton: core/src/model_repository_manager/model_repository_manager.cc InitializeModelInfo
    @73aad7c
    """
    if given.files or given.directory_digest:
        return given
    if given.config_json is not None:
        return replace(given, directory_digest=read_directory_digest())
    if kept.directory_digest and kept.directory_digest == read_directory_digest():
        return kept
    return given


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model as just read, ready to be loaded.

    Attributes:
        config: Normalised config; complete unless ``auto_complete``.
        model_dir: Local path of the model's directory.
        digests: By version to load: digest of its files, the options and the config, all that
            asks for a reload when it changes: not the instance groups and the version policy.
        labels: Label lists by output.
        auto_complete: Whether the backend shall fill in the config.
        is_temporary: Whether ``model_dir`` was made for this load.
        override: What was used in place of the repository's.
    """

    config: ModelConfig
    model_dir: str
    digests: Mapping[int, str]
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    auto_complete: bool = False
    is_temporary: bool = False
    override: Override = NO_OVERRIDE

    def is_same(self, other: "Candidate") -> bool:
        """Whether loading the other one would be the same."""
        return (self.digests, self.config) == (other.digests, other.config)


class Pool(Protocol):
    """The instances of one generation of a model version.

    `cluster.instances.pool.InstancePool` is one.
    """

    @property
    def specs(self) -> tuple[InstanceSpec, ...]:
        """What its instances were made from; those that rather stay come first."""

    @property
    def next_index(self) -> int:
        """Lowest index that no instance of the pool ever had."""

    @property
    def endpoints(self) -> tuple[InstanceEndpoint, ...]:
        """Where the live instances listen that take requests."""

    @property
    def leaving(self) -> tuple[InstanceEndpoint, ...]:
        """Where those listen that finish their last requests."""

    @property
    def past(self) -> Mapping[str, bytes]:
        """By node: what instances that have left the pool had counted."""

    @property
    def is_live(self) -> bool:
        """Whether it serves."""

    @property
    def reason(self) -> str:
        """What instances that are not live wait for."""

    @property
    def config(self) -> ModelConfig | None:
        """Config as the first live instance's backend completed it."""

    @property
    def load_duration_ns(self) -> int:
        """Longest load among the live instances."""

    async def start(self, specs: Iterable[InstanceSpec]) -> None:
        """Add instances; return when each is ready or waits for room."""

    async def wait_live(self) -> None:
        """Wait until it serves."""

    async def stage(
        self,
        specs: Iterable[InstanceSpec],
        leaving: Collection[str],
        on_blocked: Callable[[], None],
    ) -> None:
        """Start instances that take no requests yet, until it could do without ``leaving``."""

    def commit(self, leaving: Collection[str]) -> None:
        """Make members of what is staged, and let members go."""

    async def unstage(self) -> None:
        """End what is staged."""

    async def let_go(self, drain_s: float) -> None:
        """Drain and end the members that a commit let go."""

    async def close(self, drain_s: float) -> None:
        """Drain and end all instances."""


class ModelSource(Protocol):
    """Where candidates and plans come from; see `cluster.controller.repository_source`."""

    async def read(self, name: str, override: Override, kept: Override) -> Candidate:
        """Read a model.

        Args:
            name: Model.
            override: What to use in place of the repository's.
            kept: Override of its last successful load. Its config is used again when ``override``
                is none and the model's directory has not changed since.

        Raises:
            TritonError: It is not in the repository, or its config is wrong.
        """

    def complete(self, config: ModelConfig) -> ModelConfig:
        """Normalise and validate a config that shall be complete.

        Raises:
            TritonError: It is not.
        """

    def compose(self, config: ModelConfig, composing: Mapping[str, ModelConfig]) -> ModelConfig:
        """Complete an ensemble's config with what its models say, by name.

        Raises:
            TritonError: They do not fit.
        """

    def next_generation(self) -> int:
        """Return a number no load has had."""

    async def plan(
        self,
        candidate: Candidate,
        config: ModelConfig,
        version: int,
        generation: int,
        *,
        auto_complete: bool,
    ) -> Sequence[InstanceSpec]:
        """Plan the instances of one generation of a version.

        Raises:
            TritonError: The config forbids it.
        """

    async def release(self, candidate: Candidate) -> None:
        """Free what was made for this load; its instances are gone."""


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """Limits of loading and unloading.

    Attributes:
        thread_count: Versions loading at a time.
        retry_count: Further attempts after a version failed to load.
        drain_s: How long instances that are replaced or unloaded may finish their requests.
    """

    thread_count: int = 4
    retry_count: int = 0
    drain_s: float = 30.0


class LoadSlot:
    """A place among the versions that may load at a time; given back early by who must wait."""

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        self._semaphore = semaphore
        self._held = False

    async def __aenter__(self) -> "LoadSlot":
        await self._semaphore.acquire()
        self._held = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Give the place back; a second call does nothing."""
        if self._held:
            self._held = False
            self._semaphore.release()


class LoadSlots:
    """The places there are: ``--model-load-thread-count``."""

    def __init__(self, count: int) -> None:
        self._semaphore = asyncio.Semaphore(count)

    def one(self) -> LoadSlot:
        """Return a place, to be entered."""
        return LoadSlot(self._semaphore)


class NoInstances:
    """The pool of an ensemble, which runs in its caller."""

    endpoints: tuple[InstanceEndpoint, ...] = ()
    reason = ""
    config: ModelConfig | None = None
    load_duration_ns = 0

    specs: tuple[InstanceSpec, ...] = ()
    next_index = 0
    leaving: tuple[InstanceEndpoint, ...] = ()
    past: Mapping[str, bytes] = {}
    is_live = True

    async def start(self, specs: Iterable[InstanceSpec]) -> None:
        """Start nothing."""

    async def wait_live(self) -> None:
        """Wait for nothing."""

    async def stage(
        self,
        specs: Iterable[InstanceSpec],
        leaving: Collection[str],
        on_blocked: Callable[[], None],
    ) -> None:
        """Start nothing."""

    def commit(self, leaving: Collection[str]) -> None:
        """Change nothing."""

    async def unstage(self) -> None:
        """End nothing."""

    async def let_go(self, drain_s: float) -> None:
        """End nothing."""

    async def close(self, drain_s: float) -> None:
        """End nothing."""
