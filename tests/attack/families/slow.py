# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Peers that begin and do not go on: heads, bodies, TLS hellos, answers that nobody reads."""

import contextlib
import socket
import time
from contextlib import ExitStack
from typing import Final

from tests.attack.scene import PATIENCE_S, Scene
from tests.attack.tally import Tally
from tests.attack.wire import request
from tests.support import abuse

# The server's own: 30 s for a head, 60 s for a body, 10 s for HTTP/2's preface; its sweeps.
_LONGEST_S: Final = 75
_ROUNDS: Final = 10


def be_slow(scene: Scene, tally: Tally) -> None:
    """Hold connections that trickle, and see that others are served meanwhile."""
    with ExitStack() as stack:
        peers = _opened(scene, stack)
        for _ in range(_ROUNDS):
            for peer in peers:
                # A byte now and then does not make a head complete.
                with contextlib.suppress(OSError):
                    peer.send(b"x")
            scene.check_served()
        tally.note("served beside slow ones")
        _read_nothing(scene, tally, stack)
        scene.check_served()
        if scene.options.waits:
            _wait_closed(tally, peers)
        for _ in peers:
            tally.note("held")


def _opened(scene: Scene, stack: ExitStack) -> list[socket.socket]:
    kinds = [(scene.server.http, sent) for sent in abuse.HALF_OPEN_HTTP1]
    kinds += [(scene.server.grpc, sent) for sent in abuse.HALF_OPEN_HTTP2]
    kinds += [(scene.server.metrics, b"GET /metrics HTTP/1.1\r\nx:")]
    peers = []
    for at in range(scene.options.connections):
        address, sent = kinds[at % len(kinds)]
        peer = stack.enter_context(abuse.connect(address))
        peer.sendall(sent)
        peers.append(peer)
    return peers


def _read_nothing(scene: Scene, tally: Tally, stack: ExitStack) -> None:
    """Ask over and over on connections of which nobody reads."""
    sent = request("GET", "/v2/models/add_sub/config") * 200
    for _ in range(8):
        peer = stack.enter_context(abuse.connect(scene.server.http))
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.setblocking(False)
        taken = 0
        with contextlib.suppress(BlockingIOError, ConnectionError):
            # The server ends reading when its answers are not taken.
            while taken < 64 << 20:
                taken += peer.send(sent)
        tally.note("not read")
        tally.expect(taken < 64 << 20, "the server goes on reading where nobody reads its answers")


def _wait_closed(tally: Tally, peers: list[socket.socket]) -> None:
    """Wait for the server's timeouts. What has an open stream, or nothing begun, may stay."""
    end_s = time.monotonic() + _LONGEST_S
    while time.monotonic() < end_s and _closed(peers) < len(peers) // 2:
        time.sleep(1)
    tally.expect(
        _closed(peers) >= len(peers) // 2, f"{_closed(peers)} of {len(peers)} slow ones are closed"
    )
    assert _LONGEST_S < PATIENCE_S


def _closed(peers: list[socket.socket]) -> int:
    count = 0
    for peer in peers:
        peer.setblocking(False)
        try:
            while peer.recv(1 << 16):
                pass
            count += 1
        except BlockingIOError:
            pass
        except OSError:
            count += 1
    return count
