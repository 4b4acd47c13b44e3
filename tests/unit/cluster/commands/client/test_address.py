# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Addresses as people type them."""

import pytest

from backends.api.errors import InvalidArgumentError
from cluster.commands.client.address import Address, parse_address


@pytest.mark.parametrize(
    ("text", "base", "shown"),
    [
        ("localhost", "http://localhost:8000", "localhost:8000"),
        ("host:1", "http://host:1", "host:1"),
        ("http://host:1/", "http://host:1", "host:1"),
        ("http://host", "http://host", "host"),
        ("https://host", "https://host", "https://host"),
        ("https://host:2/manta/", "https://host:2/manta", "https://host:2/manta"),
        ("[::1]:9", "http://[::1]:9", "[::1]:9"),
        ("host:1/ü%20", "http://host:1/%C3%BC%20", "host:1"),
        ("localhost:8002/metrics", "http://localhost:8002/metrics", "localhost:8002"),
    ],
)
def test_an_address_is_a_host_and_port_or_a_url(text: str, base: str, shown: str) -> None:
    assert parse_address(text) == Address(base, "", shown)


@pytest.mark.parametrize(
    ("text", "socket"), [("unix:/run/m.sock", "/run/m.sock"), ("unix:@name", "\0name")]
)
def test_a_unix_socket_is_named_as_for_serve(text: str, socket: str) -> None:
    assert parse_address(text) == Address("http://localhost", socket, text)


@pytest.mark.parametrize(
    "text",
    ["", "grpc://host:1", "host:port", "host:99999", "http://", "a b:1", "unix:x", "host?q=1"],
)
def test_what_is_no_address_is_said_with_what_is_one(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="expected"):
        parse_address(text)


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_address("https://me:s3cret@host:1")
    assert "s3cret" not in caught.value.message
