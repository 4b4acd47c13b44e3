# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Connections on which nothing happens, and the limit of connections."""

import asyncio

import pytest

from deployments.http.server.host import HttpLimits
from tests.support.http_plane import post, request, running, simple_body
from tests.support.lane_rig import until

INFER = "/v2/models/simple/infer"
LIVE = request("GET", "/v2/health/live")


async def test_idle_connection_is_kept_while_there_is_room() -> None:
    async with running() as here:
        client = await here.connect()
        assert (await client.call(LIVE)).status == 200
        for _ in range(1000):
            here.server.sweep()
        assert (await client.call(LIVE)).status == 200


async def test_idle_connection_is_closed_after_the_keep_alive_timeout() -> None:
    async with running(HttpLimits(keep_alive_timeout_s=5)) as here:
        client = await here.connect()
        assert (await client.call(LIVE)).status == 200
        for _ in range(5):
            here.server.sweep()
        assert (await client.call(LIVE)).status == 200
        for _ in range(6):
            here.server.sweep()
        assert await client.rest() == b""


async def test_connection_that_waits_for_its_model_is_not_idle() -> None:
    async with running(HttpLimits(keep_alive_timeout_s=5)) as here:
        here.plane.is_holding = True
        client = await here.connect()
        await client.send(post(INFER, simple_body()))
        await here.plane.wait_pending(1)
        for _ in range(10):
            here.server.sweep()
        here.plane.pending[0].finish()
        assert (await client.answer()).status == 200


async def test_longest_idle_connection_makes_room_at_the_limit() -> None:
    async with running(HttpLimits(connection_count=3)) as here:
        silent, middle, recent = [await here.connect() for _ in range(3)]
        for client in (silent, middle, recent):
            assert (await client.call(LIVE)).status == 200
            here.server.sweep()
        newcomer = await here.connect()
        assert (await newcomer.call(LIVE)).status == 200
        assert await silent.rest() == b""
        assert (await middle.call(LIVE)).status == 200
        assert (await recent.call(LIVE)).status == 200
        assert here.server.connection_count == 3


async def test_peers_that_send_nothing_lock_nobody_out() -> None:
    async with running(HttpLimits(connection_count=8)) as here:
        silent = []
        for _ in range(40):
            silent.append(await here.connect())
            here.server.sweep()
        client = await here.connect()
        assert (await client.call(LIVE)).status == 200
        assert here.server.connection_count <= 8
        assert await silent[0].rest() == b""


async def test_busy_connections_are_not_closed_for_new_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(HttpLimits(connection_count=2)) as here:
        here.plane.is_holding = True
        busy = [await here.connect() for _ in range(2)]
        for client in busy:
            await client.send(post(INFER, simple_body()))
        await here.plane.wait_pending(2)
        for _ in range(5):
            refused = await here.connect()
            assert await refused.rest() == b""
        assert here.server.connection_count == 2
        assert caplog.text.count("2 are open, the limit") == 1
        for pending in here.plane.pending:
            pending.finish()
        assert [(await client.answer()).status for client in busy] == [200, 200]
        await asyncio.sleep(0)


async def test_a_peer_at_its_limit_gets_no_further_connection() -> None:
    async with running(HttpLimits(peer_connection_count=2)) as here:
        first, second = await here.connect(), await here.connect()
        for client in (first, second):
            assert (await client.call(LIVE)).status == 200
        assert await (await here.connect()).rest() == b""
        await second.close()
        await until(lambda: here.server.connection_count == 1)
        assert (await (await here.connect()).call(LIVE)).status == 200
        assert (await first.call(LIVE)).status == 200
