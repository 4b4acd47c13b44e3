# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import asyncio
import base64

import numpy as np
import pytest
import tritonclient.http as httpclient

from backends.api.errors import InvalidArgumentError, NotFoundError, TritonError
from backends.api.model_config import ModelConfig
from deployments.http.kserve.servers import make_metrics_server
from deployments.http.server.first_use import unquoted
from deployments.supervision.memory_budget import MemoryBudget
from tests.support.http_plane import (
    FakePlane,
    add_sub,
    post,
    request,
    running,
    simple_config,
)

INFER = "/v2/models/simple/infer"
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
        ("GET", "/v2/manta/events", 200, JSON, None),
        ("GET", "/v2/manta/events?since=1790000000000000", 200, JSON, None),
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
        (
            "GET",
            "/v2/manta/events?since=-1",
            400,
            JSON,
            "query 'since': expected the id of an event, got '-1'",
        ),
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
        here.plane.is_ready = False
        answer = await client.call(request("GET", "/-/healthz"))
        assert (answer.status, answer.body) == (200, b"success")
        here.plane.draining = True
        answer = await client.call(request("GET", "/-/healthz"))
        assert answer.status == 503
        assert b"success" not in answer.body


async def test_server_whose_models_were_not_attempted_yet_is_not_healthy() -> None:
    async with running() as here:
        here.plane.has_started = False
        client = await here.connect()
        answer = await client.call(request("GET", "/-/healthz"))
        assert (answer.status, answer.body) == (503, b"starting")
        assert (await client.call(request("GET", "/v2/health/live"))).status == 200


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


@pytest.mark.parametrize(
    ("unknown", "shown"), [(NotFoundError, "your%20model"), (InvalidArgumentError, "your model")]
)
async def test_quoted_model_name_is_found(unknown: type[TritonError], shown: str) -> None:
    async with running() as here:
        here.plane.unknown = unknown
        config = simple_config()
        here.plane.add(ModelConfig("my model", input=config.input, output=config.output), add_sub)
        client = await here.connect()
        assert (await client.call(request("GET", "/v2/models/my%20model"))).status == 200
        answer = await client.call(request("GET", "/v2/models/your%20model"))
        assert answer.error == f"Request for unknown model: '{shown}' is not found"


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
            "Unable to parse 'unload_dependents': attempt to access JSON non-boolean as boolean",
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
    server = make_metrics_server(
        FakePlane(),
        budget=MemoryBudget(1 << 20),
        render_model_cache=lambda: b"manta_model_cache_hits_total 1\n",
    )
    port = await server.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(method, path, headers=("Connection: close",)))
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert f"Content-Type: {content_type}\r\n".encode() in head + b"\r\n"
    assert (b"nv_inference_count" in body) == (
        b"\nmanta_ingress_memory_limit_bytes 1048576\n" in body
    )
    assert (b"nv_inference_count" in body) == (b"\nmanta_model_cache_hits_total 1\n" in body)
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
