# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Server reflection on both transports, asked by grpcio's own client and by hand."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from tritonclient.grpc import service_pb2

from deployments.grpc.kserve.service import PATHS, GrpcService
from deployments.grpc.server.http2_server import Http2Server
from tests.support.grpc_plane import fake_plane
from tests.support.grpc_service import grpcio_server

SERVICES = [
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
    "inference.GRPCInferenceService",
    "manta.v1.Rollouts",
]
Request = reflection_pb2.ServerReflectionRequest
Response = reflection_pb2.ServerReflectionResponse


@pytest.fixture(params=[grpcio_server, Http2Server])
async def address(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    server = request.param(GrpcService(fake_plane()))
    yield f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    server.close()
    await server.wait_drained(5)


async def ask(address: str, version: str, *requests: Request) -> list[Response]:
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.stream_stream(
            path,
            request_serializer=Request.SerializeToString,
            response_deserializer=Response.FromString,
        )(iter(requests))
        return [each async for each in call]


async def test_a_client_that_knows_no_proto_calls_every_service(address: str) -> None:
    def work() -> None:
        with grpc.insecure_channel(address) as channel:
            database = ProtoReflectionDescriptorDatabase(channel)
            assert sorted(database.get_services()) == SERVICES
            pool = descriptor_pool.DescriptorPool(database)
            found = {
                f"/{name}/{method.name}".encode()
                for name in SERVICES
                for method in pool.FindServiceByName(name).methods
            }
            assert found == PATHS
            check = pool.FindMethodByName("grpc.health.v1.Health.Check")
            answer = channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                response_deserializer=message_factory.GetMessageClass(check.output_type).FromString,
            )(b"")
            assert str(answer) == "status: SERVING\n"

    await asyncio.to_thread(work)


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_both_versions_answer_each_request_in_order(address: str, version: str) -> None:
    services, file, unknown, extensions, extension = await ask(
        address,
        version,
        Request(list_services="", host="h"),
        Request(file_containing_symbol="inference.ModelInferRequest.InferInputTensor.shape"),
        Request(file_by_filename="no/such.proto"),
        Request(all_extension_numbers_of_type="inference.ModelConfig"),
        Request(file_containing_extension={"containing_type": "a.B", "extension_number": 7}),
    )
    assert [each.name for each in services.list_services_response.service] == SERVICES
    assert services.valid_host == services.original_request.host == "h"
    [first, second] = map(
        FileDescriptorProto.FromString, file.file_descriptor_response.file_descriptor_proto
    )
    assert (first.name, second.name) == ("grpc_service.proto", "model_config.proto")
    assert first.service[0].name == "GRPCInferenceService"
    assert unknown.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    assert unknown.error_response.error_message == (
        "file 'no/such.proto' is not known to this server"
    )
    answered = extensions.all_extension_numbers_response
    assert (answered.base_type_name, list(answered.extension_number)) == (
        "inference.ModelConfig",
        [],
    )
    assert extension.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


async def test_v1_describes_itself_by_its_own_names(address: str) -> None:
    [answer] = await ask(
        address, "v1", Request(file_containing_symbol="grpc.reflection.v1.ServerReflection")
    )
    [data] = answer.file_descriptor_response.file_descriptor_proto
    assert b"v1alpha" not in data
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(data)
    method = pool.FindServiceByName("grpc.reflection.v1.ServerReflection").methods[0]
    assert method.input_type.full_name == "grpc.reflection.v1.ServerReflectionRequest"


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"\xff", grpc.StatusCode.INTERNAL), (b"", grpc.StatusCode.INVALID_ARGUMENT)],
)
async def test_a_request_for_nothing_ends_the_stream(
    address: str, data: bytes, code: grpc.StatusCode
) -> None:
    path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.stream_stream(path)(iter([data]))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
    assert caught.value.code() is code


def test_the_inference_service_is_described_as_the_client_has_it() -> None:
    from deployments.grpc.codec.reflection import answer

    response = Response.FromString(
        answer(Request(file_by_filename="grpc_service.proto").SerializeToString())
    )
    assert service_pb2.DESCRIPTOR.serialized_pb in (
        response.file_descriptor_response.file_descriptor_proto
    )
