# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What ensembles are made of, and how the config of one is completed with theirs.

Where several repositories have a model of the name that a step gives, it means the one of the
ensemble's own repository, else the only one of its name. What the repositories have decides; for a
name that none of them has any more, what is still loaded.

Triton: core/src/model_repository_manager/model_repository_manager.cc ConnectDependencyGraph,
FindNode @73aad7c
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import key_of, namespace_of, shown
from cluster.models.contracts import Candidate, ModelSource
from cluster.models.dependencies import composing_versions, ready_config, refuse_cycle
from cluster.models.records import Records
from cluster.models.states import load_failed


@dataclass(slots=True, eq=False)
class Ensembles:
    """The ensembles there are.

    Attributes:
        records: Of all models.
        load_part: Has a model serve that an ensemble, the second, is made of; returns why it does
            not.
        composing: Keys of the models that each ensemble is made of.
    """

    source: ModelSource
    records: Records
    load_part: Callable[[str, str], Awaitable[TritonError | None]]
    composing: dict[str, frozenset[str]] = field(default_factory=dict)

    async def compose(
        self, name: str, candidate: Candidate
    ) -> tuple[Candidate, dict[str, ModelConfig]]:
        """Load what an ensemble is made of and complete its config with theirs.

        Returns:
            The candidate, and the configs of its models by key; none for what is no ensemble.

        Raises:
            TritonError: A model of it is missing or not ready, or they do not fit.
        """
        candidate, missing = await self._resolved(candidate)
        versions = composing_versions(candidate.config)
        if not versions:
            self.composing.pop(name, None)
            return candidate, {}
        self.composing[name] = frozenset(versions)
        if missing:
            raise load_failed(
                name,
                f"ensemble {shown(name)} contains models that are not available or ambiguous: "
                f"{', '.join(missing)}",
            )
        try:
            refuse_cycle(name, self.composing)
        except TritonError:
            self.composing[name] = frozenset()
            raise
        composing = {}
        for part in sorted(versions):
            error = await self.load_part(part, name)
            record = self.records.of(part)
            config = ready_config(name, record, versions[part], error)
            if config is not None:
                composing[part] = config
        try:
            config = self.source.compose(candidate.config, composing)
        except TritonError as error:
            raise load_failed(name, error.message) from error
        return replace(candidate, config=config), composing

    async def _resolved(self, candidate: Candidate) -> tuple[Candidate, tuple[str, ...]]:
        """Return an ensemble whose steps name the namespaces of their models.

        Returns:
            The ensemble, and the names of steps that mean no model or more than one, sorted; their
            steps have no namespace.
        """
        config = candidate.config
        meant = {}
        for name in {step.model_name for step in config.ensemble_steps}:
            keys = await self.source.keys_of(name) or self.records.ready_keys(name)
            meant[name] = _choose(key_of(candidate.namespace, name), keys)
        missing = tuple(sorted(name for name, key in meant.items() if not key))
        namespaces = [namespace_of(meant[step.model_name]) for step in config.ensemble_steps]
        if namespaces != [step.model_namespace for step in config.ensemble_steps]:
            named = self.source.with_namespaces(config, namespaces)
            candidate = replace(candidate, config=named)
        return candidate, missing


def _choose(preferred: str, keys: Collection[str]) -> str:
    if preferred in keys:
        return preferred
    return next(iter(keys)) if len(keys) == 1 else ""
