# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How long a server waits for its peer."""

from typing import Any

import pytest

from deployments.http.server.host import HttpLimits
from tests.support.http_plane import (
    INFER,
    LIVE,
    Client,
    large_request,
    post,
    running,
    simple_body,
)


async def until_received(here: Any, client: Client, data: bytes) -> None:
    """Send data and return once the server has read them."""
    await client.send(data)
    other = await here.connect()
    for _ in range(3):
        await other.call(LIVE)


@pytest.mark.parametrize(
    ("data", "limits"),
    [
        (b"GET /v2 HTTP/1.1\r\nHost: x\r\n", HttpLimits(head_timeout_s=3)),
        (post(INFER, simple_body())[:-5], HttpLimits(body_idle_timeout_s=3)),
        (large_request()[0][:-5], HttpLimits(body_idle_timeout_s=3)),
    ],
    ids=["head", "body", "large body"],
)
async def test_slow_peer_is_closed_after_its_timeout(data: bytes, limits: HttpLimits) -> None:
    async with running(limits) as here:
        client = await here.connect()
        await until_received(here, client, data)
        for _ in range(4):
            here.server.sweep()
        assert await client.rest() == b""


async def test_waiting_for_the_model_is_not_being_slow() -> None:
    async with running() as here:
        here.plane.is_holding = True
        client = await here.connect()
        await client.send(post(INFER, simple_body()))
        await here.plane.wait_pending(1)
        for _ in range(1000):
            here.server.sweep()
        here.plane.pending[0].finish()
        assert (await client.answer()).status == 200
