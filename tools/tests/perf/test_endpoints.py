# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

"""Endpoints that take a JSON body, against a tiny server and the ingress's own."""

import asyncio
import contextlib
import json

import pytest

from backends.api.errors import InvalidArgumentError, UnavailableError
from manta_tools.perf.command import perform
from manta_tools.perf.data.payload_file import endpoint_model, read_payloads
from manta_tools.perf.options.parsing import UsageError, parse_options
from tests.support.http_plane import running

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
STREAMED = {**CHAT, "stream": True}


def written(tmp_path, *bodies):
    path = tmp_path / "payloads.json"
    path.write_text(json.dumps({"data": [{"payload": [body]} for body in bodies]}))
    return path


def options_of(port, path, endpoint, *more):
    url = ("-u", f"127.0.0.1:{port}", "--service-kind", "openai", "--endpoint", endpoint)
    return parse_options(["-m", "m", *url, "--input-data", str(path), "--async", *more])


@contextlib.asynccontextmanager
async def chat_server(events):
    """Answers a body with these events when it asks for a stream, else in one piece."""
    bodies = []
    handlers = []

    async def serve(reader, writer):
        handlers.append(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
                bodies.append(json.loads(await reader.readexactly(length)))
                if not bodies[-1].get("stream"):
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                    continue
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                for event in events:
                    data = b"data: " + event + b"\n\n"
                    writer.write(b"%x\r\n%b\r\n" % (len(data), data))
                    await writer.drain()
                writer.write(b"0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], bodies
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.gather(*handlers)


async def test_events_of_a_stream_are_responses(tmp_path, capsys):
    export = tmp_path / "export.json"
    path = written(tmp_path, STREAMED)
    async with chat_server([b'{"a":1}', b'{"a":2}', b'{"a":3}', b"[DONE]"]) as (port, bodies):
        more = ("--request-count", "6", "--profile-export-file", str(export))
        assert await perform(options_of(port, path, "v1/chat/completions", *more)) == 0
    assert bodies == [STREAMED] * 6
    document = json.loads(export.read_text())
    assert (document["service_kind"], document["endpoint"]) == ("openai", "v1/chat/completions")
    requests = document["experiments"][0]["requests"]
    assert [len(each["response_timestamps"]) for each in requests] == [3] * 6
    assert json.loads(requests[0]["request_inputs"]["payload"]) == STREAMED
    lines = capsys.readouterr().out.splitlines()
    assert "  Service Kind: OPENAI" in lines
    assert any(line.startswith("    Time to first response: avg ") for line in lines)


async def test_an_answer_in_one_piece_is_one_response(tmp_path, capsys):
    async with chat_server([]) as (port, bodies):
        path = written(tmp_path, CHAT, {**CHAT, "seed": 2})
        assert (
            await perform(options_of(port, path, "v1/chat/completions", "--request-count", "4"))
            == 0
        )
    assert [body.get("seed") for body in bodies] == [None, 2, None, 2]
    assert "Time to first response" not in capsys.readouterr().out


def timed(tmp_path, *instants_ms):
    path = tmp_path / "trace.json"
    entries = [{"payload": [{**CHAT, "n": each}], "timestamp": [each]} for each in instants_ms]
    path.write_text(json.dumps({"data": entries}))
    return path


async def test_a_fixed_schedule_sends_each_payload_once_when_it_is_due(tmp_path):
    export = tmp_path / "export.json"
    path = timed(tmp_path, 0, 20, 20, 60)
    async with chat_server([]) as (port, bodies):
        more = ("--fixed-schedule", "--profile-export-file", str(export))
        assert await perform(options_of(port, path, "v1/chat/completions", *more)) == 0
    assert sorted(body["n"] for body in bodies) == [0, 20, 20, 60]
    requests = json.loads(export.read_text())["experiments"][0]["requests"]
    starts = sorted(each.get("intended_timestamp", each["timestamp"]) for each in requests)
    assert [(start - starts[0]) // 10**6 for start in starts] == [0, 20, 20, 60]


@pytest.mark.parametrize("instants_ms", [(5, 4), (None,), (-1,), ("1",)])
async def test_a_schedule_that_is_none_is_refused(tmp_path, instants_ms):
    path = timed(tmp_path, *instants_ms)
    async with chat_server([]) as (port, _):
        with pytest.raises(InvalidArgumentError, match="timestamp"):
            await perform(options_of(port, path, "v1", "--fixed-schedule"))


async def test_an_event_that_is_an_error_is_a_failure(tmp_path):
    path = written(tmp_path, STREAMED)
    async with chat_server([b'{"a":1}', b'{"error":"out of memory"}']) as (port, _):
        with pytest.raises(UnavailableError, match="out of memory"):
            await perform(options_of(port, path, "v1/chat/completions", "--request-count", "2"))


@pytest.mark.parametrize("endpoint", ["generate", "generate_stream"])
async def test_generate_endpoints_of_the_ingress_are_measured(tmp_path, endpoint):
    path = written(tmp_path, {"INPUT0": "hello"})
    async with running() as server:
        path_of_model = f"v2/models/id_bytes/{endpoint}"
        options = options_of(server.port, path, path_of_model, "--request-count", "8")
        assert await perform(options) == 0


@pytest.mark.parametrize(
    ("document", "part"),
    [
        ("{", "failed to parse the specified json file"),
        ("[]", "doesn't contain data field"),
        ('{"data": []}', "the data has no payloads"),
        ('{"data": [{}]}', "entry 0 of the data has no 'payload' with one body"),
        ('{"data": [{"payload": []}]}', "entry 0 of the data has no 'payload' with one body"),
    ],
)
def test_a_file_without_payloads_is_refused(tmp_path, document, part):
    path = tmp_path / "payloads.json"
    path.write_text(document)
    with pytest.raises(InvalidArgumentError) as caught:
        read_payloads([path])
    assert part in caught.value.message


def test_a_model_streams_when_a_payload_asks_for_it(tmp_path):
    assert not endpoint_model("m", read_payloads([written(tmp_path, CHAT)])).is_decoupled
    assert endpoint_model("m", read_payloads([written(tmp_path, CHAT, STREAMED)])).is_decoupled


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "Must supply --input-data for OpenAI service kind."),
        (
            ("--input-data", "."),
            'Must supply --endpoint for OpenAI service kind. For example, "v1/chat/completions".',
        ),
        (
            ("--input-data", ".", "--endpoint", "v1"),
            "Only async mode is currently supported for OpenAI service-kind",
        ),
        (
            ("--input-data", ".", "--endpoint", "v1", "-a", "-b", "2"),
            "Batching is not currently supported with OpenAI service-kind",
        ),
        (
            (
                "--input-data",
                ".",
                "--endpoint",
                "v1",
                "-a",
                "--fixed-schedule",
                "--request-count=2",
            ),
            "Cannot specify `--request-count` when using `--fixed-schedule`. The request count",
        ),
        (
            ("--input-data", "zero", "--endpoint", "v1", "-a"),
            "Shared memory, gRPC and generated data do not go with OpenAI service-kind",
        ),
    ],
)
def test_options_that_do_not_go_with_an_endpoint_are_refused(arguments, expected):
    with pytest.raises(UsageError) as caught:
        parse_options(["-m", "m", "--service-kind", "openai", *arguments])
    assert str(caught.value).startswith(expected)
