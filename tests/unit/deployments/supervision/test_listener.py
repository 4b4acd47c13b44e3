# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Listening sockets on loopback: what is accepted is served, whatever stage the server is in."""

import asyncio
import errno
import resource
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from deployments.security.tls import TlsFiles
from deployments.supervision.listener import Listener
from tests.support.certificates import make_certificates

_TCP_SYN_SENT = 2
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


class _Echo(asyncio.Protocol):
    """Sends one line back and closes."""

    def __init__(self, listener: "Listener[_Echo]") -> None:
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._listener.opened(self)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.closed(self)


def _listener() -> Listener[_Echo]:
    listener: Listener[_Echo] = Listener("test", lambda: _Echo(listener))
    return listener


def _tls(folder: Path) -> TlsFiles:
    certificate, key = make_certificates(folder).server
    return TlsFiles("grpc", str(certificate), str(key))


def _connected(port: int) -> socket.socket:
    """A client that the kernel has connected, whether or not the server has accepted it."""
    return socket.create_connection(("127.0.0.1", port))


async def _echoed(client: socket.socket) -> bytes:
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    with client:
        await loop.sock_sendall(client, b"line")
        return await loop.sock_recv(client, 100)


async def _turns_until(has_happened: Callable[[], object]) -> None:
    for _ in range(10_000):
        if has_happened():
            return
        await asyncio.sleep(0)
    raise AssertionError("it has not happened in 10,000 turns of the loop")


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def run(
    request: pytest.FixtureRequest,
) -> Callable[[Callable[[], Awaitable[None]]], None]:
    def run_on_loop(main: Callable[[], Awaitable[None]]) -> None:
        async def limited() -> None:
            async with asyncio.timeout(20):
                await main()

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(limited())

    return run_on_loop


def test_connections_are_served(run) -> None:
    async def main() -> None:
        listener = _listener()
        port = await listener.start("127.0.0.1", 0)
        assert [await _echoed(_connected(port)) for _ in range(3)] == [b"line"] * 3
        assert await listener.wait_ended(5)
        assert not listener.connections

    run(main)


def test_what_waits_in_the_accept_queue_when_accepting_stops_is_served(run) -> None:
    async def main() -> None:
        listener = _listener()
        port = await listener.start("127.0.0.1", 0)
        # The loop has had no turn: none of these is accepted.
        clients = [_connected(port) for _ in range(100)]
        listener.stop_accepting()
        assert listener.arriving_count == 100
        with pytest.raises(ConnectionRefusedError):
            _connected(port)
        assert [await _echoed(client) for client in clients] == [b"line"] * 100
        assert await listener.wait_ended(5)

    run(main)


class _Late(Listener[_Echo]):
    """A client connects between the last accept and the close."""

    def release(self) -> None:
        self.late = socket.socket()
        self.late.setblocking(False)
        self.late.connect_ex(self._sockets[0].getsockname())
        super().release()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a socket filter")
def test_nobody_gets_connected_who_is_not_accepted_any_more(run) -> None:
    async def main() -> None:
        listener: _Late = _Late("test", lambda: _Echo(listener))
        await listener.start("127.0.0.1", 0)
        listener.stop_accepting()
        with listener.late as late:
            state = late.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
            assert state == _TCP_SYN_SENT

    run(main)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a socket filter")
def test_a_connection_that_is_being_made_when_newcomers_are_turned_away_is_served(run) -> None:
    async def main() -> None:
        listener = _listener()
        port = await listener.start("127.0.0.1", 0)
        (listening,) = listener._sockets
        # The kernel makes no connection before the client's first bytes.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 5)
        client = _connected(port)
        listener.turn_newcomers_away()
        assert await _echoed(client) == b"line"
        assert await listener.wait_ended(5)

    run(main)


def test_stopping_turns_nobody_away_from_a_socket_that_another_process_has_too(run) -> None:
    async def main() -> None:
        predecessor, successor = _listener(), _listener()
        port = await predecessor.start("127.0.0.1", 0)
        shared = predecessor.listening_socket()
        assert shared is not None
        await successor.start("127.0.0.1", 0, sock=shared.dup())
        predecessor.stop_accepting()
        assert await _echoed(_connected(port)) == b"line"
        successor.close()

    run(main)


def test_a_connection_that_was_just_accepted_is_served(run) -> None:
    async def main() -> None:
        listener = _listener()
        port = await listener.start("127.0.0.1", 0)
        client = _connected(port)
        await _turns_until(lambda: listener.arriving_count or listener.connections)
        listener.stop_accepting()
        assert await _echoed(client) == b"line"

    run(main)


def test_a_released_queue_is_served_by_whoever_has_the_socket_too(run) -> None:
    async def main() -> None:
        old, new = _listener(), _listener()
        port = await old.start("127.0.0.1", 0)
        shared = old.listening_socket()
        assert shared is not None
        handed_on = shared.dup()
        clients = [_connected(port) for _ in range(10)]
        old.release()
        assert not old.is_accepting
        assert old.listening_socket() is None
        assert await old.wait_ended(5)
        assert await new.start("0.0.0.0", 1, sock=handed_on) == port
        assert [await _echoed(client) for client in clients] == [b"line"] * 10
        assert await new.wait_ended(5)

    run(main)


def test_waiting_for_the_end_has_a_limit(run) -> None:
    async def main() -> None:
        listener = _listener()
        port = await listener.start("127.0.0.1", 0)
        with _connected(port):
            assert not await listener.wait_ended(0.01)
            for connection in listener.connections:
                connection.transport.abort()
            assert await listener.wait_ended(5)

    run(main)


def test_a_tls_handshake_counts_until_it_ends(run, tmp_path: Path) -> None:
    tls = _tls(tmp_path)

    async def main() -> None:
        listener = _listener()
        options = tls.listen_options("test", 10)
        port = await listener.start("127.0.0.1", 0, encryption=lambda: options)
        with _connected(port) as silent, _connected(port) as other:
            assert not await listener.wait_ended(0.05)
            assert listener.arriving_count == 2
            other.sendall(b"no TLS at all")
            silent.close()
            assert await listener.wait_ended(5)

    run(main)


def test_a_bounded_number_of_handshakes_is_under_way(run, tmp_path: Path) -> None:
    tls = _tls(tmp_path)

    async def main() -> None:
        listener: Listener[_Echo] = Listener("test", lambda: _Echo(listener), 2)
        options = tls.listen_options("test", 10)
        port = await listener.start("127.0.0.1", 0, encryption=lambda: options)
        with _connected(port) as silent, _connected(port):
            await _turns_until(lambda: listener.arriving_count == 2)
            with _connected(port) as refused:
                assert await asyncio.to_thread(refused.recv, 1) == b""
            silent.close()
            await _turns_until(lambda: listener.arriving_count == 1)
        listener.close()

    run(main)


def test_close_drops_handshakes(run, tmp_path: Path) -> None:
    tls = _tls(tmp_path)

    async def main() -> None:
        listener = _listener()
        options = tls.listen_options("test", 10)
        port = await listener.start("127.0.0.1", 0, encryption=lambda: options)
        with _connected(port):
            await _turns_until(lambda: listener.arriving_count)
            listener.close()
            assert await listener.wait_ended(5)

    run(main)


def test_without_file_descriptors_connections_wait(
    run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("deployments.supervision.listener._PAUSE_S", 0.05)

    async def main() -> None:
        listener = _listener()
        port = await listener.start("127.0.0.1", 0)
        client = _connected(port)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            await _turns_until(lambda: "have to wait" in caplog.text)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert await _echoed(client) == b"line"
        assert await listener.wait_ended(5)

    run(main)


def test_port_in_use_is_said_with_its_address(run) -> None:
    async def main() -> None:
        listener = _listener()
        port = await listener.start("127.0.0.1", 0)
        with pytest.raises(OSError, match=rf"cannot listen on .'127.0.0.1', {port}.") as raised:
            await _listener().start("127.0.0.1", port)
        assert raised.value.errno == errno.EADDRINUSE
        listener.close()

    run(main)


class _Names:
    """Stands for the host's names: each is a list of addresses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **names: list[str]) -> None:
        self._names = names
        self._resolve = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._getaddrinfo)

    def _getaddrinfo(self, host: str, *arguments: Any, **options: Any) -> list[Any]:
        if options.get("flags", 0) & socket.AI_NUMERICHOST and host in self._names:
            raise socket.gaierror
        addresses = self._names.get(host, [host])
        return [row for each in addresses for row in self._resolve(each, *arguments, **options)]


def test_a_name_listens_on_each_of_its_addresses_with_one_port(run, monkeypatch) -> None:
    async def main() -> None:
        _Names(monkeypatch, both=["127.0.0.1", "127.0.0.2", "127.0.0.1"])
        listener = _listener()
        port = await listener.start("both", 0)
        for host in ("127.0.0.1", "127.0.0.2"):
            assert await _echoed(socket.create_connection((host, port))) == b"line"
        assert listener.listening_socket() is None
        assert await listener.wait_ended(5)

    run(main)


def test_an_address_that_the_machine_lacks_is_left_out(run, monkeypatch) -> None:
    async def main() -> None:
        # 192.0.2.0/24 is for documents: no machine has it.
        _Names(monkeypatch, partly=["192.0.2.1", "127.0.0.1"], wholly=["192.0.2.1"])
        listener = _listener()
        port = await listener.start("partly", 0)
        assert await _echoed(_connected(port)) == b"line"
        listener.close()
        with pytest.raises(OSError, match=r"cannot listen on .'192\.0\.2\.1'"):
            await _listener().start("wholly", 0)

    run(main)


def test_processes_may_share_a_port(run) -> None:
    async def main() -> None:
        first, second = _listener(), _listener()
        port = await first.start("127.0.0.1", 0, reuse_port=True)
        assert await second.start("127.0.0.1", port, reuse_port=True) == port
        first.stop_accepting()
        assert await _echoed(_connected(port)) == b"line"
        second.close()

    run(main)
