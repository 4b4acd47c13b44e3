# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Hostile peers against a real server: each is dealt with, others are served, nothing is leaked.

What each of them gets is also tested frame by frame in ``test_abuse.py`` and
``http/server`` of the unit tests.
"""

import select
import socket
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.grpc import service_pb2

from deployments.http2 import frames
from deployments.http2.limits import Http2Limits
from tests.support import abuse
from tests.support.clients import Load, add_sub_inputs, check_add_sub
from tests.support.server import RunningServer, until

ROUNDS = 15
PATIENCE_S = 90
BATCH_ROUNDS = 5
MOST_BATCHES = 8
# Of some four hundred connections: a leak of this size would be ten kilobytes of each.
LEAK_MIB = 4
_MARK = frames.frame(frames.PING, 0, 0, b"reached!")
_MARK_ACK = frames.frame(frames.PING, frames.ACK, 0, b"reached!")


def _ingress(server: RunningServer) -> psutil.Process:
    [process] = server.processes("ray::ServeReplica:manta:Ingress")
    return process


def _rss_mib(process: psutil.Process) -> int:
    return int(process.memory_info().rss >> 20)


def _held_bytes(server: RunningServer) -> int:
    """What messages of clients take of the ingress's memory, by its own account."""
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=20) as answer:
        rows = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines())
    return int(rows["manta_ingress_memory_used_bytes"])


def _check_levels_off(ingress: psutil.Process, work: Callable[[], None]) -> None:
    """A leak grows with every batch of work; caches and the gaps of a heap end growing."""
    sizes = [_rss_mib(ingress)]
    while len(sizes) <= MOST_BATCHES:
        for _ in range(BATCH_ROUNDS):
            work()
        sizes.append(_rss_mib(ingress))
        if sizes[-1] - sizes[-2] < LEAK_MIB:
            return
    raise AssertionError(f"memory grows with the work: {sizes} MiB")


def _check_served(server: RunningServer) -> None:
    with triton_http.InferenceServerClient(server.http) as client:
        check_add_sub(client.infer("add_sub", add_sub_inputs(triton_http)))
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        inputs = add_sub_inputs(triton_grpc)
        check_add_sub(client.infer("add_sub", inputs, client_timeout=PATIENCE_S))


def _throw_all(server: RunningServer) -> None:
    for name, (sent, code) in abuse.HTTP2_CUT_OFF.items():
        received = abuse.throw(server.grpc, abuse.START + sent)
        assert abuse.goaway_code(received) == code, name
    for name, sent in abuse.HTTP2_BORNE.items():
        received = abuse.throw(
            server.grpc, abuse.START + sent + _MARK, until=lambda got: _MARK_ACK in got
        )
        assert _MARK_ACK in received, (name, received[-100:])
    for name, sent in abuse.HTTP1_CUT_OFF.items():
        received = abuse.throw(server.http, sent)
        assert received.count(b"HTTP/1.1 ") <= 1, (name, received)
        assert b"smuggled" not in received, (name, received)


@contextmanager
def _half_open(server: RunningServer, count: int) -> Iterator[list[socket.socket]]:
    """Connections that have sent a part of something and stay silent."""
    with ExitStack() as stack:
        peers = []
        for address, parts in (
            (server.grpc, abuse.HALF_OPEN_HTTP2),
            (server.http, abuse.HALF_OPEN_HTTP1),
        ):
            for sent in parts * count:
                peers.append(stack.enter_context(abuse.connect(address)))
                peers[-1].sendall(sent)
        yield peers


def test_thousands_of_hostile_connections_leak_nothing_and_disturb_nobody(
    server: RunningServer,
) -> None:
    ingress = _ingress(server)
    _throw_all(server)  # what comes first loads code and fills caches
    _throw_all(server)
    _check_served(server)
    fds = ingress.num_fds()
    with _half_open(server, 30):
        load = Load(server.grpc, "add_sub", protocol="grpc", concurrency=2)
        for _ in range(ROUNDS):
            _throw_all(server)
        load.wait_for(100)
        outcomes = load.stop()
        assert set(outcomes) == {"ok"}, outcomes
    _check_served(server)
    until(lambda: ingress.num_fds() <= fds + 8, "connections are not closed")
    until(lambda: _held_bytes(server) == 0, "memory of closed connections is held")
    _check_levels_off(ingress, lambda: _throw_all(server))


def _is_closed(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        while peer.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    return True


def test_peers_that_never_send_a_preface_are_closed(server: RunningServer) -> None:
    with ExitStack() as stack:
        peers = [stack.enter_context(abuse.connect(server.grpc)) for _ in range(50)]
        for number, peer in enumerate(peers):
            peer.sendall(frames.PREFACE[: number % 24])
        until(lambda: all(map(_is_closed, peers)), "peers that say nothing are kept")


@pytest.mark.parametrize("reads", [False, True], ids=["reads nothing", "opens no window"])
def test_a_peer_that_does_not_take_its_answers_is_held_in_bounds(
    server: RunningServer, reads: bool
) -> None:
    ingress = _ingress(server)
    content = np.zeros((1, 64 << 10), np.float32)
    request = service_pb2.ModelInferRequest(model_name="identity_fp32")
    request.inputs.add(name="INPUT0", datatype="FP32", shape=content.shape)
    request.raw_input_contents.append(content.tobytes())
    message = request.SerializeToString()
    before_mib = _rss_mib(ingress)
    # 256 KiB in and out per call; a gibibyte of them is not taken.
    calls = (abuse.call(2 * number + 1, message) for number in range(4096))
    with abuse.connect(server.grpc) as peer:
        # Without reading, it opens every window; otherwise none, and its streams pile up.
        peer.sendall(abuse.START if reads else abuse.START_WIDE)
        sent_mib = _send_until_refused(peer, calls, reads=reads) >> 20
        assert sent_mib < 1024, "all was taken"
        _check_served(server)
        # What waits for it; beyond that its requests are not read.
        assert _held_bytes(server) <= Http2Limits().pause_receiving_bytes + (64 << 20)
        # With the thousand requests that it may have open; two gibibytes if nothing held it.
        assert _rss_mib(ingress) <= before_mib + 1024
    _check_served(server)
    until(lambda: _held_bytes(server) == 0, "memory of a closed connection is held")


def _send_until_refused(peer: socket.socket, parts: Iterator[bytes], *, reads: bool) -> int:
    """Send until the server closes or takes no more for some seconds; return how much it took."""
    taken = 0
    rest = memoryview(b"")
    peer.setblocking(False)
    watched = [peer] if reads else []
    while rest or (rest := memoryview(next(parts, b""))):
        readable, writable, _ = select.select(watched, [peer], [], 5)
        try:
            if readable and not peer.recv(1 << 20):
                break
            if writable:
                size = peer.send(rest)
                rest = rest[size:]
                taken += size
        except ConnectionError:
            break
        if not readable and not writable:
            break
    return taken
