# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json
from collections.abc import Iterator

import pytest

from backends.api.errors import InvalidArgumentError, UnavailableError
from deployments.access.policy import Issuer
from deployments.access.signing_key_fetch import fetch_signing_keys
from tests.support.access import TokenIssuer
from tests.support.loopback_server import LoopbackServer, QuietHandler

SIGNER = TokenIssuer()


class _Server(LoopbackServer):
    """Answers with what is in `pages`: status and body by path."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.pages: dict[str, tuple[int, bytes]] = {}


class _Handler(QuietHandler):
    here: _Server

    def respond(self) -> None:
        status, body = self.here.pages.get(self.path, (404, b""))
        self.answer(status, body, {"Location": "/keys"} if status == 302 else None)


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server() as server:
        yield server


def test_keys_are_fetched_from_a_url(server: _Server) -> None:
    server.pages["/keys"] = (200, SIGNER.jwks())
    keys = fetch_signing_keys(Issuer("i", ("a",), jwks_url=f"{server.url}/keys"))
    assert keys.find("one", "ES256") is not None


def test_the_issuers_configuration_says_where_keys_are(server: _Server) -> None:
    configuration = {"issuer": server.url, "jwks_uri": f"{server.url}/keys"}
    path = "/.well-known/openid-configuration"
    server.pages["/keys"] = (200, SIGNER.jwks())
    server.pages[path] = (200, json.dumps(configuration).encode())
    issuer = Issuer(server.url, ("a",), is_discovered=True)
    assert fetch_signing_keys(issuer).find("one", "ES256") is not None
    # Of an issuer without TLS the keys may be had with it.
    elsewhere = {**configuration, "jwks_uri": "https://127.0.0.1:0/keys"}
    server.pages[path] = (200, json.dumps(elsewhere).encode())
    with pytest.raises(UnavailableError, match="cannot be had"):
        fetch_signing_keys(issuer)
    for wrong in ({"issuer": "x"}, {"jwks_uri": "file:///etc/passwd"}, {"jwks_uri": 5}):
        server.pages[path] = (200, json.dumps({**configuration, **wrong}).encode())
        with pytest.raises(InvalidArgumentError, match="OpenID configuration"):
            fetch_signing_keys(issuer)


@pytest.mark.parametrize("status", [302, 404, 500])
def test_only_an_answer_of_200_counts_and_no_redirection_is_followed(
    server: _Server, status: int
) -> None:
    server.pages |= {"/here": (status, b""), "/keys": (200, SIGNER.jwks())}
    with pytest.raises(UnavailableError, match=f"answers {status}"):
        fetch_signing_keys(Issuer("i", ("a",), jwks_url=f"{server.url}/here"))


def test_a_huge_answer_is_not_read_to_its_end(server: _Server) -> None:
    server.pages["/keys"] = (200, b" " * (3 << 20))
    where = f"'http://127.0.0.1/keys' sends more than {1 << 20} bytes"
    with pytest.raises(UnavailableError, match=where):
        fetch_signing_keys(Issuer("i", ("a",), jwks_url=f"{server.url}/keys"))


def test_an_issuer_that_is_not_there_is_unavailable(server: _Server) -> None:
    url = f"{server.url}/keys?secret=word"
    with pytest.raises(UnavailableError) as raised:
        fetch_signing_keys(Issuer("i", ("a",), jwks_url=url))
    assert "word" not in raised.value.message


def test_a_host_that_cannot_be_reached_is_named_without_what_may_be_secret() -> None:
    with pytest.raises(UnavailableError) as raised:
        fetch_signing_keys(Issuer("i", ("a",), jwks_url="http://127.0.0.1:1/keys?secret=word"))
    assert raised.value.message.startswith("'http://127.0.0.1/keys' cannot be had: ")
    assert "word" not in raised.value.message
