# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sockets on a reactor: every byte in order, and one end of every connection."""

import asyncio
import contextlib
import errno
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.lane.reactor import Reactor
from deployments.lane.sockets import SocketListener, SocketTransport


class Recorder(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = b""
        self.pauses: list[bool] = []
        self.losses: list[Exception | None] = []

    def data_received(self, data: bytes) -> None:
        self.data += data

    def pause_writing(self) -> None:
        self.pauses.append(True)

    def resume_writing(self) -> None:
        self.pauses.append(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self.losses.append(exc)


class End:
    """A transport, its protocol and the peer's socket."""

    def __init__(self, *, send_bytes: int = 0) -> None:
        ours, self.peer = socket.socketpair()
        if send_bytes:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
        ours.setblocking(False)
        self.peer.setblocking(False)
        self.reactor = Reactor()
        self.protocol = Recorder()
        self.closed: list[SocketTransport] = []
        with self.reactor.entered():
            self.transport = SocketTransport(self.reactor, ours, self.protocol, self.closed.append)

    def __enter__(self) -> "End":
        return self

    def __exit__(self, *_: object) -> None:
        with self.reactor.entered():
            self.transport.abort()
        self.peer.close()

    def peer_reads(self) -> bytes:
        try:
            return self.peer.recv(1 << 20)
        except BlockingIOError:
            return b""


def test_what_the_peer_sends_arrives_whole():
    with End() as end:
        sent = bytes(range(256)) * 1000
        offset = 0
        while len(end.protocol.data) < len(sent):
            with contextlib.suppress(BlockingIOError):
                offset += end.peer.send(sent[offset:])
            end.reactor.turn(0.0)
        assert end.protocol.data == sent


@settings(max_examples=20, deadline=None)
@given(sizes=st.lists(st.integers(0, 100_000), max_size=12), closes=st.booleans())
def test_all_that_was_written_arrives_in_order_though_the_peer_is_slow(sizes, closes):
    with End(send_bytes=4096) as end:
        pieces = [bytes([n % 256]) * size for n, size in enumerate(sizes)]
        with end.reactor.entered():
            for number, piece in enumerate(pieces):
                end.transport.write(memoryview(piece) if number % 2 else piece)
            if closes:
                end.transport.close()
                end.transport.write(b"after the end")
        expected = b"".join(pieces)
        received = b""
        while len(received) < len(expected):
            end.reactor.turn(0.0)
            received += end.peer_reads()
        assert received == expected
        end.reactor.turn(0.0)
        assert end.transport.get_write_buffer_size() == 0
        assert end.protocol.losses == ([None] if closes else [])
        assert end.protocol.pauses in ([], [True, False])


def test_a_full_buffer_pauses_the_protocol_until_it_drains():
    with End(send_bytes=4096) as end:
        with end.reactor.entered():
            end.transport.set_write_buffer_limits(high=1000)
            end.transport.write(bytes(200_000))
        assert end.protocol.pauses == [True]
        while end.transport.get_write_buffer_size():
            end.peer_reads()
            end.reactor.turn(0.0)
        assert end.protocol.pauses == [True, False]


def test_the_peers_end_is_one_loss_and_closes_the_socket():
    with End() as end:
        end.peer.close()
        end.reactor.turn(None)
        end.reactor.turn(0.0)
        assert end.protocol.losses == [None]
        assert end.closed == [end.transport]
        assert end.transport.is_closing()
        assert end.transport.get_extra_info("socket").fileno() < 0


def test_a_write_to_a_dead_peer_is_a_loss_but_not_in_the_middle_of_the_write():
    with End() as end:
        end.peer.close()
        with end.reactor.entered():
            end.transport.write(b"x")
            assert end.protocol.losses == []
        assert [type(loss) for loss in end.protocol.losses] == [BrokenPipeError]


def test_abort_drops_what_is_unsent():
    with End(send_bytes=4096) as end:
        with end.reactor.entered():
            end.transport.write(bytes(200_000))
            end.transport.close()
            end.transport.abort()
        assert end.protocol.losses == [None]
        assert end.closed == [end.transport]


def test_paused_reading_leaves_bytes_in_the_socket():
    with End() as end:
        with end.reactor.entered():
            end.transport.pause_reading()
        end.peer.send(b"later")
        end.reactor.turn(0.0)
        assert end.protocol.data == b""
        with end.reactor.entered():
            end.transport.resume_reading()
        end.reactor.turn(None)
        assert end.protocol.data == b"later"


@pytest.fixture
def listener():
    reactor = Reactor()
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    protocols: list[Recorder] = []

    def make() -> Recorder:
        protocols.append(Recorder())
        return protocols[-1]

    with reactor.entered():
        listener = SocketListener(reactor, sock, make)
    yield reactor, listener, sock, protocols
    with reactor.entered():
        listener.close()


async def test_a_listener_is_closed_when_its_last_connection_is(listener):
    reactor, server, sock, protocols = listener
    with socket.create_connection(sock.getsockname()):
        while not protocols:
            reactor.turn(None)
        with reactor.entered():
            server.close()
        assert not server._all_closed.done()
    reactor.turn(None)
    await server.wait_closed()
    assert protocols[0].losses == [None]


def test_a_process_out_of_descriptors_accepts_again_later(listener, monkeypatch, caplog):
    reactor, server, sock, protocols = listener
    monkeypatch.setattr("deployments.lane.sockets._ACCEPT_RETRY_S", 0.001)

    class Exhausted:
        def accept(self) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

        def fileno(self) -> int:
            return sock.fileno()

    server._sock = Exhausted()
    with socket.create_connection(sock.getsockname()) as peer:
        reactor.turn(None)
        assert "cannot be accepted" in caplog.text
        server._sock = sock
        while not protocols:
            reactor.turn(None)
        peer.send(b"hello")
        while not protocols[0].data:
            reactor.turn(None)
    reactor.turn(None)
