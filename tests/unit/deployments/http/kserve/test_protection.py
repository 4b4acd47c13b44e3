# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Headers that keep browsers and caches from making more of an answer than it is."""

import pytest

from tests.support.http_plane import post, request, running, simple_body


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2"),
        ("GET", "/v2/health/live"),
        ("GET", "/v2/health/ready"),
        ("GET", "/v2/models/simple/ready"),
        ("GET", "/-/healthz"),
        ("GET", "/v2/models/simple/config"),
        ("GET", "/v2/models/stats"),
        ("GET", "/v2/logging"),
        ("GET", "/v2/trace/setting"),
        ("POST", "/v2/repository/index"),
        ("POST", "/v2/repository/models/m/load"),
        ("POST", "/v2/repository/models/m/unload"),
        ("GET", "/v2/models/no_such"),
        ("GET", "/<script>alert(1)</script>"),
        ("DELETE", "/v2"),
    ],
)
async def test_an_answer_is_neither_sniffed_nor_kept(method: str, path: str) -> None:
    async with running() as here:
        answer = await (await here.connect()).call(request(method, path))
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers


async def test_tensors_carry_no_header_that_no_client_asked_for() -> None:
    async with running() as here:
        answer = await (await here.connect()).call(post("/v2/models/simple/infer", simple_body()))
        assert answer.status == 200
        assert answer.headers.keys() == {"content-type", "content-length"}
