# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A megabyte of any kind of part is answered, and costs no more than its size.

What the interpreter executes is counted; `tests.unit.deployments.http.kserve.test_megabytes` says
what that leaves out.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from google.protobuf.message import Message
from tritonclient.grpc import service_pb2 as pb

from deployments.grpc.kserve.service import STREAM_PATH, GrpcService
from deployments.supervision.memory_budget import MemoryBudget
from tests.support.grpc_plane import FakePlane, fake_plane
from tests.support.grpc_service import counted, infer_request, rpc_path
from tests.support.http2_peer import Client, data_frame, grpc_message, headers_frame, request
from tests.support.instruction_count import instructions
from tests.support.memory_plane import settings_plane


def _asked(count: int = 0, **changes: Any) -> pb.ModelInferRequest:
    """Return a request for ``held``; ``count`` is of what a change makes of a number."""
    tensor = changes.pop("tensor", {})
    tensor = {"name": "IN", "datatype": "INT32", "shape": [1], **tensor}
    made = {key: list(map(make, range(count))) for key, make in changes.items() if callable(make)}
    fields = {"model_name": "held", "raw_input_contents": [bytes(4)], **changes, **made}
    fields["inputs"] = [tensor, *fields.get("inputs", ())]
    return pb.ModelInferRequest(**fields)


def _values(count: int) -> dict[str, pb.InferParameter]:
    return {f"p{at}": pb.InferParameter(int64_param=1) for at in range(count)}


def _explicit(kind: str, **contents: Any) -> pb.ModelInferRequest:
    return _asked(tensor={"datatype": kind, "contents": contents}, raw_input_contents=[])


# RPC, and its request by the size of the part that is large.
MESSAGES: Final[Mapping[str, tuple[str, Callable[[int], Message]]]] = {
    name: ("ModelInfer", make)
    for name, make in {
        "dims": lambda size: _asked(tensor={"shape": [1] * size}),
        "dims whose product is huge": lambda size: _asked(tensor={"shape": [2**62] * (size // 9)}),
        "negative dims": lambda size: _asked(tensor={"shape": [-1] * (size // 10)}),
        "inputs": lambda size: _asked(size // 12, inputs=lambda at: {"name": f"i{at}"}),
        "inputs of one name": lambda size: _asked(size // 6, inputs=lambda at: {"name": "IN"}),
        "inputs of nothing": lambda size: _asked(size // 2, inputs=lambda at: {}),
        "outputs": lambda size: _asked(size // 12, outputs=lambda at: {"name": f"o{at}"}),
        "outputs of one name": lambda size: _asked(size // 7, outputs=lambda at: {"name": "OUT"}),
        "outputs of nothing": lambda size: _asked(size // 2, outputs=lambda at: {}),
        "raw contents": lambda size: _asked(size // 2, raw_input_contents=lambda at: b""),
        "parameters": lambda size: _asked(parameters=_values(size // 16)),
        "parameters of an input": lambda size: _asked(tensor={"parameters": _values(size // 16)}),
        "parameters of an output": lambda size: _asked(
            outputs=[{"name": "OUT", "parameters": _values(size // 16)}]
        ),
        "a parameter": lambda size: _asked(
            parameters={"p": pb.InferParameter(string_param="x" * size)}
        ),
        "name of a parameter": lambda size: _asked(
            parameters={"p" * size: pb.InferParameter(bool_param=True)}
        ),
        "id": lambda size: _asked(id="i" * size),
        "model": lambda size: _asked(model_name="m" * size),
        "version": lambda size: _asked(model_version="1" * size),
        "name": lambda size: _asked(tensor={"name": "x" * size}),
        "datatype": lambda size: _asked(tensor={"datatype": "x" * size}),
        "integers": lambda size: _explicit("INT32", int_contents=[1] * size),
        "long integers": lambda size: _explicit("INT64", int64_contents=[-1] * (size // 10)),
        "booleans": lambda size: _explicit("BOOL", bool_contents=[True] * size),
        "floats": lambda size: _explicit("FP32", fp32_contents=[1.5] * (size // 4)),
        "strings": lambda size: _explicit("BYTES", bytes_contents=[b"s"] * (size // 3)),
        "contents twice": lambda size: _asked(tensor={"contents": {"int_contents": [1] * size}}),
    }.items()
} | {
    "load: parameters": (
        "RepositoryModelLoad",
        lambda size: pb.RepositoryModelLoadRequest(
            model_name="simple",
            parameters={
                f"file:{at}": pb.ModelRepositoryParameter(bytes_param=b"f")
                for at in range(size // 20)
            },
        ),
    ),
    "load: a config": (
        "RepositoryModelLoad",
        lambda size: pb.RepositoryModelLoadRequest(
            model_name="simple",
            parameters={"config": pb.ModelRepositoryParameter(string_param="{" * size)},
        ),
    ),
    "index: a repository": (
        "RepositoryIndex",
        lambda size: pb.RepositoryIndexRequest(repository_name="r" * size),
    ),
    "trace: settings": (
        "TraceSetting",
        lambda size: pb.TraceSettingRequest(
            settings={
                f"p{at}": pb.TraceSettingRequest.SettingValue(value=["1"])
                for at in range(size // 16)
            }
        ),
    ),
    "trace: digits": (
        "TraceSetting",
        lambda size: pb.TraceSettingRequest(
            settings={"trace_rate": pb.TraceSettingRequest.SettingValue(value=["9" * size])}
        ),
    ),
    "log: settings": (
        "LogSettings",
        lambda size: pb.LogSettingsRequest(
            settings={
                f"p{at}": pb.LogSettingsRequest.SettingValue(uint32_param=1)
                for at in range(size // 16)
            }
        ),
    ),
    "statistics: a version": (
        "ModelStatistics",
        lambda size: pb.ModelStatisticsRequest(name="simple", version="9" * size),
    ),
    "region: a name": (
        "SystemSharedMemoryRegister",
        lambda size: pb.SystemSharedMemoryRegisterRequest(name="r" * size, key="k", byte_size=4),
    ),
}


MEGABYTE: Final = 1 << 20
# Counting makes all of it slower.
FEW: Final = 16_000
FRAME_BYTES: Final = 16_384
# Triton's statuses of requests, right or wrong.
KNOWN: Final = (0, 3, 5, 12, 13)
MESSAGE_CHARACTERS: Final = 7_000
STREAMED = [name for name, (rpc, _) in MESSAGES.items() if rpc == "ModelInfer"]


def _connected() -> tuple[Client, FakePlane]:
    plane = fake_plane()
    plane.settings = settings_plane(plane.control, plane.resolve, allow_client_memory=True)
    client = Client(budget=MemoryBudget(1 << 30))
    client.grpc.service = GrpcService(plane)
    return client, plane


def _call(path: bytes, messages: list[bytes], frame_bytes: int = FRAME_BYTES) -> list[bytes]:
    """Return the frames of a call, one by one."""
    body = b"".join(map(grpc_message, messages))
    starts = range(0, len(body), frame_bytes)
    parts = [data_frame(1, body[at : at + frame_bytes], end=at == starts[-1]) for at in starts]
    return [headers_frame(1, request(path=path)), *parts]


async def _status(client: Client, plane: FakePlane) -> tuple[int, str]:
    """Return how the call has ended, once what it waits for has had its turns."""
    for _ in range(20):
        await asyncio.sleep(0)
    for job in plane.jobs:
        job.sink.respond(None, final=True)
    return client.status(1)


def _send(client: Client, pieces: list[bytes]) -> None:
    for piece in pieces:
        client.send(piece)


@pytest.mark.parametrize("size", [500, MEGABYTE])
@pytest.mark.parametrize("part", MESSAGES)
async def test_so_many_bytes_of_it_are_answered_and_no_fault(
    part: str, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    rpc, make = MESSAGES[part]
    client, plane = _connected()
    _send(client, _call(rpc_path(rpc), [make(size).SerializeToString()]))
    status, details = await _status(client, plane)
    assert status in KNOWN
    assert len(details) < MESSAGE_CHARACTERS
    assert "the server's log" not in details
    assert "Traceback" not in caplog.text
    assert client.budget.used_bytes == 0


@pytest.mark.parametrize("part", MESSAGES)
async def test_twice_as_much_of_it_takes_twice_the_instructions(part: str) -> None:
    rpc, make = MESSAGES[part]
    _compare(lambda size: _call(rpc_path(rpc), [make(size).SerializeToString()]))


@pytest.mark.parametrize("part", STREAMED)
async def test_twice_as_much_of_it_on_a_stream_takes_twice_the_instructions(part: str) -> None:
    _, make = MESSAGES[part]
    _compare(lambda size: _call(STREAM_PATH, [make(size).SerializeToString()]))


@pytest.mark.parametrize("model", ["no_such", "held", "simple", "decoupled"])
async def test_twice_as_many_messages_of_a_stream_take_twice_the_instructions(model: str) -> None:
    asked = infer_request(model) if model == "simple" else counted(model, 1)
    message = asked.SerializeToString()
    _compare(lambda size: _call(STREAM_PATH, [message] * (size // 100)))


@pytest.mark.parametrize("frame_bytes", [3, 100])
async def test_twice_as_many_frames_of_a_message_take_twice_the_instructions(
    frame_bytes: int,
) -> None:
    message = MESSAGES["a parameter"][1](2 * FEW).SerializeToString()
    _compare(lambda size: _call(rpc_path("ModelInfer"), [message], frame_bytes)[: size // 20])


async def test_twice_as_many_reads_of_a_message_take_twice_the_instructions() -> None:
    message = MESSAGES["a parameter"][1](2 * FEW).SerializeToString()
    stream = b"".join(_call(rpc_path("ModelInfer"), [message]))
    _compare(lambda size: [stream[at : at + 10] for at in range(0, size, 10)])


def _compare(pieces: Callable[[int], list[bytes]]) -> None:
    counts = []
    for size in (FEW, 2 * FEW):
        client, _ = _connected()
        made = pieces(size)
        counts.append(instructions(lambda: _send(client, made)))  # noqa: B023 - called at once
        client.grpc.lost()
    assert counts[1] <= 2.2 * counts[0] + 2_000
