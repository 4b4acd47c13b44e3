# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The client of a server, against real ones."""

import socket
import ssl
import threading
from pathlib import Path

import pytest

from backends.api.errors import (
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    TritonError,
    UnauthenticatedError,
    UnavailableError,
    UnknownError,
)
from cluster.commands.client.address import parse_address
from cluster.commands.client.connection import Server, model_path
from tests.support.certificates import make_certificates
from tests.support.stub_server import Stub


def server_at(url: str, **more: object) -> Server:
    return Server(parse_address(url), **more)  # type: ignore[arg-type]


def test_a_request_has_the_headers_of_the_server_and_its_own() -> None:
    with Stub() as stub:
        stub.answers["POST", "/v2/x"] = (200, b'{"a": 1}')
        server = server_at(stub.url, headers={"X-API-Key": "k"})
        assert server.post("/v2/x", {"b": 2}).json() == {"a": 1}
        ((method, path, headers, body),) = stub.asked
    assert (method, path, body) == ("POST", "/v2/x", b'{"b": 2}')
    assert (headers["x-api-key"], headers["content-type"]) == ("k", "application/json")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidArgumentError),
        (401, UnauthenticatedError),
        (403, PermissionDeniedError),
        (404, NotFoundError),
        (409, AlreadyExistsError),
        (500, InternalError),
        (503, UnavailableError),
        (418, UnknownError),
    ],
)
def test_an_error_has_the_servers_text_and_the_class_of_its_status(
    status: int, kind: type[TritonError]
) -> None:
    with Stub() as stub:
        stub.answers["GET", "/"] = (status, b'{"error": "no such thing"}')
        with pytest.raises(TritonError, match=r"^no such thing") as caught:
            server_at(stub.url).get("/")
    assert type(caught.value) is kind


def test_who_lacks_credentials_is_told_how_to_give_them() -> None:
    with Stub() as stub:
        stub.answers["GET", "/"] = (401, b'{"error": "credentials are needed"}')
        with pytest.raises(UnauthenticatedError, match="MANTA_API_KEY"):
            server_at(stub.url).get("/")


def test_an_error_that_is_no_json_is_told_with_its_status() -> None:
    with Stub() as stub, pytest.raises(NotFoundError, match="answers 404: Not Found"):
        server_at(stub.url).get("/nothing")


def test_a_redirection_is_not_followed_with_credentials() -> None:
    with Stub() as stub:
        stub.answers["GET", "/"] = (302, b"")
        stub.headers["Location"] = f"{stub.url}/elsewhere"
        with pytest.raises(UnknownError, match="answers 302"):
            server_at(stub.url, headers={"X-API-Key": "k"}).get("/")
        assert [path for _, path, _, _ in stub.asked] == ["/"]


def test_lines_come_as_they_are_written() -> None:
    with Stub() as stub:
        stub.answers["POST", "/s"] = (200, b"data: 1\r\n\r\ndata: 2\r\n")
        assert list(server_at(stub.url).lines("/s", {})) == ["data: 1", "", "data: 2"]


def test_a_unix_socket_is_asked(tmp_path: Path) -> None:
    with Stub(unix=str(tmp_path / "s")) as stub:
        stub.answers["GET", "/"] = (200, b"7")
        assert server_at(stub.url).get("/") == 7


def test_https_needs_the_servers_authority(tmp_path: Path) -> None:
    pems = make_certificates(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*pems.server)
    with Stub(tls) as stub:
        stub.answers["GET", "/"] = (200, b"7")
        with pytest.raises(UnavailableError, match="--ca-cert FILE"):
            server_at(stub.url).get("/")
        trusting = ssl.create_default_context(cafile=str(pems.root))
        assert server_at(stub.url, tls=trusting).get("/") == 7


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def test_a_server_that_is_not_there_is_said_with_what_to_do() -> None:
    port = free_port()
    with pytest.raises(UnavailableError) as caught:
        server_at(f"127.0.0.1:{port}").get("/")
    assert caught.value.message == (
        f"no server at 127.0.0.1:{port} (connection refused). Is it running? Start one with"
        " 'manta serve', or give --url."
    )


def test_a_socket_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"no server at unix:.* \(no such socket\)"):
        server_at(f"unix:{tmp_path / 'none'}").get("/")


def test_a_name_that_is_not_known_is_said() -> None:
    with pytest.raises(UnavailableError, match="the name is not known"):
        server_at("no-such-host.invalid:1").get("/")


@pytest.mark.parametrize("host", ["ü" * 90, "a..ü"])
def test_a_name_that_no_host_can_have_is_said(host: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is no name of a host"):
        server_at(f"{host}:1").get("/")


def test_a_silent_server_is_said_with_the_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(UnavailableError, match=r"within 0\.05 s"):
            server_at(f"127.0.0.1:{port}", timeout_s=0.05).get("/")


@pytest.mark.parametrize(
    ("said", "match"),
    [
        (b"\0\0\x18\x04\0\0\0\0\0", "does not speak HTTP/1.1"),
        (b"", r"connection closed.*--url\. Does it want https://\?$"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1", "before its answer was complete"),
    ],
)
def test_what_does_not_speak_http_is_said(said: bytes, match: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(UnavailableError, match=match):
            server_at(f"127.0.0.1:{listening.getsockname()[1]}").get("/")
        thread.join()


def test_http_where_tls_is_wanted_is_said() -> None:
    with Stub() as stub, pytest.raises(UnavailableError, match="no TLS with"):
        server_at(stub.url.replace("http:", "https:")).get("/")


def test_an_answer_that_is_no_json_is_said() -> None:
    with Stub() as stub:
        stub.answers["GET", "/"] = (200, b"<html>")
        with pytest.raises(UnknownError, match="is no JSON"):
            server_at(stub.url).get("/")


def test_a_models_name_is_quoted_in_its_path() -> None:
    assert model_path("a b/c", "2") == "/v2/models/a%20b%2Fc/versions/2"
