# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The HTTP and metrics ports with an access policy."""

import contextlib
from collections.abc import AsyncIterator

import orjson
import pytest

from deployments.access.contracts import Peer, Role
from deployments.data_plane.callers import Access
from deployments.http.kserve.servers import make_http_server, make_metrics_server
from deployments.http.server.entrance import Entrance
from deployments.http.server.request_state import LARGE_BODY_BYTES
from deployments.supervision.memory_budget import MemoryBudget
from tests.support.http_plane import Client, FakePlane, Running
from tests.support.key_guard import EVERYTHING, UNKNOWN_CREDENTIALS, KeyGuard


def infer_body() -> bytes:
    tensor = {"datatype": "INT32", "shape": [1, 16], "data": [1] * 16}
    inputs = [{"name": name, **tensor} for name in ("INPUT0", "INPUT1")]
    return orjson.dumps({"inputs": inputs})


@contextlib.asynccontextmanager
async def _guarded(guard: KeyGuard, **options: object) -> AsyncIterator[Running]:
    plane = FakePlane()
    server = make_http_server(plane, access=Access(guard), **options)  # type: ignore[arg-type]
    here = Running(plane, server, await server.start("127.0.0.1", 0))
    try:
        yield here
    finally:
        for client in here.clients:
            await client.close()
        server.close()
        await server.wait_drained(10)


def _head(path: str, key: str = "", method: str = "GET", size: int = 0, more: str = "") -> bytes:
    shown = f"Authorization: Bearer {key}\r\n" if key else ""
    length = f"Content-Length: {size}\r\n" if size else ""
    return f"{method} {path} HTTP/1.1\r\nHost: h\r\n{shown}{length}{more}\r\n".encode()


def _infer(key: str, model: str = "simple") -> bytes:
    body = infer_body()
    return _head(f"/v2/models/{model}/infer", key, "POST", len(body)) + body


async def test_without_valid_credentials_a_request_is_challenged() -> None:
    guard = KeyGuard()
    guard.grant("good", *EVERYTHING)
    async with _guarded(guard) as here:
        client = await here.connect()
        for key in ("", "bad"):
            answer = await client.call(_head("/v2", key))
            assert answer.status == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.error == UNKNOWN_CREDENTIALS
        assert (await client.call(_head("/v2", "good"))).status == 200
        assert guard.noted[0] == ("nobody", "GET metadata", "", "unauthenticated")


async def test_a_path_without_a_route_is_no_secret_only_to_callers() -> None:
    guard = KeyGuard()
    guard.grant("good")
    async with _guarded(guard) as here:
        client = await here.connect()
        assert (await client.call(_head("/nowhere"))).status == 401
        assert (await client.call(_head("/nowhere", "good"))).status == 404


@pytest.mark.parametrize("path", ["/-/healthz", "/v2/health/live", "/v2/health/ready"])
async def test_health_is_open_where_the_policy_says_so(path: str) -> None:
    guard = KeyGuard(public=((Role.HEALTH, "*"),))
    async with _guarded(guard) as here:
        client = await here.connect()
        assert (await client.call(_head(path))).status == 200
        assert (await client.call(_head("/v2"))).status == 401


async def test_a_denied_model_gets_the_same_answer_as_one_that_is_not_there() -> None:
    guard = KeyGuard()
    guard.grant("some", (Role.INFER, "id_*"), (Role.METADATA, "id_*"))
    async with _guarded(guard) as here:
        client = await here.connect()
        for path in ("/v2/models/{}/infer", "/v2/models/{}", "/v2/models/{}/config"):
            method = "POST" if path.endswith("infer") else "GET"
            answers = []
            for name in ("simple", "absent", "%73imple"):
                answer = await client.call(_head(path.format(name), "some", method))
                assert answer.status == 403
                answers.append(answer.body.replace(name.encode(), b"NAME"))
            assert answers[0] == answers[1] == answers[2]


async def test_a_quoted_name_is_checked_as_what_it_stands_for() -> None:
    guard = KeyGuard()
    guard.grant("some", (Role.METADATA, "a b"))
    async with _guarded(guard) as here:
        served = here.plane.models["simple"]
        here.plane.models |= {"a b": served, "a%20b": served, "c d": served}
        client = await here.connect()
        # Of both names the one that the caller may ask for is meant.
        assert (await client.call(_head("/v2/models/a%20b", "some"))).status == 200
        assert (await client.call(_head("/v2/models/c%20d", "some"))).status == 403


async def test_a_small_refused_body_is_dropped_and_the_connection_goes_on() -> None:
    guard = KeyGuard()
    guard.grant("good", *EVERYTHING)
    async with _guarded(guard) as here:
        client = await here.connect()
        # Known from its second time on; alone, in one write, and with its body later.
        for _ in range(4):
            assert (await client.call(_infer("bad"))).status == 401
        head, body = _infer("bad").split(b"\r\n\r\n", 1)
        assert (await client.call(head + b"\r\n\r\n")).status == 401
        await client.send(body)
        assert (await client.call(_infer("good"))).status == 200
        assert len(here.plane.requests) == 1


async def test_pipelined_answers_keep_their_order_around_a_refusal() -> None:
    guard = KeyGuard()
    guard.grant("good", *EVERYTHING)
    async with _guarded(guard) as here:
        here.plane.is_holding = True
        client = await here.connect()
        await client.send(_infer("good") + _infer("bad") + _head("/v2", "good"))
        await here.plane.wait_pending(1)
        here.plane.pending[0].finish()
        assert [(await client.answer()).status for _ in range(3)] == [200, 401, 200]


@pytest.mark.parametrize("repeats", [1, 3])
async def test_a_large_refused_body_is_neither_allocated_nor_awaited(repeats: int) -> None:
    guard = KeyGuard()
    guard.grant("good", (Role.INFER, "other"))
    size = LARGE_BODY_BYTES + 1
    async with _guarded(guard) as here:
        for key, status in (("bad", 401), ("good", 403)):
            for _ in range(repeats):
                client = await here.connect()
                head = _head("/v2/models/simple/infer", key, "POST", size)
                answer = await client.call(head)
                assert answer.status == status
                assert answer.headers["connection"] == "close"
                await client.close()
        assert here.plane.slabs.allocated == []
        assert here.server.budget.used_bytes == 0


async def test_who_asks_first_whether_to_send_is_told_no() -> None:
    async with _guarded(KeyGuard()) as here:
        client = await here.connect()
        more = "Expect: 100-continue\r\n"
        answer = await client.call(_head("/v2/models/m/infer", "bad", "POST", 10, more))
        assert answer.status == 401
        assert answer.headers["connection"] == "close"
        client.writer.write_eof()
        assert await client.rest() == b""


async def test_a_refused_chunked_request_ends_its_connection() -> None:
    async with _guarded(KeyGuard()) as here:
        client = await here.connect()
        chunked = _head("/v2/models/m/infer", "bad", "POST", 0, "Transfer-Encoding: chunked\r\n")
        answer = await client.call(chunked + b"5\r\nhello\r\n0\r\n\r\n" + _head("/v2"))
        assert answer.status == 401
        client.writer.write_eof()
        assert await client.rest() == b""


async def test_a_repeated_head_is_asked_about_once_until_the_policy_changes() -> None:
    guard = KeyGuard()
    guard.grant("good", *EVERYTHING)
    async with _guarded(guard) as here:
        client = await here.connect()
        for _ in range(3):
            assert (await client.call(_infer("good"))).status == 200
        asked = guard.asked
        for _ in range(5):
            assert (await client.call(_infer("good"))).status == 200
        other = await here.connect()
        assert (await other.call(_infer("good"))).status == 200
        assert guard.asked == asked
        guard.revoke("good")
        assert (await client.call(_infer("good"))).status == 401
        assert (await other.call(_infer("good"))).status == 401


async def test_a_repeated_head_is_asked_about_again_when_credentials_may_have_ended() -> None:
    guard = KeyGuard()
    guard.grant("brief", *EVERYTHING, expires_s=1.0)
    async with _guarded(guard) as here:
        client = await here.connect()
        for count in range(1, 5):
            assert (await client.call(_head("/v2", "brief"))).status == 200
            assert guard.asked == count


async def test_rights_that_came_of_a_connection_stay_with_it() -> None:
    guard = KeyGuard()
    guard.grant_peer(-1, *EVERYTHING)
    async with _guarded(guard) as here:
        client = await here.connect()
        for _ in range(3):
            assert (await client.call(_head("/v2"))).status == 200
    gate = here.server.gate
    assert gate is not None
    guard.forget_peers()
    guard.grant_peer(b"certificate", *EVERYTHING)
    head = here.server.heads.find(_head("/v2"))[0]
    assert head is not None
    named, nameless = Entrance(gate, Peer("http", b"certificate")), Entrance(gate, Peer("http"))
    for _ in range(2):
        assert named.refusal(head, 0) is None
        assert nameless.refusal(head, 0) is not None


async def test_a_guard_that_fails_lets_nobody_in() -> None:
    guard = KeyGuard()
    guard.is_broken = True
    async with _guarded(guard) as here:
        client = await here.connect()
        for _ in range(4):
            answer = await client.call(_infer("good"))
            assert answer.status == 500
            assert "broken" not in answer.error
        assert here.plane.requests == []


async def test_what_carries_credentials_never_reaches_a_model() -> None:
    guard = KeyGuard()
    guard.grant("good", *EVERYTHING)
    async with _guarded(guard, header_forward_pattern=".*") as here:
        client = await here.connect()
        body = infer_body()
        more = "X-Api-Key: secret\r\nX-Mine-Too: secret\r\nX-Mine: yes\r\n"
        head = _head("/v2/models/simple/infer", "good", "POST", len(body), more)
        assert (await client.call(head + body)).status == 200
        parameters = here.plane.requests[0].parameters
        assert parameters["X-Mine"] == "yes"
        assert not {"Authorization", "X-Api-Key"} & set(parameters)
        assert "secret" not in str(parameters)


async def test_a_restricted_api_still_needs_its_header() -> None:
    guard = KeyGuard()
    guard.grant("good", *EVERYTHING)
    async with _guarded(guard, restrictions=[(("metadata",), "x-pass", "open")]) as here:
        client = await here.connect()
        answer = await client.call(_head("/v2", "good"))
        assert answer.status == 403
        assert answer.error == "This API is restricted, expecting header 'x-pass'"
        allowed = _head("/v2", "good", more="X-Pass: open\r\n")
        assert (await client.call(allowed)).status == 200


async def test_the_metrics_port_needs_the_role_of_metrics_for_every_path() -> None:
    guard = KeyGuard()
    guard.grant("scraper", (Role.METRICS, "*"))
    guard.grant("other", (Role.HEALTH, "*"))
    server = make_metrics_server(FakePlane(), budget=MemoryBudget(1 << 20), access=Access(guard))
    here = Running(FakePlane(), server, await server.start("127.0.0.1", 0))
    client: Client = await here.connect()
    for path in ("/metrics", "/"):
        statuses = [
            (await client.call(_head(path, key))).status for key in ("", "other", "scraper")
        ]
        assert statuses == [401, 403, 200]
    await client.close()
    server.close()
