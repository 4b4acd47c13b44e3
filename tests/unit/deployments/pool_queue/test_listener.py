# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A socket accepts a bounded number of handshakes at a time, and goes on when it can again."""

import asyncio
import contextlib
import errno
import socket

from deployments.pool_queue import listener as listener_module
from deployments.pool_queue.listener import Listener
from tests.support.certificates import make_certificates
from tests.support.lane_rig import until
from tests.unit.deployments.lane.test_lane_tls import _tls

MOST = listener_module._MAX_PENDING_COUNT


class End(asyncio.Protocol):
    made = 0

    def connection_made(self, transport):
        End.made += 1
        transport.close()


def server_socket():
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    return sock


async def connected(address):
    sock = socket.socket()
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, address)
    return sock


def test_a_bounded_number_of_handshakes_is_under_way(run, tmp_path):
    make_certificates(tmp_path)

    async def main():
        loop = asyncio.get_running_loop()
        sock = server_socket()
        address = sock.getsockname()
        listening = Listener(sock, End, _tls(tmp_path).server)
        with contextlib.closing(listening), contextlib.ExitStack() as open_:
            silent = [open_.enter_context(await connected(address)) for _ in range(MOST)]
            await until(lambda: listening._pending_count == MOST)
            refused = open_.enter_context(await connected(address))
            assert await loop.sock_recv(refused, 1) == b""
            silent[0].close()
            await until(lambda: listening._pending_count == MOST - 1)
            open_.enter_context(await connected(address))
            await until(lambda: listening._pending_count == MOST)

    run(main)


class Scarce(socket.socket):
    """A socket that finds no descriptor for a while."""

    failures = 0

    def accept(self):
        if Scarce.failures:
            Scarce.failures -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return super().accept()


def test_accepting_goes_on_after_a_want_of_descriptors(run, monkeypatch):
    monkeypatch.setattr(listener_module, "_PAUSE_S", 0.01)

    async def main():
        End.made, Scarce.failures = 0, 2
        sock = Scarce(fileno=server_socket().detach())
        address = sock.getsockname()
        with contextlib.closing(Listener(sock, End)):
            with await connected(address):
                await until(lambda: End.made == 1)
            assert Scarce.failures == 0
        assert sock.fileno() < 0

    run(main)


def test_a_listener_that_is_closed_during_a_pause_accepts_no_more(run, monkeypatch):
    monkeypatch.setattr(listener_module, "_PAUSE_S", 0.01)

    async def main():
        End.made, Scarce.failures = 0, 1
        sock = Scarce(fileno=server_socket().detach())
        listening = Listener(sock, End)
        with await connected(sock.getsockname()):
            await until(lambda: Scarce.failures == 0)
            listening.close()
            listening.close()
            await asyncio.sleep(0.03)
        assert End.made == 0

    run(main)
