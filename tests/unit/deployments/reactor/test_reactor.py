# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The reactor and its sockets, over real socket pairs."""

import os
import socket
import struct
import threading

import pytest

from deployments.reactor.reactor import Reactor
from deployments.reactor.sockets import ListeningSocket, ReactorSocket


class Clock:
    def __init__(self) -> None:
        self.now_ns = 1

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def reactor():
    reactor = Reactor()
    yield reactor
    reactor.close()


class End:
    """A protocol that notes what it is told."""

    def __init__(self) -> None:
        self.data = b""
        self.lost: list[Exception | None] = []
        self.paused: list[bool] = []

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data) -> None:
        self.data += data

    def connection_lost(self, exc) -> None:
        self.lost.append(exc)

    def pause_writing(self) -> None:
        self.paused.append(True)

    def resume_writing(self) -> None:
        self.paused.append(False)


@pytest.fixture
def connected(reactor):
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    end = End()
    transport = ReactorSocket(reactor, ours, end)
    yield transport, end, theirs
    transport.abort()
    theirs.close()


def read_all(reactor: Reactor, sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        try:
            piece = sock.recv(size - len(data))
        except BlockingIOError:
            reactor.turn(0)
            continue
        assert piece
        data += piece
    return data


def test_a_post_of_another_thread_wakes_a_sleeping_turn(reactor):
    seen = []

    def wake():
        seen.append(threading.get_ident())
        reactor.return_soon()

    thread = threading.Thread(target=reactor.call_soon_threadsafe, args=(wake,))
    thread.start()
    while not seen:
        reactor.turn()
    thread.join()
    assert seen == [threading.get_ident()]


def test_no_post_of_many_threads_is_lost(reactor):
    count, threads = 3000, 6
    seen = []

    def see(post):
        seen.append(post)
        reactor.return_soon()

    def post(name):
        for n in range(count):
            reactor.call_soon_threadsafe(see, (name, n))

    posters = [threading.Thread(target=post, args=(name,)) for name in range(threads)]
    for poster in posters:
        poster.start()
    # Every turn sleeps until it is woken: a lost wake-up would never end.
    while len(seen) < count * threads:
        reactor.turn()
    for poster in posters:
        poster.join()
    for name in range(threads):
        assert [n for each, n in seen if each == name] == list(range(count))


def test_an_interrupt_between_two_turns_ends_the_next(reactor):
    seen = []
    reactor.call_later(3600, seen.append, "slept")
    reactor.interrupt()
    # Would sleep for an hour.
    reactor.turn()
    assert seen == []
    assert not reactor._ready


def test_what_a_posted_callback_brings_is_done_before_the_turn_waits(reactor):
    seen = []

    def first():
        reactor.call_soon(seen.append, "brought")
        reactor.return_soon()

    reactor.call_soon(first)
    reactor.turn()
    assert seen == ["brought"]


def test_submit_returns_results_and_errors(reactor):
    good, bad = reactor.submit(int, "7"), reactor.submit(int, "x")
    reactor.turn(0)
    assert good.result(0) == 7
    with pytest.raises(ValueError, match="invalid literal"):
        bad.result(0)


def test_a_callback_that_raises_harms_no_other(reactor, caplog):
    seen = []
    reactor.call_soon(lambda: 1 / 0)
    reactor.call_soon(seen.append, 1)
    reactor.turn(0)
    assert seen == [1]
    assert "fault in a callback" in caplog.text


def test_callbacks_that_post_themselves_do_not_keep_sockets_waiting(reactor, connected):
    _, end, theirs = connected

    def again():
        reactor.call_soon(again)

    again()
    theirs.send(b"x")
    reactor.turn()
    assert end.data == b"x"


def test_timers_run_in_order_and_not_when_cancelled():
    clock = Clock()
    reactor = Reactor(clock)
    seen = []
    reactor.call_later(2e-9, seen.append, 2)
    reactor.call_later(1e-9, seen.append, 1)
    reactor.call_later(1e-9, seen.append, 0).cancel()
    reactor.call_later(5, seen.append, 3)
    reactor.turn(0)
    assert seen == []
    clock.now_ns += 2
    reactor.turn()
    assert seen == [1, 2]
    reactor.close()


def test_a_turn_ends_when_its_time_is_over_and_when_a_timer_is_due(reactor):
    seen = []
    timer = reactor.call_later(3600, seen.append, 0)
    for timeout_s in (0.0, 0.0002, 0.03):
        reactor.turn(timeout_s)
    assert seen == []
    timer.cancel()
    reactor.call_later(0.0002, seen.append, 1)
    while not seen:
        reactor.turn()
    assert seen == [1]


def test_writes_larger_than_the_socket_buffer_arrive_whole(reactor, connected):
    transport, end, theirs = connected
    data = os.urandom(3 << 20)
    transport.set_write_buffer_limits(high=1 << 16)
    transport.write(data[: 1 << 20])
    transport.write(memoryview(data)[1 << 20 :])
    transport.write(b"")
    assert transport.get_write_buffer_size() > 1 << 20
    assert end.paused == [True]
    assert read_all(reactor, theirs, len(data)) == data
    reactor.turn(0)
    assert transport.get_write_buffer_size() == 0
    assert end.paused == [True, False]
    theirs.send(b"answer")
    reactor.turn()
    assert end.data == b"answer"


@pytest.mark.parametrize(
    "sizes",
    [
        (0,),
        (1, 0, 2),
        (20, 600_000, 600_000),
        (3_000_000, 1),
        tuple(range(1000)),
        (500_000,) * 10 + (0,) * 3 + (7,) * 2000,
    ],
)
@pytest.mark.parametrize("is_behind_others", [False, True])
def test_buffers_written_together_arrive_one_behind_the_other(
    reactor, connected, sizes, is_behind_others
):
    transport, end, theirs = connected
    buffers = [memoryview(bytes([n % 251]) * size) for n, size in enumerate(sizes)]
    expected = b"".join(buffers)
    if is_behind_others:
        transport.write(b"x" * 1_000_000)
        expected = b"x" * 1_000_000 + expected
    transport.writelines(buffers)
    assert read_all(reactor, theirs, len(expected)) == expected
    reactor.turn(0)
    assert transport.get_write_buffer_size() == 0
    assert end.paused[-2:] in ([], [True, False])
    assert not end.lost


def test_buffers_written_together_to_a_peer_that_is_gone_are_told_later(reactor, connected):
    transport, end, theirs = connected
    theirs.close()
    transport.writelines([b"a", b"b"])
    assert not end.lost
    reactor.turn(0)
    assert len(end.lost) == 1
    transport.writelines([b"a", b"b"])


def test_close_sends_what_waits_and_reads_no_more(reactor, connected):
    transport, end, theirs = connected
    data = os.urandom(1 << 20)
    transport.write(data)
    transport.close()
    transport.write(b"late")
    theirs.send(b"unheard")
    assert read_all(reactor, theirs, len(data)) == data
    while not end.lost:
        reactor.turn()
    with pytest.raises(ConnectionResetError):
        # What they sent was never read.
        theirs.recv(1)
    assert end.lost == [None]
    assert end.data == b""
    transport.abort()
    reactor.turn(0)
    assert end.lost == [None]


@pytest.mark.parametrize("unsent", [False, True])
def test_a_peer_that_goes_is_told_once(reactor, connected, unsent):
    transport, end, theirs = connected
    if unsent:
        transport.write(bytes(1 << 20))
    theirs.close()
    while not end.lost:
        reactor.turn()
    transport.write(b"late")
    reactor.turn(0)
    assert len(end.lost) == 1


def test_a_write_to_a_peer_that_is_gone_tells_of_it_later(reactor, connected):
    transport, end, theirs = connected
    theirs.close()
    transport.write(b"x")
    assert end.lost == []
    reactor.turn(0)
    assert [type(error) for error in end.lost] == [BrokenPipeError]


def test_a_reset_is_told_with_its_error(reactor):
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    sock, _ = listener.accept()
    sock.setblocking(False)
    end = End()
    ReactorSocket(reactor, sock, end)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    listener.close()
    while not end.lost:
        reactor.turn()
    assert [type(error) for error in end.lost] == [ConnectionResetError]


def test_a_listener_takes_all_that_wait_and_none_once_closed(reactor):
    sock = socket.create_server(("127.0.0.1", 0), backlog=100)
    sock.setblocking(False)
    ends = []

    def make_end():
        ends.append(End())
        return ends[-1]

    listener = ListeningSocket(reactor, sock, make_end)
    address = sock.getsockname()
    clients = [socket.create_connection(address) for _ in range(70)]
    while len(ends) < len(clients):
        reactor.turn()
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    for each in clients:
        each.close()
    while not all(end.lost for end in ends):
        reactor.turn()


def test_a_listener_out_of_descriptors_goes_on_later(caplog):
    clock = Clock()
    reactor = Reactor(clock)
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    ends = []

    class Exhausted:
        """A listening socket in a process without descriptors."""

        def __getattr__(self, name):
            return getattr(sock, name)

        def accept(self):
            raise OSError(24, "Too many open files")

    listener = ListeningSocket(reactor, Exhausted(), lambda: ends.append(End()) or ends[-1])
    client = socket.create_connection(sock.getsockname())
    reactor.turn()
    assert "no connections for 1 s" in caplog.text
    reactor.turn(0)
    listener._sock = sock
    clock.now_ns += 2_000_000_000
    while not ends:
        reactor.turn()
    listener.close()
    client.close()
    while not ends[0].lost:
        reactor.turn()
    reactor.close()
