# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What ensembles are made of, and how the config of one is completed with theirs."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from cluster.models.contracts import Candidate, ModelSource
from cluster.models.dependencies import composing_versions, ready_config, refuse_cycle
from cluster.models.namespaces import not_resolved, resolve_steps
from cluster.models.records import Records
from cluster.models.states import load_failed


class Ensembles:
    """The ensembles there are.

    Args:
        source: Reads and plans models.
        records: Of all models.
        load_part: Has a model serve that an ensemble, the second, is made of; returns why it does
            not.

    Attributes:
        composing: Keys of the models that each ensemble is made of.
    """

    def __init__(
        self,
        source: ModelSource,
        records: Records,
        load_part: Callable[[str, str], Awaitable[TritonError | None]],
    ) -> None:
        self.composing: dict[str, frozenset[str]] = {}
        self._source = source
        self._records = records
        self._load_part = load_part

    async def compose(
        self, name: str, candidate: Candidate
    ) -> tuple[Candidate, dict[str, ModelConfig]]:
        """Load what an ensemble is made of and complete its config with theirs.

        Returns:
            The candidate, and the configs of its models by key; none for what is no ensemble.

        Raises:
            TritonError: A model of it is missing or not ready, or they do not fit.
        """
        candidate, missing = await resolve_steps(self._source, candidate, self._records.ready_keys)
        versions = composing_versions(candidate.config)
        if not versions:
            self.composing.pop(name, None)
            return candidate, {}
        self.composing[name] = frozenset(versions)
        if missing:
            raise not_resolved(name, missing)
        try:
            refuse_cycle(name, self.composing)
        except TritonError:
            self.composing[name] = frozenset()
            raise
        composing = {}
        for part in sorted(versions):
            error = await self._load_part(part, name)
            record = self._records.of(part)
            config = ready_config(name, record, versions[part], error)
            if config is not None:
                composing[part] = config
        try:
            config = self._source.compose(candidate.config, composing)
        except TritonError as error:
            raise load_failed(name, error.message) from error
        return replace(candidate, config=config), composing
