# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests whose end cannot be told, or can be told in two ways (RFC 9112 section 6)."""

import json

import pytest

from tests.support.http_plane import post, request, running, simple_body

INFER = "/v2/models/simple/infer"
LIVE = request("GET", "/v2/health/live")
SMUGGLED = request("GET", "/v2/smuggled")
CHUNKED = ("Transfer-Encoding: chunked",)


def chunked_body(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


@pytest.mark.parametrize(
    ("data", "status", "reason"),
    [
        (b"\x00\x01\x02\r\n\r\n", 400, "does not begin with a method"),
        (b"GET /v2/health/live HTTP/1.1\nHost: x\n\n", 400, "not well-formed HTTP/1.1"),
        (b"GET /v2 HTTP/9.9\r\nHost: x\r\n\r\n", 400, "HTTP version"),
        (request("POST", INFER, headers=("Content-Length: -5",)), 400, "Content-Length"),
        (request("POST", INFER, headers=("Content-Length: abc",)), 400, "Content-Length"),
        (
            request("POST", INFER, b"", ("Content-Length: 0", "Content-Length: 40")) + SMUGGLED,
            400,
            "Content-Length",
        ),
        (
            request("POST", INFER, headers=CHUNKED) + b"zz\r\nabc\r\n0\r\n\r\n",
            400,
            "chunk size",
        ),
        (
            request("GET", "/v2/health/live", headers=("X-Big: " + "a" * 10_000,)),
            431,
            "exceed the maximum of 8192 bytes",
        ),
        (
            b"GET /v2/health/live HTTP/1.1\r\nX-Big: " + b"a" * 20_000,
            431,
            "exceed the maximum of 8192 bytes",
        ),
        (b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\n\r\n", 431, "request line"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "not well-formed HTTP/1.1"),
        (
            request("POST", INFER, headers=("Transfer-Encoding: gzip, chunked",)) + SMUGGLED,
            501,
            "Transfer-Encoding 'gzip, chunked' is not supported",
        ),
        (
            request("POST", INFER, headers=("Transfer-Encoding: xchunked",)) + SMUGGLED,
            501,
            "Transfer-Encoding 'xchunked' is not supported",
        ),
        (
            request("POST", INFER, headers=("Transfer-Encoding: gzip", *CHUNKED)) + SMUGGLED,
            501,
            "Transfer-Encoding 'gzip, chunked' is not supported",
        ),
        (
            request("POST", INFER, headers=("Transfer-Encoding: gzip",)) + SMUGGLED,
            501,
            "Transfer-Encoding 'gzip' is not supported",
        ),
        (
            request("POST", INFER, headers=("Transfer-Encoding: chunked, gzip",)) + SMUGGLED,
            400,
            "Transfer-Encoding",
        ),
        (request("POST", INFER, headers=(*CHUNKED, *CHUNKED)) + SMUGGLED, 400, "Transfer-Encoding"),
        (
            request("POST", INFER, headers=CHUNKED, version="1.0") + chunked_body(b"{}"),
            400,
            "does not exist in HTTP/1.0",
        ),
    ],
)
async def test_malformed_request_is_refused_with_a_reason_and_the_connection_closes(
    data: bytes, status: int, reason: str
) -> None:
    async with running() as here:
        client = await here.connect()
        await client.send(data + LIVE)
        answer = await client.answer()
        assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
        assert reason in answer.error
        assert answer.version == "HTTP/1.0" or answer.headers["connection"] == "close"
        assert await client.rest() == b""


@pytest.mark.parametrize(
    "headers",
    [("Content-Length: 3", *CHUNKED), (*CHUNKED, "Content-Length: 3")],
    ids=["length first", "chunked first"],
)
async def test_chunked_counts_beside_a_length_and_the_connection_closes(
    headers: tuple[str, ...],
) -> None:
    async with running() as here:
        client = await here.connect()
        body = chunked_body(json.dumps(simple_body(id="a")).encode())
        await client.send(request("POST", INFER, headers=headers) + body + SMUGGLED)
        answer = await client.answer()
        assert (answer.status, answer.json["id"]) == (200, "a")
        assert answer.headers["connection"] == "close"
        assert await client.rest() == b""


async def test_large_length_beside_chunked_reserves_nothing() -> None:
    async with running() as here:
        client = await here.connect()
        headers = ("Content-Length: 1000000000", *CHUNKED)
        body = chunked_body(json.dumps(simple_body()).encode())
        assert (await client.call(request("POST", INFER, headers=headers) + body)).status == 200
        assert here.plane.slabs.allocated == []


async def test_length_in_chunked_headers_is_not_remembered_as_a_known_head() -> None:
    async with running() as here:
        body = chunked_body(json.dumps(simple_body()).encode())
        message = request("POST", INFER, headers=("Content-Length: 3", *CHUNKED)) + body
        for _ in range(4):
            client = await here.connect()
            assert (await client.call(message)).status == 200
            assert await client.rest() == b""


async def test_reason_stands_behind_the_answers_to_earlier_requests() -> None:
    async with running() as here:
        here.plane.is_holding = True
        client = await here.connect()
        await client.send(post(INFER, simple_body()) + b"garbage\r\n\r\n")
        await here.plane.wait_pending(1)
        here.plane.pending[0].finish()
        assert (await client.answer()).status == 200
        assert (await client.answer()).status == 400
        assert await client.rest() == b""


async def test_second_request_behind_a_declined_upgrade_goes_to_another_connection() -> None:
    async with running() as here:
        client = await here.connect()
        upgrade = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMA")
        answer = await client.call(request("GET", "/v2", headers=upgrade))
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await client.rest() == b""


@pytest.mark.parametrize(
    "line", [b"GET /v2/health/live", b"GET /v2/health/live HTTP/0.9", b"GET /v2 HTTP/2.0"]
)
async def test_other_versions_of_http_are_refused(line: bytes) -> None:
    async with running() as here:
        client = await here.connect()
        for _ in range(3):  # no head of them is remembered either
            answer = await client.call(line + b"\r\n\r\n" + SMUGGLED)
            assert answer.status == 505
            assert await client.rest() == b""
            client = await here.connect()
