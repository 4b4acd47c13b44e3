# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes that get a model from each other where connections within the cluster are encrypted."""

from contextlib import closing, suppress
from pathlib import Path

import pytest

from deployments.lane.tls import LaneTls, read_lane_tls
from deployments.model_files.blobs import content_key
from deployments.model_files.cache import NodeCache
from deployments.model_files.peer_server import PeerServer
from deployments.model_files.peers import Peers
from deployments.model_files.registry import MemoryRegistry
from tests.support.cache_node import Node, client_proof, server_proof
from tests.support.certificates import Certificates, make_certificates
from tests.support.file_sources import (
    PART,
    DirectorySource,
    content_of,
    listed,
    random_bytes,
    write,
)

SIZE = 2 * PART


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write(tmp_path / "model", {"1/model": random_bytes(SIZE), "config.pbtxt": b"name: 'm'"})
    return tmp_path / "model"


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


@pytest.fixture
def tls(tmp_path: Path) -> LaneTls:
    """What the nodes of a cluster use whose connections are encrypted."""
    (tmp_path / "tls").mkdir()
    return tls_of(make_certificates(tmp_path / "tls"), "server")


def tls_of(made: Certificates, name: str) -> LaneTls:
    certificate, key = getattr(made, name)
    contexts = read_lane_tls(
        {
            "RAY_USE_TLS": "1",
            "RAY_TLS_SERVER_CERT": str(certificate),
            "RAY_TLS_SERVER_KEY": str(key),
            "RAY_TLS_CA_CERT": str(made.root),
        }
    )
    assert contexts is not None
    return contexts


@pytest.mark.slow
def test_nodes_give_each_other_models_over_tls(
    model: Path, tmp_path: Path, registry: MemoryRegistry, tls: LaneTls
) -> None:
    files = listed(model)
    store = DirectorySource(model)
    with (
        closing(Node(tmp_path / "1", registry, tls=tls)) as first,
        closing(Node(tmp_path / "2", registry, tls=tls)) as second,
    ):
        first.ensure(files, DirectorySource(model))
        assert content_of(second.ensure(files, store)) == content_of(model)
        assert store.reads == [("config.pbtxt", 0)]


def test_who_shows_no_certificate_of_the_cluster_is_told_nothing(
    model: Path, tmp_path: Path, registry: MemoryRegistry, tls: LaneTls
) -> None:
    files = listed(model)
    key = content_key(files.location, files.files[0])
    stranger = tls_of(Certificates(tmp_path / "tls"), "stranger")
    with closing(Node(tmp_path / "1", registry, tls=tls)) as node:
        node.ensure(files, DirectorySource(model))
        for context in (None, stranger.client):
            with closing(Peers(client_proof, context, 10)) as peers, pytest.raises(OSError):  # noqa: PT011 - whatever the system says
                peers.read(node.address, key, 0, 1)


def test_a_node_that_cannot_be_trusted_costs_a_read_from_the_store(
    model: Path, tmp_path: Path, registry: MemoryRegistry, tls: LaneTls
) -> None:
    files = listed(model)
    stranger = tls_of(Certificates(tmp_path / "tls"), "stranger")
    store = DirectorySource(model)
    with (
        closing(Node(tmp_path / "1", registry, tls=stranger)) as first,
        closing(Node(tmp_path / "2", registry, tls=tls)) as second,
    ):
        first.ensure(files, DirectorySource(model))
        assert content_of(second.ensure(files, store)) == content_of(model)
        assert store.read_bytes == SIZE + 9


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_closing_breaks_off_connections_that_are_idle(
    tmp_path: Path, tls: LaneTls, is_encrypted: bool
) -> None:
    server_tls, client_tls = (tls.server, tls.client) if is_encrypted else (None, None)
    with NodeCache(tmp_path / "cache") as cache, closing(Peers(client_proof, client_tls)) as peers:
        server = PeerServer(cache.layout, server_proof, "127.0.0.1", tls=server_tls)
        peers.read(server.address, "0" * 32, 0, 1)
        (connection,) = peers._idle[server.address]
        server.close()
        with suppress(ConnectionError):
            assert connection.recv(1) == b""
