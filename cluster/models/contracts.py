# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What `ModelLifecycle` works with: candidates to load, pools, limits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from backends.api.model_config import ModelConfig
from backends.api.model_identifier import key_of
from cluster.instances.pool import InstancePool
from cluster.models.override import NO_OVERRIDE, Override
from cluster.repository.agents.prepared import PreparedFiles
from deployments.instance.spec import InstanceSpec
from deployments.model_files.contracts import ModelFiles


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
        files: By version: what nodes fetch; None for a local directory, used where it is. With
            files ``model_dir`` holds all names, but of the files only small texts.
        prepared: What repository agents have made of its files, or of those of each version.
        namespace: The model's namespace; empty without one.
    """

    config: ModelConfig
    model_dir: str
    digests: Mapping[int, str]
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    auto_complete: bool = False
    is_temporary: bool = False
    override: Override = NO_OVERRIDE
    files: Mapping[int, ModelFiles] | None = None
    prepared: tuple[PreparedFiles, ...] = ()
    namespace: str = ""

    @property
    def key(self) -> str:
        """The model's key; see `backends.api.model_identifier`."""
        return key_of(self.namespace, self.config.name)

    def is_same(self, other: "Candidate") -> bool:
        """Whether loading the other one would be the same."""
        return (self.digests, self.config) == (other.digests, other.config)


# Called by an operation that waits for room.
OnBlocked = Callable[[], None]

# Makes an empty pool that calls its argument after each change.
MakePool = Callable[[Callable[[], None]], InstancePool]

# Names some instances of a pool.
Choose = Callable[[InstancePool], tuple[str, ...]]


class ModelSource(Protocol):
    """Where candidates and plans come from; see `cluster.controller.repository_source`."""

    async def read(self, name: str, override: Override, kept: Override) -> Candidate:
        """Read a model.

        Args:
            name: The model's key.
            override: What to use in place of the repository's.
            kept: Override of its last successful load. Its config is used again when ``override``
                is none and the model's directory has not changed since.

        Raises:
            TritonError: It is not in the repository, or its config is wrong.
        """

    async def keys_of(self, name: str) -> tuple[str, ...]:
        """Return the keys of the models of a name that the repositories have.

        Without namespacing the one key is the name, whether there is such a model or not.
        """

    def with_namespaces(self, config: ModelConfig, namespaces: Sequence[str]) -> ModelConfig:
        """Return an ensemble's config with the namespaces of its steps' models, in their order."""

    def complete(self, config: ModelConfig) -> ModelConfig:
        """Normalise and validate a config that shall be complete.

        Raises:
            TritonError: It is not.
        """

    def compose(self, config: ModelConfig, composing: Mapping[str, ModelConfig]) -> ModelConfig:
        """Complete an ensemble's config with what its models say, by key.

        Raises:
            TritonError: They do not fit.
        """

    async def next_generation(self) -> int:
        """Return a number no load has had, in this controller or an earlier one.

        Raises:
            TritonError: None can be had now.
        """

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

    async def replan(
        self, config: ModelConfig, like: InstanceSpec, count: int
    ) -> Sequence[InstanceSpec]:
        """Plan the generation of an instance anew, with another count of instances.

        Args:
            config: The complete config that it serves with.
            like: The instance.
            count: How many shall take requests.
        """

    async def loaded(self, candidate: Candidate) -> None:
        """Note that instances made of it serve."""

    async def unloading(self, candidate: Candidate) -> None:
        """Note that the instances made of it are about to end."""

    async def release(self, candidate: Candidate) -> None:
        """Free what was made for this load; its instances are gone, or there were none."""


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
