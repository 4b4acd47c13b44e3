# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Files that came with a load: in a folder of one node, and on others by way of that one's cache.

Their location names both, ``load://<node>/<folder>``. That node takes them into its cache, and
other nodes read them there as they read a store, and then from each other.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from backends.api.errors import UnavailableError
from deployments.model_files.blobs import content_key, sha256_of
from deployments.model_files.contracts import ModelFile, ModelFiles
from deployments.model_files.counters import CacheCounters
from deployments.model_files.peer_wire import There
from deployments.model_files.peers import Peers

_SCHEME: Final = "load://"
# The process that gives them may have ended, or was started anew.
_ATTEMPTS: Final = 3


def location_of(node: str, folder: str) -> str:
    """Return the location of files in a folder of a node, an absolute path."""
    return f"{_SCHEME}{node}{folder}"


def is_of_load(location: str) -> bool:
    """Whether files of this location came with a load."""
    return location.startswith(_SCHEME)


def origin_of(location: str) -> tuple[str, Path]:
    """Return the node and the folder of a location."""
    node, slash, folder = location.removeprefix(_SCHEME).partition("/")
    return node, Path(slash + folder)


def list_folder(location: str) -> ModelFiles:
    """Read all files of a location of this node, and name them with their digests.

    Raises:
        UnavailableError: They are gone.
        OSError: They cannot be read.
    """
    _, folder = origin_of(location)
    files = tuple(
        ModelFile(path.relative_to(folder).as_posix(), path.stat().st_size, sha256, sha256)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        for sha256 in (sha256_of(path),)
    )
    if not files:
        raise UnavailableError(_gone(location, f"'{folder}' is empty or not there"))
    return ModelFiles(location, files)


class FolderSource:
    """Implements `FileSource` over the folder.

    Args:
        location: Of this node.
        counters: Where bytes count as others', for no store gives them.
    """

    def __init__(self, location: str, counters: CacheCounters) -> None:
        _, self._folder = origin_of(location)
        self._counters = counters

    def read(self, file: ModelFile, offset_bytes: int, length_bytes: int) -> bytes:
        """See `FileSource.read`."""
        with (self._folder / file.path).open("rb") as opened:
            opened.seek(offset_bytes)
            data = opened.read(length_bytes)
        self._counters.count(from_peers_bytes=len(data))
        return data


class OriginSource:
    """Implements `FileSource` over the cache of the node that has the folder.

    Args:
        location: Of another node.
        peers: Connections to other nodes.
        find: Has that node give the files of a location; returns the address of its `PeerServer`.
        counters: Where bytes count as others'.

    Raises:
        TritonError: The node has them no more, or cannot be asked.
    """

    def __init__(
        self, location: str, peers: Peers, find: Callable[[str], str], counters: CacheCounters
    ) -> None:
        self._location = location
        self._peers = peers
        self._find = find
        self._counters = counters
        self._address = find(location)

    def read(self, file: ModelFile, offset_bytes: int, length_bytes: int) -> bytes:
        """See `FileSource.read`."""
        key = content_key(self._location, file)
        why = ""
        for attempt in range(_ATTEMPTS):
            address = self._find(self._location) if attempt else self._address
            try:
                there, data = self._peers.read(address, key, offset_bytes, length_bytes)
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                continue
            if there == There.ALL:
                self._counters.count(from_peers_bytes=length_bytes)
                return data
            why = f"its node does not have '{file.path}'"
        raise UnavailableError(_gone(self._location, why))


def _gone(location: str, why: str) -> str:
    node, _ = origin_of(location)
    return (
        f"the files that came with a load cannot be read from node {node}: {why}; load the model "
        "with its files again"
    )
