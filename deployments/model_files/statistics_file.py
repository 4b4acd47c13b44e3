# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a node's fetching process has done, in a small file for the node's ingresses to read.

Servers of one user share a folder unless told otherwise, so each node of each has a directory of
its own, locked while its process lives; the next to begin removes those that nobody locks.
"""

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from deployments.model_files.counters import CacheStatistics
from deployments.model_files.layout import Layout, replace_text
from deployments.model_files.locks import is_locked, let_go, locked, open_shared

_FOLDER: Final = "statistics"
_FILE: Final = "now.json"


class StatisticsFile:
    """Writes the file. Used from several threads.

    Args:
        layout: Of the cache.
        node: The node.
        read: Returns the counters.

    Raises:
        OSError: It cannot be written.
    """

    def __init__(self, layout: Layout, node: str, read: Callable[[], CacheStatistics]) -> None:
        self._path = _path(layout.root, node)
        self._read = read
        self._lock = Lock()
        with locked(layout.lock):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor: int | None = open_shared(self._path.parent)
            for directory in list(self._path.parent.parent.iterdir()):
                if not is_locked(directory):
                    layout.discard(directory)
        self.write()

    def write(self) -> None:
        """Write the counters as they are now.

        Raises:
            OSError: It cannot be written.
        """
        # Under the lock: what is written last is newest.
        with self._lock:
            replace_text(self._path, msgspec.json.encode(self._read()).decode())

    def close(self) -> None:
        """Leave the file to be removed; once more does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            let_go(descriptor)


def read_statistics(root: Path, node: str) -> CacheStatistics | None:
    """Return what a node has written into a cache's folder; None when there is nothing."""
    try:
        return msgspec.json.decode(_path(root, node).read_bytes(), type=CacheStatistics)
    except (OSError, msgspec.MsgspecError):
        return None


def _path(root: Path, node: str) -> Path:
    return root / _FOLDER / node / _FILE
