# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about errors of the OpenAI routes."""

from typing import Any

import pytest

from backends.api.errors import ERROR_BY_CODE, HTTP_STATUS, TritonError
from deployments.access.contracts import Role
from deployments.data_plane.callers import Access
from deployments.http.codec.openai_errors import ROW_OF_CLASS
from deployments.http.kserve.servers import make_http_server
from tests.support.http_plane import Running, post, request, running
from tests.support.key_guard import KeyGuard
from tests.support.openai_plane import CHAT, CHAT_BODY, answer, held, openai_plane


@pytest.mark.parametrize("error", ERROR_BY_CODE.values())
async def test_each_error_of_a_model_has_a_status_a_type_and_a_code(
    error: type[TritonError],
) -> None:
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, CHAT, CHAT_BODY)
        pending.sink.fail(error("what went wrong"))
        got = await client.answer()
        row = ROW_OF_CLASS[error.code]
        assert (got.status, got.headers["content-type"]) == (row.status, "application/json")
        found = got.json["error"]
        assert found.keys() == {"message", "type", "param", "code"}
        assert (found["message"], found["type"]) == ("what went wrong", row.type)
        assert found["code"] == row.code


def test_there_is_a_row_for_each_class_of_errors() -> None:
    assert ROW_OF_CLASS.keys() == HTTP_STATUS.keys()


@pytest.mark.parametrize(
    ("body", "param", "text"),
    [
        (b"", None, "the request is not valid JSON: "),
        (b"{", None, "the request is not valid JSON: "),
        (b'{"model":"\xff"}', None, "the request is not valid JSON: "),
        (b"[]", None, "the request's body: expected object, got array"),
        (b"{}", "model", "field 'model' is missing; the request needs it"),
        (b'{"model": ""}', "model", "field 'model' is empty; send the name of a model"),
        (b'{"model": 1}', "model", "field 'model': expected str, got int"),
        (b'{"model": "m", "stream": "yes"}', "stream", "field 'stream': expected bool | null"),
        (
            b'{"model": "m", "stream_options": {"include_usage": 1}}',
            "stream_options.include_usage",
            "field 'stream_options.include_usage': expected bool | null, got int",
        ),
        (b'{"model": "m", "n": 1.5}', "n", "field 'n': expected int | null, got float"),
        (b'{"model": "m", "x": ' + b"[" * 9999, None, "the request's JSON is nested too deeply"),
    ],
)
async def test_a_wrong_body_is_told_by_its_field(body: bytes, param: Any, text: str) -> None:
    async with running(plane=openai_plane()) as here:
        got = await (await here.connect()).call(request("POST", CHAT, body))
        assert got.status == 400
        error = got.json["error"]
        assert error["type"] == "invalid_request_error"
        assert error["param"] == param
        assert error["message"].startswith(text)


async def test_an_unknown_model_is_not_found() -> None:
    async with running(plane=openai_plane()) as here:
        client = await here.connect()
        for name in ("nope", "nope:wise"):
            got = await client.call(post(CHAT, {**CHAT_BODY, "model": name}))
            assert got.status == 404
            assert got.json["error"] == {
                "message": "Request for unknown model: 'nope' is not found",
                "type": "invalid_request_error",
                "param": "model",
                "code": "model_not_found",
            }


@pytest.mark.parametrize(
    ("path", "model", "text"),
    [
        ("/detokenize", "llm", "model 'llm' does not answer the route 'detokenize'; it answers"),
        ("/v1/embeddings", "words", "it answers 'chat/completions', 'completions'"),
        (CHAT, "simple", "model 'simple' answers no OpenAI route"),
    ],
)
async def test_a_route_that_a_model_does_not_have_is_not_found(
    path: str, model: str, text: str
) -> None:
    async with running(plane=openai_plane()) as here:
        got = await (await here.connect()).call(post(path, {"model": model}))
        assert (got.status, got.json["error"]["code"]) == (404, "route_not_served")
        assert text in got.json["error"]["message"]


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (request("GET", CHAT), 405, "method_not_allowed"),
        (request("POST", "/v1/models"), 405, "method_not_allowed"),
        (request("POST", "/v1/nothing", b"{}"), 404, "route_not_served"),
        (post(CHAT, CHAT_BODY, ("Content-Encoding: gzip",)), 400, None),
    ],
)
async def test_what_no_route_takes_is_refused_in_the_same_form(
    data: bytes, status: int, code: str | None
) -> None:
    async with running(plane=openai_plane()) as here:
        got = await (await here.connect()).call(data)
        assert (got.status, got.headers["content-type"]) == (status, "application/json")
        assert got.json["error"]["code"] == code


async def test_a_body_over_the_limit_is_refused() -> None:
    async with running(max_input_bytes=1000, plane=openai_plane()) as here:
        got = await (await here.connect()).call(post(CHAT, {**CHAT_BODY, "x": "x" * 1000}))
        assert got.status == 400
        assert "exceeds the maximum" in got.json["error"]["message"]


async def test_anthropics_clients_find_the_type_of_an_error_at_its_top() -> None:
    async with running(plane=openai_plane()) as here:
        got = await (await here.connect()).call(post("/v1/messages", {"model": "nope"}))
        assert (got.status, got.json["type"]) == (404, "error")


async def test_routes_of_triton_keep_their_errors() -> None:
    async with running(plane=openai_plane()) as here:
        got = await (await here.connect()).call(post("/v2/models/nope/generate", {}))
        assert got.json == {"error": "Request for unknown model: 'nope' is not found"}


async def test_a_policy_counts_for_the_model_that_the_body_names() -> None:
    guard = KeyGuard()
    guard.grant("llm", (Role.INFER, "llm"), (Role.METADATA, "llm"))
    guard.grant("shown", (Role.METADATA, "*"))
    plane = openai_plane()
    plane.is_holding = False
    plane.models["llm"].execute = lambda _: []
    server = make_http_server(plane, access=Access(guard))
    here = Running(plane, server, await server.start("127.0.0.1", 0))
    client = await here.connect()
    try:
        for key, model, status in (
            ("llm", "llm", 500),  # It is asked, and answers nothing.
            ("llm", "llm:wise", 500),
            ("llm", "words", 403),
            ("llm", "nope", 403),
            ("shown", "llm", 403),
            ("wrong", "llm", 401),
        ):
            shown = (f"Authorization: Bearer {key}",)
            got = await client.call(post(CHAT, {**CHAT_BODY, "model": model}, shown))
            assert (got.status, got.json["error"].keys()) == (
                status,
                {"message", "type", "param", "code"},
            )
        for key, names in (("llm", ["llm"]), ("shown", ["llm", "words"])):
            header = (f"Authorization: Bearer {key}",)
            listed = await client.call(request("GET", "/v1/models", headers=header))
            assert [each["id"] for each in listed.json["data"]] == names
    finally:
        await client.close()
        server.close()
        await server.wait_drained(5)
    denied = [line for line in guard.noted if line[3] == "denied"]
    assert ("key of llm", "infer", "words", "denied") in denied
    assert all(line[2] != "llm:wise" for line in denied)


async def test_a_response_that_cannot_be_read_is_the_servers_fault() -> None:
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, CHAT, CHAT_BODY)
        answer(pending, b"{}")
        pending.sink.respond(object(), final=False)  # type: ignore[arg-type]
        got = await client.answer()
        assert got.status == 500
        assert got.json["error"]["message"] == "failed to encode the response of model 'llm'"
