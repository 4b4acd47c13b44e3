# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which ensembles are made of which models, and whether those are ready. Pure."""

from collections.abc import Mapping
from typing import Final

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import name_of, namespace_of, shown
from backends.config.normalisation import change_requires_reload
from cluster.models.states import ModelRecord, load_failed

# What a step asks for that takes the newest version.
_NEWEST: Final = -1


def dependents_of(name: str, composing: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Return the ensembles that have the model among their steps, sorted."""
    return tuple(sorted(ensemble for ensemble, parts in composing.items() if name in parts))


def affected_by(key: str, composing: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Return the ensembles that may have to be made of a model that has come or changed, sorted.

    Besides those made of it, they are those with a step of its name that means a model of another
    repository than their own, or none.
    """

    def may_mean(ensemble: str, part: str) -> bool:
        is_foreign = namespace_of(part) != namespace_of(ensemble)
        return part == key or (is_foreign and name_of(part) == name_of(key))

    return tuple(
        sorted(
            ensemble
            for ensemble, parts in composing.items()
            if any(may_mean(ensemble, part) for part in parts)
        )
    )


def find_cycle(start: str, composing: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Return a path of ensembles from ``start`` back to itself; empty when there is none."""
    paths: list[tuple[str, ...]] = [(start,)]
    seen: set[str] = set()
    while paths:
        path = paths.pop()
        for part in sorted(composing.get(path[-1], frozenset())):
            if part == start:
                return (*path, start)
            if part not in seen:
                seen.add(part)
                paths.append((*path, part))
    return ()


def refuse_cycle(ensemble: str, composing: Mapping[str, frozenset[str]]) -> None:
    """Refuse an ensemble that is made of itself.

    Raises:
        InvalidArgumentError: It is; the message names the path.
    """
    cycle = find_cycle(ensemble, composing)
    if cycle:
        path = " -> ".join(map(shown, cycle))
        raise load_failed(ensemble, f"circular dependency between ensembles: {path}")


def composing_versions(config: ModelConfig) -> dict[str, set[int]]:
    """Return, by key, the versions an ensemble's steps ask of models; -1 is the newest."""
    versions: dict[str, set[int]] = {}
    for step in config.ensemble_steps:
        versions.setdefault(step.model_key, set()).add(step.model_version)
    return versions


def ready_config(
    ensemble: str, part: ModelRecord, versions: set[int], error: TritonError | None
) -> ModelConfig | None:
    """Return the config of a composing model's newest ready version.

    Args:
        ensemble: The ensemble that needs it.
        part: What is known of the model.
        versions: Versions the steps ask for; -1 for the newest. A step that names none asks for 0.
        error: Why its load failed, if it did.

    Raises:
        InvalidArgumentError: A version the ensemble needs is not ready.

    Triton: core/src/model_repository_manager/model_repository_manager.cc CheckNode @73aad7c
    """
    ready = part.ready_versions
    part_name = shown(part.name)
    depends = f"ensemble '{shown(ensemble)}' depends on '{part_name}'"
    if not ready:
        failure = error.message.strip() if error else ""
        because = f" Model '{part_name}' loading failed with error: {failure}" if failure else ""
        raise load_failed(ensemble, f"{depends} which has no loaded version.{because}")
    for version in sorted(versions):
        if version != _NEWEST and version not in ready:
            raise load_failed(
                ensemble, f"{depends} whose required version {version} is not loaded."
            )
    return part.versions[ready[-1]].config


def differ(old: Mapping[str, ModelConfig], new: Mapping[str, ModelConfig]) -> bool:
    """Whether an ensemble's models changed in more than what applies in place."""
    return old.keys() != new.keys() or any(
        change_requires_reload(config, new[name]) for name, config in old.items()
    )
