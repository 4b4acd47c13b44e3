# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Has files that came with a load reach the instances, whatever their node.

The controller writes such files to a directory of its own node. Where there are more nodes, and the
files are not too large for the head's memory, they also go to the cluster's store, and instances
fetch them (`deployments.instance.model_files`). Else the instances stay on the controller's node.
"""

import asyncio
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

from cluster.actors.model_files import FILES_PREFIX
from cluster.controller.store import Store
from cluster.models.contracts import Candidate
from cluster.placement.demand import SMALLEST_FRACTION, ClusterResources
from deployments.instance.model_files import pack

# The head keeps the store in memory.
MAX_SHARED_BYTES: Final = 64 << 20


class SharedFiles:
    """The files of loads that are in the store.

    Args:
        store: The cluster's store.
        own_node: Resource that the controller's node alone has.
    """

    def __init__(self, store: Store, own_node: str) -> None:
        self._store = store
        self._own_node = own_node
        self._keys: dict[str, asyncio.Task[str]] = {}

    async def share(
        self, candidate: Candidate, cluster: ClusterResources
    ) -> tuple[str, dict[str, float]]:
        """Return the key of a candidate's files, and what its instances have to reserve besides.

        Both are empty for a candidate whose files are the repository's. What goes to the store is
        there when this returns.
        """
        if not candidate.is_temporary:
            return "", {}
        folder = candidate.model_dir
        if len(cluster.nodes) > 1:
            if folder not in self._keys:
                self._keys[folder] = asyncio.create_task(self._put(folder))
            try:
                key = await asyncio.shield(self._keys[folder])
            except Exception:
                # The next attempt to load writes them again.
                self._keys.pop(folder, None)
                raise
            if key:
                return key, {}
        return "", {self._own_node: SMALLEST_FRACTION}

    async def remove(self, candidate: Candidate) -> None:
        """Remove a candidate's files from the store and from this node."""
        if not candidate.is_temporary:
            return
        self._keys.pop(candidate.model_dir, None)
        await asyncio.to_thread(shutil.rmtree, candidate.model_dir, ignore_errors=True)
        await self._store.delete(_store_key(Path(candidate.model_dir).name))

    async def remove_all_but(self, kept: Collection[str]) -> None:
        """Remove files that an earlier controller has shared.

        Args:
            kept: Keys that live instances were made with.
        """
        for stored in await self._store.keys(FILES_PREFIX):
            if stored.removeprefix(FILES_PREFIX).decode() not in kept:
                await self._store.delete(stored)

    async def _put(self, folder: str) -> str:
        content = await asyncio.to_thread(pack, Path(folder), MAX_SHARED_BYTES)
        if content is None:
            return ""
        key = Path(folder).name
        await self._store.put(_store_key(key), lambda: content)
        return key


def _store_key(key: str) -> bytes:
    return FILES_PREFIX + key.encode()
