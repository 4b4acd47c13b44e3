# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the repository agents that a config names are there."""

from collections.abc import Iterator

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.config.pbtxt import to_message
from cluster.repository.agents.registry import find_agent


def unknown_agents(config: ModelConfig) -> Iterator[str]:
    """Yield a complaint about each agent that no package has, or that cannot be made."""
    for agent in to_message(config).model_repository_agents.agents:
        try:
            find_agent(agent.name)
        except TritonError as error:
            yield error.message
