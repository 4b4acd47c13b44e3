# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about the HTTP routes of traces, logs and shared memory, restrictions and forwarding."""

import base64
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends.api.errors import InvalidArgumentError
from deployments.http.kserve.servers import make_http_server
from deployments.shared_memory.cuda import CudaMaps
from tests.support.host_cuda import HostDriver
from tests.support.http_plane import (
    Client,
    FakePlane,
    Running,
    post,
    request,
    running,
    simple_body,
)
from tests.support.memory_plane import settings_plane

LOG = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}
TRACE = {
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "",
    "trace_mode": "triton",
}
SYSTEM = "/v2/systemsharedmemory"
INFER = "/v2/models/simple/infer"


@pytest.fixture
def key() -> Iterator[str]:
    name = f"manta-test-{uuid.uuid4().hex}"
    path = Path("/dev/shm", name)
    path.write_bytes(bytes(8192))
    yield "/" + name
    path.unlink(missing_ok=True)


def allow_memory(here: Running, cuda: CudaMaps | None = None) -> None:
    plane = here.plane
    plane.settings = settings_plane(
        plane.control, plane.resolve, allow_client_memory=True, cuda=cuda
    )


async def ask(client: Client, path: str, body: Any = None) -> tuple[int, Any]:
    answer = await client.call(request("GET", path) if body is None else post(path, body))
    assert answer.headers["content-type"] == "application/json"
    return answer.status, answer.json if answer.body else None


async def test_log_settings_are_shown_and_changed() -> None:
    async with running() as here:
        client = await here.connect()
        assert await ask(client, "/v2/logging") == (200, LOG)
        change = {"log_info": False, "log_verbose_level": 2, "log_format": "ISO8601", "nope": 1}
        wanted = LOG | {"log_info": False, "log_verbose_level": 2, "log_format": "ISO8601"}
        assert await ask(client, "/v2/logging", change) == (200, wanted)
        assert await ask(client, "/v2/logging") == (200, wanted)
        assert await ask(client, "/v2/logging", {"log_info": None}) == (200, wanted)


async def test_trace_settings_of_a_model_follow_those_of_the_server() -> None:
    async with running() as here:
        client = await here.connect()
        model = "/v2/models/simple/trace/setting"
        assert await ask(client, model, {"trace_rate": "7"}) == (200, TRACE | {"trace_rate": "7"})
        assert await ask(client, "/v2/trace/setting", {"trace_count": "3"}) == (
            200,
            TRACE | {"trace_count": "3"},
        )
        wanted = TRACE | {"trace_rate": "7", "trace_count": "3"}
        assert await ask(client, model) == (200, wanted)
        wanted["trace_rate"] = "1000"
        assert await ask(client, model, {"trace_rate": None}) == (200, wanted)


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("trace/setting", {"trace_rate": 5}, 500, "attempt to access JSON non-string as string"),
        ("trace/setting", {"trace_rate": "x"}, 400, "Unable to parse 'trace_rate', got: x"),
        (
            "trace/setting",
            {"trace_rate": "99999999999999999999"},
            400,
            "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: "
            "99999999999999999999",
        ),
        (
            "trace/setting",
            {"trace_count": "-2"},
            400,
            "Unable to parse 'trace_count'. Expecting value >= -1, got:-2",
        ),
        (
            "trace/setting",
            {"trace_level": ["OFF", "TIMESTAMPS"]},
            400,
            "Expect only one trace level 'OFF' is specified",
        ),
        (
            "trace/setting",
            {"trace_level": ["TIMESTAMPS"]},
            400,
            "Attempting to set invalid trace setting :trace file name is not given",
        ),
        (
            "trace/setting",
            {"trace_file": None},
            501,
            "trace file location can not be updated through network protocol",
        ),
        ("models/nope/trace/setting", {}, 400, "Request for unknown model : nope"),
        ("models/nope/trace/setting", None, 400, "Request for unknown model : nope"),
        ("logging", {"log_info": 1}, 500, "attempt to access JSON non-boolean as boolean"),
        (
            "logging",
            {"log_verbose_level": -1},
            500,
            "attempt to access JSON non-unsigned-integer as unsigned-integer",
        ),
        ("logging", {"log_format": "z"}, 503, "invalid argument for --log_format, got: z"),
        (
            "logging",
            {"log_file": "x"},
            501,
            "log file location can not be updated through network protocol",
        ),
    ],
)
async def test_wrong_settings_have_the_text_of_triton(
    path: str, body: Any, status: int, text: str
) -> None:
    async with running() as here:
        answer = await ask(await here.connect(), f"/v2/{path}", body)
        assert answer == (status, {"error": text})
        assert here.plane.control.settings.trace == here.plane.control.settings.trace_at_start


@pytest.mark.parametrize(
    ("key", "text", "limits"),
    [
        ("trace_rate", "2147483648", "0, 4294967295"),
        ("log_frequency", "-2147483649", "0, 4294967295"),
        ("trace_count", "2147483648", "-1, 2147483647"),
    ],
)
async def test_trace_number_that_is_no_int_is_refused(key: str, text: str, limits: str) -> None:
    async with running() as here:
        status, answer = await ask(await here.connect(), "/v2/trace/setting", {key: text})
    assert status == 400
    assert answer["error"] == (
        f"Unable to parse '{key}', value is out of range [ {limits} ], got: {text}"
    )


async def test_negative_trace_rate_wraps() -> None:
    async with running() as here:
        _, trace = await ask(await here.connect(), "/v2/trace/setting", {"trace_rate": "-1"})
        assert trace["trace_rate"] == "4294967295"


async def test_other_methods_are_not_allowed() -> None:
    async with running() as here:
        client = await here.connect()
        for path in ("/v2/logging", "/v2/trace/setting", f"{SYSTEM}/region/r/register"):
            assert (await client.call(request("PUT", path))).status == 405


async def test_region_is_registered_shown_and_unregistered(key: str) -> None:
    async with running() as here:
        allow_memory(here)
        client = await here.connect()
        region = {"key": key, "offset": 4096, "byte_size": 128}
        assert (await client.call(post(f"{SYSTEM}/region/r/register", region))).body == b""
        shown = [{"name": "r", **region}]
        assert await ask(client, f"{SYSTEM}/status") == (200, shown)
        assert await ask(client, f"{SYSTEM}/region/r/status") == (200, shown)
        again = await ask(client, f"{SYSTEM}/region/r/register", region)
        assert again == (400, {"error": "shared memory region 'r' already in manager"})
        for _ in range(2):
            assert (await client.call(post(f"{SYSTEM}/region/r/unregister", {}))).status == 200
        assert await ask(client, f"{SYSTEM}/status") == (200, [])


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"byte_size": 8}, 400, "Shared memory register request has no 'key' field"),
        ({"key": "/k"}, 400, "Shared memory register request has no 'byte_size' field"),
        ({"key": 5, "byte_size": 8}, 500, "attempt to access JSON non-string as string"),
        ({"key": "/absent-x", "byte_size": 8}, 500, "Unable to open shared memory region: '/abs"),
        (
            {"key": "/../x", "byte_size": 8},
            400,
            "cannot register shared memory region 'r' - invalid shm key '/../x'",
        ),
        (
            {"key": "..", "byte_size": 8},
            400,
            "cannot register shared memory region 'r' - invalid shm key '..'",
        ),
        (
            {"key": "/triton_python_backend_shm_region_1", "byte_size": 8},
            400,
            "cannot register shared memory region 'r' with key '/triton_python_backend_shm_region",
        ),
    ],
)
async def test_wrong_registration_has_the_text_of_triton(body: Any, status: int, text: str) -> None:
    async with running() as here:
        allow_memory(here)
        got, answer = await ask(await here.connect(), f"{SYSTEM}/region/r/register", body)
        assert got == status
        assert answer["error"].startswith(text)


@pytest.mark.parametrize(("offset", "size"), [(0, 8193), (8192, 1), (4096, 4097)])
async def test_region_has_to_fit_into_its_object(key: str, offset: int, size: int) -> None:
    async with running() as here:
        allow_memory(here)
        body = {"key": key, "offset": offset, "byte_size": size}
        answer = await ask(await here.connect(), f"{SYSTEM}/region/r/register", body)
        text = "failed to register shared memory region 'r': invalid args"
        assert answer == (400, {"error": text})


async def test_cuda_region_is_registered_shown_and_unregistered(key: str) -> None:
    cuda = "/v2/cudasharedmemory"
    async with running() as here:
        driver = HostDriver({bytes(64): bytearray(128)})
        allow_memory(here, CudaMaps(lambda: driver))
        client = await here.connect()
        handle = {"b64": base64.b64encode(bytes(64)).decode()}
        region = {"device_id": 1, "byte_size": 128}
        body = {"raw_handle": handle, **region}
        assert (await client.call(post(f"{cuda}/region/r/register", body))).status == 200
        shown = [{"name": "r", **region}]
        assert await ask(client, f"{cuda}/status") == (200, shown)
        assert await ask(client, f"{cuda}/region/r/status") == (200, shown)
        taken = (400, {"error": "shared memory region 'r' already in manager"})
        assert await ask(client, f"{cuda}/region/r/register", body) == taken
        system = {"key": key, "byte_size": 8}
        assert await ask(client, f"{SYSTEM}/region/r/register", system) == taken
        assert await ask(client, f"{SYSTEM}/status") == (200, [])
        kind = "The region named 'r' is registered as CUDA shared memory, not system shared memory"
        assert await ask(client, f"{SYSTEM}/region/r/status") == (404, {"error": kind})
        await client.call(post(f"{SYSTEM}/unregister", {}))
        assert await ask(client, f"{cuda}/status") == (200, shown)
        assert (await client.call(post(f"{cuda}/region/r/unregister", {}))).status == 200
        gone = (404, {"error": "Unable to find cuda shared memory region: 'r'"})
        assert await ask(client, f"{cuda}/region/r/status") == gone


async def test_malformed_cuda_regions_are_refused() -> None:
    async with running() as here:
        allow_memory(here)
        client = await here.connect()
        cuda = "/v2/cudasharedmemory"
        handle = {"raw_handle": {"b64": "A" * 85 + "="}, "device_id": 0, "byte_size": 8}
        for body, text in (
            ({"byte_size": 8}, "Shared memory register request has no 'raw_handle' field"),
            (
                handle | {"raw_handle": {"b64": "AAAA"}},
                "'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t",
            ),
        ):
            answer = await ask(client, f"{cuda}/region/r/register", body)
            assert answer == (400, {"error": text})
        assert await ask(client, f"{cuda}/status") == (200, [])
        assert (await client.call(post(f"{cuda}/unregister", {}))).status == 200


async def test_tensors_in_shared_memory_make_a_round_trip(key: str) -> None:
    memory = np.memmap(f"/dev/shm{key}", np.int32, "r+")
    memory[:16] = np.arange(16)
    memory[16:32] = 1
    async with running() as here:
        allow_memory(here)
        client = await here.connect()
        body = {"key": key, "byte_size": 8192}
        assert (await client.call(post(f"{SYSTEM}/region/r/register", body))).status == 200
        where = [{"shared_memory_region": "r", "shared_memory_byte_size": 64} for _ in range(3)]
        where[1]["shared_memory_offset"] = 64
        where[2]["shared_memory_offset"] = 4096
        inputs = [
            {"name": f"INPUT{i}", "datatype": "INT32", "shape": [1, 16], "parameters": where[i]}
            for i in range(2)
        ]
        outputs = [{"name": "OUTPUT0", "parameters": where[2]}, {"name": "OUTPUT1"}]
        status, answer = await ask(client, INFER, {"inputs": inputs, "outputs": outputs})
        assert status == 200
        assert answer["outputs"][0] == {"name": "OUTPUT0", "datatype": "INT32", "shape": [1, 16]}
        assert answer["outputs"][1]["data"] == list(range(-1, 15))
        assert memory[1024:1040].tolist() == list(range(1, 17))
        small = {"shared_memory_region": "r", "shared_memory_byte_size": 32}
        outputs = [{"name": "OUTPUT0", "parameters": small}]
        refused = await client.call(post(INFER, {"inputs": inputs, "outputs": outputs}))
        assert (refused.status, refused.error) == (
            500,
            "shared memory size specified with the request for output 'OUTPUT0' (32 bytes) should "
            "be at least 64 bytes to hold the results",
        )


# Restrictions and forwarding


async def serve(**options: Any) -> Running:
    plane = FakePlane()
    server = make_http_server(plane, **options)
    return Running(plane, server, await server.start("127.0.0.1", 0))


async def stop(here: Running) -> None:
    for client in here.clients:
        await client.close()
    here.server.close()
    await here.server.wait_drained(5)


async def test_restricted_api_needs_its_header_before_anything_else() -> None:
    here = await serve(restrictions=((("inference", "health"), "X-Key", "s3cret"),))
    try:
        client = await here.connect()
        for data in (
            post(INFER, simple_body()),
            request("GET", INFER),
            post(INFER, simple_body(), ("X-Key: other",)),
            request("GET", "/v2/health/live"),
        ):
            answer = await client.call(data)
            assert (answer.status, answer.error) == (
                403,
                "This API is restricted, expecting header 'X-Key'",
            )
        answer = await client.call(post(INFER, simple_body(), ("x-key: s3cret",)))
        assert answer.status == 200
        assert (await client.call(request("GET", "/v2"))).status == 200
        assert (await client.call(request("GET", "/nope"))).status == 404
    finally:
        await stop(here)


async def test_matching_headers_become_parameters_of_the_request() -> None:
    here = await serve(header_forward_pattern="^x-(user|tag)$")
    try:
        client = await here.connect()
        headers = ("X-User: me", "x-tag: a", "X-Other: no")
        body = simple_body(parameters={"mine": 1})
        for _ in range(3):
            assert (await client.call(post(INFER, body, headers))).status == 200
            assert here.plane.requests[-1].parameters == {"mine": 1, "X-User": "me", "x-tag": "a"}
        assert (await client.call(post(INFER, body))).status == 200
        assert here.plane.requests[-1].parameters == {"mine": 1}
    finally:
        await stop(here)


async def test_reserved_header_is_not_forwarded() -> None:
    here = await serve(header_forward_pattern="priority")
    try:
        client = await here.connect()
        answer = await client.call(post(INFER, simple_body(), ("Priority: 1",)))
        text = "Header 'Priority' is reserved for Triton usage and cannot be forwarded."
        assert (answer.status, answer.error) == (400, text)
    finally:
        await stop(here)


def test_forward_pattern_that_is_no_expression_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="--http-header-forward-pattern"):
        make_http_server(FakePlane(), header_forward_pattern="(")
