# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The face of a repository agent; own ones are entry points ``manta.repository_agents``."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, Protocol

# Shipped agents that the server itself knows of, and a parameter of `VERIFY`.
CHECKSUM: Final = "checksum"
VERIFY: Final = "verify"
MANIFEST: Final = "manifest"
KEYS: Final = "keys"


class Action(Enum):
    """What happens to a model.

    Triton: core/include/triton/core/tritonrepoagent.h TRITONREPOAGENT_ActionType
    """

    LOAD = "LOAD"
    LOAD_COMPLETE = "LOAD_COMPLETE"
    LOAD_FAIL = "LOAD_FAIL"
    UNLOAD = "UNLOAD"
    UNLOAD_COMPLETE = "UNLOAD_COMPLETE"


@dataclass(frozen=True, slots=True)
class AgentModel:
    """The model an agent is called for.

    Attributes:
        directory: With LOAD: the model's directory on this node, the agent's own copy where
            `RepositoryAgent.changes_files`; else the directory it was loaded from.
        parameters: Of this agent, from the model's config.
        config_json: The model's config.
    """

    name: str
    directory: Path
    parameters: Mapping[str, str]
    config_json: str = "{}"


class RepositoryAgent(Protocol):
    """Looks at, or changes, the files of a model before it is loaded.

    An agent may also have an attribute ``replaces_files``, true when it makes, replaces and removes
    files and never writes into one that is there: hard links do then for its copy.

    Attributes:
        changes_files: Whether `act` may change the directory with LOAD; it then gets a copy.
    """

    changes_files: bool

    def act(self, action: Action, model: AgentModel) -> None:
        """Act; with LOAD the load waits and fails with the error raised.

        Raises:
            TritonError: The model must not be loaded; the message says why.
        """
