# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A megabyte of any kind of part is answered, and costs no more than its size.

What the interpreter executes is counted; `tests.unit.deployments.http.kserve.test_megabytes` says
what that leaves out.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import pytest

from deployments.grpc.kserve.service import STREAM_PATH, GrpcService
from deployments.supervision.memory_budget import MemoryBudget
from tests.support.grpc_plane import FakePlane, fake_plane
from tests.support.grpc_service import counted, infer_request, rpc_path
from tests.support.http2_peer import Client, data_frame, grpc_message, headers_frame, request
from tests.support.instruction_count import instructions
from tests.support.megabytes import MESSAGES
from tests.support.settings_control import settings_plane

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
