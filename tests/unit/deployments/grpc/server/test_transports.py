# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Stock clients against the service on either transport."""

import asyncio
import functools
import queue
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
import tritonclient.grpc as sync_client
import tritonclient.grpc.aio as aio_client
from tritonclient.utils import InferenceServerException

from deployments.grpc.kserve.service import STREAM_PATH, GrpcService, RestrictedService
from deployments.grpc.server.http2_server import Http2Server
from tests.support.grpc_plane import fake_plane
from tests.support.grpc_service import grpcio_server

ONES = np.ones((1, 16), np.int32)


@pytest.fixture
def plane():
    return fake_plane()


@pytest.fixture(params=[grpcio_server, Http2Server])
async def server(plane, request):
    server = request.param(GrpcService(plane))
    address = f"127.0.0.1:{await server.start('127.0.0.1', 0, reuse_port=False)}"
    yield SimpleNamespace(
        make=request.param,
        address=address,
        begin_drain=server.begin_drain,
        wait_drained=server.wait_drained,
    )
    server.close()
    await server.wait_drained(0)


@pytest.fixture
async def client(server):
    async with aio_client.InferenceServerClient(server.address) as client:
        yield client


def inputs_of(module, **arrays):
    inputs = []
    for name, array in arrays.items():
        datatype = "FP32" if array.dtype == np.float32 else "INT32"
        inputs.append(module.InferInput(name, array.shape, datatype))
        inputs[-1].set_data_from_numpy(array)
    return inputs


aio_inputs = functools.partial(inputs_of, aio_client)


async def test_aio_client_infers(client):
    result = await client.infer("simple", aio_inputs(INPUT0=ONES, INPUT1=ONES), request_id="i")
    assert (result.as_numpy("OUTPUT0") == 2).all()
    assert (result.as_numpy("OUTPUT1") == 0).all()
    assert result.get_response().id == "i"


async def test_sync_client_infers_and_manages(server, plane):
    def work():
        with sync_client.InferenceServerClient(server.address) as client:
            assert client.is_server_live()
            assert client.is_model_ready("simple")
            assert not client.is_model_ready("no_such")
            assert client.get_model_config("simple").config.name == "simple"
            assert client.get_server_metadata().name == "triton"
            statistics = client.get_inference_statistics("simple", as_json=True)
            assert statistics["model_stats"][0]["inference_count"] == "3"
            client.load_model("m", config="{}")
            client.unload_model("m")
            return client.infer(
                "simple", inputs_of(sync_client, INPUT0=ONES, INPUT1=ONES)
            ).as_numpy("OUTPUT0")

    assert (await asyncio.to_thread(work) == 2).all()
    assert [call[0] for call in plane.repository.calls] == ["load", "unload"]


async def test_large_tensors_pass_unchanged(client):
    array = np.arange(3_000_000, dtype=np.float32)
    result = await client.infer("large", aio_inputs(IN=array), outputs=None)
    assert (result.as_numpy("OUT") == array).all()


async def test_error_has_status_and_text(client):
    with pytest.raises(InferenceServerException) as caught:
        await client.infer("no_such", aio_inputs(INPUT0=ONES))
    assert caught.value.status() == "StatusCode.NOT_FOUND"
    assert caught.value.message() == "Request for unknown model: 'no_such' is not found"


async def test_unknown_method_is_unimplemented(server):
    async with grpc.aio.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary("/inference.GRPCInferenceService/Nope")(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_deadline_cancels_the_request(client, plane):
    timeout_s = 0.1
    while not plane.jobs:
        # Of a busy machine the first may not reach the server in time.
        timeout_s *= 2
        with pytest.raises(InferenceServerException, match="Deadline Exceeded"):
            await client.infer(
                "held", aio_inputs(IN=np.ones(1, np.int32)), client_timeout=timeout_s
            )
    await plane.jobs[0].cancelled.wait()


async def test_aio_stream_carries_decoupled_responses(client):
    async def requests():
        yield {
            "model_name": "decoupled",
            "inputs": aio_inputs(COUNT=np.array([3], np.int32)),
            "request_id": "d",
        }
        yield {"model_name": "no_such", "inputs": aio_inputs(COUNT=ONES), "request_id": "bad"}

    values, errors = [], []
    async for result, error in client.stream_infer(requests()):
        if error is not None:
            errors.append(error.message())
            continue
        final = result.get_response().parameters["triton_final_response"].bool_param
        values.append((int(result.as_numpy("OUT")[0]), final))
    assert values == [(0, False), (1, False), (2, False)]
    assert errors == ["Request for unknown model: 'no_such' is not found"]


async def test_sync_stream_gets_the_empty_final_response_it_asks_for(server):
    def work():
        answers = queue.Queue()
        with sync_client.InferenceServerClient(server.address) as client:
            client.start_stream(lambda result, error: answers.put((result, error)))
            client.async_stream_infer(
                "decoupled",
                inputs_of(sync_client, COUNT=np.array([1], np.int32)),
                enable_empty_final_response=True,
            )
            return [answers.get(timeout=10)[0].get_response() for _ in range(2)]

    responses = await asyncio.to_thread(work)
    assert [len(each.outputs) for each in responses] == [1, 0]
    assert responses[1].parameters["triton_final_response"].bool_param


async def test_sync_stream_in_status_mode_reports_the_status(server):
    def work():
        answers = queue.Queue()
        with sync_client.InferenceServerClient(server.address) as client:
            client.start_stream(
                lambda result, error: answers.put(error), headers={"triton_grpc_error": "true"}
            )
            client.async_stream_infer("no_such", inputs_of(sync_client, INPUT0=ONES))
            return answers.get(timeout=10)

    error = await asyncio.to_thread(work)
    assert error.status() == "StatusCode.NOT_FOUND"


async def test_stream_cancel_cancels_the_requests(client, plane):
    async def requests():
        yield {"model_name": "held", "inputs": aio_inputs(IN=np.ones(1, np.int32))}
        await plane.arrived.wait()
        await plane.jobs[0].cancelled.wait()

    stream = client.stream_infer(requests())
    first = asyncio.create_task(anext(aiter(stream)))
    await plane.arrived.wait()
    stream.cancel()
    await plane.jobs[0].cancelled.wait()
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_drain_answers_what_was_accepted(server, client, plane):
    answer = asyncio.create_task(client.infer("held", aio_inputs(IN=np.ones(1, np.int32))))
    await plane.arrived.wait()
    server.begin_drain()
    drained = asyncio.create_task(server.wait_drained(30))
    await asyncio.sleep(0)
    assert not drained.done()
    plane.jobs[0].respond(OUT=np.array([7], np.int32))
    assert (await answer).as_numpy("OUT") == [7]
    await drained


@pytest.mark.parametrize("make", [grpcio_server, Http2Server])
async def test_a_stream_without_the_right_metadata_is_refused_when_it_is_opened(plane, make):
    server = make(RestrictedService(GrpcService(plane), ((("inference",), "key", "s3cret"),)))
    port = await server.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stream = channel.stream_stream(STREAM_PATH.decode())()
        # Nothing is sent.
        assert await asyncio.wait_for(stream.code(), 20) is grpc.StatusCode.UNAVAILABLE
        assert await stream.details() == (
            "This protocol is restricted, expecting header 'triton-grpc-protocol-key'"
        )
        allowed = channel.stream_stream(STREAM_PATH.decode())(
            metadata=(("triton-grpc-protocol-key", "s3cret"),)
        )
        await allowed.done_writing()
        assert await allowed.code() is grpc.StatusCode.OK
    server.close()
    await server.wait_drained(0)


async def test_bound_port_is_an_os_error(server):
    port = int(server.address.rpartition(":")[2])
    other = server.make(GrpcService(fake_plane()))
    with pytest.raises(OSError, match=str(port)):
        await other.start("127.0.0.1", port, reuse_port=False)


async def test_grpcio_takes_known_options_only():
    grpcio_server(GrpcService(fake_plane()), {"keepalive-time": 7200000})
    with pytest.raises(KeyError):
        grpcio_server(GrpcService(fake_plane()), {"nope": 1})
