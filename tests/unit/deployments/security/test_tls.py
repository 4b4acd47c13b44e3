# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""TLS files are checked, and each transport serves with them and refuses whom it should."""

import asyncio
import contextlib
import pickle
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import uvloop

from backends.api.errors import InvalidArgumentError
from deployments.grpc.kserve.service import HEALTH_PATH, GrpcService
from deployments.grpc.server.grpcio_server import GrpcioServer
from deployments.grpc.server.http2_server import Http2Server
from deployments.http.kserve.application import HttpIngress
from deployments.http.server.host import HttpLimits
from deployments.http.server.server import HttpServer
from deployments.http2.limits import NS_PER_S, Http2Limits
from deployments.security.tls import TlsFiles
from tests.support.certificates import Certificates, make_certificates
from tests.support.grpc_plane import fake_plane
from tests.support.grpc_service import grpcio_server
from tests.support.http_plane import Client, FakePlane, request

LIVE = request("GET", "/v2/health/live")
OWN_POOL = [("grpc.use_local_subchannel_pool", 1)]


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


def files_of(
    pems: Certificates, protocol: str = "grpc", *, mutual: bool = False, **changes: Path | str
) -> TlsFiles:
    certificate, key = pems.server
    given = {"certificate": certificate, "key": key, "root": pems.root if mutual else "", **changes}
    texts = {name: str(path) for name, path in given.items()}
    return TlsFiles(protocol, **texts, is_mutual=mutual)


# The files.


@pytest.mark.parametrize("mutual", [False, True])
def test_good_files_make_a_context_of_tls_1_2_and_newer(pems: Certificates, mutual: bool) -> None:
    context = files_of(pems, mutual=mutual).context("h2")
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert (context.verify_mode is ssl.CERT_REQUIRED) == mutual


@pytest.mark.parametrize("field", ["certificate", "key", "root"])
def test_a_file_that_is_missing_is_named_with_its_flag(pems: Certificates, field: str) -> None:
    flag = {"certificate": "server-cert", "key": "server-key", "root": "root-cert"}[field]
    files = files_of(pems, "http", mutual=True, **{field: "/no/such.pem"})
    text = f"--http-{flag}: file '/no/such.pem' cannot be read: No such file or directory"
    for use in (lambda: files.context("http/1.1"), files.pems):
        with pytest.raises(InvalidArgumentError) as caught:
            use()
        assert caught.value.message == text


@pytest.mark.parametrize(
    ("field", "what"),
    [
        ("certificate", "holds no certificate in PEM format"),
        ("key", "holds no private key in PEM format"),
        ("root", "holds no certificate in PEM format"),
    ],
)
@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff\x00-----BEGIN CERTIFICATE-----\nQQ"])
def test_a_file_of_something_else_is_refused(
    pems: Certificates, tmp_path: Path, field: str, what: str, content: bytes
) -> None:
    path = tmp_path / "bad.pem"
    path.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=f"bad.pem' {what}"):
        files_of(pems, mutual=True, **{field: path}).pems()


def test_a_key_of_another_certificate_is_refused_naming_both(pems: Certificates) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        files_of(pems, key=pems.client[1]).context("h2")
    assert str(pems.client[1]) in caught.value.message
    assert str(pems.server[0]) in caught.value.message
    assert "--grpc-server-key" in caught.value.message


def test_a_key_with_a_pass_phrase_is_refused_and_nobody_is_asked(pems: Certificates) -> None:
    with pytest.raises(InvalidArgumentError, match="is encrypted, expected a key without a pass"):
        files_of(pems, key=pems.encrypted_key).context("h2")


def test_what_travels_holds_paths_only(pems: Certificates) -> None:
    files = files_of(pems, mutual=True)
    files.context("h2")
    secret = pems.server[1].read_bytes().splitlines()[1]
    assert secret not in pickle.dumps(files)


# The transports.


@contextlib.asynccontextmanager
async def serving(server: HttpServer | Http2Server | GrpcioServer) -> AsyncIterator[int]:
    port = await server.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        server.close()
        await server.wait_drained(5)


def grpc_server(kind: str, tls: TlsFiles | None) -> Http2Server | GrpcioServer:
    service = GrpcService(fake_plane())
    if kind == "own":
        return Http2Server(service, tls=tls)
    return grpcio_server(service, tls=tls)


def http_server(tls: TlsFiles | None, limits: HttpLimits | None = None) -> HttpServer:
    return HttpServer(HttpIngress(FakePlane()), limits, tls=tls)


def grpc_credentials(pems: Certificates, pair: tuple[Path, Path] | None) -> grpc.ChannelCredentials:
    certificate, key = (None, None) if pair is None else (path.read_bytes() for path in pair)
    return grpc.ssl_channel_credentials(pems.root.read_bytes(), key, certificate)


async def is_live(channel: grpc.aio.Channel) -> bool:
    async with channel:
        call = channel.unary_unary(HEALTH_PATH.decode())(b"", timeout=20)
        code = await call.code()
    assert code in {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
    return code is grpc.StatusCode.OK


def client_context(pems: Certificates, pair: tuple[Path, Path] | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(pems.root))
    if pair is not None:
        context.load_cert_chain(*pair)
    return context


PEERS = [("none", True, False), ("client", True, True), ("stranger", True, False)]


@pytest.mark.parametrize("kind", ["own", "grpcio"])
@pytest.mark.parametrize(("peer", "by_tls", "by_mutual_tls"), PEERS)
async def test_grpc_serves_those_whose_certificate_it_asks_for(
    pems: Certificates, kind: str, peer: str, by_tls: bool, by_mutual_tls: bool
) -> None:
    pair = getattr(pems, peer, None)
    for mutual, expected in ((False, by_tls), (True, by_mutual_tls)):
        async with serving(grpc_server(kind, files_of(pems, mutual=mutual))) as port:
            credentials = grpc_credentials(pems, pair)
            channel = grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, OWN_POOL)
            assert await is_live(channel) == expected


@pytest.mark.parametrize("kind", ["own", "grpcio"])
async def test_grpc_without_tls_on_either_side_alone_is_refused(
    pems: Certificates, kind: str
) -> None:
    for tls, credentials in ((files_of(pems), None), (None, grpc_credentials(pems, None))):
        async with serving(grpc_server(kind, tls)) as port:
            address = f"127.0.0.1:{port}"
            channel = (
                grpc.aio.secure_channel(address, credentials, OWN_POOL)
                if credentials
                else grpc.aio.insecure_channel(address, OWN_POOL)
            )
            assert not await is_live(channel)


async def connect(port: int, context: ssl.SSLContext | None) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", port, ssl=context))


@pytest.mark.parametrize(("peer", "by_tls", "by_mutual_tls"), PEERS)
async def test_http_serves_those_whose_certificate_it_asks_for(
    pems: Certificates, peer: str, by_tls: bool, by_mutual_tls: bool
) -> None:
    context = client_context(pems, getattr(pems, peer, None))
    for mutual, expected in ((False, by_tls), (True, by_mutual_tls)):
        server = http_server(files_of(pems, "http", mutual=mutual))
        async with serving(server) as port:
            client = await connect(port, context)
            if expected:
                assert (await client.call(LIVE)).status == 200
                assert (await client.call(LIVE)).status == 200
            else:
                # With TLS 1.3 a client learns of it with its first read.
                with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                    await client.call(LIVE)
            await client.close()
        assert server.connection_count == 0


@pytest.mark.parametrize("protocol", ["http", "grpc"])
async def test_a_plaintext_peer_of_a_tls_port_is_closed(pems: Certificates, protocol: str) -> None:
    tls = files_of(pems, protocol)
    server = http_server(tls) if protocol == "http" else grpc_server("own", tls)
    async with serving(server) as port:
        client = await connect(port, None)
        await client.send(LIVE)
        await client.rest()
        assert server.connection_count == 0
        await client.close()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
async def test_a_tls_peer_of_a_plaintext_port_is_closed(pems: Certificates, protocol: str) -> None:
    server = http_server(None) if protocol == "http" else grpc_server("own", None)
    async with serving(server) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await connect(port, client_context(pems, None))
    assert server.connection_count == 0


async def test_grpc_over_tls_without_alpn_h2_is_closed(pems: Certificates) -> None:
    async with serving(grpc_server("own", files_of(pems))) as port:
        client = await connect(port, client_context(pems, None))
        assert await client.rest() == b""
        await client.close()


async def test_tls_1_1_is_refused(pems: Certificates) -> None:
    context = client_context(pems, None)
    with pytest.warns(DeprecationWarning, match=r"TLSv1 is deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match=r"TLSv1_1 is deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with serving(http_server(files_of(pems, "http"))) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await connect(port, context)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_peer_that_does_not_finish_the_handshake_is_closed(
    pems: Certificates, protocol: str
) -> None:
    tls = files_of(pems, protocol)

    async def wait_for_the_end() -> None:
        server = (
            http_server(tls, HttpLimits(handshake_timeout_s=0.05))
            if protocol == "http"
            else Http2Server(
                GrpcService(fake_plane()),
                limits=Http2Limits(handshake_timeout_ns=NS_PER_S // 20),
                tls=tls,
            )
        )
        async with serving(server) as port:
            client = await connect(port, None)
            assert await client.rest() == b""
            await client.close()

    # The loop ingresses run on.
    uvloop.run(wait_for_the_end())


async def test_a_refused_body_is_answered_over_tls_too(pems: Certificates) -> None:
    server = HttpServer(HttpIngress(FakePlane(), 1 << 20), tls=files_of(pems, "http"))
    async with serving(server) as port:
        client = await connect(port, client_context(pems, None))
        body = b"x" * (8 << 20)
        sending = asyncio.create_task(
            client.send(request("POST", "/v2/models/simple/infer", body), 1 << 16)
        )
        answer = await client.answer()
        assert answer.status == 400
        await client.close()
        await sending
