# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import socket

import pytest

from cluster.server.ports import PortInUseError, PortReservation


def _listener(*, reuse_port: bool) -> socket.socket:
    listener = socket.socket()
    if reuse_port:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


def test_port_zero_picks_a_port_that_replicas_can_listen_on() -> None:
    with PortReservation() as ports, socket.socket() as replica:
        port = ports.reserve("--http-port", "127.0.0.1", 0)
        replica.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        replica.bind(("127.0.0.1", port))
        replica.listen()
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass


@pytest.mark.parametrize("reuse_port", [False, True])
def test_port_with_a_listener_is_refused_even_if_it_could_be_shared(reuse_port: bool) -> None:
    with _listener(reuse_port=reuse_port) as other, PortReservation() as ports:
        port = other.getsockname()[1]
        with pytest.raises(PortInUseError, match=f"--grpc-port: cannot listen on .*:{port}"):
            ports.reserve("--grpc-port", "127.0.0.1", port)


def test_address_of_another_host_is_refused() -> None:
    with PortReservation() as ports, pytest.raises(PortInUseError, match=r"192\.0\.2\.1"):
        ports.reserve("--http-port", "192.0.2.1", 0)
