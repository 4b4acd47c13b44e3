# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which agents run for a model: those its config names, and those the server asks for. Pure."""

from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Self

from backends.api.model_config import ModelConfig
from cluster.repository.agents.contracts import CHECKSUM, KEYS, MANIFEST, VERIFY
from cluster.repository.manifest import MANIFEST_FILE, OWN_FILES
from deployments.model_files.contracts import AgentCall, ModelFiles


@dataclass(frozen=True, slots=True)
class AgentPolicy:
    """What the server's options say.

    Attributes:
        require_signed: ``--require-signed-models``.
        trusted_keys: ``--trusted-keys``, absolute; empty without.
    """

    require_signed: bool = False
    trusted_keys: str = ""

    @classmethod
    def of(cls, require_signed: bool, trusted_keys: str) -> Self:
        """Return what the values of the two flags come to."""
        return cls(require_signed, str(Path(trusted_keys).absolute()) if trusted_keys else "")

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

    def calls_of_version(
        self, config: ModelConfig | None, files: ModelFiles, version: int
    ) -> tuple[AgentCall, ...]:
        """Return the agents of one version, where each version has files of its own.

        What the digests of ``files`` say of them is compared when they are fetched: the agent
        ``manifest`` does not run for that. Checksums of other versions' files are left out.

        Args:
            config: As the repository, or a load, has it; None without.
            files: What the version is loaded from.
            version: Which.
        """
        calls = self.calls_of(config, has_manifest=_has_more_to_compare(files, version))
        return tuple(_of_version(call, version) for call in calls)

    def _with_keys(self, name: str, parameters: dict[str, str]) -> AgentCall:
        if name == VERIFY and self.trusted_keys:
            parameters.setdefault(KEYS, self.trusted_keys)
        return AgentCall(name, tuple(sorted(parameters.items())))


def _has_more_to_compare(files: ModelFiles, version: int) -> bool:
    """Whether a manifest says more than the digests do: of shared files, or of what it lacks."""
    paths = {file.path for file in files.files}
    own = f"{version}/"
    if MANIFEST_FILE in paths:
        return True
    undigested = {f.path for f in files.files if f.path.startswith(own) and not f.sha256}
    return f"{own}{MANIFEST_FILE}" in undigested and bool(
        undigested - {f"{own}{name}" for name in OWN_FILES}
    )


def _of_version(call: AgentCall, version: int) -> AgentCall:
    if call.name != CHECKSUM:
        return call
    kept = tuple((key, value) for key, value in call.parameters if not _is_of_another(key, version))
    return replace(call, parameters=kept)


def _is_of_another(checksum: str, version: int) -> bool:
    parts = PurePosixPath(checksum.partition(":")[2]).parts
    is_version = len(parts) > 1 and parts[0].isascii() and parts[0].isdigit()
    return is_version and parts[0] != str(version)
