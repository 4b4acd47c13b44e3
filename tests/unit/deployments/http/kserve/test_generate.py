# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about the routes generate and generate_stream."""

import json
from typing import Any

import numpy as np
import pytest

from backends.api.errors import InternalError, InvalidArgumentError, Phase, UnavailableError
from backends.api.request import InferenceResponse, tensor_from_numpy
from deployments.http.server.host import HttpLimits
from tests.support.http_plane import Client, Pending, Running, post, request, running

GENERATE = "/v2/models/id_int64/generate"
STREAM = "/v2/models/id_int64/generate_stream"
EVENTS = "text/event-stream; charset=utf-8"
NOT_ONE = (
    "generate expects model to produce exactly 1 response, use generate stream for model that "
    "generates various number of responses"
)


async def chunks(client: Client) -> tuple[int, dict[str, str], list[bytes]]:
    head = (await client.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in head)}
    pieces = []
    while size := int((await client.reader.readuntil(b"\r\n")).strip(), 16):
        pieces.append(await client.reader.readexactly(size))
        await client.reader.readexactly(2)
    await client.reader.readexactly(2)
    return int(head[0].split(" ")[1]), headers, pieces


def respond(pending: Pending, *values: int, final: bool = False) -> None:
    output = tensor_from_numpy("OUTPUT0", np.array(values, np.int64))
    pending.sink.respond(InferenceResponse("m", "1", "", [output]), final=final)


async def held(here: Running, path: str, body: Any = None) -> tuple[Client, Pending]:
    here.plane.is_holding = True
    client = await here.connect()
    await client.send(post(path, body or {"INPUT0": [1]}))
    await here.plane.wait_pending(1)
    return client, here.plane.pending[0]


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def answer_of(value: Any) -> dict[str, Any]:
    return {"model_name": "m", "model_version": "1", "OUTPUT0": value}


async def test_generate_answers_with_its_one_response_in_chunks() -> None:
    async with running() as here:
        client = await here.connect()
        await client.send(post(GENERATE, {"INPUT0": [1, 2]}))
        status, headers, pieces = await chunks(client)
        assert (status, headers["content-type"]) == (200, "application/json")
        assert headers["transfer-encoding"] == "chunked"
        assert json.loads(b"".join(pieces))["OUTPUT0"] == [1, 2]


@pytest.mark.parametrize("count", [0, 2])
async def test_generate_says_when_there_is_not_one_response(count: int) -> None:
    async with running() as here:
        client, pending = await held(here, GENERATE)
        for value in range(count):
            respond(pending, value)
        pending.sink.respond(None, final=True)
        status, _, pieces = await chunks(client)
        assert (status, json.loads(pieces[0])) == (200, {"error": NOT_ONE})


async def test_stream_sends_one_event_per_response_as_they_come() -> None:
    async with running() as here:
        client, pending = await held(here, STREAM)
        respond(pending, 7)
        assert event(answer_of(7)) in await client.reader.readuntil(b"\n\n")
        respond(pending, 8, 9)
        pending.sink.respond(None, final=True)
        rest = await client.reader.readuntil(b"0\r\n\r\n")
        assert event(answer_of([8, 9])) in rest


async def test_stream_without_responses_is_empty() -> None:
    async with running() as here:
        client, pending = await held(here, STREAM)
        pending.sink.respond(None, final=True)
        status, headers, pieces = await chunks(client)
        assert (status, headers["content-type"], pieces) == (200, EVENTS, [])


async def test_first_response_sets_the_status() -> None:
    async with running() as here:
        client, pending = await held(here, STREAM)
        pending.sink.fail(InternalError("asked to fail"))
        status, headers, pieces = await chunks(client)
        assert (status, headers["content-type"]) == (400, EVENTS)
        assert pieces == [event({"error": "asked to fail"})]


async def test_error_behind_a_response_is_an_event() -> None:
    async with running() as here:
        client, pending = await held(here, STREAM)
        respond(pending, 1)
        pending.sink.fail(InvalidArgumentError("no more"))
        status, _, pieces = await chunks(client)
        assert (status, pieces) == (200, [event(answer_of(1)), event({"error": "no more"})])


async def test_stream_goes_on_after_an_error_that_is_not_the_end() -> None:
    async with running() as here:
        client, pending = await held(here, STREAM)
        pending.sink.fail(InvalidArgumentError("not this one"), final=False)
        respond(pending, 1)
        pending.sink.respond(None, final=True)
        status, _, pieces = await chunks(client)
        assert status == 400
        assert pieces == [event({"error": "not this one"}), event(answer_of(1))]


async def test_generate_counts_an_error_that_is_not_the_end_as_a_response() -> None:
    async with running() as here:
        client, pending = await held(here, GENERATE)
        pending.sink.fail(InvalidArgumentError("not this one"), final=False)
        respond(pending, 1)
        pending.sink.respond(None, final=True)
        status, _, pieces = await chunks(client)
        assert (status, json.loads(pieces[0])) == (400, {"error": NOT_ONE})


async def test_refusal_to_queue_is_an_ordinary_error() -> None:
    async with running() as here:
        client, pending = await held(here, STREAM)
        text = "[request id: <id_unknown>] Exceeds maximum queue size"
        pending.sink.fail(UnavailableError(text, Phase.ENQUEUE))
        answer = await client.answer()
        assert (answer.status, answer.headers["content-type"]) == (503, "application/json")
        assert answer.error == text


async def test_disconnect_cancels_a_stream_that_has_begun() -> None:
    async with running() as here:
        client, pending = await held(here, STREAM)
        respond(pending, 1)
        await client.reader.readuntil(b"\n\n")
        await client.close()
        await here.plane.wait_cancelled(pending)


async def test_a_stream_nobody_reads_is_cancelled_when_too_much_of_it_waits() -> None:
    async with running(HttpLimits(unread_bytes=1 << 20)) as here:
        _, pending = await held(here, STREAM)
        values = [123_456] * 1000
        for _ in range(5000):  # more than sockets hold
            respond(pending, *values)
        await here.plane.wait_cancelled(pending)


async def test_a_stream_is_cancelled_when_too_much_waits_for_the_answers_before_it() -> None:
    async with running(HttpLimits(unread_bytes=1 << 10)) as here:
        client, _ = await held(here, GENERATE)
        await client.send(post(STREAM, {"INPUT0": [5]}))
        await here.plane.wait_pending(2)
        for _ in range(100):
            respond(here.plane.pending[1], 5)
        await here.plane.wait_cancelled(here.plane.pending[1])


async def test_stream_behind_an_unanswered_request_waits_for_its_turn() -> None:
    async with running() as here:
        client, first = await held(here, GENERATE)
        await client.send(post(STREAM, {"INPUT0": [5]}))
        await here.plane.wait_pending(2)
        second = here.plane.pending[1]
        respond(second, 5)
        respond(first, 1, final=True)
        assert json.loads((await chunks(client))[2][0])["OUTPUT0"] == 1
        respond(second, 6, final=True)
        assert (await chunks(client))[2] == [event(answer_of(5)), event(answer_of(6))]


async def test_http10_stream_ends_with_the_connection() -> None:
    async with running() as here:
        client = await here.connect()
        body = json.dumps({"INPUT0": [3]}).encode()
        await client.send(request("POST", STREAM, body, version="1.0"))
        head, _, rest = (await client.rest()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.0 200")
        assert b"chunked" not in head
        assert rest.startswith(b"data: {")


@pytest.mark.parametrize(
    ("data", "status", "text"),
    [
        (post("/v2/models/nope/generate", {}), 404, "Request for unknown model: 'nope' is"),
        (request("GET", STREAM), 405, "Method Not Allowed"),
        (request("POST", GENERATE), 500, "failed to parse the request JSON buffer: The document"),
        (
            post(GENERATE, {"INPUT0": [1]}, ("Content-Encoding: gzip",)),
            400,
            "Unsupported content-encoding, only 'identity' is supported.",
        ),
    ],
)
async def test_wrong_request_is_answered_as_triton_does(
    data: bytes, status: int, text: str
) -> None:
    async with running() as here:
        answer = await (await here.connect()).call(data)
        assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
        assert answer.error.startswith(text)


@pytest.mark.parametrize("path", [GENERATE, STREAM])
async def test_input_given_twice_is_refused(path: str) -> None:
    async with running() as here:
        body = b'{"INPUT0": 1, "INPUT0": 2}'
        answer = await (await here.connect()).call(request("POST", path, body))
        assert (answer.status, answer.headers["content-type"]) == (400, "application/json")
        assert "input 'INPUT0' already exists in request" in answer.error


async def test_large_document_is_refused_whatever_its_header_length_says() -> None:
    async with running(max_input_bytes=1000) as here:
        headers = ("Inference-Header-Content-Length: 67108864",)
        sent = request("POST", GENERATE, b"x" * 100_000, headers)
        answer = await (await here.connect()).call(sent)
        assert answer.status == 400
        assert answer.error.startswith("request JSON size of 100000 bytes exceeds the maximum")
