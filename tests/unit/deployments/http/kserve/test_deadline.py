# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.support.http_plane import post, running, simple_body

INFER = "/v2/models/simple/infer"


@pytest.mark.parametrize(
    ("value", "deadline_us"), [("250", 250_000), ("0", 0), ("soon", 0), ("-5", 0), ("9" * 12, 0)]
)
async def test_the_deadline_of_a_proxy_goes_with_the_request(value: str, deadline_us: int) -> None:
    async with running() as here:
        here.plane.is_holding = True
        client = await here.connect()
        header = f"X-Envoy-Expected-Rq-Timeout-Ms: {value}"
        await client.send(post(INFER, simple_body(), (header,)))
        await here.plane.wait_pending(1)
        pending = here.plane.pending[0]
        assert pending.request.deadline_us == deadline_us
        pending.finish()
        assert (await client.answer()).status == 200
