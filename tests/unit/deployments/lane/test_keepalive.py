# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the kernel is asked to notice of a node that is gone without a word."""

import socket

import pytest

from deployments.lane.keepalive import WITHOUT_HEARTBEAT_S, keepalive_options
from deployments.lane.messages import LaneLimits, limits_of
from deployments.lane.tls import derive_lane_tls
from deployments.pool_queue.connection import TICKET_LIMITS, ticket_limits_of
from deployments.settings.lane_settings import LaneSettings
from tests.support.lane_rig import SECRET, Handler, Rig, echo

TCP = socket.IPPROTO_TCP


@pytest.mark.parametrize("timeout_s", [1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 25.0, 60.0])
def test_an_idle_connection_is_given_up_within_the_time_and_a_second(timeout_s):
    options = {(level, name): value for level, name, value in keepalive_options(timeout_s)}
    idle_s, interval_s = options[TCP, socket.TCP_KEEPIDLE], options[TCP, socket.TCP_KEEPINTVL]
    user_timeout_s = options[TCP, socket.TCP_USER_TIMEOUT] / 1000
    assert user_timeout_s == timeout_s
    # Linux: net/ipv4/tcp_timer.c tcp_keepalive_timer: looked at when a probe is due, one is out.
    probes_s = [idle_s + n * interval_s for n in range(1, 100)]
    given_up_s = next(at_s for at_s in probes_s if at_s >= user_timeout_s)
    assert timeout_s <= given_up_s <= max(timeout_s + 1, 2)


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_both_ends_of_a_lane_between_nodes_ask_for_it(run, is_encrypted):
    limits = limits_of(LaneSettings(heartbeat_timeout_s=6.0))
    tls = derive_lane_tls(SECRET) if is_encrypted else None

    async def main():
        here = None if tls is None else tls.server
        async with Rig(Handler(echo), limits=limits, same_node=False, tls=here) as rig:
            lane = await rig.connect(tls=None if tls is None else tls.client)
            (other,) = rig.lanes
            for connection in (lane._connection, other.connection):
                sock = connection.transport.get_extra_info("socket")
                for level, name, value in keepalive_options(6.0):
                    # The kernel answers with a number other than 0.
                    assert bool(sock.getsockopt(level, name)) == bool(value)
                assert sock.getsockopt(TCP, socket.TCP_USER_TIMEOUT) == 6000
                assert sock.getsockopt(TCP, socket.TCP_KEEPIDLE) == 3
            lane.close()
            await rig.all_gone()

    run(main)


def test_the_heartbeat_is_the_time_and_without_one_there_still_is_one():
    with_one, without = LaneSettings(heartbeat_timeout_s=4.0), LaneSettings(heartbeat_timeout_s=0.0)
    for limits in (limits_of, ticket_limits_of):
        assert limits(with_one).peer_timeout_s == 4.0
        assert limits(without).peer_timeout_s == WITHOUT_HEARTBEAT_S
    assert LaneLimits().peer_timeout_s == TICKET_LIMITS.peer_timeout_s == WITHOUT_HEARTBEAT_S
