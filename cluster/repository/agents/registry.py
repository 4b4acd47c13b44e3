# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Finds repository agents by name: the shipped ones, and those that other packages bring."""

import importlib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from cluster.repository.agents.contracts import RepositoryAgent

ENTRY_POINT_GROUP: Final = "manta.repository_agents"
# Modules by agent; imported at first use, since most servers have none.
_SHIPPED: Final = {
    name: f"{__package__}.{name}"
    for name in ("checksum", "decrypt", "manifest", "unpack", "verify")
}


@cache
def find_agent(name: str) -> RepositoryAgent:
    """Return the agent of a name; each is made once in a process.

    A shipped agent cannot be replaced by another package's.

    Raises:
        InvalidArgumentError: There is no such agent.
        InternalError: It cannot be imported or made.

    Triton: core/src/repo_agent.cc TritonRepoAgentManager::CreateAgent @73aad7c
    """
    if name in _SHIPPED:
        agent: RepositoryAgent = importlib.import_module(_SHIPPED[name]).AGENT
        return agent
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        if entry_point.name == name:
            return _made(entry_point)
    raise _unknown(name)


def _made(entry_point: EntryPoint) -> RepositoryAgent:
    try:
        agent: RepositoryAgent = entry_point.load()()
        lacking = [name for name in ("act", "changes_files") if not hasattr(agent, name)]
        if lacking:
            raise TypeError(f"it has no {lacking[0]!r}")  # noqa: TRY301 - one path for all failures
    except TritonError:
        raise
    except Exception as error:
        raise InternalError(
            f"repository agent '{entry_point.name}' ({entry_point.value}) cannot be made: "
            f"{type(error).__name__}: {error}"
        ) from error
    return agent


def _unknown(name: str) -> InvalidArgumentError:
    own = {entry_point.name for entry_point in entry_points(group=ENTRY_POINT_GROUP)}
    known = ", ".join(sorted(own | _SHIPPED.keys()))
    return InvalidArgumentError(
        f"unable to find 'libtritonrepoagent_{name}.so' for repo agent '{name}', searched: entry "
        f"points '{ENTRY_POINT_GROUP}' of the packages installed. Agents in C are not loaded, also "
        "not from --repoagent-directory: name one of those there are, or install a package with "
        f"one. There are: {known}"
    )
