# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Calls that meet a model that is loaded by its first use wait for it."""

import pytest
from tritonclient.grpc import service_pb2

from backends.api.errors import UnavailableError
from deployments.grpc.kserve.service import INFER_PATH, STREAM_PATH
from tests.support.grpc_service import RecordedReply, ask, counted, infer_request


@pytest.fixture
def unread(plane):
    plane.unread = {name: plane.models.pop(name) for name in ("simple", "decoupled")}
    return plane


async def test_infer_is_answered_once_the_model_is_loaded(service, unread):
    status, _, response = await ask(service, "ModelInfer", infer_request(rid="abc"))
    assert (status, response.id, unread.used) == (0, "abc", ["simple"])


async def test_infer_fails_with_the_error_of_the_load(service, unread):
    unread.load_error = UnavailableError("failed to start model 'simple'")
    status, details, _ = await ask(service, "ModelInfer", infer_request())
    assert (status, details) == (14, "failed to start model 'simple'")


async def test_infer_whose_load_meets_a_fault_of_the_server_is_internal(service, unread):
    unread.load_error = ValueError("no such row")
    status, details, _ = await ask(service, "ModelInfer", infer_request())
    assert (status, details) == (
        13,
        "gRPC inference request failed: ValueError: no such row; the server's log says where",
    )


async def test_infer_that_is_cancelled_while_the_model_loads_runs_nowhere(service, unread):
    cancelled, other = RecordedReply(), RecordedReply()
    for reply in (cancelled, other):
        call = service.start(INFER_PATH, [], reply)
        call.message(infer_request().SerializeToString())
        call.half_closed()
        if reply is cancelled:
            call.cancelled()
    await other.done.wait()
    assert (cancelled.status, other.status) == (None, 0)
    assert len(unread.jobs) == 1


@pytest.mark.parametrize("rpc", ["ModelMetadata", "ModelConfig"])
async def test_metadata_and_config_load_the_model(service, unread, rpc):
    request = getattr(service_pb2, f"{rpc}Request")(name="simple")
    status, _, response = await ask(service, rpc, request)
    name = response.config.name if rpc == "ModelConfig" else response.name
    assert (status, name) == (0, "simple")


async def test_ready_and_statistics_do_not_load_the_model(service, unread):
    request = service_pb2.ModelReadyRequest(name="simple")
    assert (await ask(service, "ModelReady", request))[2].ready
    await ask(service, "ModelStatistics", service_pb2.ModelStatisticsRequest(name="simple"))
    assert unread.used == []


async def streamed(service, *requests):
    reply = RecordedReply()
    call = service.start(STREAM_PATH, [], reply)
    for request in requests:
        call.message(request.SerializeToString())
    call.half_closed()
    await reply.done.wait()
    return reply


async def test_requests_of_a_stream_wait_behind_the_one_whose_model_loads(service, unread):
    requests = (infer_request(rid="a"), counted("decoupled", 2, "b"), infer_request(rid="c"))
    reply = await streamed(service, *requests)
    assert reply.status == 0
    assert [each.infer_response.id for each in reply.streamed] == ["a", "b", "b", "c"]
    assert unread.used == ["simple", "decoupled"]


async def test_a_request_of_a_stream_whose_model_does_not_load_leaves_the_stream_open(
    service, unread
):
    unread.models["simple"] = unread.unread.pop("simple")
    unread.load_error = UnavailableError("failed to start model 'decoupled'")
    reply = await streamed(service, counted("decoupled", 1, "a"), infer_request(rid="b"))
    failed, answered = reply.streamed
    assert failed.error_message == "failed to start model 'decoupled'"
    assert (answered.infer_response.id, reply.status) == ("b", 0)


async def test_a_fault_of_the_server_in_a_load_ends_one_request_of_a_stream(service, unread):
    unread.models["simple"] = unread.unread.pop("simple")
    unread.load_error = ValueError("no such row")
    reply = await streamed(service, counted("decoupled", 1, "a"), infer_request(rid="b"))
    failed, answered = reply.streamed
    assert "ValueError: no such row" in failed.error_message
    assert (answered.infer_response.id, reply.status) == ("b", 0)
