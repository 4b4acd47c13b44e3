# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""ModelStreamInfer, driven as a transport drives it."""

import numpy as np

from backends.api.errors import (
    InternalError,
    UnavailableError,
)
from deployments.grpc.kserve.service import STREAM_PATH
from deployments.tracing.tracer import GRPC
from tests.support.grpc_service import RecordedReply, counted, infer_request

# ModelStreamInfer


def open_stream(service, *requests, metadata=(), half_close=True):
    reply = RecordedReply()
    call = service.start(STREAM_PATH, list(metadata), reply)
    for request in requests:
        call.message(request.SerializeToString())
    if half_close:
        call.half_closed()
    return call, reply


def is_final(response):
    parameters = response.infer_response.parameters
    if "triton_final_response" not in parameters:
        return None
    return parameters["triton_final_response"].bool_param


async def test_stream_without_requests_ends_ok(service):
    _, reply = open_stream(service)
    assert (reply.status, reply.messages) == (0, [])


async def test_streamed_responses_say_which_is_final(service):
    _, reply = open_stream(service, infer_request(rid="s"), counted("decoupled", 2, "d"))
    assert reply.status == 0
    assert [(each.infer_response.id, is_final(each)) for each in reply.streamed] == [
        ("s", True),
        ("d", False),
        ("d", False),
    ]


async def test_empty_final_comes_only_when_asked_for(service):
    wish = {"triton_enable_empty_final_response": True}
    _, reply = open_stream(service, counted("decoupled", 0, "e", parameters=wish))
    (only,) = reply.streamed
    assert (only.infer_response.id, only.infer_response.model_name) == ("e", "decoupled")
    assert only.infer_response.model_version == ""
    assert is_final(only) is True


async def test_rejected_request_leaves_the_stream_open(service):
    _, reply = open_stream(service, infer_request("no_such", "bad"), infer_request(rid="good"))
    bad, good = reply.streamed
    assert bad.error_message == "Request for unknown model: 'no_such' is not found"
    assert (bad.infer_response.id, is_final(bad)) == ("bad", None)
    assert good.infer_response.id == "good"
    assert reply.status == 0


async def test_request_goes_on_after_an_error_that_is_not_final(service, plane):
    wish = {"triton_enable_empty_final_response": True}
    _, reply = open_stream(service, counted("held", 1, "f", parameters=wish))
    job = plane.jobs[0]
    job.sink.fail(InternalError("not this one"), final=False)
    job.respond(final=False, OUT=np.array([1], np.int32))
    assert reply.status is None
    job.sink.respond(None, final=True)
    assert [each.error_message for each in reply.streamed] == ["not this one", "", ""]
    assert [is_final(each) for each in reply.streamed] == [False, False, True]
    assert reply.status == 0


async def test_failed_request_names_its_model_and_is_final(service, plane):
    _, reply = open_stream(service, counted("held", 1, "f"))
    plane.jobs[0].sink.fail(InternalError("it broke"))
    (only,) = reply.streamed
    assert only.error_message == "it broke"
    assert (only.infer_response.model_name, is_final(only)) == ("held", True)
    assert reply.status == 0


async def test_answers_of_models_that_are_not_decoupled_keep_the_order_of_requests(service, plane):
    requests = [counted("held", index, str(index)) for index in range(3)]
    _, reply = open_stream(service, *requests, infer_request("no_such", "bad"))
    for index in (2, 0, 1):
        plane.jobs[index].respond(OUT=np.array([index], np.int32))
    assert [each.infer_response.id for each in reply.streamed] == ["0", "1", "2", "bad"]
    assert reply.status == 0


async def test_decoupled_answers_overtake(service):
    _, reply = open_stream(service, counted("held", 1, "slow"), counted("decoupled", 1, "fast"))
    assert [each.infer_response.id for each in reply.streamed] == ["fast"]
    assert reply.status is None


async def test_stream_cancel_cancels_every_request(service, plane):
    call, reply = open_stream(service, counted("held", 1), counted("held", 2), half_close=False)
    call.cancelled()
    assert [job.is_cancelled for job in plane.jobs] == [True, True]
    assert (reply.status, reply.messages) == (None, [])


async def test_status_mode_ends_the_stream_with_the_first_error(service, plane):
    call, reply = open_stream(
        service,
        counted("held", 1),
        infer_request("no_such"),
        metadata=[(b"triton_grpc_error", b"true")],
        half_close=False,
    )
    assert plane.jobs[0].is_cancelled
    assert reply.status == 5
    call.message(infer_request().SerializeToString())
    call.half_closed()
    assert reply.messages == []


async def test_responses_after_the_final_one_are_dropped(service, plane):
    _, reply = open_stream(service, counted("held", 1), half_close=False)
    for _ in range(2):
        plane.jobs[0].respond(OUT=np.array([1], np.int32))
    plane.jobs[0].sink.fail(UnavailableError("late"))
    assert len(reply.messages) == 1


async def test_the_plane_hears_how_a_request_came_while_tracing_is_on(service, plane):
    open_stream(service, infer_request())
    assert plane.arrival is None
    plane.tracer.is_on = True
    call, reply = open_stream(service, infer_request(), metadata=[(b"me", b"1")], half_close=False)
    first = plane.arrival
    assert (first.front, first.headers) == (GRPC, [(b"me", b"1")])
    assert first.began_ns == first.received_ns
    call.message(infer_request().SerializeToString())
    # The second was waited for since the first was there.
    assert first.received_ns == plane.arrival.began_ns < plane.arrival.received_ns
    call.half_closed()
    assert reply.status == 0
