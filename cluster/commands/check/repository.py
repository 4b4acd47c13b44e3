# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Checks all models of repositories, ensembles last."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from backends.api.errors import InvalidArgumentError, TritonError
from backends.api.model_config import ModelConfig
from backends.config.pbtxt import edit
from backends.config.validation.composing import with_composing
from cluster.commands.check.agents import CheckedAgents
from cluster.commands.check.defects import Severity
from cluster.commands.check.model import ModelCheck, Verdict, defect
from cluster.commands.check.rules import Rules
from cluster.models.dependencies import composing_versions, ready_config, refuse_cycle
from cluster.models.states import LifecycleEvent, ModelRecord, VersionRecord
from cluster.options.parsing import ServerOptions
from cluster.repository.agents.policy import AgentPolicy
from cluster.repository.contents import require_listed
from cluster.repository.filesystem import FileSystem
from cluster.repository.remote import RemoteFileSystem, open_filesystem
from cluster.repository.repository import ModelRepository
from cluster.repository.skeletons import Skeletons
from cluster.repository.stores.location import absolute, parse_location
from cluster.repository.stores.opening import open_store


@dataclass(frozen=True, slots=True)
class Report:
    """What was found.

    Attributes:
        verdicts: By model, sorted.
        errors: Repositories that cannot be listed, with the reason.
    """

    verdicts: dict[str, Verdict]
    errors: dict[str, str]


def check_repositories(
    options: ServerOptions,
    gpu_count: int | None = None,
    *,
    runs_agents: bool = True,
    sources: Sequence[str] = (),
) -> Report:
    """Check every model of a server's repositories without loading it.

    Args:
        options: The server's options.
        gpu_count: GPUs of the server; None takes those that configs name as there.
        runs_agents: Whether models that have repository agents are checked, for which these run.
        sources: Where links may lead, beside into the repositories.

    Raises:
        InternalError: No repository can be listed.
        UnsupportedError: A location has a scheme that is not known.
    """
    with TemporaryDirectory(prefix="manta-check-") as folder, ExitStack() as opened:
        agents = CheckedAgents(Path(folder) / "agents", runs=runs_agents)
        return _check(options, gpu_count, agents, opened, sources)


def _check(
    options: ServerOptions,
    gpu_count: int | None,
    agents: CheckedAgents,
    opened: ExitStack,
    sources: Sequence[str],
) -> Report:
    def open_location(location: str) -> tuple[FileSystem, str]:
        at = parse_location(location)
        if at.is_local:
            return open_filesystem(location)
        store = open_store(at)
        opened.callback(store.close)
        return RemoteFileSystem(store, Skeletons()), store.location

    locations = options.model_repository
    repository = ModelRepository(
        locations,
        model_config_name=options.model_config_name,
        auto_complete=not options.disable_auto_complete_config,
        open_location=open_location,
        agents=agents,
        policy=AgentPolicy.of(options.require_signed_models, options.trusted_keys),
    )
    scan = repository.scan()
    require_listed(scan)
    roots = tuple(absolute(at).path for at in map(parse_location, locations) if at.is_local)
    rules = Rules(options, gpu_count)
    check = ModelCheck(repository, rules, options.model_config_name, (*roots, *sources), agents)
    alone = {name: check.check(name, path) for name, path in scan.directories.items()}
    ensembles = _Ensembles(alone, rules)
    return Report({name: ensembles.verdict(name) for name in alone}, dict(scan.errors))


class _Ensembles:
    """Checks ensembles against what they are made of."""

    def __init__(self, alone: dict[str, Verdict], rules: Rules) -> None:
        self._alone = alone = {name: _unaddressed(verdict) for name, verdict in alone.items()}
        self._rules = rules
        self._done: dict[str, Verdict] = {}
        configs = {name: verdict.config for name, verdict in alone.items()}
        self._composing = {
            name: frozenset(composing_versions(config))
            for name, config in configs.items()
            if config is not None and config.has_ensemble_scheduling
        }

    def verdict(self, name: str) -> Verdict:
        """Return what is wrong with a model, what its steps make wrong included."""
        if name not in self._composing:
            return self._alone[name]
        if name not in self._done:
            self._done[name] = self._check(self._alone[name])
        return self._done[name]

    def _check(self, verdict: Verdict) -> Verdict:
        if not verdict.loads or verdict.config is None:
            return verdict
        try:
            refuse_cycle(verdict.name, self._composing)
            config, is_open = self._composed(verdict.config)
        except TritonError as error:
            found = defect(verdict.places, error.message)
            return replace(verdict, defects=(*verdict.defects, found))
        if is_open:
            text = f"not checked: tensors of the steps {', '.join(is_open)}"
            found = defect(verdict.places, text, Severity.NOTE)
            return replace(verdict, defects=(*verdict.defects, found))
        return replace(verdict, configs=dict.fromkeys(verdict.configs, config))

    def _composed(self, config: ModelConfig) -> tuple[ModelConfig, tuple[str, ...]]:
        """Return an ensemble's config, and the steps of which files do not tell the tensors."""
        composing: dict[str, ModelConfig] = {}
        is_open = []
        for part, versions in sorted(composing_versions(config).items()):
            verdict = self._verdict_of_part(part)
            if verdict is not None and verdict.loads and not verdict.configs:
                is_open.append(part)
                continue
            error = None
            if verdict is None or not verdict.loads:
                error = InvalidArgumentError(_why(part, verdict))
            found = ready_config(config.name, _record(part, verdict), versions, error)
            if verdict is not None and not verdict.is_complete:
                is_open.append(part)
            if found is not None:
                composing[part] = found
        if is_open:
            return config, tuple(is_open)
        return with_composing(self._rules.completed(config), composing), ()

    def _verdict_of_part(self, part: str) -> Verdict | None:
        return self.verdict(part) if part in self._alone else None


def _unaddressed(verdict: Verdict) -> Verdict:
    """Return a model whose steps name no namespaces: where there are none, loads ignore them."""

    def clear(message: Any) -> None:
        for step in message.ensemble_scheduling.step:
            step.ClearField("model_namespace")

    if verdict.config is None or not verdict.config.has_ensemble_scheduling:
        return verdict
    return replace(
        verdict,
        configs={version: edit(config, clear) for version, config in verdict.configs.items()},
    )


def _why(part: str, verdict: Verdict | None) -> str:
    reason = "model not found in any model repository" if verdict is None else verdict.reason
    return f"failed to load '{part}': {reason}"


def _record(name: str, verdict: Verdict | None) -> ModelRecord:
    """Return what a controller would know of a model that has been loaded."""
    record = ModelRecord(name)
    if verdict is None or not verdict.loads:
        return record
    for version, config in verdict.configs.items():
        ready = VersionRecord(version).after(LifecycleEvent.LOAD).after(LifecycleEvent.LOADED)
        record = record.with_version(ready.serving(config, 0, ""))
    return record


def error_count(verdicts: Iterable[Verdict], *, strict: bool) -> int:
    """Return how many defects count."""
    counted = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return sum(defect.severity in counted for each in verdicts for defect in each.defects)
