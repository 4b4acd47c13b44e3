# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes that get a model from each other."""

import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import UnavailableError
from deployments.lane.handshake import (
    NONCE_BYTES,
    ClientHandshake,
    HandshakeError,
    ServerHandshake,
)
from deployments.model_files.blobs import content_key
from deployments.model_files.cache import NodeCache
from deployments.model_files.peer_server import PeerServer, prove, receive
from deployments.model_files.peer_wire import ANSWER, MAX_BYTES, REQUEST, There, request
from deployments.model_files.peers import Peers
from deployments.model_files.registry import MemoryRegistry
from tests.support.cache_node import Node, client_proof, server_proof
from tests.support.file_sources import (
    PART,
    DirectorySource,
    content_of,
    listed,
    random_bytes,
    write,
)

ROOT = Path(__file__).parents[4]
_PARTS = 5
SIZE = _PARTS * PART


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write(tmp_path / "model", {"1/model": random_bytes(SIZE), "config.pbtxt": b"name: 'm'"})
    return tmp_path / "model"


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


@pytest.fixture
def node_of(tmp_path: Path, registry: MemoryRegistry) -> Iterator[object]:
    with ExitStack() as nodes:

        def make(number: int, timeout_s: float = 30.0) -> Node:
            node = Node(tmp_path / f"node-{number}", registry, timeout_s)
            nodes.callback(node.close)
            return node

        yield make


@contextmanager
def python(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.cache_node", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.slow
def test_four_nodes_cost_the_store_about_one_download(model: Path, tmp_path: Path) -> None:
    with ExitStack() as started:
        port = line(started.enter_context(python()))
        nodes = [
            started.enter_context(python(str(tmp_path / f"node-{number}"), str(model), port))
            for number in range(4)
        ]
        assert [line(node) for node in nodes] == ["ready"] * 4
        for node in nodes:
            go_on(node)
        counts = [tuple(map(int, line(node).split())) for node in nodes]
    total = sum(path.stat().st_size for path in model.rglob("*") if path.is_file())
    assert sum(from_store for from_store, _ in counts) <= 1.2 * total
    assert sum(from_peers for _, from_peers in counts) == 3 * SIZE
    for number in range(4):
        (tree,) = (tmp_path / f"node-{number}" / "trees").iterdir()
        assert content_of(tree) == content_of(model)


def test_a_node_that_comes_later_asks_those_that_have_it(model: Path, node_of) -> None:
    first, second = node_of(1), node_of(2)
    files = listed(model)
    first.ensure(files, DirectorySource(model))
    store = DirectorySource(model)
    assert content_of(second.ensure(files, store)) == content_of(model)
    assert store.reads == [("config.pbtxt", 0)]
    assert second.cache.statistics().from_peers_bytes == SIZE


def test_parts_of_a_running_download_are_given(model: Path, node_of) -> None:
    first, second = node_of(1), node_of(2)
    files = listed(model)
    second_has_parts = threading.Event()

    def stop_at_last_part(path: str, offset: int) -> None:
        if (path, offset) == ("1/model", SIZE - PART):
            assert second_has_parts.wait(60)

    load = threading.Thread(
        target=first.ensure, args=(files, DirectorySource(model, stop_at_last_part))
    )
    load.start()
    key = content_key(files.location, files.files[0])
    content = (model / "1/model").read_bytes()
    for part in range(_PARTS - 1):
        there, data = There.LATER, b""
        while there != There.ALL:
            if first.address in first.registry.holders(key):
                there, data = second.peers.read(first.address, key, part * PART, PART)
        assert data == content[part * PART :][:PART]
    assert second.peers.read(first.address, key, SIZE - PART, PART) == (There.LATER, b"")
    second_has_parts.set()
    load.join()
    assert content_of(second.ensure(files, DirectorySource(model))) == content_of(model)


def test_a_node_goes_on_when_the_one_that_asked_the_store_is_gone(model: Path, node_of) -> None:
    first, second = node_of(1), node_of(2)
    files = listed(model)
    key = content_key(files.location, files.files[0])
    assert first.registry.claim(key, first.address)
    first.server.close()
    store = DirectorySource(model)
    assert content_of(second.ensure(files, store)) == content_of(model)
    assert first.registry.holders(key) == (second.address,)
    assert first.registry.told(key)


def damage(node: Node) -> None:
    """Change what a node has, as a bad disk does."""
    for blob in node.cache.layout.blobs.iterdir():
        if blob.stat().st_size == SIZE:
            blob.chmod(0o600)
            with blob.open("r+b") as opened:
                opened.seek(PART + 1)
                opened.write(b"damage")


@pytest.mark.slow
@pytest.mark.parametrize("with_sha256", [False, True])
def test_wrong_bytes_of_a_peer_are_noticed_and_read_from_the_store(
    model: Path, node_of, with_sha256: bool
) -> None:
    first, second = node_of(1), node_of(2)
    files = listed(model, with_sha256=with_sha256)
    first.ensure(files, DirectorySource(model))
    damage(first)
    store = DirectorySource(model)
    assert content_of(second.ensure(files, store)) == content_of(model)
    assert store.read_bytes == SIZE + 9


@contextmanager
def peer_that(answer: bytes) -> Iterator[str]:
    """Yield the address of a peer that knows the secret and answers so; nothing: it is silent."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as opened:

        def serve(connection: socket.socket) -> None:
            try:
                prove(connection, server_proof())
                while answer:
                    receive(connection, REQUEST.size + 32)
                    connection.sendall(answer)
                connection.recv(1 << 16)
            except OSError:
                pass

        def accept() -> None:
            while True:
                try:
                    connection = opened.enter_context(listener.accept()[0])
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        host, port = listener.getsockname()
        yield f"{host}:{port}"
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(ANSWER.pack(There.ALL, 3) + b"abc", id="too little"),
        pytest.param(ANSWER.pack(There.ALL, MAX_BYTES * 4), id="too much"),
        pytest.param(b"\xff" * 64, id="rubbish"),
        pytest.param(ANSWER.pack(There.NOTHING, 0), id="has nothing"),
    ],
)
def test_a_peer_of_no_use_costs_nothing_but_time(
    model: Path, node_of, registry: MemoryRegistry, answer: bytes
) -> None:
    files = listed(model)
    key = content_key(files.location, files.files[0])
    with peer_that(answer) as address:
        registry.claim(key, address)
        node = node_of(1, timeout_s=0.2)
        assert content_of(node.ensure(files, DirectorySource(model))) == content_of(model)


def test_a_store_that_fails_frees_the_claim(model: Path, node_of) -> None:
    first, second = node_of(1), node_of(2)
    files = listed(model)

    def fail(_path: str, _offset: int) -> None:
        raise UnavailableError("the store is away")

    with pytest.raises(UnavailableError, match="away"):
        first.ensure(files, DirectorySource(model, fail))
    assert first.registry.holders(content_key(files.location, files.files[0])) == ()
    assert content_of(second.ensure(files, DirectorySource(model))) == content_of(model)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PeerServer]:
    with NodeCache(tmp_path / "cache") as cache:
        made = PeerServer(cache.layout, server_proof, "127.0.0.1")
        yield made
        made.close()


def connected(server: PeerServer) -> socket.socket:
    host, _, port = server.address.rpartition(":")
    return socket.create_connection((host, int(port)), 10)


def said_to(connection: socket.socket, data: bytes) -> bytes:
    """Return what a peer says to some bytes before it closes the connection, or breaks it off."""
    said = b""
    with suppress(ConnectionError):
        connection.sendall(data)
        # The peer may have gone before it was told so.
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        while more := connection.recv(1 << 16):
            said += more
    return said


def test_a_stranger_is_told_nothing(server: PeerServer) -> None:
    def stranger() -> ClientHandshake:
        return ClientHandshake(b"another cluster's secret", secrets.token_bytes(NONCE_BYTES))

    with pytest.raises(HandshakeError, match="does not know"):
        Peers(stranger).read(server.address, "0" * 32, 0, 1)
    with connected(server) as connection:
        assert said_to(connection, request("0" * 32, 0, 1) + bytes(100)) == b""


def test_a_server_of_another_cluster_is_not_believed(tmp_path: Path) -> None:
    def stranger() -> ServerHandshake:
        return ServerHandshake(b"another cluster's secret", secrets.token_bytes(NONCE_BYTES))

    with NodeCache(tmp_path / "cache") as cache:
        server = PeerServer(cache.layout, stranger, "127.0.0.1")
        with pytest.raises(HandshakeError):
            Peers(client_proof).read(server.address, "0" * 32, 0, 1)
        server.close()


def test_a_request_that_comes_with_the_proof_is_answered(server: PeerServer) -> None:
    proof = client_proof()
    with connected(server) as connection:
        connection.sendall(proof.open())
        last = b""
        while not proof.is_done:
            last = proof.feed(connection.recv(1))
        connection.sendall(last + request("0" * 32, 0, 1))
        assert receive(connection, ANSWER.size) == ANSWER.pack(There.NOTHING, 0)


@pytest.mark.parametrize(
    "asked",
    [
        request("0" * 64, 0, MAX_BYTES + 1),
        request("0" * 64, 0, 0),
        request("../../../etc/passwd".ljust(40, "/"), 0, 1),
        request("lock", 0, 1),
    ],
)
def test_a_request_that_asks_for_too_much_ends_the_connection(
    server: PeerServer, asked: bytes
) -> None:
    with connected(server) as connection:
        prove(connection, client_proof())
        assert said_to(connection, asked) == b""


@pytest.mark.slow
@given(rubbish=st.binary(max_size=200))
def test_whatever_a_peer_sends_the_server_serves_others(rubbish: bytes) -> None:
    server = _shared_server()
    with connected(server) as connection:
        prove(connection, client_proof())
        said_to(connection, rubbish)
    with closing(Peers(client_proof)) as peers:
        assert peers.read(server.address, "0" * 32, 0, 1) == (There.NOTHING, b"")


_servers: list[PeerServer] = []


def _shared_server() -> PeerServer:
    return _servers[0]


@pytest.fixture(autouse=True, scope="module")
def shared_server(tmp_path_factory) -> Iterator[None]:
    """One for all examples of hypothesis, which cannot have a fixture of their own."""
    with NodeCache(tmp_path_factory.mktemp("shared")) as cache:
        _servers.append(PeerServer(cache.layout, server_proof, "127.0.0.1"))
        yield
        _servers.pop().close()
