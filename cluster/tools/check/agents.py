# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the repository agents that a config names are there."""

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Final

from backends.api.model_config import ModelConfig
from backends.config.pbtxt import to_message

ENTRY_POINT_GROUP: Final = "manta.repository_agents"
SHIPPED: Final = frozenset({"checksum", "decrypt", "unpack", "verify"})


def unknown_agents(config: ModelConfig) -> Iterator[str]:
    """Yield a complaint about each agent that no package has."""
    for agent in to_message(config).model_repository_agents.agents:
        if agent.name in SHIPPED or any(entry_points(group=ENTRY_POINT_GROUP, name=agent.name)):
            continue
        yield (
            f"unable to find repository agent '{agent.name}' of model '{config.name}', there are "
            f"{', '.join(sorted(SHIPPED))}"
        )
