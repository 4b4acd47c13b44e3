# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A message for which there is no memory costs its stream one request, answered in its turn."""

import asyncio
import gzip
import random
from dataclasses import replace

import numpy as np
import pytest

from backends.api.errors import InternalError
from deployments.access.contracts import Peer
from deployments.data_plane.callers import Access
from deployments.grpc.codec.request import request_id_of
from deployments.grpc.kserve.guarded import make_grpc_gate
from deployments.grpc.kserve.service import STREAM_PATH
from deployments.grpc.rpc.call import MESSAGE_OVERHEAD_BYTES
from deployments.grpc.rpc.status import RESOURCE_EXHAUSTED
from deployments.supervision.memory_budget import MemoryBudget
from tests.support.grpc_plane import hold
from tests.support.grpc_service import counted, infer_request
from tests.support.grpc_stream import MB, STREAM, Streaming, held_message, opened
from tests.support.http2_peer import grpc_message, request
from tests.support.key_guard import EVERYTHING, KeyGuard

ONE = np.array([1], np.int32)


def test_a_whole_message_over_the_budget_costs_its_stream_that_request_alone() -> None:
    stream = opened(2 * (len(held_message("held", "1", 500)) + MESSAGE_OVERHEAD_BYTES))
    for number in "123":
        stream.ask(number, 500)
    assert len(stream.plane.jobs) == 2
    assert stream.answers() == []
    stream.plane.jobs[0].respond(OUT=ONE)
    assert stream.answers() == [("1", "")]
    stream.plane.jobs[1].respond(OUT=ONE)
    stream.ask("4")
    (second, third) = stream.answers()
    assert second == ("2", "")
    assert third[0] == "3"
    assert third[1].startswith("Server is too busy to hold a message: ")
    stream.plane.jobs[2].respond(OUT=ONE)
    assert stream.answers() == [("4", "")]
    assert stream.client.budget.used_bytes == 0


def test_of_a_message_that_is_refused_in_part_nothing_is_kept_and_the_next_one_is_read() -> None:
    stream = opened(MB)
    stream.ask("1", 600_000)
    second = grpc_message(held_message("held", "2", 600_000))
    while not stream.client.budget.refused_count:
        stream.send(second[:10_000])
        second = second[10_000:]
    assert stream.client.grpc.received.held_bytes == 0
    stream.send(second)
    stream.ask("3", 300_000)
    assert [job.request.id for job in stream.plane.jobs] == ["1", "3"]
    assert stream.client.budget.peak_bytes <= MB
    for job in stream.plane.jobs:
        job.respond(OUT=ONE)
    first, second, third = stream.answers()
    assert (first, third) == (("1", ""), ("3", ""))
    assert second[0] == "2"
    assert second[1].startswith("Server is too busy to hold an incomplete message: ")
    assert stream.client.budget.used_bytes == 0
    stream.send(b"\0", end=True)
    assert stream.answers() == []
    assert int(stream.trailers[b"grpc-status"]) == 13


def test_a_large_message_received_into_slabs_is_refused_with_its_id() -> None:
    stream = opened(300_000)
    asked = infer_request("large", "7", raw=[np.zeros(100_000, np.float32).tobytes()])
    asked.inputs[0].datatype = "FP32"
    asked.inputs[0].shape[:] = [100_000]
    stream.send(grpc_message(asked.SerializeToString()))
    [(request_id, text)] = stream.answers()
    assert request_id == "7"
    assert "Server is too busy" in text
    stream.ask("8")
    assert len(stream.plane.jobs) == 1


def test_a_client_that_asks_for_a_status_gets_the_refusal_as_one() -> None:
    stream = opened(100_000, [*STREAM, (b"triton_grpc_error", b"true")])
    stream.ask("1")
    stream.ask("2", 200_000)
    assert stream.answers() == []
    assert int(stream.trailers[b"grpc-status"]) == RESOURCE_EXHAUSTED
    assert stream.plane.jobs[0].is_cancelled
    assert stream.client.budget.used_bytes == 0


def test_requests_of_decoupled_models_hold_no_refusal_back() -> None:
    stream = opened(100_000)
    models = stream.plane.models
    models["decoupled"] = replace(models["decoupled"], execute=hold)
    stream.ask("1", model="decoupled")
    stream.ask("2", 200_000, model="decoupled")
    assert [each[0] for each in stream.answers()] == ["2"]


def test_refusals_that_wait_are_bounded_as_well() -> None:
    stream = opened(MB)
    stream.ask("1", MB - 64_000)
    for number in range(500):
        stream.ask(str(number), 70_000)
        if stream.client.h2.streams == {}:
            break
        assert stream.client.budget.used_bytes <= MB + (MB >> 6) + 2 * MESSAGE_OVERHEAD_BYTES
    assert 0 < number < 499
    stream.answers()
    assert int(stream.trailers[b"grpc-status"]) == RESOURCE_EXHAUSTED
    assert stream.client.budget.used_bytes == 0


@pytest.mark.parametrize("is_loaded", [True, False])
async def test_a_refusal_behind_a_first_use_waits_for_its_turn(*, is_loaded: bool) -> None:
    stream = opened(100_000)
    stream.plane.unread = {"held": stream.plane.models.pop("held")}
    stream.plane.load_error = None if is_loaded else InternalError("no such luck")
    stream.ask("1")
    stream.ask("2", 200_000)
    stream.ask("3")
    assert stream.answers() == []
    async with asyncio.timeout(30):
        # The service has nothing of its own to wait for here.
        while len(stream.plane.jobs) < 2 and len(stream.plane.used) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)
    for job in stream.plane.jobs:
        job.respond(OUT=ONE)
    answers = stream.answers()
    assert [each[0] for each in answers] == ["1", "2", "3"]
    assert "too busy" in answers[1][1]
    assert stream.client.budget.used_bytes == 0


def test_a_compressed_message_that_grows_over_the_budget_is_refused_alone() -> None:
    stream = opened(6 * MB, request(path=STREAM_PATH, grpc_encoding=b"gzip"))
    stream.ask("1")
    large = gzip.compress(held_message("held", "2", 20 * MB))
    stream.send(grpc_message(large, compressed=True))
    stream.ask("3")
    while stream.client.offloaded:
        stream.client.run_offloaded()
    assert [job.request.id for job in stream.plane.jobs] == ["1", "3"]
    for job in stream.plane.jobs:
        job.respond(OUT=ONE)
    assert [each[0] for each in stream.answers()] == ["1", "2", "3"]
    assert stream.client.budget.used_bytes == 0


def test_behind_a_message_on_its_thread_the_newest_are_refused() -> None:
    stream = opened(6 * MB, request(path=STREAM_PATH, grpc_encoding=b"gzip"))
    noise = random.Random(0).randbytes(300_000).hex()
    asked = counted("held", 1, "1")
    asked.parameters["noise"].string_param = noise
    stream.send(grpc_message(gzip.compress(asked.SerializeToString()), compressed=True))
    assert len(stream.client.offloaded) == 1
    budget = stream.client.budget
    stream.ask("2", budget.limit_bytes - budget.used_bytes - 9_500)
    stream.ask("3", 900_000)
    # One frame with two that are whole, and a part of a third.
    last = b"".join(grpc_message(held_message("held", number, 5_000)) for number in "456")
    stream.send(last[:-1000])
    stream.send(last[-1000:])
    assert budget.peak_bytes <= 6 * MB
    while stream.client.offloaded:
        stream.client.run_offloaded()
    taken = [job.request.id for job in stream.plane.jobs]
    assert taken == ["1", "2", "4"]
    for job in stream.plane.jobs:
        job.respond(OUT=ONE)
    answers = stream.answers()
    assert [each[0] for each in answers] == list("123456")
    assert [bool(each[1]) for each in answers] == [False, False, True, False, True, True]
    assert stream.client.budget.used_bytes == 0


def test_the_guarded_port_refuses_message_by_message_too() -> None:
    guard = KeyGuard()
    guard.grant("good", *EVERYTHING)
    stream = Streaming(MemoryBudget(100_000), [*STREAM, (b"authorization", b"Bearer good")])
    stream.client.grpc.service = make_grpc_gate(stream.plane, Access(guard)).service_for(
        Peer("grpc")
    )
    stream.begin()
    stream.ask("1", 200_000)
    assert [each[0] for each in stream.answers()] == ["1"]
    guard.revoke("good")
    stream.ask("2", 200_000)
    assert stream.answers() == []
    assert int(stream.trailers[b"grpc-status"]) == 16


def test_an_id_is_found_at_the_beginning_of_a_message_only() -> None:
    message = held_message("held", "an id", 100)
    assert request_id_of(message) == "an id"
    assert request_id_of(memoryview(message)[:20]) == "an id"
    assert request_id_of(memoryview(message)[:10]) == ""
    assert request_id_of(b"\x1a\x02\xffa") == "\N{REPLACEMENT CHARACTER}a"
    assert request_id_of(b"") == ""
    assert request_id_of(b"\xff" * 2000) == ""
    assert request_id_of(b"\x22\x00" * 2000 + message) == ""
