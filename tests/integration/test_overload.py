# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server under five times the load that its model carries; counts alone are judged."""

import asyncio
import contextlib
import json
import re
import socket
import urllib.request

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from scripts.bench_overload import CAPACITY_PER_S, Client, Seen
from tests.integration.conftest import PEER_CONNECTIONS, Guarded
from tests.support.server import RunningServer

LOAD_S = 4.0
# Of asking again until the model is overloaded; nothing is judged by it.
MOST_CALLS = 2000

pytestmark = pytest.mark.timeout(300)

REQUEST = service_pb2.ModelInferRequest(
    model_name="sleeper",
    inputs=[
        service_pb2.ModelInferRequest.InferInputTensor(name="X", datatype="INT32", shape=[1, 1])
    ],
    raw_input_contents=[np.zeros((1, 1), np.int32).tobytes()],
)


@pytest.fixture(scope="module")
def server(guarded: Guarded) -> RunningServer:
    return guarded.server


async def refused_call(address: str) -> grpc.aio.AioRpcError | None:
    async with grpc.aio.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for _ in range(MOST_CALLS):
            try:
                await stub.ModelInfer(REQUEST)
            except grpc.aio.AioRpcError as error:
                return error
    return None


async def overload(server: RunningServer) -> tuple[Seen, grpc.aio.AioRpcError | None]:
    client = Client(server.http)
    await client.connect(PEER_CONNECTIONS - 10)
    load = asyncio.create_task(client.open_load(5 * CAPACITY_PER_S, LOAD_S))
    error = await refused_call(server.grpc)
    seen = await load
    client.close()
    return seen, error


def refused_count(server: RunningServer) -> int:
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as page:
        text = page.read().decode()
    found = re.findall(
        r'^manta_admission_refused_total\{model="sleeper",.*\} (\d+)$', text, re.MULTILINE
    )
    assert 'manta_admission_outstanding_requests{model="sleeper",version="1"} 0' in text
    return sum(map(int, found))


def infer(server: RunningServer) -> int:
    tensor = {"name": "X", "shape": [1, 1], "datatype": "INT32", "data": [1]}
    body = json.dumps({"inputs": [tensor]}).encode()
    with urllib.request.urlopen(
        f"http://{server.http}/v2/models/sleeper/infer", body, timeout=30
    ) as answer:
        return int(answer.status)


def test_overload_is_refused_at_the_door_with_a_time_to_try_again(server: RunningServer) -> None:
    assert infer(server) == 200
    assert refused_count(server) == 0
    seen, error = asyncio.run(overload(server))
    # Each request has one outcome, and only the two that there may be.
    assert seen.other_count == 0
    assert len(seen.answered) + len(seen.refused_s) == seen.sent_count
    assert seen.answered
    assert seen.refused_s
    assert seen.retry_after_count == len(seen.refused_s)
    # The same over gRPC.
    assert error is not None
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "model 'sleeper' is overloaded" in (error.details() or "")
    trailers = dict(error.trailing_metadata() or ())
    assert int(trailers["grpc-retry-pushback-ms"]) > 0
    # What was counted is what clients were told, and nothing is left under way.
    assert refused_count(server) == len(seen.refused_s) + 1
    assert infer(server) == 200


def test_one_peer_cannot_have_all_connections(server: RunningServer) -> None:
    host, _, port = server.http.rpartition(":")
    sockets = []
    try:
        for _ in range(PEER_CONNECTIONS):
            sockets.append(socket.create_connection((host, int(port)), timeout=30))
            sockets[-1].sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert sockets[-1].recv(4096).startswith(b"HTTP/1.1 200")
        extra = socket.create_connection((host, int(port)), timeout=30)
        sockets.append(extra)
        with contextlib.suppress(ConnectionResetError):
            assert extra.recv(1) == b""
    finally:
        for each in sockets:
            each.close()
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as page:
        assert page.status == 200
