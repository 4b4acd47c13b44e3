# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Two builds of Manta on one lane: the next one is stood in for by what it would say."""

import msgspec
import pytest

from backends.api.errors import UnavailableError
from backends.api.request import InferenceRequest
from deployments.contracts.protocols import Versions
from deployments.lane.handshake import SPOKEN, ClientHandshake, HandshakeError, ServerHandshake
from deployments.lane.messages import (
    ErrorMessage,
    LaneLimits,
    Setup,
    decode_error,
    decode_request,
    decode_setup,
    encode,
)
from tests.support.lane_rig import SECRET, Handler, Rig, Sink, echo, request_of

NOW = SPOKEN.newest
THIS = LaneLimits()
# As after an upgrade: one version more, and this one still.
NEXT = LaneLimits(versions=Versions(NOW, NOW + 1))
LATER = LaneLimits(versions=Versions(NOW + 1, NOW + 2))
NONCES = bytes(32), b"\1" * 32


@pytest.mark.parametrize(
    ("router", "instance", "version"),
    [
        (THIS, THIS, NOW),
        (NEXT, THIS, NOW),
        (THIS, NEXT, NOW),
        (NEXT, NEXT, NOW + 1),
        (NEXT, LATER, NOW + 1),
    ],
)
@pytest.mark.parametrize("same_node", [True, False])
def test_router_and_instance_speak_the_newest_version_of_both(
    run, router, instance, version, same_node
):
    async def main():
        rig = Rig(Handler(echo), limits=instance, client_limits=router, same_node=same_node)
        async with rig:
            lane = await rig.connect()
            for size in (64, 300_000):
                sink = Sink()
                lane.submit(request_of(size), sink)
                await sink.ended
                assert bytes(sink.responses[0].outputs[0].data) == b"x" * size
            (other,) = rig.lanes
            assert lane._connection.version == other.connection.version == version
            lane.close()
            await rig.all_gone()

    run(main)


@pytest.mark.parametrize(("router", "instance"), [(THIS, LATER), (LATER, THIS)])
def test_without_a_common_version_there_is_no_lane_and_the_log_says_both(
    run, caplog, router, instance
):
    async def main():
        async with Rig(Handler(echo), limits=instance, client_limits=router) as rig:
            with pytest.raises(UnavailableError):
                await rig.connect()

    run(main)
    assert f"speaks versions {router.versions} of the protocol" in caplog.text
    assert f"this end {instance.versions}" in caplog.text


@pytest.mark.parametrize(("place", "offer"), [(-1, NOW), (-1, NOW + 1), (-2, NOW + 1)])
def test_nobody_between_the_ends_can_change_what_is_offered(place, offer):
    both = Versions(NOW, NOW + 2)
    client = ClientHandshake(SECRET, NONCES[0], both)
    server = ServerHandshake(SECRET, NONCES[1], both)
    hello = bytearray(client.open())
    at = len(hello) - len(NONCES[0]) + place
    hello[at] = offer
    with pytest.raises(HandshakeError, match="does not know"):
        # What the server proves is what it has seen, and that was not said.
        server.feed(client.feed(server.feed(bytes(hello))))


def test_a_server_that_answers_in_a_version_that_was_not_offered_is_refused():
    client = ClientHandshake(SECRET, NONCES[0])
    client.open()
    server = ServerHandshake(SECRET, NONCES[1], LATER.versions)
    challenge = server.feed(ClientHandshake(SECRET, NONCES[0], LATER.versions).open())
    with pytest.raises(HandshakeError, match=f"this end speaks {SPOKEN}"):
        client.feed(challenge)


class NextSetup(Setup, array_like=True):
    """Of a next build."""

    zone: str = "a"


class NextRequest(InferenceRequest, array_like=True):
    """Of a next build."""

    zone: str = "t"


class NextError(ErrorMessage, array_like=True):
    """Of a next build."""

    retry_after_s: float = 1.0


@pytest.mark.parametrize(
    ("older", "newer", "decode"),
    [
        (Setup(7), NextSetup(7), decode_setup),
        (InferenceRequest("m", 1), NextRequest("m", 1), decode_request),
        (ErrorMessage("UNAVAILABLE", "x"), NextError("UNAVAILABLE", "x"), decode_error),
    ],
)
def test_messages_grow_at_their_end_without_a_new_version(older, newer, decode):
    assert encode(decode(encode(newer))) == encode(older)
    assert encode(msgspec.msgpack.decode(encode(older), type=type(newer))) == encode(newer)
