# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ports that are Unix sockets."""

import asyncio
import os
import secrets
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import uvloop

from deployments.data_plane.callers import Access
from deployments.grpc.kserve.service import HEALTH_PATH, GrpcService
from deployments.grpc.server.http2_server import Http2Server
from deployments.http.kserve.servers import make_http_server
from deployments.supervision.unix_sockets import (
    PATH_LIMIT_BYTES,
    address_fault,
    bind_unix,
    is_unix,
)
from tests.support.grpc_plane import fake_plane
from tests.support.grpc_service import grpcio_server
from tests.support.http_plane import FakePlane
from tests.support.key_guard import EVERYTHING, KeyGuard

METADATA = b"GET /v2 HTTP/1.1\r\nHost: h\r\n\r\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    loop = request.param()
    yield loop
    loop.close()


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
def test_the_file_has_the_mode_that_was_asked_for(path: Path, mode: int) -> None:
    with bind_unix(f"unix:{path}", mode):
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_file_that_was_left_behind_gives_way(path: Path) -> None:
    bind_unix(f"unix:{path}").close()
    assert path.exists()
    bind_unix(f"unix:{path}").close()


def test_a_socket_at_which_a_process_listens_does_not(path: Path) -> None:
    with bind_unix(f"unix:{path}") as first:
        first.listen()
        with pytest.raises(OSError, match="a process listens there"):
            bind_unix(f"unix:{path}")


def test_a_file_that_is_no_socket_stays(path: Path) -> None:
    path.write_text("mine")
    with pytest.raises(OSError, match="no socket"):
        bind_unix(f"unix:{path}")
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    "address", ["unix:", "unix:relative", "unix:@", f"unix:/{'x' * PATH_LIMIT_BYTES}"]
)
def test_what_is_no_address_is_named(address: str) -> None:
    assert is_unix(address)
    assert address.split(":")[1] in address_fault(address)


@pytest.mark.parametrize("address", ["unix:/run/manta.sock", "unix:@manta"])
def test_addresses_are_paths_and_abstract_names(address: str) -> None:
    assert address_fault(address) == ""


def _named(kind: str, path: Path) -> tuple[str, str]:
    """Return an address, and what Python connects to."""
    if kind == "file":
        return f"unix:{path}", str(path)
    name = f"manta-test-{secrets.token_hex(8)}"
    return f"unix:@{name}", f"\0{name}"


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_http_is_served_and_the_user_is_known(
    loop: asyncio.AbstractEventLoop, path: Path, kind: str
) -> None:
    address, target = _named(kind, path)
    guard = KeyGuard()
    guard.grant_peer(os.getuid(), *EVERYTHING)

    async def main() -> None:
        server = make_http_server(FakePlane(), access=Access(guard))
        assert await server.start(address, 8000, reuse_port=True) == 0
        for user_is_known in (True, False):
            if not user_is_known:
                guard.forget_peers()
            # Connected here: uvloop as a client knows no abstract names.
            connected = socket.socket(socket.AF_UNIX)
            connected.connect(target)
            reader, writer = await asyncio.open_unix_connection(sock=connected)
            for _ in range(3):
                writer.write(METADATA)
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.split()[1] == (b"200" if user_is_known else b"401")
                size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                await reader.readexactly(size)
            writer.close()
            await writer.wait_closed()
        server.stop_accepting()
        assert await server.wait_drained(30)
        assert not os.path.lexists(path)  # noqa: ASYNC240 - a test may wait

    loop.run_until_complete(main())


def _own(**options: Any) -> Http2Server:
    return Http2Server(GrpcService(fake_plane()), **options)


def _grpcio(**options: Any) -> Any:
    return grpcio_server(GrpcService(fake_plane()), **options)


@pytest.mark.parametrize("make", [_own, _grpcio])
@pytest.mark.parametrize("kind", ["file", "abstract"])
async def test_grpc_is_served(path: Path, kind: str, make: Any) -> None:
    address, _ = _named(kind, path)
    server = make()
    assert await server.start(address, 8001, reuse_port=True) == 0
    target = address.replace("unix:@", "unix-abstract:")
    async with grpc.aio.insecure_channel(target) as channel:
        assert await channel.unary_unary(HEALTH_PATH.decode())(b"") == b"\x08\x01"
    server.close()
    await server.wait_drained(1)


def test_a_socket_that_is_handed_on_keeps_its_file(
    loop: asyncio.AbstractEventLoop, path: Path
) -> None:
    async def main() -> None:
        old, new = (make_http_server(FakePlane()) for _ in range(2))
        await old.start(f"unix:{path}", 0)
        listening = old.listening_socket()
        assert listening is not None
        await new.start(f"unix:{path}", 0, sock=socket.socket(fileno=os.dup(listening.fileno())))
        old.release_listener()
        assert await old.wait_drained(30)
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(METADATA)
        assert (await reader.readline()).split()[1] == b"200"
        writer.close()
        new.close()
        assert not os.path.lexists(path)  # noqa: ASYNC240 - a test may wait

    loop.run_until_complete(main())
