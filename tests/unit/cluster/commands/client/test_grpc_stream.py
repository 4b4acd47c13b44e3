# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta infer --grpc``, against Manta's gRPC port over a model that answers several times."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from backends.api.errors import InternalError
from backends.api.request import InferenceRequest, InferenceResponse, tensor_from_numpy
from cluster.commands.client.infer import main
from deployments.contracts.sinks import ResponseSink
from deployments.grpc.kserve.service import GrpcService
from deployments.grpc.server.http2_server import Http2Server
from tests.support.asked_server import Asked, AskedPlane, asked

Output = pytest.CaptureFixture[str]


class Decoupled(AskedPlane):
    """Answers each request with two responses, or with an error."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = self.is_silent = False

    def _begin(self, model: Any, request: InferenceRequest, sink: ResponseSink) -> Any:
        self.requests.append(request)
        for number in (1, 2):
            outputs = [tensor_from_numpy("OUT", np.array([[number, np.inf]], np.float16))]
            response = InferenceResponse(model.name, "1", request.id, outputs)
            if not self.is_silent:
                sink.respond(response, final=number == 2 and not self.fails)
        if self.fails:
            sink.fail(InternalError("it broke"))

        class Inflight:
            def cancel(self) -> None:
                sink.fail(InternalError("cancelled"))

        return Inflight()


@contextlib.asynccontextmanager
async def streaming() -> AsyncIterator[tuple[Asked, Decoupled, str]]:
    plane = Decoupled()
    server = Http2Server(GrpcService(plane))
    url = f"127.0.0.1:{await server.start('127.0.0.1', 0, reuse_port=False)}"
    try:
        async with asked() as http:
            yield http, plane, url
    finally:
        server.close()
        await server.wait_drained(0)


async def test_each_response_is_printed_whatever_its_datatype(capsys: Output) -> None:
    async with streaming() as (http, plane, url):
        assert await http.run(main, "half", "1,inf", "--grpc", url, "-p", "a=1") == 0
        (request,) = plane.requests
    assert capsys.readouterr().out == "OUT FP16[1,2]: 1 inf\nOUT FP16[1,2]: 2 inf\n"
    assert bytes(request.inputs[0].data) == np.array([1, np.inf], np.float16).tobytes()
    assert request.parameters == {"a": 1}


async def test_json_is_a_line_for_each_response_with_the_id(capsys: Output) -> None:
    async with streaming() as (http, _, url):
        assert await http.run(main, "half", "1,2", "--grpc", url, "--id", "r7", "--json") == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["id"], first["model_name"]) == ("r7", "half")
    assert [each["outputs"][0]["data"][0] for each in (first, second)] == [1.0, 2.0]


async def test_an_error_ends_it_after_the_responses_before(capsys: Output) -> None:
    async with streaming() as (http, plane, url):
        plane.fails = True
        assert await http.run(main, "half", "1,2", "--grpc", url) == 1
    captured = capsys.readouterr()
    assert captured.out.count("OUT FP16") == 2
    assert captured.err == "error: it broke\n"


async def test_credentials_go_along(capsys: Output) -> None:
    async with streaming() as (http, plane, url):
        assert await http.run(main, "half", "1,2", "--grpc", url, "-H", "X-Team: blue") == 0
        assert (b"x-team", b"blue") in list(plane.headers)
    assert capsys.readouterr().err == ""


async def test_a_silent_server_is_left_after_the_time_that_was_given(capsys: Output) -> None:
    async with streaming() as (http, plane, url):
        plane.is_silent = True
        arguments = ("half", "1,2", "--grpc", url, "--timeout", "0.2")
        assert await asyncio.wait_for(http.run(main, *arguments), 60) == 1
    assert f"no answer from {url} within 0.2 s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--grpc", "127.0.0.1:1"], 1, "no gRPC server at 127.0.0.1:1"),
        (["--grpc", "127.0.0.1:1", "--curl"], 2, "--grpc cannot be shown"),
    ],
)
async def test_what_is_wrong_is_said_in_one_line(
    more: list[str], code: int, said: str, capsys: Output
) -> None:
    async with asked() as http:
        assert await http.run(main, "half", "1,2", *more) == code
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
