# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta genai-perf profile`` against a stand-in of a server."""

import asyncio
import contextlib
import csv
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from backends.api.errors import InvalidArgumentError, UnavailableError
from cluster.cli import main as manta
from manta_tools.perf.genai import command
from manta_tools.perf.genai.answers import Memory
from manta_tools.perf.genai.command import main, profile
from manta_tools.perf.genai.endpoints import TensorNames
from manta_tools.perf.genai.export import outcome, reported
from manta_tools.perf.genai.parsing import parse_profile
from manta_tools.perf.genai.tokenizing import ApproximateTokenizer
from tests.support.tokenizer_files import write_tokenizer

# A stand-in for servers of language models over HTTP: OpenAI's endpoints and Triton's generate.
# It answers as OpenAI's and vLLM's do: a stream begins with a chunk that has a role and no text,
# and ends with one that has usage, where it was asked for, and `[DONE]`.

Body = dict[str, Any]
# Returns the parts of the answer to a body.
Answer = Callable[[Body], list[str]]


class ChatServer:
    """The server.

    Attributes:
        port: Where it listens.
        asked: Paths and bodies, in the order in which they came.
        most_at_once: The most requests that were under way at once.
    """

    def __init__(self, answer: Answer, usage: Callable[[Body], int | None]) -> None:
        self._answer, self._usage = answer, usage
        self.port = 0
        self.asked: list[tuple[str, Body]] = []
        self.most_at_once = self._under_way = 0
        self.handlers: list[asyncio.Task[Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.handlers.append(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await self._exchange(reader, writer)
        writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        path = head.split(" ", 2)[1]
        self.asked.append((path, body))
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            # Others that were sent at once come in before this one is answered.
            for _ in range(8):
                await asyncio.sleep(0)
            await self._respond(path, body, writer)
        finally:
            self._under_way -= 1

    async def _respond(self, path: str, body: Body, writer: asyncio.StreamWriter) -> None:
        parts = self._answer(body)
        if not body.get("stream"):
            data = json.dumps(self._whole(path, body, "".join(parts))).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data))
            return
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for event in self._events(path, body, parts):
            data = f"data: {event}\n\n".encode()
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await writer.drain()
            # A client on this loop reads each event before the next is written.
            for _ in range(8):
                await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")

    def _whole(self, path: str, body: Body, text: str) -> Body:
        if path.endswith("/generate"):
            return {"model_name": "m", "text_output": text}
        if path.endswith("chat/completions"):
            choice = {"index": 0, "message": {"role": "assistant", "content": text}}
            found: Body = {"object": "chat.completion", "choices": [choice]}
        else:
            found = {"object": "text_completion", "choices": [{"index": 0, "text": text}]}
        usage = self._usage(body)
        return found if usage is None else {**found, "usage": {"completion_tokens": usage}}

    def _events(self, path: str, body: Body, parts: list[str]) -> Iterator[str]:
        if path.endswith("/generate_stream"):
            for part in parts:
                yield json.dumps({"model_name": "m", "text_output": part})
            return
        if path.endswith("chat/completions"):
            kind = "chat.completion.chunk"
            deltas: list[Body] = [{"delta": {"role": "assistant", "content": ""}}]
            deltas += [{"delta": {"content": part}} for part in parts]
        else:
            kind, deltas = "text_completion", [{"text": part} for part in parts]
        for delta in deltas:
            yield json.dumps({"object": kind, "choices": [{"index": 0, **delta}]})
        usage = self._usage(body)
        if usage is not None and body.get("stream_options", {}).get("include_usage"):
            tokens = {"completion_tokens": usage}
            yield json.dumps({"object": kind, "choices": [], "usage": tokens})
        yield "[DONE]"


@contextlib.asynccontextmanager
async def chat_server(
    answer: Answer | list[str], usage: Callable[[Body], int | None] | int | None = None
) -> AsyncIterator[ChatServer]:
    """Run a server.

    Args:
        answer: The parts of every answer, or what returns them.
        usage: The tokens that it says an answer had; None where it says nothing.
    """
    server = ChatServer(
        answer if callable(answer) else lambda _: answer,
        usage if callable(usage) else lambda _: usage,
    )
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await listening.wait_closed()
        await asyncio.gather(*server.handlers)


WORDS = [" The", " quick brown", " fox"]
EXPORT = "profile_export_genai_perf.json"


async def run(tmp_path, server, *arguments, kind="chat"):
    url = ("-u", f"127.0.0.1:{server.port}", "--artifact-dir", str(tmp_path / "artifacts"))
    small = ("--isl", "12", "--num-prompts", "5")
    options, passed = parse_profile(["-m", "m", "--endpoint-type", kind, *url, *small, *arguments])
    assert await profile(options, passed) == 0
    (directory,) = (tmp_path / "artifacts").iterdir()
    return directory, json.loads((directory / EXPORT).read_text())


def payload(tmp_path, *lines):
    path = tmp_path / "payload.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return f"payload:{path}"


@pytest.mark.parametrize("kind", ["chat", "completions", "generate"])
async def test_streams_are_measured_token_by_token(tmp_path, capsys, kind):
    async with chat_server(WORDS) as server:
        directory, found = await run(tmp_path, server, "--streaming", kind=kind)
    assert found["request_count"]["avg"] == 10.0
    # The tokenizer's: "The quick brown fox" are four.
    assert found["output_sequence_length"]["avg"] == 4.0
    assert found["input_sequence_length"]["avg"] == 12.0
    # The server writes an event when the one before has been read: no two have one time.
    assert found["inter_token_latency"]["min"] > 0.0
    assert found["token_counts"]["answers_by_tokenizer"] == 10
    assert directory.name == f"m-openai-{kind}-concurrency1"
    rows = list(csv.reader((directory / "profile_export_genai_perf.csv").read_text().splitlines()))
    assert rows[0][:4] == ["Metric", "avg", "min", "max"]
    assert rows[1][0] == "Time To First Token (ms)"
    assert ["Request Count (count)", "10.00"] in rows
    text = capsys.readouterr().out
    assert "GenAI-Perf | LLM Metrics" in text
    assert "│                     Input Sequence Length (tokens) │" in text


@pytest.mark.parametrize("kind", ["chat", "completions", "generate"])
async def test_answers_in_one_piece_have_no_times_of_tokens(tmp_path, capsys, kind):
    async with chat_server(WORDS) as server:
        directory, found = await run(tmp_path, server, kind=kind)
    assert found["output_sequence_length"]["avg"] == 4.0
    assert "inter_token_latency" not in found
    assert "Time To First Token" not in capsys.readouterr().out
    assert "Time To First Token" not in (directory / "profile_export_genai_perf.csv").read_text()


async def test_the_servers_count_of_tokens_is_taken_where_it_has_one(tmp_path):
    async with chat_server(WORDS, usage=9) as server:
        _, found = await run(tmp_path, server, "--streaming")
        assert found["output_sequence_length"]["avg"] == 9.0
        assert found["token_counts"]["answers_by_server"] == 10
        _, found = await run(tmp_path, server, "--streaming", "--no-server-tokens")
        assert found["output_sequence_length"]["avg"] == 4.0
        assert "stream_options" not in server.asked[-1][1]


async def test_a_tokenizers_file_counts_prompts_and_answers(tmp_path):
    path = write_tokenizer(tmp_path)
    async with chat_server([" water", " and", " stone"]) as server:
        _, found = await run(tmp_path, server, "--tokenizer", str(path))
    assert found["token_counts"]["tokenizer"] == str(path)
    assert abs(found["input_sequence_length"]["avg"] - 12) <= 1


async def test_requests_are_what_was_asked_for(tmp_path):
    async with chat_server(WORDS) as server:
        more = ("--osl", "7", "--extra-inputs", "temperature:0.5", "--request-count", "15")
        concurrency = ("--concurrency", "3", "--warmup-request-count", "2")
        directory, _ = await run(tmp_path, server, *more, *concurrency)
    assert len(server.asked) == 17
    assert server.most_at_once == 3
    path, body = server.asked[0]
    assert path == "/v1/chat/completions"
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("m", 7, 0.5)
    inputs = json.loads((directory / "inputs.json").read_text())["data"]
    assert [each["payload"][0] for each in inputs] == [body for _, body in server.asked[2:7]]


async def test_a_rate_is_measured(tmp_path):
    async with chat_server(WORDS) as server:
        load = ("--request-rate", "40", "--", "--request-distribution", "poisson")
        directory, found = await run(tmp_path, server, *load)
    export = json.loads((directory / "profile_export.json").read_text())["experiments"][0]
    assert export["experiment"] == {"mode": "request_rate", "value": 40.0}
    assert len(export["requests"]) == found["request_count"]["avg"] == 40.0


async def test_goodput_and_options_are_in_the_file(tmp_path):
    async with chat_server(WORDS) as server:
        limits = ("--goodput", "request_latency:1e9", "output_token_throughput_per_user:0")
        _, found = await run(tmp_path, server, "--streaming", *limits)
    assert found["request_goodput"]["avg"] == found["request_throughput"]["avg"]
    assert found["input_config"]["input"]["goodput"]["request_latency"] == 1e9
    assert found["input_config"]["endpoint"]["type"] == "chat"


async def test_turns_of_a_session_carry_the_answers_before_them(tmp_path):
    async with chat_server(WORDS) as server:
        sessions = ("--num-sessions", "3", "--session-concurrency", "2")
        turns = ("--session-turns-mean", "3", "--session-turn-delay-mean", "1", "--streaming")
        directory, found = await run(tmp_path, server, *sessions, *turns)
    assert found["request_count"]["avg"] == 9.0
    assert server.most_at_once == 2
    assert len(found["sessions"]) == 3
    assert {each["request_count"]["avg"] for each in found["sessions"].values()} == {3.0}
    lengths = sorted(len(body["messages"]) for _, body in server.asked)
    assert lengths == [1, 1, 1, 3, 3, 3, 5, 5, 5]
    last = next(body["messages"] for _, body in server.asked if len(body["messages"]) == 5)
    assert last[1] == last[3] == {"role": "assistant", "content": " The quick brown fox"}
    # 12 of each prompt and 4 of each answer; spaces between may be tokens, too.
    assert found["input_sequence_length"]["max"] == pytest.approx(44, abs=4)
    assert directory.name == "m-openai-chat-session_concurrency2"


async def test_sessions_of_a_file_keep_their_ids_and_delays(tmp_path):
    lines = [
        {"session_id": "a", "delay": 40, "text": "one"},
        {"session_id": "b", "text": "alone"},
        {"session_id": "a", "text": "two", "output_length": 5},
    ]
    async with chat_server(WORDS) as server:
        file = ("--input-file", payload(tmp_path, *lines), "--session-concurrency", "1")
        directory, found = await run(tmp_path, server, *file)
    assert set(found["sessions"]) == {"a", "b"}
    said = [[each["content"] for each in body["messages"]] for _, body in server.asked]
    assert said == [["one"], ["one", " The quick brown fox", "two"], ["alone"]]
    assert server.asked[1][1]["max_tokens"] == 5
    rows = json.loads((directory / "profile_export.json").read_text())["experiments"][0]["requests"]
    due_ns = rows[0]["response_timestamps"][-1] + 40_000_000
    assert rows[1]["timestamp"] >= due_ns


async def test_a_trace_is_sent_at_its_timestamps(tmp_path):
    lines = [{"timestamp": at_ms, "input_length": 10} for at_ms in (0, 20, 60)]
    async with chat_server(WORDS) as server:
        file = ("--input-file", payload(tmp_path, *lines), "--fixed-schedule")
        directory, _ = await run(tmp_path, server, *file)
    rows = json.loads((directory / "profile_export.json").read_text())["experiments"][0]["requests"]
    starts = sorted(each.get("intended_timestamp", each["timestamp"]) for each in rows)
    assert [(start - starts[0]) // 10**6 for start in starts] == [0, 20, 60]
    assert directory.name == "m-openai-chat-fixed_schedule"


async def test_a_trace_without_timestamps_is_refused(tmp_path):
    async with chat_server(WORDS) as server:
        file = ("--input-file", payload(tmp_path, {"text": "x"}), "--fixed-schedule")
        with pytest.raises(InvalidArgumentError, match="takes a timestamp in every line"):
            await run(tmp_path, server, *file)


async def test_a_run_ends_when_its_answers_have_no_more_room(tmp_path):
    async with chat_server(WORDS) as server:
        url = ("-u", f"127.0.0.1:{server.port}", "--request-count", "1000000")
        options, _ = parse_profile(["-m", "m", "--endpoint-type", "chat", *url])
        run = command._prepared(options, ApproximateTokenizer(), tmp_path, ())
        run._memory = Memory(5000, run._stop_for_memory)
        async with run:
            measured = await run.measure()
    found = outcome(
        reported(measured),
        run.endpoint,
        run.turns,
        run.bodies,
        TensorNames(),
        epoch_ns=0,
        is_streaming=False,
    )
    assert "no more room in memory" in run.warning
    assert found.rows
    assert found.cut > 0
    assert sum(len(row["response_outputs"][0]["response"]) for row in found.rows) <= 5000


async def test_more_sessions_at_once_than_there_are_is_refused(tmp_path):
    async with chat_server(WORDS) as server:
        sessions = ("--num-sessions", "1", "--session-concurrency", "2")
        with pytest.raises(InvalidArgumentError, match="more than the data's 1 sessions"):
            await run(tmp_path, server, *sessions)


async def test_answers_of_another_endpoint_are_a_failure(tmp_path):
    async with chat_server(WORDS) as server:
        with pytest.raises(UnavailableError, match="none of 10 answers has a text"):
            await run(tmp_path, server, "--endpoint", "v2/models/m/generate")


@pytest.mark.usefixtures("installed_tools")
def test_the_command_reports_what_is_wrong(capsys, tmp_path):
    assert main([]) == 2
    assert main(["--help"]) == 0
    assert main(["profile", "--help"]) == 0
    assert "--session-concurrency" in capsys.readouterr().out
    assert manta(["genai-perf", "profile"]) == 2
    assert "the following arguments are required: -m/--model" in capsys.readouterr().err
    unreachable = ["-m", "m", "-u", "127.0.0.1:1", "--endpoint-type", "chat"]
    assert main(["profile", *unreachable, "--artifact-dir", str(tmp_path)]) == 1
    assert "cannot connect to 127.0.0.1:1" in capsys.readouterr().err
