# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.lane.handshake import ClientHandshake, HandshakeError, ServerHandshake
from tests.support.examples import examples

SECRET = b"a secret of the cluster"
NONCE_A, NONCE_B, NONCE_C = (bytes([n]) * 32 for n in (1, 2, 3))


def pair(client_secret=SECRET, server_secret=SECRET):
    return ClientHandshake(client_secret, NONCE_A), ServerHandshake(server_secret, NONCE_B)


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_both_sides_are_done_whatever_the_pieces(size):
    client, server = pair()

    def carry(data, to):
        return b"".join(to.feed(data[i : i + size]) for i in range(0, len(data), size))

    challenge = carry(client.open(), server)
    assert not server.is_done
    proof = carry(challenge, client)
    assert client.is_done
    carry(proof, server)
    assert server.is_done


def test_bytes_behind_the_proof_are_kept_for_the_frames():
    client, server = pair()
    proof = client.feed(server.feed(client.open()))
    server.feed(proof + b"frames")
    assert server.rest == b"frames"


def test_a_server_without_the_secret_is_refused():
    client, server = pair(server_secret=b"another secret, wrong")
    challenge = server.feed(client.open())
    with pytest.raises(HandshakeError, match="server does not know"):
        client.feed(challenge)
    assert not client.is_done


def test_a_client_without_the_secret_is_refused():
    _, server = pair()
    server.feed(ClientHandshake(SECRET, NONCE_A).open())
    with pytest.raises(HandshakeError, match="client does not know"):
        server.feed(bytes(32))
    assert not server.is_done


def test_a_recorded_proof_is_refused_by_a_later_server():
    client, server = pair()
    proof = client.feed(server.feed(client.open()))
    later = ServerHandshake(SECRET, NONCE_C)
    later.feed(client.open())
    with pytest.raises(HandshakeError):
        later.feed(proof)


def test_the_servers_own_mac_is_no_proof():
    _, server = pair()
    challenge = server.feed(ClientHandshake(SECRET, NONCE_A).open())
    with pytest.raises(HandshakeError):
        server.feed(challenge[-32:])


def test_a_proof_before_the_challenge_is_refused():
    client, server = pair()
    with pytest.raises(HandshakeError, match="before it was challenged"):
        server.feed(client.open() + bytes(32))


@pytest.mark.parametrize(
    ("versions", "named"), [(b"\x00\x03", "0 to 3"), (b"\x63\x63", "99 to 99")]
)
def test_versions_that_are_not_spoken_here_are_refused(versions, named):
    _, server = pair()
    with pytest.raises(HandshakeError, match=f"speaks versions {named} of the protocol"):
        server.feed(b"MANTA\0" + versions + NONCE_A)


def test_an_http_request_is_refused():
    _, server = pair()
    with pytest.raises(HandshakeError):
        server.feed(b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")


def test_a_short_secret_is_refused():
    with pytest.raises(ValueError, match="at least 16"):
        ServerHandshake(b"short", NONCE_A)


@given(st.lists(st.binary(max_size=100), max_size=5))
@settings(max_examples=examples(100))
def test_no_bytes_but_the_proof_end_the_handshake(pieces):
    for side in pair():
        try:
            for piece in pieces:
                side.feed(piece)
        except HandshakeError:
            pass
        assert not side.is_done
