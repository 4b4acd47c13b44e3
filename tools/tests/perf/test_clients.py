# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

"""The clients against tiny servers on this machine."""

import asyncio
import time
from pathlib import Path

import pytest
import uvloop

from backends.api.errors import UnavailableError
from manta_tools.perf.clients.connecting import new_client
from manta_tools.perf.clients.http_client import HttpClient
from manta_tools.perf.clients.payload import Form, Places
from manta_tools.perf.clients.system_memory import SystemMemory
from manta_tools.perf.data.generated import Recipe, generate
from manta_tools.perf.data.model import Model, read_model
from manta_tools.perf.data.rows import Content, DataSet, Row
from manta_tools.perf.load.loops import ClosedLoop
from manta_tools.perf.options.parsing import parse_options
from manta_tools.perf.records import Request
from tests.support.echo_servers import METADATA, Counters, EchoGrpcServer, EchoHttpServer

ECHO = read_model(METADATA, {"max_batch_size": 8})
DECOUPLED = read_model(
    METADATA, {"max_batch_size": 8, "model_transaction_policy": {"decoupled": True}}
)


def row_of(model=ECHO, *, expected=None):
    row = generate(model, 1, Recipe()).streams[0][0]
    return Row(row.inputs, {"OUT": row.inputs["IN"].raw} if expected is None else expected)


class Waiting:
    """A listener that counts ends."""

    def __init__(self, count):
        self._left, self._all = count, asyncio.Event()
        self.responses = []

    def responded(self, request, now_ns):
        request.responses_ns.append(now_ns)
        self.responses.append(request)

    def ended(self, request, now_ns):
        request.end_ns = now_ns
        self._left -= 1
        if not self._left:
            self._all.set()

    async def all(self):
        async with asyncio.timeout(60):
            await self._all.wait()


async def infer(client, count=1, model=ECHO, row=None):
    payload = client.encode(Form(model), row or row_of(model), Places(), None)
    listener = Waiting(count)
    requests = [Request(payload, slot=slot) for slot in range(count)]
    for request in requests:
        client.send(request, listener)
    await listener.all()
    return requests


def http_client(port, **options):
    return HttpClient(("127.0.0.1", port), time.perf_counter_ns, **options)


def client_of(port, *arguments):
    options = parse_options(["-m", "echo", "-u", f"127.0.0.1:{port}", *arguments])
    return new_client(options, time.perf_counter_ns)


GRPC = ("-i", "grpc")
STREAM = (*GRPC, "--streaming")


async def test_requests_over_http_are_answered_and_checked():
    async with EchoHttpServer(Counters()) as port:
        client = http_client(port)
        requests = await infer(client, 20)
        assert [each.error for each in requests] == [""] * 20
        assert all(len(each.responses_ns) == 1 for each in requests)
        await client.close()


@pytest.mark.parametrize("arguments", [(), GRPC, STREAM])
def test_clients_work_on_the_loop_of_the_command(arguments):
    async def run():
        server = EchoGrpcServer(Counters()) if arguments else EchoHttpServer(Counters())
        async with server as port:
            client = client_of(port, *arguments)
            assert [each.error for each in await infer(client, 5)] == [""] * 5
            await client.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


async def test_connections_are_used_again():
    server = EchoHttpServer(Counters())
    async with server as port:
        client = http_client(port)
        await client.open(3)
        for _ in range(5):
            await infer(client, 3)
        assert server.connections == 3
        await client.close()


async def test_a_server_that_closes_after_each_answer_is_still_served():
    server = EchoHttpServer(Counters(), closes=True)
    async with server as port:
        client = http_client(port)
        for _ in range(3):
            assert [each.error for each in await infer(client, 2)] == ["", ""]
        await client.close()


@pytest.mark.parametrize("arguments", [(), GRPC, STREAM])
async def test_a_wrong_answer_is_a_failure(arguments):
    server = EchoGrpcServer(Counters()) if arguments else EchoHttpServer(Counters())
    async with server as port:
        client = client_of(port, *arguments)
        request = (await infer(client, row=row_of(expected={"OUT": b"\x00"})))[0]
        assert request.error.startswith("Output doesn't match expected output: 'OUT'")
        await client.close()


@pytest.mark.parametrize("arguments", [(), GRPC, STREAM])
async def test_a_refusal_is_a_failure_with_the_server_s_text(arguments):
    counters = Counters()
    counters.fails_with = "too many dimensions"
    server = EchoGrpcServer(counters) if arguments else EchoHttpServer(counters)
    async with server as port:
        client = client_of(port, *arguments)
        request = (await infer(client))[0]
        assert "too many dimensions" in request.error
        assert not request.responses_ns
        await client.close()


@pytest.mark.parametrize("arguments", [(), GRPC])
async def test_a_server_that_is_not_there_is_an_error(arguments):
    async with EchoHttpServer(Counters()) as port:
        pass
    client = client_of(port, *arguments)
    with pytest.raises(UnavailableError):
        await client.open(1)
    await client.close()


async def test_requests_to_a_server_that_is_gone_fail():
    async with EchoHttpServer(Counters()) as port:
        pass
    client = http_client(port)
    assert "cannot connect to 127.0.0.1" in (await infer(client))[0].error
    await client.close()


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\n", "neither a Content-Length nor chunks"),
        (b"SSH-2.0-x\r\n\r\n", "is not HTTP/1"),
        (b"", "the connection was closed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "the connection was closed"),
    ],
)
async def test_answers_that_are_none_are_failures(head, part):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = http_client(server.sockets[0].getsockname()[1])
    assert part in (await infer(client))[0].error
    await client.close()
    server.close()
    await server.wait_closed()


async def test_requests_over_grpc_are_answered_and_checked():
    async with EchoGrpcServer(Counters()) as port:
        client = client_of(port, *GRPC, "-H", "Key:Value")
        await client.open(1)
        assert [each.error for each in await infer(client, 20)] == [""] * 20
        await client.close()


async def test_requests_over_streams_find_their_answers():
    server = EchoGrpcServer(Counters())
    async with server as port:
        client = client_of(port, *STREAM)
        requests = await infer(client, 40)
        assert [each.error for each in requests] == [""] * 40
        assert all(len(each.responses_ns) == 1 for each in requests)
        assert len({each.id for each in server.servicer.requests}) >= 3
        await client.close()


@pytest.mark.parametrize("responses", [0, 2, 5])
async def test_a_decoupled_request_ends_with_its_final_response(responses):
    async with EchoGrpcServer(Counters(), responses) as port:
        client = client_of(port, *STREAM)
        requests = await infer(client, 4, DECOUPLED)
        # The final one is empty, and no response.
        assert [len(each.responses_ns) for each in requests] == [responses] * 4
        await client.close()


async def test_a_stream_that_breaks_fails_what_is_under_way_and_the_next_one_works():
    counters = Counters()
    counters.stream_ends_with = "it is broken"
    async with EchoGrpcServer(counters) as port:
        client = client_of(port, *STREAM)
        assert "it is broken" in (await infer(client))[0].error
        counters.stream_ends_with = ""
        assert (await infer(client))[0].error == ""
        await client.close()


@pytest.mark.parametrize("arguments", [GRPC, STREAM])
async def test_large_messages_wait_for_their_windows(arguments):
    row = Row({"IN": Content("INT32", (8, 100_000), bytes(3_200_000))}, {"OUT": bytes(3_200_000)})
    async with EchoGrpcServer(Counters()) as port:
        client = client_of(port, *arguments)
        assert [each.error for each in await infer(client, 5, row=row)] == [""] * 5
        await client.close()


async def test_more_calls_than_a_connection_takes_get_other_connections():
    async with EchoGrpcServer(Counters(), options=[("grpc.max_concurrent_streams", 3)]) as port:
        client = client_of(port, *GRPC)
        assert [each.error for each in await infer(client, 20)] == [""] * 20
        await client.close()


async def test_a_server_that_speaks_something_else_is_an_error():
    async def serve(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = client_of(server.sockets[0].getsockname()[1], *GRPC)
    with pytest.raises(UnavailableError, match="the server speaks no HTTP/2"):
        await client.open(1)
    await client.close()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("arguments", [(), GRPC])
async def test_a_closed_loop_at_a_server_that_is_gone_goes_on_failing(arguments):
    async with EchoHttpServer(Counters()) as port:
        pass
    client = client_of(port, *arguments)
    payload = client.encode(Form(ECHO), row_of(), Places(), None)

    class Payloads:
        def next(self, slot):
            return Request(payload, slot=slot)

        def closing(self, slot):
            return None

    # Requests that fail at once are sent again from within the loop that tells of them.
    loop = ClosedLoop(client, Payloads(), time.perf_counter_ns, concurrency=2, limit=30)
    loop.start()
    async with asyncio.timeout(60):
        while not loop.is_done:  # noqa: ASYNC110 - a loop knows no events
            await asyncio.sleep(0.001)
    assert all("cannot connect" in each.error for each in loop.take())
    await client.close()


@pytest.mark.parametrize("arguments", [(), GRPC])
async def test_a_model_is_described_alike_over_both_protocols(arguments):
    server = EchoGrpcServer(Counters()) if arguments else EchoHttpServer(Counters())
    async with server as port:
        client = client_of(port, *arguments)
        asked = Model("echo", "", (), ())
        model = read_model(await client.metadata(asked), await client.config(asked))
        assert model == ECHO
        await client.close()


async def test_a_model_that_is_not_there_is_an_error_with_the_server_s_text():
    async with EchoHttpServer(Counters()) as port:
        client = http_client(port)
        with pytest.raises(UnavailableError, match="there is none"):
            await client.metadata(Model("other", "", (), ()))
        await client.close()


def content_of(place):
    content = Path("/dev/shm/" + place.region).read_bytes()
    return content[place.offset : place.offset + place.size_bytes]


async def test_shared_memory_holds_the_rows_while_it_is_open():
    counters = Counters()
    data = DataSet((tuple(row_of() for _ in range(3)),))
    async with EchoHttpServer(counters) as port:
        client = http_client(port)
        memory = SystemMemory(client, data, ECHO, 100)
        await memory.open()
        paths = [Path("/dev/shm" + region["key"]) for region in counters.regions.values()]
        assert sorted(region["byte_size"] for region in counters.regions.values()) == [128, 192]
        for row in data.streams[0]:
            place = memory.places(row).inputs["IN"]
            assert content_of(place) == row.inputs["IN"].raw
        await memory.close()
        assert counters.regions == {}
        assert not any(path.exists() for path in paths)
        await client.close()
