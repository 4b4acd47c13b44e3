# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""TLS files that change are taken for new connections; bad ones are not."""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.api.errors import InvalidArgumentError
from deployments.access.contracts import Role
from deployments.data_plane.callers import Access
from deployments.grpc.kserve.service import GrpcService
from deployments.grpc.server.http2_server import Http2Server
from deployments.http.kserve.servers import make_http_server
from deployments.security.tls import TlsFiles
from deployments.security.tls_reload import Reloaded
from tests.support.certificates import Certificates, make_certificates
from tests.support.grpc_plane import fake_plane
from tests.support.grpc_service import grpcio_server
from tests.support.http_plane import FakePlane
from tests.support.key_guard import EVERYTHING, KeyGuard


class Files:
    """Files of a port, which may be exchanged for those of another authority."""

    def __init__(self, folder: Path) -> None:
        self.first = make_certificates(_made(folder / "first"))
        self.second = make_certificates(_made(folder / "second"))
        self.folder = _made(folder / "served")
        self.count = 0
        self.put(self.first)
        self.tls = TlsFiles("http", *map(str, (self.folder / "cert.pem", self.folder / "key.pem")))

    def put(self, pems: Certificates, *, key: bool = True) -> None:
        certificate, private = pems.server
        self.write("cert.pem", certificate.read_bytes())
        if key:
            self.write("key.pem", private.read_bytes())

    def write(self, name: str, content: bytes) -> None:
        self.count += 1
        path = self.folder / name
        path.write_bytes(content)
        # However coarse the file system's clock is.
        os.utime(path, ns=(self.count, self.count))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def _files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def files(_files: Files) -> Files:
    _files.put(_files.first)
    return _files


def test_files_are_read_again_when_they_have_changed(files: Files) -> None:
    reloaded = Reloaded(files.tls, lambda tls: tls.pems()[0])
    assert reloaded.current() == files.first.server[0].read_bytes()
    files.put(files.second)
    assert reloaded.current() == files.second.server[0].read_bytes()


def test_files_that_do_not_fit_are_logged_once_and_the_old_ones_go_on(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    reloaded = Reloaded(files.tls, lambda tls: tls.context("h2"))
    first = reloaded.current()
    files.put(files.second, key=False)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert reloaded.current() is first
    (record,) = caplog.records
    assert "does not belong to the certificate" in record.getMessage()
    files.put(files.second)
    assert reloaded.current() is not first


def test_a_file_that_goes_away_leaves_the_old_ones(files: Files) -> None:
    reloaded = Reloaded(files.tls, lambda tls: tls.pems()[0])
    first = reloaded.current()
    (files.folder / "key.pem").unlink()
    assert reloaded.current() is first


def test_files_that_cannot_be_used_at_first_are_refused(files: Files) -> None:
    files.write("key.pem", b"no key")
    with pytest.raises(InvalidArgumentError, match="holds no private key"):
        Reloaded(files.tls, lambda tls: tls.context("h2"))


def _http(files: TlsFiles) -> Any:
    return make_http_server(FakePlane(), tls=files)


def _grpc(files: TlsFiles) -> Any:
    return Http2Server(GrpcService(fake_plane()), tls=files)


def _grpcio(files: TlsFiles) -> Any:
    return grpcio_server(GrpcService(fake_plane()), tls=files)


@pytest.mark.parametrize(("make", "alpn"), [(_http, "http/1.1"), (_grpc, "h2"), (_grpcio, "h2")])
async def test_a_port_serves_new_connections_with_new_files(
    files: Files, make: Callable[[TlsFiles], Any], alpn: str
) -> None:
    server = make(files.tls)
    port = await server.start("127.0.0.1", 0)

    def shake(root: Path) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=str(root))
        context.set_alpn_protocols([alpn])
        raw = socket.create_connection(("127.0.0.1", port), timeout=30)
        return context.wrap_socket(raw, server_hostname="localhost")

    old = await asyncio.to_thread(shake, files.first.root)
    assert old.selected_alpn_protocol() == alpn
    assert old.version() == "TLSv1.3"
    files.put(files.second)
    new = await asyncio.to_thread(shake, files.second.root)
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.to_thread(shake, files.first.root)
    for each in (old, new):
        each.close()
    server.close()
    await server.wait_drained(1)


async def test_a_certificate_may_be_shown_where_it_need_not(files: Files) -> None:
    pems = files.first
    certificate, key = map(str, pems.server)
    tls = TlsFiles("http", certificate, key, str(pems.root), is_optional=True)
    guard = KeyGuard(public=((Role.HEALTH, "*"),))
    der = ssl.PEM_cert_to_DER_cert(pems.client[0].read_text())
    guard.grant_peer(der, *EVERYTHING)
    server = make_http_server(FakePlane(), tls=tls, access=Access(guard))
    port = await server.start("127.0.0.1", 0)

    async def statuses(shown: tuple[Path, Path] | None) -> list[int]:
        context = ssl.create_default_context(cafile=str(pems.root))
        if shown is not None:
            context.load_cert_chain(*shown)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        found: list[int] = []
        try:
            await ask(reader, writer, found)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        return found

    async def ask(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, found: list[int]
    ) -> None:
        for path in ("/v2/health/live", "/v2", "/v2"):
            writer.write(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(size)
            found.append(int(head.split()[1]))

    assert await statuses(pems.client) == [200, 200, 200]
    assert await statuses(None) == [200, 401, 401]
    with pytest.raises((ssl.SSLError, asyncio.IncompleteReadError, ConnectionError)):
        await statuses(pems.stranger)
    server.close()
    await server.wait_drained(1)
