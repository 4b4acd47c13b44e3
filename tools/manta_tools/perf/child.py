# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A process that sends a part of a load: ``python -m manta_tools.perf.child``.

It is asked on its stdin and answers on its stdout; it ends when stdin does.
"""

import asyncio
import os
import sys
import time
from dataclasses import replace
from typing import Any, Final

import uvloop

from backends.api.errors import TritonError, UnavailableError
from manta_tools.perf.driving import LocalDrive
from manta_tools.perf.load.loops import OpenLoop
from manta_tools.perf.processes import messages
from manta_tools.perf.processes.shares import Share
from manta_tools.perf.run import Run

_STDOUT: Final = 1
_STDERR: Final = 2
# What is done once, by the one that measures.
_UNTRACED: Final[Any] = {
    "trace_level": "",
    "trace_rate": None,
    "trace_count": None,
    "log_frequency": None,
}


class Child:
    """Answers questions."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._drive: LocalDrive | None = None
        self._open_loop: OpenLoop | None = None

    async def close(self) -> None:
        """Close connections and remove shared memory."""
        if self._run is not None:
            await self._run.__aexit__(None, None, None)

    async def answer(self, question: messages.Question) -> messages.Answer:
        """Do what is asked.

        Raises:
            TritonError: It cannot be done.
        """
        match question:
            case messages.Setup(options=options):
                alone = replace(options, processes=1, collect_metrics=False, **_UNTRACED)
                self._run = await Run(alone, say=lambda _: None).__aenter__()
            case messages.Make():
                self._make(question)
            case messages.Start(at_ns=at_ns):
                await self._start(at_ns)
            case messages.Stop():
                await self._made.stop()
            case messages.AskStatus():
                return messages.Standing(await self._made.status())
            case messages.AskSpan():
                return messages.Span(await self._made.span())
            case messages.AskRecent(count=count):
                return messages.Recent(await self._made.recent(count))
            case messages.Take(start_ns=start_ns, end_ns=end_ns):
                return messages.packed(await self._made.take(start_ns, end_ns))
        return messages.Done()

    @property
    def _made(self) -> LocalDrive:
        if self._drive is None:
            raise UnavailableError("there is no load yet")
        return self._drive

    def _make(self, asked: messages.Make) -> None:
        if self._run is None:
            raise UnavailableError("there is no run yet")
        share = Share(asked.index, asked.count)
        load = self._run.make_load(asked.level, asked.limit, share)
        self._open_loop = load if isinstance(load, OpenLoop) else None
        plan = self._run.plan()
        self._drive = LocalDrive(load, time.process_time_ns, plan.batch_size, plan.objectives)

    async def _start(self, at_ns: int) -> None:
        if self._open_loop is not None:
            # All schedules count from the same instant, whenever each process wakes up.
            self._open_loop.starts_at_ns = at_ns
        await asyncio.sleep(max(at_ns - time.monotonic_ns(), 0) / 1e9)
        await self._made.start()


async def serve(reader: asyncio.StreamReader, answers: int) -> None:
    """Answer questions until there are no more.

    Args:
        reader: Where they come from.
        answers: The descriptor that answers are written to.
    """
    child = Child()
    try:
        while True:
            try:
                length = int.from_bytes(await reader.readexactly(messages.LENGTH_BYTES), "big")
                question = messages.read_question(await reader.readexactly(length))
            except asyncio.IncompleteReadError:
                return
            try:
                answer = await child.answer(question)
            except TritonError as error:
                answer = messages.Failed(str(error))
            _write(answers, messages.framed(answer))
    finally:
        await child.close()


def _write(descriptor: int, raw: bytes) -> None:
    view = memoryview(raw)
    while view:
        view = view[os.write(descriptor, view) :]


async def _serve_pipes() -> None:
    # Whatever prints goes to stderr: stdout has answers only.
    answers = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await serve(reader, answers)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_pipes())
