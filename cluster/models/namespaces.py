# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which model the step of an ensemble means, where several repositories have one of its name.

It means the one of the ensemble's own repository, else the only one of its name. What the
repositories have decides; for a name that none of them has any more, what is still loaded.

Triton: core/src/model_repository_manager/model_repository_manager.cc ConnectDependencyGraph,
FindNode @73aad7c
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from backends.api.errors import TritonError
from backends.api.model_identifier import key_of, namespace_of, shown
from cluster.models.contracts import Candidate, ModelSource
from cluster.models.states import load_failed


async def resolve_steps(
    source: ModelSource, candidate: Candidate, loaded: Callable[[str], Collection[str]]
) -> tuple[Candidate, tuple[str, ...]]:
    """Return an ensemble whose steps name the namespaces of their models.

    Args:
        source: Knows the repositories.
        candidate: The model; one that is no ensemble is returned as it is.
        loaded: Returns the keys of the loaded models of a name.

    Returns:
        The ensemble, and the names of steps that mean no model or more than one, sorted; their
        steps have no namespace.
    """
    config = candidate.config
    meant = {}
    for name in {step.model_name for step in config.ensemble_steps}:
        meant[name] = _choose(
            key_of(candidate.namespace, name), await source.keys_of(name) or loaded(name)
        )
    missing = tuple(sorted(name for name, key in meant.items() if not key))
    namespaces = [namespace_of(meant[step.model_name]) for step in config.ensemble_steps]
    if namespaces != [step.model_namespace for step in config.ensemble_steps]:
        candidate = replace(candidate, config=source.with_namespaces(config, namespaces))
    return candidate, missing


def not_resolved(ensemble: str, missing: Iterable[str]) -> TritonError:
    """Build the error of an ensemble with steps that mean no model, or more than one."""
    return load_failed(
        ensemble,
        f"ensemble {shown(ensemble)} contains models that are not available or ambiguous: "
        f"{', '.join(missing)}",
    )


def _choose(preferred: str, keys: Collection[str]) -> str:
    if preferred in keys:
        return preferred
    return next(iter(keys)) if len(keys) == 1 else ""
