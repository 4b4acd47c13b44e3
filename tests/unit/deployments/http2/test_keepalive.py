# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""PINGs in both directions and the age of connections, in virtual time."""

from typing import Any

import pytest

from deployments.grpc.server.grpcio_server import OPTIONS
from deployments.http2 import frames
from deployments.http2.errors import ErrorCode
from deployments.http2.keepalive_options import KeepaliveOptions, options_from_flags
from deployments.http2.limits import Http2Limits
from tests.support.http2_peer import (
    Client,
    Frame,
    call,
    headers_frame,
    request,
)

S = 1_000_000_000
PING = frames.frame(frames.PING, 0, 0, bytes(8))
BIDI = request(path=b"/test.Service/Bidi")
WAIT = request(path=b"/test.Service/Wait")


def client_of(**options: Any) -> Client:
    return Client(Http2Limits(keepalive=KeepaliveOptions(**options)))


def wait(client: Client, seconds: float) -> list[Frame]:
    """Let time pass as the server's sweep does; return what is sent meanwhile."""
    sent = []
    end_ns = client.now_ns + int(seconds * S)
    while client.now_ns < end_ns and client.h2.lifecycle.terminated is None:
        client.now_ns = min(end_ns, client.now_ns + S)
        client.h2.on_time(client.now_ns)
        sent += client.received()
    return sent


def pings(sent: list[Frame]) -> list[bytes]:
    return [f.payload for f in sent if f.kind == frames.PING and not f.flags & frames.ACK]


def goaways(sent: list[Frame]) -> list[tuple[int, str]]:
    return [
        (int.from_bytes(f.payload[4:8], "big"), f.payload[8:].decode())
        for f in sent
        if f.kind == frames.GOAWAY
    ]


def answer_pings(client: Client, sent: list[Frame]) -> None:
    for payload in pings(sent):
        client.send(frames.frame(frames.PING, frames.ACK, 0, payload))


# Our PINGs.


def test_a_silent_peer_with_a_call_is_pinged_and_then_dropped() -> None:
    client = client_of(time_ns=10 * S, timeout_ns=2 * S)
    client.send(headers_frame(1, WAIT))
    assert wait(client, 9) == []
    sent = wait(client, 1)
    assert len(pings(sent)) == 1
    client.now_ns += S
    answer_pings(client, sent)
    assert len(pings(wait(client, 10))) == 1
    assert client.h2.lifecycle.terminated is None
    assert goaways(wait(client, 2)) == [(ErrorCode.NO_ERROR, "keepalive ping timeout")]


def test_whatever_the_peer_sends_shows_that_it_is_alive() -> None:
    client = client_of(time_ns=10 * S, timeout_ns=2 * S)
    client.send(headers_frame(1, WAIT))
    for _ in range(5):
        assert pings(wait(client, 9)) == []
        client.send(frames.window_update(0, 1))
    wait(client, 11)
    client.send(frames.window_update(0, 1))
    wait(client, 9)
    assert client.h2.lifecycle.terminated is None


@pytest.mark.parametrize("permit", [False, True])
def test_a_peer_without_calls_is_pinged_only_if_permitted(permit: bool) -> None:
    client = client_of(time_ns=10 * S, timeout_ns=2 * S, permit_without_calls=permit)
    sent = wait(client, 15)
    assert (len(pings(sent)), len(goaways(sent))) == ((1, 1) if permit else (0, 0))


@pytest.mark.parametrize(("bound", "expected"), [(2, 2), (0, 10)])
def test_pings_without_data_are_bounded(bound: int, expected: int) -> None:
    client = client_of(time_ns=10 * S, max_pings_without_data=bound)
    client.send(headers_frame(1, BIDI))

    def pings_of_100_s() -> int:
        count = 0
        for _ in range(100):
            sent = wait(client, 1)
            answer_pings(client, sent)
            count += len(pings(sent))
        return count

    assert abs(pings_of_100_s() - expected) <= 1
    # Data gives new ones.
    client.service.calls[0].reply.send(b"x")
    client.received()
    client.send(frames.window_update(0, 1))
    assert abs(pings_of_100_s() - expected) <= 1


def test_no_time_means_no_pings() -> None:
    client = client_of(time_ns=None, permit_without_calls=True)
    client.send(headers_frame(1, WAIT))
    assert pings(wait(client, 10_000)) == []


# The peer's PINGs.


def ping_every(client: Client, interval_s: float, count: int) -> int:
    """Send PINGs until the connection ends; return how many were answered."""
    for number in range(count):
        client.now_ns += int(interval_s * S)
        client.send(PING)
        if client.h2.lifecycle.terminated is not None:
            return number
    return count


def test_pings_too_soon_one_after_the_other_end_the_connection() -> None:
    client = client_of(max_ping_strikes=2, min_recv_ping_interval_ns=300 * S)
    client.send(headers_frame(1, WAIT))
    # The first is free, two are strikes, the fourth is one too many.
    assert ping_every(client, 299, 10) == 3
    assert goaways(client.received()) == [(ErrorCode.ENHANCE_YOUR_CALM, "too_many_pings")]
    assert client.service.calls[0].cancelled_count == 1


def test_pings_as_far_apart_as_asked_for_are_welcome() -> None:
    client = client_of(max_ping_strikes=2, min_recv_ping_interval_ns=300 * S)
    client.send(headers_frame(1, WAIT))
    assert ping_every(client, 300, 50) == 50


@pytest.mark.parametrize(("permit", "expected"), [(False, 3), (True, 50)])
def test_without_calls_pings_are_welcome_every_two_hours_unless_permitted(
    permit: bool, expected: int
) -> None:
    client = client_of(permit_without_calls=permit, min_recv_ping_interval_ns=300 * S)
    assert ping_every(client, 300, 50) == expected
    assert ping_every(client_of(), 7200, 50) == 50


def test_no_strikes_means_any_number_of_pings() -> None:
    assert ping_every(client_of(max_ping_strikes=0), 0.01, 1000) == 1000


def test_pings_between_data_we_send_are_welcome() -> None:
    client = client_of(max_ping_strikes=1)
    client.send(headers_frame(1, BIDI))
    for _ in range(50):
        client.service.calls[0].reply.send(b"x")
        client.received()
        assert ping_every(client, 0.01, 2) == 2
    assert ping_every(client, 0.01, 5) < 5


def test_pings_between_calls_are_welcome() -> None:
    client = client_of(max_ping_strikes=1)
    for number in range(50):
        client.send(call(2 * number + 1, b"", request(path=b"/test.Service/Unknown")))
        client.received()
        assert ping_every(client, 0.01, 2) == 2


def test_pings_while_the_peer_has_data_to_take_are_welcome() -> None:
    client = client_of(max_ping_strikes=1)
    client.send(headers_frame(1, BIDI))
    client.service.calls[0].reply.send(bytes(200_000))
    client.received()
    assert client.h2.out.queued_bytes
    assert ping_every(client, 0.1, 20) == 20


# Age.


def test_an_old_connection_is_drained_and_its_calls_get_their_grace() -> None:
    client = client_of(max_age_ns=60 * S, max_age_grace_ns=10 * S)
    client.send(headers_frame(1, WAIT))
    assert wait(client, 59) == []
    assert goaways(wait(client, 2)) == [
        (ErrorCode.NO_ERROR, "max_age"),
        (ErrorCode.NO_ERROR, "draining"),
    ]
    client.send(headers_frame(3, WAIT))
    assert len(client.service.calls) == 1
    assert goaways(wait(client, 8)) == []
    assert client.service.calls[0].cancelled_count == 0
    assert goaways(wait(client, 2)) == [(ErrorCode.NO_ERROR, "max_age")]
    assert client.h2.lifecycle.terminated is not None


def test_without_a_grace_calls_of_an_old_connection_end_in_their_own_time() -> None:
    client = client_of(max_age_ns=60 * S)
    client.send(headers_frame(1, WAIT))
    wait(client, 5000)
    assert client.h2.lifecycle.terminated is None
    assert not client.h2.drained
    client.service.calls[0].reply.complete(b"")
    client.received()
    assert client.h2.drained


@pytest.mark.parametrize(("share", "age_s"), [(0.0, 54), (0.5, 60), (1.0, 66)])
def test_ages_are_spread_by_a_tenth(share: float, age_s: int) -> None:
    client = client_of(max_age_ns=60 * S)
    client.h2.keepalive.spread_age(share)
    assert goaways(wait(client, age_s - 1)) == []
    assert goaways(wait(client, 1)) == [(ErrorCode.NO_ERROR, "max_age")]


# Flags.


def test_flags_become_options() -> None:
    assert options_from_flags({}) == KeepaliveOptions()
    values = dict(zip(OPTIONS, (5000, 700, 1, 3, 4000, 5, 60_000, 1000), strict=True))
    assert options_from_flags(values) == KeepaliveOptions(
        time_ns=5 * S,
        timeout_ns=S * 7 // 10,
        permit_without_calls=True,
        max_pings_without_data=3,
        min_recv_ping_interval_ns=4 * S,
        max_ping_strikes=5,
        max_age_ns=60 * S,
        max_age_grace_ns=S,
    )


def test_the_largest_number_means_never() -> None:
    infinite = options_from_flags({"keepalive-time": 2**31 - 1, "max-connection-age": 2**31 - 1})
    assert (infinite.time_ns, infinite.max_age_ns) == (None, None)


def test_short_times_are_watched_closely() -> None:
    assert KeepaliveOptions().resolution_ns == S
    assert KeepaliveOptions(time_ns=S).resolution_ns == S // 4
    assert KeepaliveOptions(timeout_ns=1).resolution_ns == S // 50
