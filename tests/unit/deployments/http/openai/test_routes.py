# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about the OpenAI routes: what reaches a model, and what its answers become."""

import json
from typing import Any

import pytest

from backends.api.errors import InternalError, UnavailableError
from backends.api.model_config import ModelConfig
from deployments.http.openai.routes import ABSENT_PATHS, PATHS
from tests.support.http_plane import FakePlane, post, request, running
from tests.support.openai_plane import (
    CHAT,
    CHAT_BODY,
    EVENTS,
    answer,
    element,
    end,
    held,
    llm_config,
    objects,
    openai_plane,
    streamed,
)

EVERY = ",".join(PATHS.values())


def plane_of(*configs: ModelConfig) -> FakePlane:
    plane = openai_plane()
    for config in configs:
        plane.add(config, lambda _: [])
    return plane


@pytest.mark.parametrize(("path", "route"), PATHS.items())
async def test_each_route_gives_its_body_to_the_model_as_it_came(path: str, route: str) -> None:
    body = b'{ "model":"llm",\n "unknown" : {"a": [1e400, null]}, "model": "llm"}'
    async with running(plane=plane_of(llm_config(routes=EVERY))) as here:
        client = await here.connect()
        await client.send(request("POST", path, body))
        await here.plane.wait_pending(1)
        pending = here.plane.pending[0]
        sent = pending.request
        assert element(sent, "openai_request") == body
        assert sent.inputs[0].shape == (1,)
        assert sent.parameters == {"openai_route": route}
        assert sent.outputs == ["openai_response"]
        answer(pending, b'{"id": "x"}', final=True)
        got = await client.answer()
        assert (got.status, got.headers["content-type"]) == (200, "application/json")
        assert got.body == b'{"id": "x"}'


async def test_an_answer_may_come_before_the_end_and_its_usage_with_it() -> None:
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, CHAT, CHAT_BODY)
        answer(pending, b"{}")
        answer(pending, final=True, prompt_tokens=3, completion_tokens=2, cached_tokens=1)
        got = await client.answer()
        assert (got.status, got.body) == (200, b"{}")


@pytest.mark.parametrize("texts", [(), (b"{}", b"{}")])
async def test_an_answer_that_is_not_one_object_is_the_models_fault(
    texts: tuple[bytes, ...],
) -> None:
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, CHAT, CHAT_BODY)
        answer(pending, *texts, final=True)
        got = await client.answer()
        assert got.status == 500
        assert got.json["error"]["message"].startswith(
            f"model 'llm' answered with {len(texts)} objects where the request asks for no stream"
        )


async def test_an_answer_by_another_output_is_the_models_fault() -> None:
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, CHAT, CHAT_BODY)
        answer(pending, b"x", name="text_output", final=True)
        got = await client.answer()
        assert got.status == 500
        assert (
            "with 'text_output' BYTES; expected output 'openai_response'"
            in (got.json["error"]["message"])
        )


async def test_a_stream_is_an_event_for_each_object_and_ends_with_done() -> None:
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, CHAT, {**CHAT_BODY, "stream": True})
        answer(pending, b'{"a": 1}')
        assert (await client.reader.readuntil(b"\n\n")).endswith(b'data: {"a": 1}\n\n')
        answer(pending, b'{"a":\n2}', b'{"a": 3}')
        answer(pending, final=True, completion_tokens=3)
        rest = await client.reader.readuntil(b"0\r\n\r\n")
        assert b'data: {"a": 2}\n\n' in rest
        assert rest.endswith(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


async def test_a_stream_of_a_model_that_says_nothing_is_done_at_once() -> None:
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, CHAT, {**CHAT_BODY, "stream": True})
        end(pending)
        status, content_type, pieces = await streamed(client)
        assert (status, content_type, objects(pieces)) == (200, EVENTS, [])


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
async def test_streams_whose_events_have_names_end_without_done(path: str) -> None:
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, path, {"model": "llm", "stream": True})
        answer(pending, b'{"type": "first", "x": 1}', b'{"type": "a\\nb"}', b"[]")
        pending.sink.fail(InternalError("broken"))
        pieces = (await streamed(client))[2]
        assert pieces[:3] == [
            b'event: first\ndata: {"type": "first", "x": 1}\n\n',
            b'data: {"type": "a\\nb"}\n\n',
            b"data: []\n\n",
        ]
        is_named = path == "/v1/messages"
        assert pieces[3].startswith(b"event: error\n" if is_named else b'data: {"error"')
        assert len(pieces) == 4


async def test_an_error_before_the_first_chunk_has_its_own_status() -> None:
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, CHAT, {**CHAT_BODY, "stream": True})
        pending.sink.fail(UnavailableError("busy", retry_after_s=1.5))
        got = await client.answer()
        assert (got.status, got.headers["retry-after"]) == (503, "2")
        assert got.json["error"]["message"] == "busy"


@pytest.mark.parametrize("is_final", [True, False])
async def test_an_error_behind_a_chunk_is_the_last_event(is_final: bool) -> None:
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, CHAT, {**CHAT_BODY, "stream": True})
        answer(pending, b"{}")
        pending.sink.fail(InternalError("broken"), final=is_final)
        answer(pending, b'{"late": 1}', final=True)
        status, _, pieces = await streamed(client)
        assert (status, pieces[0]) == (200, b"data: {}\n\n")
        (error,) = [json.loads(each.removeprefix(b"data: ")) for each in pieces[1:]]
        assert error["error"]["message"] == "broken"
        assert pending.is_cancelled is not is_final


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_client_that_goes_cancels_its_request(is_stream: bool) -> None:
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, CHAT, {**CHAT_BODY, "stream": is_stream})
        if is_stream:
            answer(pending, b"{}")
            await client.reader.readuntil(b"\n\n")
        await client.close()
        await here.plane.wait_cancelled(pending)


@pytest.mark.parametrize("model", ["llm:wise", "llm"])
async def test_an_adapter_goes_to_its_model_with_the_body(model: str) -> None:
    async with running(plane=openai_plane()) as here:
        _, pending = await held(here, CHAT, {**CHAT_BODY, "model": model})
        assert pending.request.model_name == "llm"
        assert json.loads(element(pending.request, "openai_request"))["model"] == model


async def test_a_model_with_a_colon_in_its_name_is_found_where_no_other_has_its_beginning() -> None:
    async with running(plane=plane_of(llm_config("a:b"))) as here:
        _, pending = await held(here, CHAT, {**CHAT_BODY, "model": "a:b"})
        assert pending.request.model_name == "a:b"


async def test_a_model_is_loaded_by_its_first_use() -> None:
    plane = openai_plane()
    plane.unread["late"] = plane.models.pop("llm")
    async with running(plane=plane) as here:
        client, pending = await held(here, CHAT, {**CHAT_BODY, "model": "late:wise"})
        assert plane.used == ["late"]
        answer(pending, b"{}", final=True)
        assert (await client.answer()).status == 200


async def test_the_deadline_of_a_proxy_goes_with_the_request() -> None:
    async with running(plane=openai_plane()) as here:
        client = await here.connect()
        await client.send(post(CHAT, CHAT_BODY, ("X-Envoy-Expected-Rq-Timeout-Ms: 250",)))
        await here.plane.wait_pending(1)
        assert here.plane.pending[0].request.deadline_us == 250_000


async def test_a_megabyte_goes_to_the_model() -> None:
    body: dict[str, Any] = {**CHAT_BODY, "more": ["x" * 1000] * 1000, "deep": [[[[]]]]}
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, CHAT, body)
        assert json.loads(element(pending.request, "openai_request")) == body
        answer(pending, b'"' + b"y" * 1_000_000 + b'"', final=True)
        assert len((await client.answer()).body) == 1_000_002


async def test_models_with_routes_are_listed_and_no_other() -> None:
    async with running(plane=openai_plane()) as here:
        client = await here.connect()
        got = (await client.call(request("GET", "/v1/models"))).json
        assert got["object"] == "list"
        assert [each["id"] for each in got["data"]] == ["llm", "words"]
        assert got["data"][0].keys() == {"id", "object", "created", "owned_by"}
        one = (await client.call(request("GET", "/v1/models/llm"))).json
        assert one == got["data"][0]
        for name, code in (("simple", "route_not_served"), ("nope", "model_not_found")):
            absent = await client.call(request("GET", f"/v1/models/{name}"))
            assert (absent.status, absent.json["error"]["code"]) == (404, code)


@pytest.mark.parametrize("path", ABSENT_PATHS)
async def test_what_no_model_does_is_not_found(path: str) -> None:
    async with running(plane=openai_plane()) as here:
        got = await (await here.connect()).call(post(path, CHAT_BODY))
        assert (got.status, got.json["error"]["code"]) == (404, "route_not_served")
        assert f"the server has no route {path}" in got.json["error"]["message"]
