# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes with caches of their own that share a registry, for tests.

``python -m tests.support.cache_node ROOT MODEL PORT`` is one in a process of its own: it says the
bytes it got from the store and from peers, and serves until it is told to end. Without arguments it
serves the registry, and says at which port.
"""

import secrets
import sys
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any

from deployments.lane.handshake import NONCE_BYTES, ClientHandshake, ServerHandshake
from deployments.lane.tls import LaneTls
from deployments.model_files.cache import NodeCache
from deployments.model_files.contracts import FileSource, ModelFiles
from deployments.model_files.peer_server import PeerServer
from deployments.model_files.peers import PeeredSource, Peers
from deployments.model_files.registry import MemoryRegistry, Registry
from tests.support.file_sources import DirectorySource, listed

SECRET = b"the secret of the cluster"


def server_proof() -> ServerHandshake:
    return ServerHandshake(SECRET, secrets.token_bytes(NONCE_BYTES))


def client_proof() -> ClientHandshake:
    return ClientHandshake(SECRET, secrets.token_bytes(NONCE_BYTES))


class Node:
    """A node's cache with what others ask it by."""

    def __init__(
        self,
        root: Path,
        registry: Registry,
        timeout_s: float = 30.0,
        tls: LaneTls | None = None,
    ) -> None:
        self.cache = NodeCache(root)
        self.registry = registry
        server_tls, client_tls = (None, None) if tls is None else (tls.server, tls.client)
        self.server = PeerServer(self.cache.layout, server_proof, "127.0.0.1", tls=server_tls)
        self.peers = Peers(client_proof, client_tls, timeout_s)

    @property
    def address(self) -> str:
        return self.server.address

    def ensure(self, files: ModelFiles, store: FileSource) -> Path:
        def open_source(location: str) -> PeeredSource:
            return PeeredSource(
                self.peers, self.registry, self.address, location, store, self.cache.counters
            )

        return self.cache.ensure(files, open_source)

    def close(self) -> None:
        self.server.close()
        self.peers.close()
        self.cache.close()


class RegistryServer(BaseManager):
    """Serves one `MemoryRegistry` to other processes."""


# On a machine without time to spare nobody is stale.
_registry = MemoryRegistry(stale_after_s=float("inf"))
_METHODS = ("claim", "progressed", "holders", "tell", "announce", "told", "leave")
RegistryServer.register("registry", callable=lambda: _registry, exposed=_METHODS)


def connect(port: int) -> Any:
    manager = RegistryServer(("127.0.0.1", port), SECRET)
    manager.connect()
    made: Any = manager
    return made.registry()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def serve_registry() -> None:
    server = RegistryServer(("127.0.0.1", 0), SECRET).get_server()
    address: Any = server.address
    say(str(address[1]))
    server.serve_forever()


def main(root: Path, model: Path, port: int) -> None:
    node = Node(root, connect(port), timeout_s=600.0)
    say("ready")
    sys.stdin.readline()
    node.ensure(listed(model, location="s3://bucket/m"), DirectorySource(model))
    seen = node.cache.statistics()
    say(f"{seen.from_store_bytes} {seen.from_peers_bytes}")
    sys.stdin.readline()
    node.close()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        serve_registry()
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
