# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about the RPCs of traces, logs and shared memory, about Watch and restrictions."""

import asyncio
import uuid
from pathlib import Path

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from deployments.grpc.kserve.health import WATCH_PATH
from deployments.grpc.kserve.service import (
    INFER_PATH,
    PATHS,
    STREAM_PATH,
    GrpcService,
    RestrictedService,
    category_of,
)
from deployments.shared_memory.cuda import CudaMaps
from tests.support.grpc_plane import fake_plane
from tests.support.grpc_service import RecordedReply, rpc_path
from tests.support.host_cuda import HostDriver
from tests.support.memory_plane import settings_plane

ZEROS = np.zeros(16, np.int32).tobytes()


@pytest.fixture
def plane():
    plane = fake_plane()
    plane.settings = settings_plane(plane.control, plane.resolve, allow_client_memory=True)
    return plane


@pytest.fixture
def service(plane):
    return GrpcService(plane)


@pytest.fixture
def key():
    path = Path("/dev/shm", f"manta-test-{uuid.uuid4().hex}")
    path.write_bytes(bytes(256))
    yield f"/{path.name}"
    path.unlink(missing_ok=True)


async def ask(service, rpc, request, metadata=()):
    reply = RecordedReply()
    path = INFER_PATH if rpc == "ModelInfer" else rpc_path(rpc)
    call = service.start(path, list(metadata), reply)
    call.message(request.SerializeToString())
    await reply.done.wait()
    answer = None
    if reply.messages:
        response = "ModelInferResponse" if rpc == "ModelInfer" else f"{rpc}Response"
        data = reply.messages[0]
        data = data if isinstance(data, bytes) else b"".join(data)
        answer = getattr(service_pb2, response).FromString(data)
    return reply.status, reply.details, answer


def trace(model="", **settings):
    request = service_pb2.TraceSettingRequest(model_name=model)
    for name, values in settings.items():
        request.settings[name].value.extend(values)
    return request


def log(**settings):
    request = service_pb2.LogSettingsRequest()
    for name, (field, value) in settings.items():
        setattr(request.settings[name], field, value)
    return request


def shown(answer):
    return {name: list(value.value) for name, value in answer.settings.items()}


async def test_trace_settings_are_shown_changed_and_cleared(service):
    status, _, answer = await ask(service, "TraceSetting", trace())
    assert status == 0
    assert shown(answer) == {
        "trace_level": ["OFF"],
        "trace_rate": ["1000"],
        "trace_count": ["-1"],
        "log_frequency": ["0"],
        "trace_file": [""],
        "trace_mode": ["triton"],
    }
    _, _, answer = await ask(service, "TraceSetting", trace("simple", trace_rate=["33"]))
    assert shown(answer)["trace_rate"] == ["33"]
    _, _, answer = await ask(service, "TraceSetting", trace("simple", trace_rate=[]))
    assert shown(answer)["trace_rate"] == ["1000"]


@pytest.mark.parametrize(
    ("request_", "status", "text"),
    [
        (trace("nope"), 3, "Request for unknown model : nope"),
        (trace(trace_rate=["1", "2"]), 3, "expect only 1 value for 'trace_rate'"),
        (trace(trace_rate=["x"]), 3, "Unable to parse 'trace_rate', got: x"),
        (
            trace(trace_level=["TIMESTAMPS", "TENSORS"]),
            3,
            "Attempting to set invalid trace setting :trace file name is not given",
        ),
        (
            trace(trace_file=["f"]),
            12,
            "trace file location can not be updated through network protocol",
        ),
        (log(log_info=("string_param", "x")), 3, "expect boolean for 'log_info'"),
        (
            log(log_verbose_level=("bool_param", True)),
            3,
            "expect int32 for 'log_verbose_level'",
        ),
        (log(log_format=("string_param", "z")), 3, "invalid argument for log_format, got: z"),
        (
            log(log_file=("string_param", "f")),
            12,
            "log file location can not be updated through network protocol",
        ),
    ],
)
async def test_wrong_settings_have_the_text_of_triton(service, request_, status, text):
    rpc = type(request_).__name__.removesuffix("Request")
    assert (await ask(service, rpc, request_))[:2] == (status, text)


async def test_log_settings_are_changed(service):
    change = log(log_info=("bool_param", False), log_verbose_level=("uint32_param", 1))
    _, _, answer = await ask(service, "LogSettings", change)
    settings = answer.settings
    assert not settings["log_info"].bool_param
    assert settings["log_verbose_level"].uint32_param == 1
    assert settings["log_format"].string_param == "default"


def register(key, **fields):
    values = {"name": "r", "key": key, "byte_size": 256} | fields
    return service_pb2.SystemSharedMemoryRegisterRequest(**values)


async def test_region_is_registered_shown_and_unregistered(service, key):
    assert (await ask(service, "SystemSharedMemoryRegister", register(key)))[0] == 0
    status_request = service_pb2.SystemSharedMemoryStatusRequest()
    _, _, answer = await ask(service, "SystemSharedMemoryStatus", status_request)
    region = answer.regions["r"]
    assert (region.name, region.key, region.offset, region.byte_size) == ("r", key, 0, 256)
    assert (await ask(service, "SystemSharedMemoryRegister", register(key)))[:2] == (
        6,
        "shared memory region 'r' already in manager",
    )
    unregister = service_pb2.SystemSharedMemoryUnregisterRequest(name="r")
    assert (await ask(service, "SystemSharedMemoryUnregister", unregister))[0] == 0
    _, _, answer = await ask(service, "SystemSharedMemoryStatus", status_request)
    assert not answer.regions


async def test_cuda_region_is_registered_shown_and_unregistered(plane):
    driver = HostDriver({bytes(64): bytearray(128)})
    plane.settings = settings_plane(
        plane.control, plane.resolve, allow_client_memory=True, cuda=CudaMaps(lambda: driver)
    )
    service = GrpcService(plane)
    values = {"name": "r", "raw_handle": bytes(64), "device_id": 1, "byte_size": 128}
    register_request = service_pb2.CudaSharedMemoryRegisterRequest(**values)
    assert (await ask(service, "CudaSharedMemoryRegister", register_request))[0] == 0
    status_request = service_pb2.CudaSharedMemoryStatusRequest()
    _, _, answer = await ask(service, "CudaSharedMemoryStatus", status_request)
    region = answer.regions["r"]
    assert (region.name, region.device_id, region.byte_size) == ("r", 1, 128)
    assert (await ask(service, "CudaSharedMemoryRegister", register_request))[:2] == (
        6,
        "shared memory region 'r' already in manager",
    )
    unregister = service_pb2.CudaSharedMemoryUnregisterRequest()
    assert (await ask(service, "CudaSharedMemoryUnregister", unregister))[0] == 0
    _, _, answer = await ask(service, "CudaSharedMemoryStatus", status_request)
    assert not answer.regions


async def test_cuda_handle_of_the_wrong_size_is_refused(service):
    request = service_pb2.CudaSharedMemoryRegisterRequest(name="x", raw_handle=b"abc", byte_size=8)
    assert (await ask(service, "CudaSharedMemoryRegister", request))[:2] == (
        3,
        "failed to register shared memory region: invalid args",
    )


def infer(outputs=()):
    request = service_pb2.ModelInferRequest(model_name="simple")
    for index in range(2):
        request.inputs.add(name=f"INPUT{index}", datatype="INT32", shape=[1, 16])
    for name, place in outputs:
        in_region(request.outputs.add(name=name), *place)
    return request


def in_region(tensor, offset, size, region="r"):
    tensor.parameters["shared_memory_region"].string_param = region
    tensor.parameters["shared_memory_offset"].int64_param = offset
    tensor.parameters["shared_memory_byte_size"].int64_param = size


async def test_tensors_in_shared_memory_make_a_round_trip(service, key):
    memory = np.memmap(f"/dev/shm{key}", np.int32, "r+")
    memory[:16] = np.arange(16)
    await ask(service, "SystemSharedMemoryRegister", register(key))
    request = infer([("OUTPUT0", (128, 64))])
    in_region(request.inputs[0], 0, 64)
    request.raw_input_contents.append(np.ones(16, np.int32).tobytes())
    for _ in range(2):
        status, _, answer = await ask(service, "ModelInfer", request)
        assert status == 0
        assert list(answer.raw_output_contents) == [b""]
        assert memory[32:48].tolist() == list(range(1, 17))


@pytest.mark.parametrize(
    ("place", "status", "text"),
    [
        ((0, 64, "zzz"), 5, "Unable to find shared memory region: 'zzz'"),
        ((256, 64), 3, "Invalid offset for shared memory region: 'r'"),
        ((224, 64), 3, "Invalid offset + byte size for shared memory region: 'r'"),
        (
            (0, 60),
            3,
            "[request id: <id_unknown>] input byte size mismatch for input 'INPUT0' for model "
            "'simple'. Expected 64, got 60",
        ),
    ],
)
async def test_wrong_place_has_the_text_of_triton(service, key, place, status, text):
    await ask(service, "SystemSharedMemoryRegister", register(key))
    request = infer()
    in_region(request.inputs[0], *place)
    request.raw_input_contents.append(ZEROS)
    assert (await ask(service, "ModelInfer", request))[:2] == (status, text)


# Watch


async def test_watch_tells_the_status_at_once_and_each_change(service, plane):
    reply = RecordedReply()
    call = service.start(WATCH_PATH, [], reply)
    call.message(b"")
    call.half_closed()
    assert (reply.messages, reply.status) == ([b"\x08\x01"], None)
    plane.exiting = True
    await reply.done.wait()
    assert (reply.messages, reply.status) == ([b"\x08\x01", b"\x08\x02"], 0)


async def test_cancelled_watch_stops(service):
    reply = RecordedReply()
    call = service.start(WATCH_PATH, [], reply)
    call.message(b"")
    call.cancelled()
    assert call._timer.cancelled()


# Restrictions


def test_every_rpc_belongs_to_a_category():
    assert all(map(category_of, PATHS))


@pytest.mark.parametrize(
    ("rpc", "request_"),
    [
        ("ModelInfer", service_pb2.ModelInferRequest(model_name="simple")),
        ("RepositoryIndex", service_pb2.RepositoryIndexRequest()),
    ],
)
async def test_restricted_protocol_needs_its_metadata(plane, rpc, request_):
    restrictions = ((("inference", "model-repository"), "key", "s3cret"),)
    service = RestrictedService(GrpcService(plane), restrictions)
    text = "This protocol is restricted, expecting header 'triton-grpc-protocol-key'"
    for metadata in ((), ((b"triton-grpc-protocol-key", b"no"),)):
        assert (await ask(service, rpc, request_, metadata))[:2] == (14, text)
    allowed = await ask(service, rpc, request_, ((b"triton-grpc-protocol-key", b"s3cret"),))
    assert allowed[0] != 14
    assert (await ask(service, "ServerLive", service_pb2.ServerLiveRequest()))[0] == 0


async def test_restricted_stream_ends_before_it_begins(plane):
    service = RestrictedService(GrpcService(plane), ((("inference",), "key", "s3cret"),))
    reply = RecordedReply()
    call = service.start(STREAM_PATH, [], reply)
    call.half_closed()
    await asyncio.wait_for(reply.done.wait(), 5)
    assert reply.status == 14
