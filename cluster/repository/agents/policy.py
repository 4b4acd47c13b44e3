# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which agents run for a model: those its config names, and those the server asks for. Pure."""

from dataclasses import dataclass

from backends.api.model_config import ModelConfig
from cluster.repository.agents.contracts import KEYS, MANIFEST, VERIFY
from deployments.model_files.contracts import AgentCall


@dataclass(frozen=True, slots=True)
class AgentPolicy:
    """What the server's options say.

    Attributes:
        require_signed: ``--require-signed-models``.
        trusted_keys: ``--trusted-keys``, absolute; empty without.
    """

    require_signed: bool = False
    trusted_keys: str = ""

    def calls_of(self, config: ModelConfig | None, *, has_manifest: bool) -> tuple[AgentCall, ...]:
        """Return the agents of a model in the order they run.

        Args:
            config: As the repository, or a load, has it; None without.
            has_manifest: Whether a manifest lies in one of the model's directories.
        """
        agents = () if config is None else config.model_repository_agents
        named = [self._with_keys(agent.name, dict(agent.parameters)) for agent in agents]
        if self.require_signed:
            first = self._with_keys(VERIFY, {})
            return first, *(call for call in named if call != first)
        if has_manifest and not {VERIFY, MANIFEST} & {call.name for call in named}:
            return AgentCall(MANIFEST), *named
        return tuple(named)

    def _with_keys(self, name: str, parameters: dict[str, str]) -> AgentCall:
        if name == VERIFY and self.trusted_keys:
            parameters.setdefault(KEYS, self.trusted_keys)
        return AgentCall(name, tuple(sorted(parameters.items())))
