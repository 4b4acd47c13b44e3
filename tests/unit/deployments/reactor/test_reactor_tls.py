# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sockets of the reactor under TLS."""

import contextlib
import socket
import threading

import pytest

from deployments.lane.tls import derive_lane_tls
from deployments.reactor.reactor import Reactor
from deployments.reactor.sockets import ListeningSocket
from tests.unit.deployments.reactor.test_reactor import End

TLS = derive_lane_tls(b"a secret of the cluster")


@pytest.mark.parametrize("size", [1, 16 << 10, (16 << 10) + 1, 1 << 20, 5_000_001])
@pytest.mark.parametrize("is_closed_well", [True, False])
def test_all_that_was_sent_comes_before_the_end(size, is_closed_well):
    reactor, end = Reactor(), End()
    sent = bytes(n % 251 for n in range(1000)) * (size // 1000 + 1)

    def send() -> None:
        plain = socket.create_connection(address)
        with TLS.client.wrap_socket(plain, server_hostname="node") as sock:
            sock.sendall(sent[:size])
            if is_closed_well:
                # Says goodbye, and waits for that of the other end, which does not.
                sock.settimeout(0.0)
                with contextlib.suppress(OSError):
                    sock.unwrap()

    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    address = sock.getsockname()
    listener = ListeningSocket(reactor, sock, lambda: end, TLS.server)
    sender = threading.Thread(target=send)
    sender.start()
    while not end.lost:
        reactor.turn(1.0)
    sender.join()
    assert end.data == sent[:size]
    listener.close()
    reactor.close()


def test_buffers_written_together_arrive_one_behind_the_other_under_tls():
    reactor, end = Reactor(), End()
    buffers = [bytes([n]) * 300_000 for n in range(8)]
    received = bytearray()

    def receive() -> None:
        plain = socket.create_connection(address)
        with TLS.client.wrap_socket(plain, server_hostname="node") as sock:
            sock.sendall(b"x")
            while len(received) < sum(map(len, buffers)):
                received.extend(sock.recv(1 << 16))

    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    address = sock.getsockname()
    listener = ListeningSocket(reactor, sock, lambda: end, TLS.server)
    receiver = threading.Thread(target=receive)
    receiver.start()
    while not end.data:
        reactor.turn(1.0)
    end.transport.writelines(buffers)
    while not end.lost:
        reactor.turn(1.0)
    receiver.join()
    assert received == b"".join(buffers)
    listener.close()
    reactor.close()
