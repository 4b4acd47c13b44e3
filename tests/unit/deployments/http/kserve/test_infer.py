# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Inference over HTTP, from the request's head to the encoded answer."""

import gzip
import json
import struct
import zlib
from typing import Any

import numpy as np
import pytest

from backends.api.errors import Phase, UnavailableError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest, InferenceResponse, Tensor
from deployments.http.kserve.infer import parse_header_length
from deployments.tracing.tracer import HTTP
from tests.support.http_plane import (
    binary_request,
    identity,
    post,
    request,
    running,
    simple_body,
    simple_config,
)

INFER = "/v2/models/simple/infer"
FIRST = struct.pack("<16i", *range(16))
SECOND = struct.pack("<16i", *[1] * 16)
BOTH_BINARY = {
    "inputs": [
        {
            "name": f"INPUT{i}",
            "datatype": "INT32",
            "shape": [1, 16],
            "parameters": {"binary_data_size": 64},
        }
        for i in range(2)
    ],
    "parameters": {"binary_data_output": True},
}
TEXT, JSON = "text/plain", "application/json"


async def test_binary_request_gets_a_binary_answer() -> None:
    async with running() as here:
        answer = await (await here.connect()).call(
            binary_request(INFER, {**BOTH_BINARY, "id": "x"}, FIRST, SECOND)
        )
        length = int(answer.headers["inference-header-content-length"])
        assert json.loads(answer.body[:length])["id"] == "x"
        outputs = np.frombuffer(answer.body[length:], "i4").reshape(2, 16)
        assert outputs.tolist() == [list(range(1, 17)), list(range(-1, 15))]


async def test_raw_body_is_answered_in_binary() -> None:
    async with running() as here:
        answer = await (await here.connect()).call(
            request(
                "POST",
                "/v2/models/id_fp32/infer",
                bytes(12),
                ("Inference-Header-Content-Length: 0",),
            )
        )
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.body.endswith(bytes(12))


@pytest.mark.parametrize(
    ("message", "status", "content_type", "text"),
    [
        (
            request("POST", INFER),
            400,
            JSON,
            "[request id: <id_unknown>] Raw request must only have 1 input",
        ),
        (request("POST", INFER, b"{"), 500, JSON, "failed to parse the request JSON buffer: "),
        (post(INFER, {"inputs": []}), 400, JSON, "[request id: <id_unknown>] expected 2 inputs"),
        (
            request("POST", INFER, b"{}", ("Inference-Header-Content-Length: x",)),
            400,
            TEXT,
            "Unable to parse Inference-Header-Content-Length, got: x",
        ),
        (
            request("POST", INFER, b"{}", ("Content-Encoding: br",)),
            501,
            TEXT,
            "Unsupported compression type",
        ),
        (
            post(
                "/v2/models/id_fp32/infer",
                {
                    "inputs": [
                        {
                            "name": "INPUT0",
                            "datatype": "FP32",
                            "shape": [1, 1],
                            "parameters": {"shared_memory_region": "r"},
                        }
                    ]
                },
            ),
            404,
            JSON,
            "Unable to find shared memory region: 'r'",
        ),
        (
            post(
                INFER,
                simple_body(outputs=[{"name": "O", "parameters": {"shared_memory_region": "s"}}]),
            ),
            404,
            JSON,
            "Unable to find shared memory region: 's'",
        ),
    ],
)
async def test_wrong_infer_request_tells_how_far_it_got(
    message: bytes, status: int, content_type: str, text: str
) -> None:
    async with running() as here:
        answer = await (await here.connect()).call(message)
        assert (answer.status, answer.headers["content-type"]) == (status, content_type)
        assert answer.error.startswith(text)


async def test_unsupported_encoding_names_the_supported_ones() -> None:
    async with running() as here:
        answer = await (await here.connect()).call(
            request("POST", INFER, b"{}", ("Content-Encoding: br",))
        )
        assert answer.headers["accept-encoding"] == "gzip, deflate"


async def test_decoupled_model_cannot_be_asked_over_http() -> None:
    async with running() as here:
        here.plane.add(ModelConfig("stream", decoupled=True), identity)
        answer = await (await here.connect()).call(post("/v2/models/stream/infer", simple_body()))
        assert (answer.status, answer.headers["content-type"]) == (501, TEXT)
        assert answer.error == (
            "HTTP end point doesn't support models with decoupled transaction policy"
        )


@pytest.mark.parametrize(
    ("phase", "content_type"),
    [(Phase.ENQUEUE, JSON), (Phase.BATCH, TEXT), (Phase.UNSPECIFIED, TEXT)],
)
async def test_content_type_tells_refusals_from_failures(phase: Phase, content_type: str) -> None:
    # A model may say what it likes, even what a scheduler says.
    text = "[request id: <id_unknown>] Exceeds maximum queue size"

    def fail(_: InferenceRequest) -> list[Tensor]:
        raise UnavailableError(text, phase)

    async with running() as here:
        here.plane.add(simple_config(), fail)
        answer = await (await here.connect()).call(post(INFER, simple_body()))
        assert (answer.status, answer.headers["content-type"]) == (503, content_type)
        assert answer.error == text


@pytest.mark.parametrize("count", [0, 2])
async def test_model_must_respond_exactly_once(count: int) -> None:
    async with running() as here:
        here.plane.is_holding = True
        client = await here.connect()
        await client.send(post(INFER, simple_body()))
        await here.plane.wait_pending(1)
        sink = here.plane.pending[0].sink
        for _ in range(count):
            sink.respond(InferenceResponse("simple", "1"), final=False)
        sink.respond(None, final=True)
        answer = await client.answer()
        assert (answer.status, answer.error) == (500, f"expected a single response, got {count}")


async def test_response_that_cannot_be_encoded_is_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def wrong(_: InferenceRequest) -> list[Tensor]:
        return [Tensor("OUTPUT0", "NOPE", (1,), memoryview(b"a"))]

    async with running() as here:
        here.plane.add(simple_config(), wrong)
        answer = await (await here.connect()).call(post(INFER, simple_body()))
        assert answer.error == "failed to encode the response of model 'simple'"
        assert "failed to encode" in caplog.text


@pytest.mark.parametrize(
    ("coding", "squeeze", "restore"),
    [("gzip", gzip.compress, gzip.decompress), ("deflate", zlib.compress, zlib.decompress)],
)
async def test_bodies_are_compressed_as_asked(coding: str, squeeze: Any, restore: Any) -> None:
    async with running() as here:
        text = json.dumps(BOTH_BINARY).encode()
        headers = (
            f"Content-Encoding: {coding}",
            f"Accept-Encoding: {coding}",
            f"Inference-Header-Content-Length: {len(text)}",
        )
        body = squeeze(text + FIRST + SECOND)
        answer = await (await here.connect()).call(request("POST", INFER, body, headers))
        assert answer.headers["content-encoding"] == coding
        plain = restore(answer.body)
        length = int(answer.headers["inference-header-content-length"])
        assert json.loads(plain[:length])["model_name"] == "simple"
        assert len(plain) == length + 128


async def test_first_of_two_equal_headers_counts() -> None:
    async with running() as here:
        message = binary_request(
            INFER, BOTH_BINARY, FIRST, SECOND, extra=("Inference-Header-Content-Length: 3",)
        )
        assert (await (await here.connect()).call(message)).status == 200


@pytest.mark.parametrize(
    ("value", "length"), [(b"0", 0), (b"100", 100), (b" 7x", 7), (b"+7", 7), (b"0x10", 0)]
)
def test_header_length_is_read_as_by_stoi(value: bytes, length: int) -> None:
    assert parse_header_length(value, 100) == length


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"", "Unable to parse Inference-Header-Content-Length, got: "),
        (b"abc", "Unable to parse Inference-Header-Content-Length, got: abc"),
        (b"-1", r"inference header size should be in range \(0, 100\), got: -1"),
        (b"101", r"inference header size should be in range \(0, 100\), got: 101"),
        (b"9" * 20, "value is out of range"),
        (b"9" * 10_000, "value is out of range"),
        (b"2147483648", "value is out of range"),
    ],
)
def test_wrong_header_length_is_refused(value: bytes, text: str) -> None:
    with pytest.raises(Exception, match=text):
        parse_header_length(value, 100)


async def test_error_that_says_when_to_retry_has_a_retry_after_header() -> None:
    async with running() as here:
        here.plane.is_holding = True
        client = await here.connect()
        await client.send(post(INFER, simple_body()))
        await here.plane.wait_pending(1)
        here.plane.pending[0].sink.fail(UnavailableError("not now", retry_after_s=2.5))
        answer = await client.answer()
        assert (answer.status, answer.headers["retry-after"]) == (503, "3")


@pytest.mark.parametrize("path", [INFER, "/v2/models/simple/versions/1/infer"])
async def test_model_that_loads_with_its_first_use_answers_that_use(path: str) -> None:
    async with running() as here:
        here.plane.unread["simple"] = here.plane.models.pop("simple")
        client = await here.connect()
        answer = await client.call(post(path, simple_body()))
        assert (answer.status, here.plane.used) == (200, ["simple"])
        assert (await client.call(post(path, simple_body()))).status == 200
        assert here.plane.used == ["simple"]


@pytest.mark.parametrize("path", ["/v2/models/simple", "/v2/models/simple/config"])
async def test_metadata_and_config_load_a_model_that_was_never_loaded(path: str) -> None:
    async with running() as here:
        here.plane.unread["simple"] = here.plane.models.pop("simple")
        answer = await (await here.connect()).call(request("GET", path))
        assert (answer.status, answer.json["name"]) == (200, "simple")


async def test_a_model_that_was_never_loaded_is_ready_without_being_loaded() -> None:
    async with running() as here:
        here.plane.unread["simple"] = here.plane.models.pop("simple")
        answer = await (await here.connect()).call(request("GET", "/v2/models/simple/ready"))
        assert (answer.status, here.plane.used) == (200, [])


async def test_a_first_use_that_fails_is_answered_with_the_error_of_the_load() -> None:
    async with running() as here:
        here.plane.unread["simple"] = here.plane.models.pop("simple")
        here.plane.load_error = UnavailableError("failed to start model 'simple'", retry_after_s=4)
        answer = await (await here.connect()).call(post(INFER, simple_body()))
        assert (answer.status, answer.headers["retry-after"]) == (503, "4")
        assert answer.error == "failed to start model 'simple'"


@pytest.mark.parametrize("path", [INFER, "/v2/models/id_int64/generate"])
@pytest.mark.parametrize("is_on", [True, False])
async def test_the_plane_hears_how_a_request_came_while_tracing_is_on(
    path: str, is_on: bool
) -> None:
    async with running() as here:
        here.plane.tracer.is_on = is_on
        body = simple_body() if path == INFER else {"INPUT0": [1]}
        await (await here.connect()).call(post(path, body, ("X-Me: 1",)))
        arrival = here.plane.arrival
        assert (arrival is not None) is is_on
        if arrival is not None:
            assert arrival.front is HTTP
            assert 0 < arrival.began_ns <= arrival.received_ns
            assert (b"x-me", b"1") in [(name.lower(), value) for name, value in arrival.headers]
