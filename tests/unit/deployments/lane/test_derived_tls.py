# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Lanes between nodes under TLS that needs nobody's certificates."""

import ssl
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from backends.api.errors import UnavailableError
from deployments.lane.tls import derive_lane_tls, lane_tls
from deployments.model_files.cache import NodeCache
from deployments.model_files.peer_server import PeerServer
from deployments.model_files.peer_wire import There
from deployments.model_files.peers import Peers
from tests.support.cache_node import client_proof, server_proof
from tests.support.certificates import make_certificates
from tests.support.lane_rig import SECRET, Handler, Rig, Sink, echo, request_of, until

OTHER_SECRET = b"the secret of another cluster"
_PRINT = """
import sys
from deployments.lane.derived_tls import _certificate_and_key
sys.stdout.buffer.write(_certificate_and_key({secret!r})[0])
"""


def test_lanes_are_encrypted_with_the_secret_alone(run):
    tls = derive_lane_tls(SECRET)

    async def main():
        async with Rig(Handler(echo), same_node=False, tls=tls.server) as rig:
            # As another process makes it.
            lane = await rig.connect(tls=derive_lane_tls(SECRET).client)
            assert lane._connection.transport.get_extra_info("ssl_object").version() == "TLSv1.3"
            for size in (64, 300_000, 3 << 20):
                sink = Sink()
                lane.submit(request_of(size), sink)
                await sink.ended
                assert bytes(sink.responses[0].outputs[0].data) == b"x" * size
            lane.close()
            await rig.all_gone()

    run(main)


def test_every_process_makes_the_same_certificate():
    made = {
        subprocess.check_output([sys.executable, "-c", _PRINT.format(secret=SECRET)])
        for _ in range(2)
    }
    assert len(made) == 1
    assert made != {
        subprocess.check_output([sys.executable, "-c", _PRINT.format(secret=OTHER_SECRET)])
    }


def _of_another_cluster(_: Path) -> ssl.SSLContext:
    return derive_lane_tls(OTHER_SECRET).client


def _without_certificate(_: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _with_a_certificate_of_others(folder: Path) -> ssl.SSLContext:
    make_certificates(folder)
    context = _without_certificate(folder)
    context.load_cert_chain(folder / "client.pem", folder / "client.key")
    return context


def _no_tls(_: Path) -> None:
    pass


@pytest.mark.parametrize(
    "context", [_of_another_cluster, _without_certificate, _with_a_certificate_of_others, _no_tls]
)
def test_a_router_that_does_not_know_the_secret_gets_no_lane(run, tmp_path, context):
    async def main():
        tls = derive_lane_tls(SECRET)
        async with Rig(Handler(echo), same_node=False, tls=tls.server) as rig:
            with pytest.raises(UnavailableError):
                await rig.connect(tls=context(tmp_path))
            await until(lambda: not rig.lanes)

    run(main)


def test_an_instance_that_does_not_know_the_secret_gets_no_lane(run):
    async def main():
        theirs = derive_lane_tls(OTHER_SECRET).server
        async with Rig(Handler(echo), same_node=False, tls=theirs) as rig:
            with pytest.raises(UnavailableError, match="certificate verify failed"):
                await rig.connect(tls=derive_lane_tls(SECRET).client)
            await until(lambda: not rig.lanes)

    run(main)


def test_the_key_is_in_no_file_and_no_descriptor_once_the_contexts_are_made():
    before = set(Path("/proc/self/fd").iterdir())
    derive_lane_tls(OTHER_SECRET)
    assert set(Path("/proc/self/fd").iterdir()) == before


@pytest.mark.parametrize("end", ["server", "client"])
def test_the_mode_decides_what_protects_a_lane(end, monkeypatch):
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    assert getattr(lane_tls("off", SECRET), end) is None
    assert getattr(lane_tls("ray", SECRET), end) is None
    derived = getattr(lane_tls("derived", SECRET), end)
    assert derived is not None
    assert derived is getattr(lane_tls("derived", SECRET), end)
    assert derived is not getattr(lane_tls("derived", OTHER_SECRET), end)


def test_nodes_give_each_other_files_under_it(tmp_path):
    tls = derive_lane_tls(SECRET)
    with NodeCache(tmp_path) as cache:
        server = PeerServer(cache.layout, server_proof, "127.0.0.1", tls=tls.server)
        with closing(Peers(client_proof, derive_lane_tls(SECRET).client)) as peers:
            assert peers.read(server.address, "0" * 32, 0, 1) == (There.NOTHING, b"")
        strangers = Peers(client_proof, derive_lane_tls(OTHER_SECRET).client)
        with closing(strangers), pytest.raises(ssl.SSLError):
            strangers.read(server.address, "0" * 32, 0, 1)
        server.close()
