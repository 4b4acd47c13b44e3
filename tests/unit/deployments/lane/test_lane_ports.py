# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever listens for other nodes does so within the range of ports that was given."""

import os

import pytest

from backends.api.errors import UnavailableError
from backends.api.model_config import ModelConfig
from deployments.lane.server import LaneServer
from deployments.model_files.cache import NodeCache
from deployments.model_files.peer_server import PeerServer
from deployments.reactor.reactor import Reactor
from deployments.settings.port_range import PortRange
from deployments.slabs.pool import SlabPool
from tests.support.cache_node import server_proof
from tests.support.free_ports import free_ports
from tests.support.lane_rig import SECRET, Handler, echo
from tests.support.pool_node import Node

HOST = "127.0.0.1"


@pytest.fixture
def ports() -> PortRange:
    return free_ports(1)


def test_an_instance_listens_within_the_range_and_says_when_that_is_full(ports):
    reactor = Reactor()
    servers = [
        LaneServer(Handler(echo), reactor=reactor, secret=SECRET, slabs=SlabPool(0))
        for _ in range(2)
    ]
    names = [f"\0manta-test-{os.getpid()}-{number}" for number in range(2)]
    tcp = servers[0].start(names[0], HOST, ports)
    assert tcp == (HOST, ports.first)
    with pytest.raises(UnavailableError, match="--lane-port-range"):
        servers[1].start(names[1], HOST, ports)
    # Nothing of it is left.
    servers[1].start(names[1])
    for server in servers:
        server.close()
    reactor.close()


async def test_the_holder_of_a_queue_listens_within_the_range(ports):
    node = Node(ModelConfig("m"))
    router = await node.join(ports=ports)
    with pytest.raises(UnavailableError, match="--lane-port-range"):
        ports.listen(HOST, 1)
    await node.end(router)
    ports.listen(HOST, 1).close()


def test_the_cache_of_a_node_listens_within_the_range(ports, tmp_path):
    with NodeCache(tmp_path) as cache:
        server = PeerServer(cache.layout, server_proof, HOST, ports)
        assert server.address == f"{HOST}:{ports.first}"
        with pytest.raises(UnavailableError, match="--lane-port-range"):
            PeerServer(cache.layout, server_proof, HOST, ports)
        server.close()
