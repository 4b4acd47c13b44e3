# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The gRPC service, driven as a transport drives it."""

import asyncio
import gc
import weakref

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from backends.api.errors import (
    ERROR_BY_CODE,
    GRPC_STATUS,
    InvalidArgumentError,
)
from deployments.grpc.kserve.reflection import REFLECTION_PATHS
from deployments.grpc.kserve.service import HEALTH_PATH, INFER_PATH, PATHS, STREAM_PATH, GrpcService
from deployments.tracing.tracer import GRPC
from tests.support.grpc_service import (
    ZEROS,
    RecordedReply,
    ask,
    counted,
    infer_request,
    rpc_path,
)


async def test_infer_answers_every_output_with_one_raw_entry(service):
    status, _, response = await ask(service, "ModelInfer", infer_request(rid="abc"))
    assert status == 0
    assert (response.id, response.model_name, response.model_version) == ("abc", "simple", "1")
    assert [each.name for each in response.outputs] == ["OUTPUT0", "OUTPUT1"]
    assert list(response.raw_output_contents) == [ZEROS, ZEROS]


@pytest.mark.parametrize("path", [INFER_PATH, STREAM_PATH])
async def test_a_request_answered_at_once_is_freed_without_the_collector(service, plane, path):
    reply = RecordedReply()
    call = service.start(path, [], reply)
    gc.disable()
    try:
        call.message(infer_request().SerializeToString())
        assert reply.messages
        job = weakref.ref(plane.jobs.pop())
        # The call itself is still held, as by its transport.
        assert job() is None
    finally:
        gc.enable()
    call.half_closed()


async def test_infer_of_unknown_model_is_not_found(service):
    status, details, _ = await ask(service, "ModelInfer", infer_request("no_such"))
    assert (status, details) == (5, "Request for unknown model: 'no_such' is not found")


async def test_unary_infer_of_decoupled_model_is_unimplemented(service):
    status, details, _ = await ask(service, "ModelInfer", counted("decoupled", 1))
    assert status == 12
    assert details == "ModelInfer RPC doesn't support models with decoupled transaction policy"


async def test_core_check_reaches_the_client(service):
    request = infer_request(raw=(ZEROS, ZEROS[:-4]))
    status, details, _ = await ask(service, "ModelInfer", request)
    assert status == 3
    assert details == (
        "[request id: <id_unknown>] input byte size mismatch for input 'INPUT1' for model "
        "'simple'. Expected 64, got 60"
    )


async def test_classification_replaces_the_output_it_names(service):
    request = infer_request(outputs=[("OUTPUT0", 3), ("OUTPUT1", 0)])
    _, _, response = await ask(service, "ModelInfer", request)
    first, second = response.outputs
    assert (first.datatype, list(first.shape)) == ("BYTES", [1, 3])
    assert b"0:0:zero" in response.raw_output_contents[0]
    assert b"0:2" in response.raw_output_contents[0]
    assert second.datatype == "INT32"


@pytest.mark.parametrize("code", ERROR_BY_CODE)
async def test_model_error_keeps_its_status_and_text(service, plane, code):
    reply = RecordedReply()
    call = service.start(INFER_PATH, [], reply)
    call.message(counted("held", 1).SerializeToString())
    plane.jobs[0].sink.fail(ERROR_BY_CODE[code]("the message"))
    assert (reply.status, reply.details) == (GRPC_STATUS[code], "the message")


@pytest.mark.parametrize("count", [0, 2])
async def test_other_than_one_response_on_a_unary_call_is_internal(service, plane, count):
    reply = RecordedReply()
    service.start(INFER_PATH, [], reply).message(counted("held", 1).SerializeToString())
    for index in range(count):
        plane.jobs[0].respond(final=False, OUT=np.array([index], np.int32))
    plane.jobs[0].sink.respond(None, final=True)
    assert (reply.status, reply.details) == (13, f"expected a single response, got {count}")


async def test_one_response_and_a_later_final_flag_are_an_answer(service, plane):
    reply = RecordedReply()
    service.start(INFER_PATH, [], reply).message(counted("held", 1).SerializeToString())
    plane.jobs[0].respond(final=False, OUT=np.array([1], np.int32))
    assert reply.status is None
    plane.jobs[0].sink.respond(None, final=True)
    assert (reply.status, len(reply.messages)) == (0, 1)


async def test_cancel_reaches_the_request_and_nothing_is_replied(service, plane):
    reply = RecordedReply()
    call = service.start(INFER_PATH, [], reply)
    call.message(counted("held", 1).SerializeToString())
    call.cancelled()
    assert plane.jobs[0].is_cancelled
    assert (reply.status, reply.messages) == (None, [])


@pytest.mark.parametrize("path", [INFER_PATH, STREAM_PATH])
async def test_metadata_the_pattern_matches_becomes_parameters(plane, path):
    service = GrpcService(plane, header_forward_pattern="^my-|other")
    metadata = [(b"my-key", b"1"), (b"An-Other-Key", b"2"), (b"not-my-key", b"3")]
    service.start(path, metadata, RecordedReply()).message(
        counted("held", 1, parameters={"own": True}).SerializeToString()
    )
    expected = {"own": True, "my-key": "1", "An-Other-Key": "2"}
    assert plane.jobs[0].request.parameters == expected


@pytest.mark.parametrize("name", [b"priority", b"triton_enable_empty_final_response"])
async def test_reserved_metadata_is_not_forwarded(plane, name):
    reply = RecordedReply()
    call = GrpcService(plane, header_forward_pattern=".*").start(INFER_PATH, [(name, b"1")], reply)
    call.message(infer_request().SerializeToString())
    text = f"Header '{name.decode()}' is reserved for Triton usage and cannot be forwarded."
    assert (reply.status, reply.details) == (3, text)


def test_forward_pattern_must_be_a_regular_expression(plane):
    with pytest.raises(InvalidArgumentError, match="is not a regular expression"):
        GrpcService(plane, header_forward_pattern="(")


async def test_infer_while_exiting_is_unavailable(service, plane):
    plane.exiting = True
    status, details, _ = await ask(service, "ModelInfer", infer_request())
    assert status == 14
    assert details == "GRPC server is shutting down and has stopped accepting new requests."


@pytest.mark.parametrize("path", sorted(PATHS))
async def test_garbage_is_an_internal_error_on_every_method(service, path):
    reply = RecordedReply()
    call = service.start(path, [], reply)
    call.message(b"\xff\xff\xff")
    assert (reply.status, reply.details) == (13, "Unable to parse request")


@pytest.mark.parametrize("path", sorted(PATHS - {STREAM_PATH} - REFLECTION_PATHS))
async def test_unary_call_without_a_request_is_an_internal_error(service, path):
    reply = RecordedReply()
    service.start(path, [], reply).half_closed()
    assert reply.status == 13


async def test_unknown_path_starts_no_call(service):
    assert service.start(rpc_path("Nope"), [], RecordedReply()) is None


async def test_fault_in_the_plane_is_internal(service, plane):
    plane.server_metadata = None
    status, details, _ = await ask(service, "ServerMetadata", service_pb2.ServerMetadataRequest())
    assert (status, details) == (
        13,
        "gRPC call ServerMetadata failed: TypeError: 'NoneType' object is not callable; "
        "the server's log says where",
    )


@pytest.mark.parametrize(("exiting", "expected"), [(False, (0, [b"\x08\x01"])), (True, (14, []))])
async def test_health_check_serves_until_exiting(service, plane, exiting, expected):
    plane.exiting = exiting
    reply = RecordedReply()
    service.start(HEALTH_PATH, [], reply).message(b"\x0a\x03any")
    assert (reply.status, reply.messages) == expected


async def test_model_ready_of_unknown_model_is_false_not_an_error(service):
    status, _, response = await ask(
        service, "ModelReady", service_pb2.ModelReadyRequest(name="no_such")
    )
    assert (status, response.ready) == (0, False)


async def test_metadata_config_and_statistics_fill_their_messages(service):
    _, _, metadata = await ask(
        service, "ModelMetadata", service_pb2.ModelMetadataRequest(name="simple")
    )
    assert [list(each.shape) for each in metadata.inputs] == [[-1, 16], [-1, 16]]
    _, _, config = await ask(service, "ModelConfig", service_pb2.ModelConfigRequest(name="simple"))
    assert config.config.name == "simple"
    _, _, statistics = await ask(
        service, "ModelStatistics", service_pb2.ModelStatisticsRequest(name="simple")
    )
    row = statistics.model_stats[0]
    assert (row.inference_count, row.inference_stats.success.ns) == (3, 4000)
    assert row.batch_stats[0].compute_infer.count == 3


async def test_statistics_of_unknown_model_is_invalid(service):
    status, details, _ = await ask(
        service, "ModelStatistics", service_pb2.ModelStatisticsRequest(name="x")
    )
    assert (status, details) == (3, "requested model 'x' is not available")


async def test_repository_index_leaves_unknown_fields_empty(service):
    _, _, response = await ask(
        service, "RepositoryIndex", service_pb2.RepositoryIndexRequest(ready=True)
    )
    assert [(each.name, each.state) for each in response.models] == [
        ("simple", "READY"),
        ("broken", ""),
    ]


@pytest.mark.parametrize("rpc", ["RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"])
async def test_repository_name_is_unimplemented(service, rpc):
    request = getattr(service_pb2, rpc + "Request")(repository_name="foo")
    status, details, _ = await ask(service, rpc, request)
    assert (status, details) == (12, "'repository_name' specification is not supported")


async def test_load_passes_config_and_files_and_unload_its_flag(service, plane):
    load = service_pb2.RepositoryModelLoadRequest(model_name="m")
    load.parameters["config"].string_param = "{}"
    load.parameters["file:1/model.py"].bytes_param = b"\xff"
    assert (await ask(service, "RepositoryModelLoad", load))[0] == 0
    unload = service_pb2.RepositoryModelUnloadRequest(model_name="m")
    unload.parameters["unload_dependents"].bool_param = True
    assert (await ask(service, "RepositoryModelUnload", unload))[0] == 0
    assert plane.repository.calls == [
        ("load", "m", {"config": "{}", "file:1/model.py": b"\xff"}),
        ("unload", "m", True),
    ]


async def test_load_error_keeps_status_and_text(service):
    request = service_pb2.RepositoryModelLoadRequest(model_name="no_such")
    status, details, _ = await ask(service, "RepositoryModelLoad", request)
    assert (status, details) == (3, "load failed for model 'no_such'")


async def test_load_goes_on_when_the_client_leaves(service, plane):
    reply = RecordedReply()
    call = service.start(rpc_path("RepositoryModelLoad"), [], reply)
    call.message(service_pb2.RepositoryModelLoadRequest(model_name="m").SerializeToString())
    call.cancelled()
    while service._tasks:
        await asyncio.gather(*service._tasks)
    assert plane.repository.calls == [("load", "m", {})]
    assert reply.status is None


@pytest.mark.parametrize("kind", ["System", "Cuda"])
async def test_shared_memory_is_disabled_and_has_no_regions(service, kind):
    status_request = getattr(service_pb2, f"{kind}SharedMemoryStatusRequest")
    assert (await ask(service, f"{kind}SharedMemoryStatus", status_request()))[0] == 0
    status, details, _ = await ask(
        service, f"{kind}SharedMemoryStatus", status_request(name="nope")
    )
    assert status == 5
    assert details == f"Unable to find {kind.lower()} shared memory region: 'nope'"
    register = getattr(service_pb2, f"{kind}SharedMemoryRegisterRequest")(name="r")
    status, details, _ = await ask(service, f"{kind}SharedMemoryRegister", register)
    assert status == 12
    assert details.startswith("Client shared memory is disabled.")


async def test_the_plane_hears_how_a_request_came_while_tracing_is_on(service, plane):
    await ask(service, "ModelInfer", infer_request())
    assert plane.arrival is None
    plane.tracer.is_on = True
    await ask(service, "ModelInfer", infer_request())
    assert plane.arrival.front is GRPC
    assert 0 < plane.arrival.began_ns < plane.arrival.received_ns
