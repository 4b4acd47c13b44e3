# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What agents have made of the models of this machine, for as long as somebody uses it.

A model's agents run once for the same files and config, however often it is read: who reads it
again, as a poll does, gets the same files. They are told what came of the load, and a copy that was
made for them is removed, when the last user is gone.

Blocks, and is used from several threads.
"""

import os
import shutil
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from backends.api.errors import InternalError
from cluster.repository.agents.contracts import Action, RepositoryAgent
from cluster.repository.agents.registry import find_agent
from cluster.repository.agents.run import AgentChain
from deployments.model_files.contracts import AgentCall

# What an action follows on; one that was left out is told first.
_BEFORE: Final = {
    Action.LOAD_COMPLETE: Action.LOAD,
    Action.UNLOAD: Action.LOAD_COMPLETE,
    Action.UNLOAD_COMPLETE: Action.UNLOAD,
}


class Notified(Protocol):
    """The agents of one load of a model."""

    def notify(self, action: Action) -> None:
        """Tell every agent what came of the load."""


@dataclass(slots=True, eq=False)
class PreparedFiles:
    """What one run of a model's agents has come to; made by `PreparedModels`.

    Attributes:
        key: Digest of what it was made of.
        directory: What to load the model from.
        is_copy: Whether that is a copy; else it is the repository's own.
    """

    key: str
    directory: Path
    is_copy: bool
    chain: Notified = field(repr=False)
    turn: threading.Lock = field(default_factory=threading.Lock, repr=False)
    uses: int = 1
    last: Action = Action.LOAD

    def advance(self, action: Action) -> None:
        """Tell the agents of an action, and of those before it that they were not told of."""
        if self.last is not _BEFORE[action]:
            self.advance(_BEFORE[action])
        self.chain.notify(action)
        self.last = action


class PreparedModels:
    """All of them.

    Args:
        root: Where copies are made; this server's alone.
        find: Finds an agent by name.
    """

    def __init__(self, root: Path, find: Callable[[str], RepositoryAgent] = find_agent) -> None:
        self._root = root
        self._find = find
        self._lock = threading.Lock()
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._by_key: dict[str, PreparedFiles] = {}
        self._left: dict[str, Path] = {}

    def adopt(self, in_use: Iterable[str]) -> None:
        """Keep the copies that instances run from which an earlier process has loaded.

        Their agents are not asked again while files and config stay as they are.

        Args:
            in_use: Directories; all other copies are removed.
        """
        kept = frozenset(in_use)
        for copy in tuple(self._root.iterdir()) if self._root.is_dir() else ():
            if str(copy) in kept:
                self._left[_key_of(copy)] = copy
            else:
                shutil.rmtree(copy, ignore_errors=True)

    def prepare(
        self,
        name: str,
        calls: Sequence[AgentCall],
        directory: Path,
        key: str,
        config_json: Callable[[], str],
    ) -> PreparedFiles:
        """Run a model's agents, unless they have been for the same; `release` has to follow.

        Raises:
            TritonError: An agent refuses, or fails.
        """
        with self._lock:
            turn = self._turns[name]
        with turn:
            with self._lock:
                found = self._by_key.get(key)
                if found is not None:
                    found.uses += 1
                    return found
            made = self._make(AgentChain(name, calls, config_json(), self._find), directory, key)
            with self._lock:
                self._by_key[key] = made
            return made

    def follow(self, key: str, agents: Notified) -> PreparedFiles:
        """Count the users of files that agents run over elsewhere; `release` has to follow.

        Args:
            key: Of the files.
            agents: Where to tell of what comes of the load.
        """
        with self._lock:
            found = self._by_key.setdefault(key, PreparedFiles(key, Path(), False, agents, uses=0))
            found.uses += 1
            return found

    def loaded(self, files: PreparedFiles) -> None:
        """Note that the model serves from them."""
        with files.turn:
            if files.last is Action.LOAD:
                files.advance(Action.LOAD_COMPLETE)

    def unloading(self, files: PreparedFiles) -> None:
        """Note that the model will serve from them no more; nothing while others do."""
        with files.turn:
            with self._lock:
                if files.uses > 1:
                    return
                self._forget(files)
            if files.last is not Action.UNLOAD:
                files.advance(Action.UNLOAD)

    def release(self, files: PreparedFiles) -> bool:
        """Note that one user is gone; the last leaves nothing behind.

        Returns:
            Whether it was the last.
        """
        with files.turn:
            with self._lock:
                files.uses -= 1
                if files.uses:
                    return False
                self._forget(files)
            if files.last is Action.LOAD:
                files.chain.notify(Action.LOAD_FAIL)
            else:
                files.advance(Action.UNLOAD_COMPLETE)
            if files.is_copy:
                shutil.rmtree(files.directory, ignore_errors=True)
                self._remove_root()
        return True

    def _make(self, chain: AgentChain, directory: Path, key: str) -> PreparedFiles:
        left = self._left.pop(key, None)
        if left is not None:
            chain.resume(left)
            return PreparedFiles(key, left, True, chain)
        if chain.changes_files:
            self._make_root()
        copy = self._root / f"{key}-{uuid.uuid4().hex}"
        try:
            made = chain.load(directory, copy)
        except BaseException:
            self._remove_root()
            raise
        return PreparedFiles(key, made, made == copy, chain)

    def _make_root(self) -> None:
        try:
            self._root.mkdir(mode=0o700, exist_ok=True)
            status = self._root.lstat()
        except OSError as error:
            raise InternalError(
                f"'{self._root}', where repository agents' copies lie, cannot be made: {error}"
            ) from error
        if status.st_uid != os.getuid():
            raise InternalError(f"'{self._root}' belongs to another user; remove it")

    def _remove_root(self) -> None:
        """Remove the place of copies, unless there still are some."""
        with suppress(OSError):
            self._root.rmdir()

    def _forget(self, files: PreparedFiles) -> None:
        if self._by_key.get(files.key) is files:
            del self._by_key[files.key]


def _key_of(copy: Path) -> str:
    return copy.name.partition("-")[0]
