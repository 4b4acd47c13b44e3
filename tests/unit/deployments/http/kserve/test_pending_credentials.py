# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests whose credentials take a moment to check wait for that, and no other connection does."""

import contextlib
from collections.abc import AsyncIterator

import orjson
import pytest

from deployments.data_plane.callers import Access
from deployments.http.kserve.servers import make_http_server
from deployments.supervision.memory_budget import MemoryBudget
from tests.support.http_plane import FakePlane, Running
from tests.support.key_guard import EVERYTHING, UNKNOWN_CREDENTIALS, KeyGuard
from tests.support.lane_rig import until

ARRAY = {"datatype": "INT32", "shape": [1, 16], "data": [1] * 16}
BODY = orjson.dumps({"inputs": [{"name": name, **ARRAY} for name in ("INPUT0", "INPUT1")]})
LARGE = 1_000_000


@contextlib.asynccontextmanager
async def _guarded(guard: KeyGuard, budget: MemoryBudget | None = None) -> AsyncIterator[Running]:
    plane = FakePlane()
    guard.grant("good", *EVERYTHING)
    guard.checking = []
    budget = budget or MemoryBudget(1 << 30)
    server = make_http_server(plane, access=Access(guard), budget=budget, max_input_bytes=LARGE)
    here = Running(plane, server, await server.start("127.0.0.1", 0))
    try:
        yield here
    finally:
        for client in here.clients:
            await client.close()
        server.close()
        await server.wait_drained(10)


def _ask(key: str, path: str = "/v2", body: bytes = b"", size: int = 0) -> bytes:
    method = "POST" if body or size else "GET"
    length = f"Content-Length: {size or len(body)}\r\n" if method == "POST" else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {key}\r\n{length}\r\n"
    return head.encode() + body


def _infer(key: str, body: bytes = BODY, size: int = 0) -> bytes:
    return _ask(key, "/v2/models/simple/infer", body, size)


@pytest.mark.parametrize("count", [1, 3])
async def test_requests_are_answered_in_their_order_once_their_caller_is_known(count: int) -> None:
    guard = KeyGuard()
    async with _guarded(guard) as here:
        client = await here.connect()
        await client.send(_infer("good") * count + _ask("bad") + _ask("good"))
        await until(lambda: len(guard.checking or ()) == count + 2)
        assert here.plane.requests == []
        guard.know()
        statuses = [(await client.answer()).status for _ in range(count + 2)]
        assert statuses == [200] * count + [401, 200]
        assert len(here.plane.requests) == count
        # Its head is known now, and let in.
        assert (await client.call(_infer("good"))).status == 200


async def test_a_connection_goes_on_with_other_credentials_meanwhile() -> None:
    guard = KeyGuard()
    async with _guarded(guard) as here:
        client, other = await here.connect(), await here.connect()
        await client.send(_ask("good"))
        await until(lambda: bool(guard.checking))
        waiting, guard.checking = guard.checking, None
        assert (await other.call(_ask("good"))).status == 200
        for ask_again in waiting or ():
            ask_again()
        assert (await client.answer()).status == 200


async def test_a_large_body_comes_meanwhile_and_counts() -> None:
    guard, budget = KeyGuard(), MemoryBudget(1 << 30)
    async with _guarded(guard, budget) as here:
        client = await here.connect()
        padded = BODY + b" " * (LARGE - len(BODY))
        await client.send(_infer("good", padded))
        await until(lambda: bool(guard.checking))
        assert budget.used_bytes == LARGE
        guard.know()
        assert (await client.answer()).status == 200
        assert budget.used_bytes == 0


async def test_a_body_that_is_not_complete_when_its_caller_is_known_is_received_to_its_end() -> (
    None
):
    guard = KeyGuard()
    async with _guarded(guard) as here:
        client = await here.connect()
        padded = BODY + b" " * 200_000
        asked = _infer("good", padded)
        await client.send(asked[:100_000])
        await until(lambda: bool(guard.checking))
        guard.know()
        await client.send(asked[100_000:])
        assert (await client.answer()).status == 200


async def test_a_large_body_is_cut_short_once_its_caller_is_refused() -> None:
    guard, budget = KeyGuard(), MemoryBudget(1 << 30)
    async with _guarded(guard, budget) as here:
        client = await here.connect()
        await client.send(_infer("bad", b"x" * 100_000, LARGE))
        await until(lambda: bool(guard.checking))
        assert budget.used_bytes == LARGE
        guard.know()
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (401, "close")
        assert answer.error == UNKNOWN_CREDENTIALS
        assert budget.used_bytes == 0
        assert await client.rest() == b""


async def test_a_small_body_of_who_is_refused_is_dropped_and_the_connection_goes_on() -> None:
    guard = KeyGuard()
    async with _guarded(guard) as here:
        client = await here.connect()
        asked = _infer("bad")
        await client.send(asked[:-10])
        await until(lambda: bool(guard.checking))
        guard.know()
        assert (await client.answer()).status == 401
        await client.send(asked[-10:])
        assert (await client.call(_infer("good"))).status == 200
        assert len(here.plane.requests) == 1


async def test_a_large_body_of_who_is_refused_that_has_come_whole_ends_no_connection() -> None:
    guard = KeyGuard()
    async with _guarded(guard) as here:
        client = await here.connect()
        await client.send(_infer("bad", BODY + b" " * 200_000) + _ask("good"))
        await until(lambda: len(guard.checking or ()) == 2)
        guard.know()
        assert [(await client.answer()).status for _ in range(2)] == [401, 200]
        assert (await client.call(_infer("good"))).status == 200


@pytest.mark.parametrize("path", ["models/simple/infer", "repository/models/simple/load"])
async def test_a_body_over_the_limit_is_refused_once_its_caller_is_known(path: str) -> None:
    guard = KeyGuard()
    async with _guarded(guard) as here:
        client = await here.connect()
        await client.send(_ask("good", f"/v2/{path}", BODY + b" " * LARGE))
        await until(lambda: bool(guard.checking))
        guard.know()
        answer = await client.answer()
        assert answer.status == 400
        assert str(LARGE) in answer.error
        assert here.plane.requests == []


async def test_a_request_whose_peer_has_gone_asks_nothing() -> None:
    guard, budget = KeyGuard(), MemoryBudget(1 << 30)
    async with _guarded(guard, budget) as here:
        client = await here.connect()
        await client.send(_infer("good"))
        await until(lambda: bool(guard.checking))
        await client.close()
        await until(lambda: not here.server.connection_count)
        asked = guard.asked
        guard.know()
        assert (here.plane.requests, guard.asked, budget.used_bytes) == ([], asked, 0)


async def test_a_request_waits_once_more_when_the_policy_has_changed() -> None:
    guard = KeyGuard()
    async with _guarded(guard) as here:
        client = await here.connect()
        await client.send(_infer("good"))
        await until(lambda: bool(guard.checking))
        waiting, guard.checking = guard.checking, []
        for ask_again in waiting or ():
            ask_again()
        assert len(guard.checking) == 1
        guard.know()
        assert (await client.answer()).status == 200
