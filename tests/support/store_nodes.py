# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes that fetch from a store, in processes of their own, without Ray; for tests."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.managers import BaseManager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from backends.api.errors import TritonError
from cluster.actors.file_registry import FileRegistry, Rows
from cluster.repository.stores.source import open_source
from deployments.instance.node_files import NodeFiles, PeerAddress
from deployments.model_files.contracts import ModelFiles
from deployments.model_files.counters import CacheStatistics
from tests.support.registry_rows import DictRows

_SECRET = b"the secret of the cluster"
_METHODS = ("get", "put", "keys", "delete")
# A new interpreter, as a node's is: threads and connections of the test are not in it.
_spawn = multiprocessing.get_context("spawn")
_rows = DictRows()


def _the_rows() -> DictRows:
    return _rows


class RowsManager(BaseManager):
    """Serves one `DictRows` to several processes."""


RowsManager.register("rows", callable=_the_rows, exposed=_METHODS)


@contextmanager
def shared_rows() -> Iterator[tuple[Rows, Any]]:
    """Yield rows in a process of their own, and their address."""
    with RowsManager(authkey=_SECRET, ctx=_spawn) as manager:
        yield manager.rows(), manager.address  # type: ignore[attr-defined]


@dataclass(frozen=True)
class StoreNode:
    """A node in a process of its own.

    Attributes:
        root: Folder of its cache.
    """

    root: Path
    _process: BaseProcess
    _pipe: Connection

    def wait_ready(self) -> None:
        """Wait until its process can be asked."""
        assert self._pipe.recv() == "ready"

    def begin(self, files: ModelFiles) -> None:
        """Have it fetch files, as an instance does."""
        self._pipe.send(files)

    def end(self) -> CacheStatistics | str:
        """Return what it has done since its start, or the message it ended with."""
        answer: CacheStatistics | str = self._pipe.recv()
        return answer

    def kill(self) -> None:
        """End it as a machine that loses its power."""
        self._process.kill()
        self._process.join()


@contextmanager
def store_node(root: Path, rows_address: Any) -> Iterator[StoreNode]:
    """Start a node; it has the credentials that are in this process's environment."""
    ours, theirs = _spawn.Pipe()
    process = _spawn.Process(target=_run, args=(str(root), rows_address, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield StoreNode(root, process, ours)
    finally:
        ours.close()
        process.kill()
        process.join()


def _run(root: str, rows_address: Any, pipe: Connection) -> None:
    manager = RowsManager(rows_address, _SECRET)
    manager.connect()
    # On a machine without time to spare nobody is stale.
    registry = FileRegistry(manager.rows(), stale_after_s=float("inf"))  # type: ignore[attr-defined]
    node = NodeFiles(
        root, 0, _SECRET, PeerAddress("127.0.0.1"), registry, open_source, Path(root).name
    )
    pipe.send("ready")
    with suppress(EOFError):
        while True:
            files: ModelFiles = pipe.recv()
            try:
                node.ensure("m", files)
            except TritonError as error:
                pipe.send(error.message)
            else:
                pipe.send(node.statistics())
    node.close()
