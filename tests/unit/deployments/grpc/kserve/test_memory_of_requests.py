# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that wait for a model are in the memory budget from their delivery to their outcome."""

import asyncio
from collections.abc import Callable

import grpc
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from backends.api.errors import InternalError, UnavailableError
from deployments.grpc.kserve.service import STREAM_PATH, GrpcService
from deployments.grpc.rpc.call import MESSAGE_OVERHEAD_BYTES
from deployments.grpc.rpc.status import RESOURCE_EXHAUSTED
from deployments.grpc.server.http2_server import Http2Server
from deployments.http2 import frames
from deployments.supervision.memory_budget import MemoryBudget
from tests.support.examples import examples
from tests.support.grpc_plane import FakePlane, fake_plane
from tests.support.grpc_service import counted, infer_request, rpc_path
from tests.support.http2_peer import (
    Client,
    call,
    data_frame,
    grpc_message,
    headers_frame,
    request,
)

MB = 1 << 20
INFER = request(path=rpc_path("ModelInfer"))
STREAM = request(path=STREAM_PATH)
ONE = np.array([1], np.int32)


def _client(budget: MemoryBudget) -> tuple[Client, FakePlane]:
    plane = fake_plane()
    client = Client(budget=budget)
    client.grpc.service = GrpcService(plane)
    return client, plane


def _message(model: str = "held", request_id: str = "", size: int = 0) -> bytes:
    asked = counted(model, 1, request_id)
    if size:
        asked.parameters["padding"].string_param = "x" * size
    return asked.SerializeToString()


def _cost(message: bytes) -> int:
    return len(message) + MESSAGE_OVERHEAD_BYTES


def test_a_unary_request_counts_until_it_is_answered() -> None:
    client, plane = _client(MemoryBudget(MB))
    message = _message()
    client.send(call(1, message, INFER))
    assert client.budget.used_bytes == _cost(message)
    plane.jobs[0].respond(OUT=ONE)
    assert client.status(1) == (0, "")
    assert client.budget.used_bytes == 0


@pytest.mark.parametrize("end", ["failure", "reset", "lost", "deadline"])
def test_a_unary_request_gives_its_bytes_back_once_however_it_ends(end: str) -> None:
    client, plane = _client(MemoryBudget(MB))
    asked = request(path=rpc_path("ModelInfer"), grpc_timeout=b"1S") if end == "deadline" else INFER
    client.send(call(1, _message(), asked))
    assert client.budget.used_bytes > 0
    if end == "failure":
        plane.jobs[0].sink.fail(InternalError("broken"))
    elif end == "reset":
        client.send(frames.rst_stream(1, 8))
    elif end == "lost":
        client.grpc.lost()
    else:
        client.deadlines.expire(client.now_ns + 2_000_000_000)
    assert client.budget.used_bytes == 0
    # What comes late gives nothing back a second time.
    plane.jobs[0].respond(OUT=ONE)
    client.grpc.lost()
    assert client.budget.used_bytes == 0


def test_a_request_over_the_budget_is_resource_exhausted_and_others_go_on() -> None:
    message = _message()
    client, plane = _client(MemoryBudget(_cost(message)))
    client.send(call(1, message, INFER))
    client.send(call(3, message, INFER))
    status, text = client.status(3)
    assert status == RESOURCE_EXHAUSTED
    assert text.startswith("Server is too busy to hold a message: ")
    assert len(plane.jobs) == 1
    plane.jobs[0].respond(OUT=ONE)
    client.send(call(5, message, INFER))
    assert len(plane.jobs) == 2


def test_messages_behind_a_unary_request_are_not_kept() -> None:
    client, _ = _client(MemoryBudget(MB))
    message = _message()
    client.send(headers_frame(1, INFER) + data_frame(1, grpc_message(message)))
    for _ in range(3000):
        client.send(data_frame(1, grpc_message(message)))
    assert client.budget.used_bytes == _cost(message)


def test_requests_of_a_stream_count_each_until_its_last_answer() -> None:
    client, plane = _client(MemoryBudget(MB))
    messages = [_message(request_id=str(at), size=100 * at) for at in range(3)]
    client.send(headers_frame(1, STREAM))
    for message in messages:
        client.send(data_frame(1, grpc_message(message)))
    assert client.budget.used_bytes == sum(map(_cost, messages))
    plane.jobs[0].respond(OUT=ONE)
    assert client.budget.used_bytes == sum(map(_cost, messages[1:]))
    plane.jobs[1].sink.fail(InternalError("broken"))
    assert client.budget.used_bytes == _cost(messages[2])
    client.send(frames.rst_stream(1, 8))
    assert client.budget.used_bytes == 0


def test_answers_that_wait_for_an_earlier_one_count() -> None:
    client, plane = _client(MemoryBudget(MB))
    first, second = _message(request_id="1"), _message(request_id="2")
    client.send(
        headers_frame(1, STREAM) + data_frame(1, grpc_message(first) + grpc_message(second))
    )
    plane.jobs[1].respond(OUT=np.zeros(10_000, np.int32))
    assert client.budget.used_bytes > _cost(first) + 40_000
    plane.jobs[0].respond(OUT=ONE)
    assert client.budget.used_bytes == 0
    assert client.answer(1)[1].count(b"held") >= 2


def test_requests_that_are_rejected_leave_nothing_behind() -> None:
    client, _ = _client(MemoryBudget(MB))
    client.send(headers_frame(1, STREAM))
    for _ in range(20):
        client.send(data_frame(1, grpc_message(_message("no_such"))))
        client.send(data_frame(1, grpc_message(infer_request("simple").SerializeToString())))
        client.received()
    assert client.budget.used_bytes == 0


@settings(max_examples=examples(100))
@given(st.data())
def test_the_budget_is_whole_again_whatever_happens_to_requests(data: st.DataObject) -> None:
    budget = MemoryBudget(data.draw(st.sampled_from([0, 5_000, 50_000, MB])))
    client, plane = _client(budget)
    opened: list[int] = []
    for number in range(data.draw(st.integers(0, 25))):
        stream_id = 2 * number + 1
        message = _message(
            data.draw(st.sampled_from(["held", "decoupled", "no_such"])),
            size=data.draw(st.sampled_from([0, 3_000, 40_000])),
        )
        action = data.draw(
            st.sampled_from(["unary", "open", "send", "send", "answer", "fail", "reset"])
        )
        if action == "unary":
            client.send(call(stream_id, message, INFER))
        elif action == "open":
            client.send(headers_frame(stream_id, STREAM))
            opened.append(stream_id)
        elif action == "send" and opened:
            asked = data.draw(st.sampled_from(opened))
            if asked in client.h2.streams:
                client.send(data_frame(asked, grpc_message(message)))
        elif action in ("answer", "fail") and plane.jobs:
            job = data.draw(st.sampled_from(plane.jobs))
            if action == "fail":
                job.sink.fail(InternalError("broken"))
            elif not job.is_cancelled:
                job.respond(final=data.draw(st.booleans()), OUT=ONE)
        elif action == "reset" and client.h2.streams:
            client.send(frames.rst_stream(data.draw(st.sampled_from(sorted(client.h2.streams))), 8))
        client.received()
        assert 0 <= budget.used_bytes <= max(budget.limit_bytes, 0) + 200_000
    client.grpc.lost()
    assert budget.used_bytes == 0


@pytest.mark.parametrize("end", ["answer", "failed load", "reset"])
async def test_messages_behind_a_first_use_count_until_they_are_answered(end: str) -> None:
    client, plane = _client(MemoryBudget(MB))
    plane.unread = {"held": plane.models.pop("held")}
    plane.load_error = UnavailableError("no such luck") if end == "failed load" else None
    first, behind = _message(), _message(size=1000)
    client.send(headers_frame(1, STREAM))
    client.send(data_frame(1, grpc_message(first) + grpc_message(behind)))
    assert plane.jobs == []
    assert client.budget.used_bytes == _cost(first) + _cost(behind)
    if end == "reset":
        client.send(frames.rst_stream(1, 8))
    elif end == "answer":
        await _until(lambda: len(plane.jobs) == 2)
        assert client.budget.used_bytes == _cost(first) + _cost(behind)
        for job in plane.jobs:
            job.respond(OUT=ONE)
    else:
        await _until(lambda: len(plane.used) == 2 and not client.budget.used_bytes)
    assert client.budget.used_bytes == 0


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        # The server has nothing of its own to wait for here.
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


def _stream_600(port: int) -> list[service_pb2.ModelStreamInferResponse]:
    """Send 600 messages of a megabyte on one stream, and return the answers."""
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        messages = (_message(request_id=str(number), size=MB) for number in range(600))
        stream = channel.stream_stream(STREAM_PATH.decode())(messages, timeout=60)
        return [service_pb2.ModelStreamInferResponse.FromString(each) for each in stream]


async def test_of_a_stream_of_six_hundred_megabytes_a_budget_of_sixty_four_refuses_the_rest() -> (
    None
):
    plane = fake_plane()
    budget = MemoryBudget(64 * MB)
    server = Http2Server(GrpcService(plane), budget=budget)
    port = await server.start("127.0.0.1", 0)
    try:
        stream = asyncio.create_task(asyncio.to_thread(_stream_600, port))
        await _until(lambda: len(plane.jobs) + budget.refused_count == 600)
        assert 50 < len(plane.jobs) < 64
        # The refusals that wait may need a little more.
        assert budget.peak_bytes <= budget.limit_bytes * 65 // 64
        taken = [job.request.id for job in plane.jobs]
        for job in plane.jobs:
            job.respond(OUT=ONE)
        answers = await stream
        assert [each.infer_response.id for each in answers] == [str(at) for at in range(600)]
        refused = [each for each in answers if each.error_message]
        assert len(refused) == 600 - len(taken)
        assert all("Server is too busy to hold" in each.error_message for each in refused)
        assert not budget.used_bytes
    finally:
        server.close()
        assert await server.wait_drained(5)
