# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import asyncio
import base64
import gzip
import json
import struct
import zlib
from typing import Any

import numpy as np
import pytest
import tritonclient.http as httpclient

from backends.api.errors import Phase, UnavailableError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest, InferenceResponse, Tensor
from deployments.http.kserve.application import make_metrics_server, unquoted
from deployments.http.kserve.infer import parse_header_length
from deployments.supervision.memory_budget import MemoryBudget
from tests.support.http_plane import (
    FakePlane,
    add_sub,
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
NOT_FOUND, NOT_ALLOWED = "Not Found", "Method Not Allowed"
UNKNOWN = "Request for unknown model: 'no_such' is not found"


@pytest.mark.parametrize(
    ("method", "path", "status", "content_type", "error"),
    [
        ("GET", "/v2/health/live", 200, TEXT, None),
        ("GET", "/v2/health/ready", 200, TEXT, None),
        ("GET", "/v2/health/live?a=1", 200, TEXT, None),
        ("GET", "http://host/v2/health/live", 200, TEXT, None),
        ("GET", "/-/healthz", 200, TEXT, None),
        ("GET", "/v2", 200, JSON, None),
        ("GET", "/v2?x=y", 200, JSON, None),
        ("GET", "/v2/models/simple", 200, JSON, None),
        ("GET", "/v2/models/simple/versions/1", 200, JSON, None),
        ("GET", "/v2/models/simple/ready", 200, TEXT, None),
        ("GET", "/v2/models/simple/config", 200, JSON, None),
        ("GET", "/v2/models/simple/stats", 200, JSON, None),
        ("GET", "/v2/models/simple/versions/1/stats", 200, JSON, None),
        ("GET", "/v2/models/stats", 200, JSON, None),
        ("GET", "/v2/systemsharedmemory/status", 200, JSON, None),
        ("GET", "/v2/cudasharedmemory/status", 200, JSON, None),
        ("POST", "/v2/repository/index", 200, JSON, None),
        ("POST", "/v2/repository/r/index", 200, JSON, None),
        ("POST", "/v2/repository/models/m/load", 200, JSON, None),
        ("POST", "/v2/repository/models/m/unload", 200, JSON, None),
        ("GET", "/", 404, TEXT, NOT_FOUND),
        ("GET", "/v2/", 404, TEXT, NOT_FOUND),
        ("GET", "//v2", 404, TEXT, NOT_FOUND),
        ("GET", "/V2", 404, TEXT, NOT_FOUND),
        ("GET", "/v2#frag", 404, TEXT, NOT_FOUND),
        ("GET", "/v2/health/li%76e", 404, TEXT, NOT_FOUND),
        ("GET", "/v2/x/../health/live", 404, TEXT, NOT_FOUND),
        ("GET", "/v2/models/simple/", 404, TEXT, NOT_FOUND),
        ("GET", "/v2/models/simple/versions/abc", 404, TEXT, NOT_FOUND),
        ("GET", "/v2/models/simple/versions/-1", 404, TEXT, NOT_FOUND),
        ("POST", INFER + "/", 404, TEXT, NOT_FOUND),
        ("POST", "/v2/health/live", 405, TEXT, NOT_ALLOWED),
        ("DELETE", "/v2/health/ready", 405, TEXT, NOT_ALLOWED),
        ("POST", "/v2/models/simple/ready", 405, TEXT, NOT_ALLOWED),
        ("GET", INFER, 405, TEXT, NOT_ALLOWED),
        ("POST", "/v2", 405, JSON, NOT_ALLOWED),
        ("POST", "/v2/models/simple", 405, JSON, NOT_ALLOWED),
        ("POST", "/v2/models/stats", 405, JSON, NOT_ALLOWED),
        ("GET", "/v2/repository/index", 405, JSON, NOT_ALLOWED),
        ("GET", "/v2/systemsharedmemory/region/r/register", 405, JSON, NOT_ALLOWED),
        ("GET", "/v2/models/no_such", 404, JSON, UNKNOWN),
        ("GET", "/v2/models/no_such/config", 404, JSON, UNKNOWN),
        ("GET", "/v2/models/no_such/ready", 400, TEXT, "Model version not ready"),
        ("POST", "/v2/models/no_such/infer", 404, TEXT, UNKNOWN),
        (
            "GET",
            "/v2/models/simple/versions/9",
            404,
            JSON,
            "Request for unknown model: 'simple' version 9 is not found",
        ),
        (
            "POST",
            "/v2/repository/r/models/m/load",
            501,
            JSON,
            "'repository_name' specification is not supported",
        ),
        (
            "GET",
            "/v2/cudasharedmemory/region/r/status",
            404,
            JSON,
            "Unable to find cuda shared memory region: 'r'",
        ),
        (
            "POST",
            "/v2/systemsharedmemory/region/r/register",
            501,
            JSON,
            "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to "
            "enable.",
        ),
    ],
)
async def test_route_answers_as_triton_does(
    method: str, path: str, status: int, content_type: str, error: str | None
) -> None:
    async with running() as here:
        answer = await (await here.connect()).call(request(method, path))
        assert (answer.status, answer.headers["content-type"]) == (status, content_type)
        if error is not None:
            assert answer.error == error


async def test_exiting_server_is_neither_live_nor_healthy() -> None:
    async with running() as here:
        here.plane.exiting = True
        client = await here.connect()
        for path in ("/v2/health/live", "/v2/health/ready"):
            answer = await client.call(request("GET", path))
            assert (answer.status, answer.error) == (503, "Server exiting")
        assert (await client.call(request("GET", "/-/healthz"))).status == 503


async def test_healthy_answer_holds_the_word_that_kuberay_looks_for() -> None:
    async with running() as here:
        client = await here.connect()
        answer = await client.call(request("GET", "/-/healthz"))
        assert (answer.status, answer.body) == (200, b"success")
        here.plane.draining = True
        answer = await client.call(request("GET", "/-/healthz"))
        assert answer.status == 503
        assert b"success" not in answer.body


async def test_server_that_is_not_ready_says_400() -> None:
    async with running() as here:
        here.plane.is_ready = False
        answer = await (await here.connect()).call(request("GET", "/v2/health/ready"))
        assert (answer.status, answer.body) == (400, b"")


@pytest.mark.parametrize(
    ("in_path", "plain"),
    [
        ("si%20mple", "si mple"),
        ("a%2Fb", "a/b"),
        ("%C3%A9", "\u00e9"),
        ("%73imple", ""),
        ("a%2fb", ""),
        ("simple", ""),
        ("100%", ""),
    ],
)
def test_only_names_a_client_would_quote_are_unquoted(in_path: str, plain: str) -> None:
    assert unquoted(in_path) == plain


async def test_quoted_model_name_is_found() -> None:
    async with running() as here:
        config = simple_config()
        here.plane.add(ModelConfig("my model", input=config.input, output=config.output), add_sub)
        client = await here.connect()
        assert (await client.call(request("GET", "/v2/models/my%20model"))).status == 200
        answer = await client.call(request("GET", "/v2/models/your%20model"))
        assert answer.error == "Request for unknown model: 'your%20model' is not found"


async def test_repository_requests_reach_the_controller() -> None:
    async with running() as here:
        client = await here.connect()
        load = {
            "parameters": {"config": "{}", "file:1/m.py": base64.b64encode(b"code").decode()},
        }
        await client.call(post("/v2/repository/index", {"ready": True}))
        await client.call(post("/v2/repository/models/m/load", load))
        await client.call(
            post("/v2/repository/models/m/unload", {"parameters": {"unload_dependents": True}})
        )
        assert here.plane.repository.calls == [
            ("index", True),
            ("load", "m", {"config": "{}", "file:1/m.py": b"code"}),
            ("unload", "m", True),
        ]


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("index", b"{", 500, "failed to parse the request JSON buffer: Missing a name"),
        ("index", b'{"ready":1}', 400, "Invalid value for 'ready': expected a boolean"),
        (
            "index",
            b'{"ready":' + b"[" * 100_000 + b"true" + b"]" * 100_000 + b"}",
            400,
            "Invalid value for 'ready': expected a boolean",
        ),
        (
            "index",
            b'{"other":' + b"[" * 9999 + b"]" * 9999 + b"}",
            400,
            "JSON nesting depth exceeds",
        ),
        ("models/m/load", b'{"parameters":{"config":1}}', 500, "attempt to access JSON non-string"),
        ("models/m/load", b'{"parameters":1}', 500, "attempt to get members for non-object"),
        ("models/m/load", b'{"parameters":{"file:a":"x"}}', 400, "the content of load parameter"),
        (
            "models/m/unload",
            b'{"parameters":{"unload_dependents":1}}',
            500,
            "attempt to access JSON non-boolean as boolean",
        ),
    ],
)
async def test_bad_repository_request_is_refused(
    path: str, body: bytes, status: int, text: str
) -> None:
    async with running() as here:
        answer = await (await here.connect()).call(request("POST", f"/v2/repository/{path}", body))
        assert answer.status == status
        assert answer.error.startswith(text)


async def test_failing_route_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as here:
        here.plane.server_metadata = None  # type: ignore[assignment, method-assign]
        here.plane.statistics = None  # type: ignore[assignment, method-assign]
        client = await here.connect()
        for path in ("/v2", "/v2/models/stats"):
            answer = await client.call(request("GET", path))
            assert answer.status == 500
        assert "failed to answer" in caplog.text


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


@pytest.mark.parametrize(
    ("method", "path", "status", "content_type"),
    [
        ("GET", "/metrics", 200, "text/plain; charset=utf-8"),
        ("GET", "/metrics/", 200, "text/plain; charset=utf-8"),
        ("GET", "/nope", 200, "text/plain; charset=utf-8"),
        ("POST", "/metrics", 405, "text/plain"),
    ],
)
async def test_metrics_port_serves_one_page(
    method: str, path: str, status: int, content_type: str
) -> None:
    server = make_metrics_server(FakePlane(), budget=MemoryBudget(1 << 20))
    port = await server.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(method, path, headers=("Connection: close",)))
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert f"Content-Type: {content_type}\r\n".encode() in head + b"\r\n"
    assert (b"nv_inference_count" in body) == (
        b"\nmanta_ingress_memory_limit_bytes 1048576\n" in body
    )
    assert (
        (b"nv_inference_count" in body) == path.startswith("/metrics") == (status == 200)
        or (path == "/nope" and not body)
        or status == 405
    )
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_drained(5)


async def test_a_model_that_says_no_is_not_ready() -> None:
    async with running() as here:
        client = await here.connect()
        ready = request("GET", "/v2/models/simple/ready")
        assert (await client.call(ready)).status == 200
        here.plane.models["simple"].says_ready = False
        answer = await client.call(ready)
        assert (answer.status, answer.error) == (400, "Model version not ready")


async def test_stock_python_client_is_served() -> None:
    def ask(port: int) -> None:
        client = httpclient.InferenceServerClient(f"127.0.0.1:{port}")
        try:
            assert client.is_server_live()
            assert client.is_server_ready()
            assert client.is_model_ready("simple")
            assert not client.is_model_ready("no_such")
            assert client.get_server_metadata()["name"] == "triton"
            assert client.get_model_repository_index()[0]["name"] == "simple"
            client.load_model("m")
            client.unload_model("m")
            inputs = [httpclient.InferInput(f"INPUT{i}", [1, 16], "INT32") for i in range(2)]
            values = np.arange(16, dtype=np.int32).reshape(1, 16)
            for is_binary in (True, False):
                for each in inputs:
                    each.set_data_from_numpy(values, binary_data=is_binary)
                outputs = [httpclient.InferRequestedOutput("OUTPUT0", binary_data=is_binary)]
                for coding in (None, "gzip", "deflate"):
                    result = client.infer(
                        "simple",
                        inputs,
                        outputs=outputs,
                        request_id="r",
                        request_compression_algorithm=coding,
                        response_compression_algorithm=coding,
                    )
                    assert (result.as_numpy("OUTPUT0") == 2 * values).all()
                result = client.infer("simple", inputs)
                assert (result.as_numpy("OUTPUT1") == 0).all()
            text = np.array([["a", "h\u00e9"]], dtype=np.object_)
            given = httpclient.InferInput("INPUT0", [1, 2], "BYTES")
            given.set_data_from_numpy(text)
            echoed = client.infer("id_bytes", [given]).as_numpy("OUTPUT0")
            assert [each.decode() for each in echoed[0]] == ["a", "h\u00e9"]
        finally:
            client.close()

    async with running() as here:
        await asyncio.to_thread(ask, here.port)


LOAD = "/v2/repository/models/m/load"


@pytest.mark.parametrize("headers", [(), ("Content-Encoding: gzip",)])
@pytest.mark.parametrize("size", [2000, 100_000])
async def test_large_body_of_a_load_is_refused(size: int, headers: tuple[str, ...]) -> None:
    async with running(max_input_bytes=1000) as here:
        client = await here.connect()
        answer = await client.call(request("POST", LOAD, b"x" * size, headers))
        assert answer.status == 400
        assert answer.error == (
            f"request JSON size of {size} bytes exceeds the maximum allowed input size of 1000 "
            "bytes. Use --http-max-input-size to increase the limit."
        )


async def test_body_beyond_every_limit_is_told_the_limit_of_its_route() -> None:
    async with running() as here:
        client = await here.connect()
        answer = await client.call(request("POST", LOAD, headers=("Content-Length: 2863312000",)))
        assert answer.error.startswith("request JSON size of 2863312000 bytes exceeds the maximum")
