# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for servers of language models over HTTP: OpenAI's endpoints and Triton's generate.

It answers as OpenAI's and vLLM's do: a stream begins with a chunk that has a role and no text, and
ends with one that has usage, where it was asked for, and `[DONE]`.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

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
