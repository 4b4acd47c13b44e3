# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The agents of what a node has fetched from stores: told there what came of the load.

They ran over the files when these were fetched. The controller, which knows what becomes of models,
then tells all nodes; one that has not fetched the files has nobody to tell.

Blocks, and is used from several threads.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cluster.repository.agents.contracts import Action
from cluster.repository.agents.prepared import PreparedFiles
from cluster.repository.agents.run import AgentChain

_ORDER: Final = (Action.LOAD, Action.LOAD_COMPLETE, Action.UNLOAD, Action.UNLOAD_COMPLETE)


# Tells the agents of files, by their key, on all nodes that have fetched these; blocks.
TellAgents = Callable[[str, Action], None]


@dataclass(frozen=True, slots=True)
class NodeAgents:
    """Implements `cluster.repository.agents.prepared.Notified` over the nodes.

    Attributes:
        key: Of the files that the agents ran over.
        tell: Tells them.
    """

    key: str
    tell: TellAgents

    def notify(self, action: Action) -> None:
        """See `Notified`."""
        self.tell(self.key, action)


class FollowedAgents:
    """The agents of one node, by the key of the files they ran over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_key: dict[str, PreparedFiles] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no agent is to be told anything any more."""
        return not self._by_key

    def follow(self, key: str, directory: Path, make_chain: Callable[[], AgentChain]) -> None:
        """Have the agents told from now on; those of a key that is followed already are.

        Args:
            key: Of the files.
            directory: What is loaded.
            make_chain: Makes them.

        Raises:
            TritonError: An agent cannot be made.
        """
        with self._lock:
            if key not in self._by_key:
                chain = make_chain()
                chain.resume(directory)
                self._by_key[key] = PreparedFiles(key, directory, False, chain)

    def tell(self, key: str, action: Action) -> None:
        """Tell the agents of files; nobody hears an action twice, or one that comes too late."""
        with self._lock:
            files = self._by_key.get(key)
        if files is None:
            return
        with files.turn:
            if action is Action.LOAD_FAIL:
                if files.last is not Action.LOAD:
                    return
                files.chain.notify(action)
            elif _ORDER.index(action) > _ORDER.index(files.last):
                files.advance(action)
        if action in {Action.LOAD_FAIL, Action.UNLOAD_COMPLETE}:
            with self._lock:
                if self._by_key.get(key) is files:
                    del self._by_key[key]
