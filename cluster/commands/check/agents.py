# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs repository agents as a load does; what only looks at files is read in parts, not copied."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.config.pbtxt import to_message
from cluster.repository.agents.checksum import compare_digests
from cluster.repository.agents.contracts import CHECKSUM, MANIFEST, VERIFY, RepositoryAgent
from cluster.repository.agents.prepared import PreparedFiles, PreparedModels
from cluster.repository.agents.registry import find_agent
from cluster.repository.agents.run import AgentChain
from cluster.repository.agents.verify import VerifyAgent
from cluster.repository.filesystem import CACHE_DIRECTORY
from cluster.repository.manifest import (
    MANIFEST_FILE,
    MAX_MANIFEST_BYTES,
    OWN_FILES,
    compare_files,
    parse_manifest,
)
from cluster.repository.stores.contracts import Store
from cluster.repository.stores.source import digest_of as stored_digest_of
from deployments.model_files.contracts import AgentCall, FileChangedError, ModelFile, ModelFiles

# They look at files, and change none.
_LOOKING: Final = frozenset({CHECKSUM, MANIFEST, VERIFY})


def unknown_agents(config: ModelConfig) -> Iterator[str]:
    """Yield a complaint about each agent that no package has, or that cannot be made."""
    for agent in to_message(config).model_repository_agents.agents:
        try:
            find_agent(agent.name)
        except TritonError as error:
            yield error.message


class AgentsLeftOutError(Exception):
    """A model has agents, and none shall run."""


class CheckedAgents(PreparedModels):
    """Agents over local files; where none changes files, what they refuse is kept, not raised.

    Then the rest of the model can be checked besides. Used by one thread.

    Args:
        root: Where copies are made for agents that change files.
        runs: Whether agents run at all.
    """

    def __init__(self, root: Path, *, runs: bool = True) -> None:
        super().__init__(root, _find)
        self._runs = runs
        self._refused: list[str] = []

    def prepare(
        self,
        name: str,
        calls: Sequence[AgentCall],
        directory: Path,
        key: str,
        config_json: Callable[[], str],
    ) -> PreparedFiles:
        """See `PreparedModels`.

        Raises:
            TritonError: An agent refuses, and one of them changes files.
            AgentsLeftOutError: None shall run.
        """
        if not self._runs:
            raise AgentsLeftOutError
        try:
            return super().prepare(name, calls, directory, key, config_json)
        except TritonError as error:
            if not is_looked_at(calls):
                raise
            self._refused.append(error.message)
            return PreparedFiles(key, directory, False, AgentChain(name, ()))

    def take_refused(self) -> list[str]:
        """Return what was refused since the last time."""
        refused, self._refused = self._refused, []
        return refused


def is_looked_at(calls: Collection[AgentCall]) -> bool:
    """Whether agents leave the files as they are."""
    return all(call.name in _LOOKING for call in calls)


def _find(name: str) -> RepositoryAgent:
    # What the check looks at is loaded by nobody.
    return VerifyAgent(copies=False) if name == VERIFY else find_agent(name)


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version of a model in the store of its directory, and what its node would fetch."""

    store: Store
    name: str
    version: int
    files: ModelFiles

    def refused(self) -> Iterator[str]:
        """Yield what the agents refuse that only look at files, before one that changes them.

        A checksum reads its file, a signature all files; a manifest without one only files that all
        versions share.

        Raises:
            UnavailableError: The store cannot be read.
        """
        for call in self.files.agents:
            if call.name not in _LOOKING:
                return
            try:
                if call.name == CHECKSUM:
                    compare_digests(dict(call.parameters), self._digest_of)
                else:
                    self._compare(reads_all=call.name == VERIFY)
            except (TritonError, FileChangedError) as error:
                yield error.message if isinstance(error, TritonError) else str(error)

    def _compare(self, *, reads_all: bool) -> None:
        own = f"{self.version}/"
        here = [file for file in self.files.files if CACHE_DIRECTORY not in file.path.split("/")]
        versions = {file.path for file in here if file.path.startswith(own)}
        for prefix, files, reads in (
            ("", [file for file in here if file.path not in versions], True),
            (own, [file for file in here if file.path in versions], reads_all),
        ):
            sizes = {file.path.removeprefix(prefix): file.size_bytes for file in files}
            if MANIFEST_FILE not in sizes:
                continue
            model = f"model '{self.name}'"
            where = f"version {self.version} of {model}" if prefix else model
            content = self.store.read(f"{prefix}{MANIFEST_FILE}", 0, MAX_MANIFEST_BYTES + 1)
            digest_of = (
                (lambda path, prefix=prefix: self._digest_of(prefix + path)) if reads else None
            )
            compare_files(
                parse_manifest(content, f"of {where}"),
                where,
                {path: size for path, size in sizes.items() if path not in OWN_FILES},
                digest_of,
            )

    def _digest_of(self, path: str, algorithm: str = "sha256") -> str:
        return stored_digest_of(self.store, self._file(path), algorithm)

    def _file(self, path: str) -> ModelFile:
        found = next((file for file in self.files.files if file.path == path), None)
        if found is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        return found
