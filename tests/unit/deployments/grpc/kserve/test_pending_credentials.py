# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Calls whose credentials take a moment to check wait for that, and no other calls do."""

import asyncio

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from deployments.access.contracts import Peer
from deployments.data_plane.callers import Access
from deployments.grpc.kserve.guarded import GuardedService, make_grpc_gate
from deployments.grpc.kserve.health import WATCH_PATH
from deployments.grpc.kserve.service import STREAM_PATH
from deployments.grpc.rpc.call import MESSAGE_OVERHEAD_BYTES
from deployments.grpc.rpc.status import RESOURCE_EXHAUSTED
from deployments.supervision.memory_budget import MemoryBudget
from tests.support import virtual_time
from tests.support.grpc_plane import FakePlane, fake_plane
from tests.support.grpc_service import RecordedReply, counted, infer_request, rpc_path
from tests.support.grpc_stream import MB, STREAM, Streaming
from tests.support.http2_peer import Client, call, request
from tests.support.key_guard import EVERYTHING, UNKNOWN_CREDENTIALS, KeyGuard

UNAUTHENTICATED, UNIMPLEMENTED = 16, 12
GOOD = ((b"authorization", b"Bearer good"),)
INFER = rpc_path("ModelInfer")


@pytest.fixture
def guard() -> KeyGuard:
    guard = KeyGuard()
    guard.grant("good", *EVERYTHING)
    guard.checking = []
    return guard


@pytest.fixture
def plane() -> FakePlane:
    return fake_plane()


@pytest.fixture
def service(plane: FakePlane, guard: KeyGuard) -> GuardedService:
    return make_grpc_gate(plane, Access(guard)).service_for(Peer("grpc"))


def _held(number: int = 1) -> bytes:
    message: bytes = counted("held", number, str(number)).SerializeToString()
    return message


async def test_a_unary_call_is_answered_once_its_caller_is_known(
    service: GuardedService, guard: KeyGuard, plane: FakePlane
) -> None:
    reply = RecordedReply()
    call = service.start(INFER, GOOD, reply)
    assert call is not None
    call.message(infer_request("simple").SerializeToString())
    call.half_closed()
    assert (plane.jobs, reply.status) == ([], None)
    guard.know()
    await reply.done.wait()
    assert reply.status == 0
    assert service_pb2.ModelInferResponse.FromString(reply.messages[0]).model_name == "simple"
    # The next one need not wait.
    assert service.start(INFER, GOOD, RecordedReply()) is not None
    assert guard.asked == 2


async def test_what_comes_after_its_caller_is_known_is_taken_at_once(
    service: GuardedService, guard: KeyGuard, plane: FakePlane
) -> None:
    call = service.start(INFER, GOOD, RecordedReply())
    assert call is not None
    guard.know()
    call.message(_held())
    assert len(plane.jobs) == 1


async def test_a_call_without_valid_credentials_ends_when_that_is_known(
    service: GuardedService, guard: KeyGuard, plane: FakePlane
) -> None:
    reply = RecordedReply()
    call = service.start(INFER, ((b"authorization", b"Bearer bad"),), reply)
    assert call is not None
    call.message(_held())
    call.half_closed()
    guard.know()
    assert (reply.status, reply.details) == (UNAUTHENTICATED, UNKNOWN_CREDENTIALS)
    assert plane.jobs == []
    call.message(_held())
    call.cancelled()


async def test_an_unknown_method_is_unimplemented_once_its_caller_is_known(
    service: GuardedService, guard: KeyGuard
) -> None:
    reply = RecordedReply()
    assert service.start(b"/no/Such", GOOD, reply) is not None
    guard.know()
    assert reply.status == UNIMPLEMENTED


async def test_a_call_that_is_given_up_meanwhile_asks_nothing(
    service: GuardedService, guard: KeyGuard, plane: FakePlane
) -> None:
    call = service.start(INFER, GOOD, RecordedReply())
    assert call is not None
    call.message(_held())
    call.cancelled()
    asked = guard.asked
    guard.know()
    assert (plane.jobs, guard.asked) == ([], asked)


async def test_messages_of_a_stream_keep_their_order_also_when_it_has_to_wait_twice(
    service: GuardedService, guard: KeyGuard, plane: FakePlane
) -> None:
    reply = RecordedReply()
    call = service.start(STREAM_PATH, GOOD, reply)
    assert call is not None
    call.message(_held(1))
    waiting, guard.checking = guard.checking, []
    assert waiting is not None
    # The policy has changed: the check that has ended was of an older one.
    for ask_again in waiting:
        ask_again()
    call.message(_held(2))
    assert plane.jobs == []
    guard.know()
    call.message(_held(3))
    assert [job.request.id for job in plane.jobs] == ["1", "2", "3"]


async def test_a_stream_waits_when_its_caller_is_identified_anew(
    service: GuardedService, guard: KeyGuard, plane: FakePlane
) -> None:
    guard.know()
    reply = RecordedReply()
    call = service.start(STREAM_PATH, GOOD, reply)
    assert call is not None
    call.message(_held(1))
    guard.grant("another")
    guard.checking = []
    call.message(_held(2))
    call.half_closed()
    plane.jobs[0].sink.respond(None, final=True)
    assert (len(plane.jobs), reply.status) == (1, None)
    guard.know()
    assert [job.request.id for job in plane.jobs] == ["1", "2"]
    assert reply.status is None
    plane.jobs[1].sink.respond(None, final=True)
    assert reply.status == 0


def test_a_watch_goes_on_once_its_caller_is_known_again() -> None:
    async def main() -> None:
        guard, plane = KeyGuard(), fake_plane()
        guard.grant("good", *EVERYTHING)
        service = make_grpc_gate(plane, Access(guard)).service_for(Peer("grpc"))
        for is_checked_at_its_head in (True, False):
            plane.exiting = False
            guard.checking = [] if is_checked_at_its_head else None
            reply = RecordedReply()
            call = service.start(WATCH_PATH, GOOD, reply)
            assert call is not None
            guard.know()
            await asyncio.sleep(10)
            assert reply.messages == []
            call.message(b"")
            assert len(reply.messages) == 1
            guard.grant("another")
            guard.checking = []
            await asyncio.sleep(10)
            plane.exiting = True
            await asyncio.sleep(10)
            assert (len(reply.messages), reply.status) == (1, None)
            guard.know()
            assert (len(reply.messages), reply.status) == (2, 0)

    virtual_time.run(main())


def test_what_waits_for_its_credentials_is_in_the_memory_budget(
    guard: KeyGuard, plane: FakePlane
) -> None:
    message = _held()
    client = Client(budget=MemoryBudget(len(message) + MESSAGE_OVERHEAD_BYTES))
    client.grpc.service = make_grpc_gate(plane, Access(guard)).service_for(Peer("grpc"))
    asked = request(path=INFER, authorization=b"Bearer good")
    client.send(call(1, message, asked))
    assert client.budget.used_bytes == client.budget.limit_bytes
    client.send(call(3, message, asked))
    assert client.status(3)[0] == RESOURCE_EXHAUSTED
    guard.know()
    assert len(plane.jobs) == 1
    client.grpc.lost()
    assert client.budget.used_bytes == 0


def asking(guard: KeyGuard, limit_bytes: int, *headers: tuple[bytes, bytes]) -> Streaming:
    """Begin a stream whose caller is not known yet."""
    stream = Streaming(MemoryBudget(limit_bytes), [*STREAM, *GOOD, *headers])
    gate = make_grpc_gate(stream.plane, Access(guard))
    stream.client.grpc.service = gate.service_for(Peer("grpc"))
    stream.begin()
    return stream


@pytest.mark.parametrize("is_known_at_its_head", [True, False])
def test_a_message_over_the_budget_costs_its_stream_one_request_while_credentials_are_checked(
    guard: KeyGuard, *, is_known_at_its_head: bool
) -> None:
    stream = asking(guard, 100_000)
    if is_known_at_its_head:
        guard.know()
        guard.grant("another")
        guard.checking = []
    for number, size in (("1", 0), ("2", 200_000), ("3", 0)):
        stream.ask(number, size)
    assert (stream.answers(), stream.plane.jobs) == ([], [])
    guard.know()
    assert [job.request.id for job in stream.plane.jobs] == ["1", "3"]
    for job in stream.plane.jobs:
        job.respond(OUT=np.array([1], np.int32))
    first, second, third = stream.answers()
    assert (first, third) == (("1", ""), ("3", ""))
    assert second[0] == "2"
    assert "Server is too busy" in second[1]
    assert stream.client.budget.used_bytes == 0


def test_a_refusal_that_waited_ends_a_stream_whose_client_asks_for_a_status(
    guard: KeyGuard,
) -> None:
    stream = asking(guard, 100_000, (b"triton_grpc_error", b"true"))
    stream.ask("1", 200_000)
    guard.know()
    assert stream.answers() == []
    assert int(stream.trailers[b"grpc-status"]) == RESOURCE_EXHAUSTED
    assert stream.client.budget.used_bytes == 0


def test_refusals_that_wait_for_credentials_are_bounded(guard: KeyGuard) -> None:
    stream = asking(guard, MB)
    stream.ask("1", MB - 64_000)
    for number in range(500):
        stream.ask(str(number), 70_000)
        if stream.client.h2.streams == {}:
            break
        assert stream.client.budget.used_bytes <= MB + (MB >> 6) + 2 * MESSAGE_OVERHEAD_BYTES
    assert 0 < number < 499
    assert stream.client.budget.used_bytes == 0
