# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from backends.api.request import InferenceResponse
from deployments.http.server.host import HttpLimits
from tests.support.http_plane import (
    INFER,
    LIVE,
    chunked,
    identity_config,
    large_request,
    post,
    request,
    running,
    simple_body,
)


@pytest.mark.parametrize("piece_bytes", [0, 10, 1])
async def test_request_in_pieces_is_answered(piece_bytes: int) -> None:
    async with running() as here:
        client = await here.connect()
        await client.send(post(INFER, simple_body(id="a")), piece_bytes)
        answer = await client.answer()
        assert answer.status == 200
        assert answer.json["outputs"][0]["data"] == [2 * i for i in range(16)]


async def test_many_requests_whose_head_comes_alone_are_not_one_large_head() -> None:
    async with running() as here:
        client = await here.connect()
        whole = post(INFER, simple_body(), headers=("Expect: 100-continue",))
        cut = whole.index(b"\r\n\r\n") + 4
        for _ in range(2 * 8192 // cut):
            await client.send(whole[:cut])
            assert (await client.answer()).status == 100  # the head was read by itself
            await client.send(whole[cut:])
            assert (await client.answer()).status == 200


@pytest.mark.parametrize("piece_bytes", [0, 7])
async def test_chunked_request_is_answered(piece_bytes: int) -> None:
    async with running() as here:
        client = await here.connect()
        await client.send(chunked(json.dumps(simple_body()).encode(), 40), piece_bytes)
        assert (await client.answer()).json["model_name"] == "simple"


async def test_pipelined_answers_keep_the_order_of_their_requests() -> None:
    async with running() as here:
        here.plane.is_holding = True
        client = await here.connect()
        posts = b"".join(post(INFER, simple_body(id=str(i))) for i in range(4))
        await client.send(posts + LIVE)
        await here.plane.wait_pending(4)
        assert here.server.inflight_count == 5
        for pending in reversed(here.plane.pending):
            pending.finish()
        ids = [(await client.answer()).json["id"] for _ in range(4)]
        assert ids == ["0", "1", "2", "3"]
        assert (await client.answer()).status == 200
        assert here.server.inflight_count == 0


async def test_connection_with_a_full_pipeline_is_not_read() -> None:
    async with running(HttpLimits(pipeline_depth=2)) as here:
        here.plane.is_holding = True
        client = await here.connect()
        await client.send(post(INFER, simple_body(id="0")) + post(INFER, simple_body(id="1")))
        await here.plane.wait_pending(2)
        await client.send(post(INFER, simple_body(id="2")))
        other = await here.connect()
        assert (await other.call(LIVE)).status == 200
        assert len(here.plane.pending) == 2
        here.plane.pending[0].finish()
        await here.plane.wait_pending(3)
        for pending in here.plane.pending[1:]:
            pending.finish()
        assert [(await client.answer()).json["id"] for _ in range(3)] == ["0", "1", "2"]


async def test_large_body_is_received_into_aligned_slab_memory() -> None:
    async with running() as here:
        client = await here.connect()
        message, tensor = large_request()
        await client.send(message + LIVE)
        answer = await client.answer()
        assert (await client.answer()).status == 200
        length = int(answer.headers["inference-header-content-length"])
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.body[length:] == tensor
        body_bytes = len(message) - message.index(b"\r\n\r\n") - 4
        assert here.plane.slabs.allocated == [(body_bytes, body_bytes - len(tensor))]


async def test_large_body_goes_to_ordinary_memory_when_slabs_are_full() -> None:
    async with running() as here:
        here.plane.slabs.is_full = True
        client = await here.connect()
        message, tensor = large_request()
        answer = await client.call(message)
        assert answer.body.endswith(tensor)


async def test_large_body_in_odd_pieces_is_whole() -> None:
    async with running() as here:
        client = await here.connect()
        message, tensor = large_request()
        await client.send(message, 70_001)
        assert (await client.answer()).body.endswith(tensor)


async def test_continue_is_sent_before_the_body() -> None:
    async with running() as here:
        client = await here.connect()
        message = post(INFER, simple_body(), headers=("Expect: 100-continue",))
        head, _, body = message.partition(b"\r\n\r\n")
        await client.send(head + b"\r\n\r\n")
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await client.call(body)).status == 200


async def test_body_over_the_limit_is_refused_before_it_is_sent() -> None:
    async with running(max_input_bytes=1000) as here:
        client = await here.connect()
        head = request("POST", INFER, headers=("Content-Length: 100000", "Expect: 100-continue"))
        answer = await client.call(head)
        assert answer.status == 400
        assert answer.error.startswith(
            "request JSON size of 100000 bytes exceeds the maximum allowed input size of 1000 "
            "bytes."
        )
        assert answer.headers["connection"] == "close"
        assert await client.rest() == b""


async def test_answer_to_a_refused_body_survives_the_body() -> None:
    async with running(HttpLimits(body_bytes=100_000)) as here:
        client = await here.connect()
        await client.send(large_request()[0])
        answer = await client.answer()
        assert answer.error.endswith("exceeds the maximum of 100000 bytes")


async def test_chunked_body_over_the_limit_is_refused() -> None:
    async with running(max_input_bytes=1000) as here:
        client = await here.connect()
        await client.send(chunked(bytes(200_000), 50_000))
        assert (await client.answer()).error.startswith("request JSON size of ")
        assert await client.rest() == b""


async def test_too_many_chunks_are_refused() -> None:
    async with running(HttpLimits(chunk_count=4)) as here:
        client = await here.connect()
        assert (await client.call(chunked(json.dumps(simple_body()).encode(), 100))).status == 200
        await client.send(chunked(json.dumps(simple_body()).encode(), 50))
        assert (await client.answer()).error == (
            "Chunked request body exceeds maximum of 4 non-empty chunks. Send fewer or larger HTTP "
            "chunks."
        )
        assert await client.rest() == b""


async def test_requests_before_a_malformed_one_are_answered() -> None:
    async with running() as here:
        here.plane.is_holding = True
        client = await here.connect()
        await client.send(post(INFER, simple_body()) + b"garbage\r\n\r\n")
        await here.plane.wait_pending(1)
        here.plane.pending[0].finish()
        assert (await client.answer()).status == 200
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (400, "close")
        assert await client.rest() == b""


async def test_head_that_begins_behind_many_requests_is_not_too_large() -> None:
    async with running() as here:
        client = await here.connect()
        many = 40 * request("GET", "/v2/health/live", headers=("X-Pad: " + "a" * 400,))
        await client.send(many + LIVE[:-4])
        for _ in range(40):
            assert (await client.answer()).status == 200
        assert (await client.call(LIVE[-4:])).status == 200


@pytest.mark.parametrize(
    "part",
    [b"5;x=" + b"a" * 100_000, b"0\r\nX-Trailer: " + b"a" * 100_000],
    ids=["chunk", "trailer"],
)
async def test_endless_chunk_extension_or_trailer_is_refused(part: bytes) -> None:
    async with running() as here:
        client = await here.connect()
        await client.send(request("POST", INFER, headers=("Transfer-Encoding: chunked",)))
        await client.send(part, 4096)
        assert (await client.answer()).status == 431
        assert await client.rest() == b""


async def test_trailer_does_not_count_as_a_header() -> None:
    async with running() as here:
        client = await here.connect()
        message = chunked(json.dumps(simple_body()).encode(), 50)
        answer = await client.call(message[:-2] + b"Content-Encoding: br\r\n\r\n")
        assert answer.status == 200


async def test_unknown_method_is_not_allowed() -> None:
    async with running() as here:
        client = await here.connect()
        answer = await client.call(request("FOO", "/v2"))
        assert (answer.status, answer.error) == (405, "Method Not Allowed")


@pytest.mark.parametrize(
    ("version", "headers", "is_kept"),
    [
        ("1.1", (), True),
        ("1.1", ("Connection: close",), False),
        ("1.0", (), False),
        ("1.0", ("Connection: keep-alive",), True),
    ],
)
async def test_connection_is_kept_as_asked(
    version: str, headers: tuple[str, ...], is_kept: bool
) -> None:
    async with running() as here:
        client = await here.connect()
        asked = request("GET", "/v2/health/live", headers=headers, version=version)
        answer = await client.call(asked)
        assert answer.version == f"HTTP/{version}"
        if is_kept:
            assert (await client.call(asked)).status == 200
        else:
            assert await client.rest() == b""


async def test_requests_behind_a_closing_one_are_dropped() -> None:
    async with running() as here:
        client = await here.connect()
        await client.send(request("GET", "/v2", headers=("Connection: close",)) + LIVE)
        assert (await client.answer()).json["name"] == "triton"
        assert await client.rest() == b""


async def test_head_is_answered_without_a_body() -> None:
    async with running() as here:
        client = await here.connect()
        await client.send(request("HEAD", "/v2/health/live") + LIVE)
        assert (await client.answer(is_head=True)).status == 405
        assert (await client.answer()).status == 200


async def test_upgrade_is_declined() -> None:
    async with running() as here:
        client = await here.connect()
        upgrade = (
            "Connection: Upgrade, HTTP2-Settings",
            "Upgrade: h2c",
            "HTTP2-Settings: AAMAAABk",
        )
        answer = await client.call(request("GET", "/v2", headers=upgrade))
        assert (answer.status, answer.version) == (200, "HTTP/1.1")


@pytest.mark.slow
@pytest.mark.parametrize("piece_bytes", [0, 10, 1])
@pytest.mark.parametrize("is_large", [False, True])
async def test_body_of_a_request_that_asks_for_an_upgrade_is_taken(
    piece_bytes: int, *, is_large: bool
) -> None:
    upgrade = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    if is_large:
        asked, tensor = large_request(100_000 if piece_bytes != 1 else 20_000, upgrade)
    else:
        asked, tensor = post(INFER, simple_body(id="a"), headers=upgrade), b""
    async with running() as here:
        client = await here.connect()
        await client.send(asked, piece_bytes)
        answer = await client.answer()
    assert answer.status == 200
    assert answer.body.endswith(tensor)


async def test_disconnect_cancels_what_is_in_flight() -> None:
    async with running() as here:
        here.plane.is_holding = True
        client = await here.connect()
        await client.send(post(INFER, simple_body()) * 2)
        await here.plane.wait_pending(2)
        await client.close()
        for pending in here.plane.pending:
            await here.plane.wait_cancelled(pending)
        assert here.server.connection_count == 0
        for pending in here.plane.pending:
            pending.finish()


async def test_request_before_a_half_close_is_cancelled() -> None:
    async with running() as here:
        here.plane.is_holding = True
        client = await here.connect()
        await client.send(post(INFER, simple_body()))
        await here.plane.wait_pending(1)
        client.writer.write_eof()
        await here.plane.wait_cancelled(here.plane.pending[0])


async def test_peer_that_does_not_read_its_answers_is_closed() -> None:
    async with running(HttpLimits(write_idle_timeout_s=3)) as here:
        here.plane.is_holding = True
        client = await here.connect()
        await client.send(large_request()[0])
        await here.plane.wait_pending(1)
        pending = here.plane.pending[0]
        (given,) = pending.request.inputs
        output = identity_config("FP32").output[0]
        huge = memoryview(bytes(64 << 20))
        tensor = type(given)(output.name, "FP32", (1, 16 << 20), huge)
        pending.sink.respond(InferenceResponse("id_fp32", "1", "", [tensor]), final=True)
        for _ in range(4):
            here.server.sweep()
        assert await here.server.wait_drained(5)
        assert here.server.budget.used_bytes == 0


# The transports of the two loops differ in what a protocol may do when.
@pytest.mark.parametrize(
    "scenario",
    [
        test_pipelined_answers_keep_the_order_of_their_requests,
        test_connection_with_a_full_pipeline_is_not_read,
        test_large_body_is_received_into_aligned_slab_memory,
        test_large_body_in_odd_pieces_is_whole,
        test_body_over_the_limit_is_refused_before_it_is_sent,
        test_answer_to_a_refused_body_survives_the_body,
        test_chunked_body_over_the_limit_is_refused,
        test_requests_before_a_malformed_one_are_answered,
        test_requests_behind_a_closing_one_are_dropped,
        test_upgrade_is_declined,
        test_disconnect_cancels_what_is_in_flight,
        test_request_before_a_half_close_is_cancelled,
        test_peer_that_does_not_read_its_answers_is_closed,
    ],
)
def test_uvloop_behaves_like_asyncio(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
