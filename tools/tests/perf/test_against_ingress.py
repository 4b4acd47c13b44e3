# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

"""The clients against the ingress's own protocols, over planes that are in memory."""

import asyncio
import contextlib
import time

import numpy as np
import pytest

from deployments.grpc.kserve.service import GrpcService
from deployments.grpc.server.http2_server import Http2Server
from manta_tools.perf.clients.connecting import new_client
from manta_tools.perf.clients.payload import Form, Places
from manta_tools.perf.clients.system_memory import SystemMemory
from manta_tools.perf.data.generated import Recipe, generate
from manta_tools.perf.data.model import Model, Tensor, read_model, with_shapes
from manta_tools.perf.data.rows import Content, DataSet, Row
from manta_tools.perf.load.loops import ClosedLoop
from manta_tools.perf.options.parsing import parse_options
from manta_tools.perf.records import Request
from tests.support.grpc_plane import fake_plane
from tests.support.grpc_service import grpcio_server
from tests.support.http_plane import running
from tests.support.memory_plane import settings_plane

PAIR = tuple(Tensor(f"INPUT{n}", "INT32", (16,)) for n in range(2))
SUMS = tuple(Tensor(f"OUTPUT{n}", "INT32", (16,)) for n in range(2))
SIMPLE = Model("simple", "", PAIR, SUMS, max_batch_size=8)
REPEAT = Model(
    "decoupled",
    "",
    (Tensor("COUNT", "INT32", (1,)),),
    (Tensor("OUT", "INT32", (1,)),),
    is_decoupled=True,
)


def client_of(port, *arguments):
    options = parse_options(["-m", "x", "-u", f"127.0.0.1:{port}", *arguments])
    return new_client(options, time.perf_counter_ns)


@contextlib.asynccontextmanager
async def grpc_server(make, **settings):
    plane = fake_plane()
    plane.settings = settings_plane(plane.control, plane.resolve, **settings)
    server = make(GrpcService(plane))
    try:
        yield await server.start("127.0.0.1", 0, reuse_port=False)
    finally:
        server.close()
        await server.wait_drained(5)


class Payloads:
    def __init__(self, payload):
        self._payload = payload

    def next(self, slot):
        return Request(self._payload, slot=slot)

    def closing(self, slot):
        return None


async def load(client, model, row, *, count=60, concurrency=20, places=None, form=None):
    payload = client.encode(form or Form(model), row, places or Places(), None)
    loop = ClosedLoop(
        client, Payloads(payload), time.perf_counter_ns, concurrency=concurrency, limit=count
    )
    loop.start()
    async with asyncio.timeout(60):
        while not loop.is_done:  # noqa: ASYNC110 - a loop knows no events
            await asyncio.sleep(0.005)
    ended = loop.take()
    assert [each.error for each in ended] == [""] * count
    return ended


def pair_row(batch_size=1):
    row = generate(SIMPLE, batch_size, Recipe(seed=3)).streams[0][0]
    left, right = (np.frombuffer(row.inputs[each.name].raw, np.int32) for each in PAIR)
    with np.errstate(over="ignore"):
        expected = {"OUTPUT0": (left + right).tobytes(), "OUTPUT1": (left - right).tobytes()}
    return Row(row.inputs, expected)


@pytest.mark.parametrize("form", [Form(SIMPLE), Form(SIMPLE, True, True), Form(SIMPLE, True)])
async def test_http_answers_are_what_they_have_to_be(form):
    async with running() as server:
        client = client_of(server.port)
        await load(client, SIMPLE, pair_row(3), form=form)
        await client.close()


@pytest.mark.parametrize("datatype", ["FP32", "FP64", "FP16", "BYTES", "INT8", "BOOL", "INT64"])
@pytest.mark.parametrize("is_json", [False, True])
async def test_every_datatype_comes_back_over_http(datatype, is_json):
    if is_json and datatype == "FP16":
        # Not in JSON.
        return
    name = f"id_{datatype.lower()}"
    model = Model(
        name, "", (Tensor("INPUT0", datatype, (-1,)),), (Tensor("OUTPUT0", datatype, (-1,)),), 8
    )
    model = with_shapes(model, [("INPUT0", (5,))], 1)
    row = generate(model, 2, Recipe(string_length=9)).streams[0][0]
    row = Row(row.inputs, {"OUTPUT0": row.inputs["INPUT0"].raw})
    async with running() as server:
        client = client_of(server.port)
        await load(client, model, row, form=Form(model, is_json, is_json), count=5)
        await client.close()


async def test_tensors_in_shared_memory_reach_the_server_over_http():
    row = Row(pair_row().inputs)
    data = DataSet(((row,),))
    async with running() as server:
        plane = server.plane
        plane.settings = settings_plane(plane.control, plane.resolve, allow_client_memory=True)
        client = client_of(server.port)
        memory = SystemMemory(client, data, SIMPLE, 64)
        await memory.open()
        await load(client, SIMPLE, row, places=memory.places(row))
        assert server.plane.control.settings.regions
        await memory.close()
        assert not server.plane.control.settings.regions
        await client.close()


@pytest.mark.parametrize("make", [Http2Server, grpcio_server])
@pytest.mark.parametrize(
    "arguments", [(), ("--streaming",), ("--grpc-compression-algorithm", "gzip")]
)
async def test_grpc_answers_are_what_they_have_to_be(make, arguments):
    async with grpc_server(make) as port:
        client = client_of(port, "-i", "grpc", *arguments)
        await client.open(1)
        await load(client, SIMPLE, pair_row(3), count=100)
        await client.close()


@pytest.mark.parametrize("make", [Http2Server, grpcio_server])
async def test_tensors_in_shared_memory_reach_the_server_over_grpc(make):
    row = Row(pair_row().inputs)
    async with grpc_server(make, allow_client_memory=True) as port:
        client = client_of(port, "-i", "grpc")
        memory = SystemMemory(client, DataSet(((row,),)), SIMPLE, 64)
        await memory.open()
        await load(client, SIMPLE, row, places=memory.places(row))
        await memory.close()
        await client.close()


@pytest.mark.parametrize("make", [Http2Server, grpcio_server])
async def test_decoupled_requests_have_all_their_responses(make):
    row = Row({"COUNT": Content("INT32", (1,), np.array([7], np.int32).tobytes())})
    async with grpc_server(make) as port:
        client = client_of(port, "-i", "grpc", "--streaming")
        ended = await load(client, REPEAT, row, count=30, concurrency=8)
        assert {len(each.responses_ns) for each in ended} == {7}
        await client.close()


@pytest.mark.parametrize("make", [Http2Server, grpcio_server])
@pytest.mark.parametrize("arguments", [(), ("--streaming",)])
async def test_large_messages_go_both_ways(make, arguments):
    raw = np.arange(500_000, dtype=np.float32).tobytes()
    model = Model("large", "", (Tensor("IN", "FP32", (-1,)),), (Tensor("OUT", "FP32", (-1,)),))
    row = Row({"IN": Content("FP32", (500_000,), raw)}, {"OUT": raw})
    async with grpc_server(make) as port:
        client = client_of(port, "-i", "grpc", *arguments)
        await load(client, model, row, count=8, concurrency=3)
        await client.close()


@pytest.mark.parametrize("make", [Http2Server, grpcio_server])
async def test_a_model_is_described_over_grpc(make):
    async with grpc_server(make) as port:
        client = client_of(port, "-i", "grpc")
        asked = Model("simple", "", (), ())
        model = read_model(await client.metadata(asked), await client.config(asked))
        assert [each.name for each in model.inputs] == ["INPUT0", "INPUT1"]
        statistics = await client.statistics()
        assert statistics["model_stats"][0]["inference_stats"]["success"]["ns"] == "4000"
        await client.close()
