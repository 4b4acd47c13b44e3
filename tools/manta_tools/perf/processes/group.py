# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The processes of a load, as the one sees them that measures."""

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TypeVar

from backends.api.errors import UnavailableError
from manta_tools.perf.driving import Drive, Status, Taken
from manta_tools.perf.measuring.windows import side_by_side
from manta_tools.perf.options.table import PerfOptions
from manta_tools.perf.processes import messages
from manta_tools.perf.processes.shares import Share, shares_of

_MODULE: Final = "manta_tools.perf.child"
# Between the order to begin and the instant that it names: all have read it by then.
_LEAD_NS: Final = 50_000_000
_EXIT_S: Final = 10.0

A = TypeVar("A")


class Process:
    """A process that sends; answers one question at a time."""

    def __init__(self, index: int, process: asyncio.subprocess.Process) -> None:
        self._index, self._process = index, process
        self._turn = asyncio.Lock()
        self._asking: set[asyncio.Task[messages.Answer]] = set()

    async def ask(self, question: messages.Question, kind: type[A]) -> A:
        """Ask, and return the answer.

        Raises:
            UnavailableError: The process cannot do it, or has ended.
        """
        # Who is cancelled would leave the answer to the next question.
        asking = asyncio.create_task(self._exchange(question))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        answer = await asyncio.shield(asking)
        if isinstance(answer, messages.Failed):
            raise UnavailableError(f"process {self._index} of the load: {answer.message}")
        assert isinstance(answer, kind)  # noqa: S101 - each question has one kind of answer
        return answer

    async def _exchange(self, question: messages.Question) -> messages.Answer:
        reader, writer = self._process.stdout, self._process.stdin
        assert reader is not None  # noqa: S101 - both are pipes
        assert writer is not None  # noqa: S101
        try:
            async with self._turn:
                if writer.is_closing():
                    # uvloop does not say so with an error of connections.
                    raise ConnectionResetError
                writer.write(messages.framed(question))
                await writer.drain()
                length = int.from_bytes(await reader.readexactly(messages.LENGTH_BYTES), "big")
                return messages.read_answer(await reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            code = await self._process.wait()
            raise UnavailableError(
                f"process {self._index} of the load has ended with exit code {code}; what it wrote "
                "to stderr says why"
            ) from None

    async def end(self) -> None:
        """Have the process end: it does once nobody can ask any more."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(_EXIT_S):
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


class Group:
    """Processes that send together."""

    def __init__(self, options: PerfOptions) -> None:
        """Make a group; `start` starts it.

        Args:
            options: Of the run; each process reads them all.
        """
        self._options = options
        self._processes: list[Process] = []

    async def start(self) -> None:
        """Start the processes, and wait until each is connected.

        Raises:
            UnavailableError: One cannot be started, or cannot connect.
        """
        for index in range(self._options.processes):
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                _MODULE,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                # Ctrl-C is for the one that measures.
                start_new_session=True,
            )
            self._processes.append(Process(index, process))
        setup = messages.Setup(self._options)
        await asyncio.gather(*(each.ask(setup, messages.Done) for each in self._processes))

    async def end(self) -> None:
        """Have all processes end."""
        await asyncio.gather(*(each.end() for each in self._processes))

    def drive(self, level: float, limit: int, *, is_sequence: bool) -> "GroupDrive":
        """Return what drives the load of a level."""
        shares = shares_of(self._options, level, limit, is_sequence=is_sequence)
        return GroupDrive(self._processes[: len(shares)], shares, level, limit)


class GroupDrive(Drive):
    """A load of which each process sends a part."""

    def __init__(
        self, processes: Sequence[Process], shares: Sequence[Share], level: float, limit: int
    ) -> None:
        """Make a drive.

        Args:
            processes: Who sends.
            shares: The part of each.
            level: Concurrency or requests a second, of all together.
            limit: How many requests all send together; 0 for any number.
        """
        self._senders, self._shares = processes, shares
        self._level, self._limit = level, limit
        self.processes = len(processes)

    async def start(self) -> None:
        """Have all begin to send at the same instant, and wait for it."""
        await asyncio.gather(
            *(
                each.ask(
                    messages.Make(self._level, self._limit, share.index, share.count), messages.Done
                )
                for each, share in zip(self._senders, self._shares, strict=True)
            )
        )
        at_ns = time.monotonic_ns() + _LEAD_NS
        await self._ask(messages.Start(at_ns), messages.Done)
        await asyncio.sleep(max(at_ns - time.monotonic_ns(), 0) / 1e9)

    async def stop(self) -> None:
        """Have all send nothing more."""
        await self._ask(messages.Stop(), messages.Done)

    async def status(self) -> Status:
        """Return how all stand together."""
        answers = await self._ask(messages.AskStatus(), messages.Standing)
        found = [each.status for each in answers]
        return Status(
            sum(each.sent for each in found),
            sum(each.ended for each in found),
            sum(each.failed for each in found),
            sum(each.in_flight for each in found),
            all(each.is_done for each in found),
            sum(each.cpu_ns for each in found),
        )

    async def span(self) -> tuple[int, int] | None:
        """Return first start and last end of what nobody has taken; None when nothing ended."""
        answers = await self._ask(messages.AskSpan(), messages.Span)
        spans = [each.span for each in answers if each.span is not None]
        if not spans:
            return None
        return min(start_ns for start_ns, _ in spans), max(end_ns for _, end_ns in spans)

    async def take(self, start_ns: int, end_ns: int) -> Taken:
        """Take what ended from one instant to another, of all as one window."""
        answers = await self._ask(messages.Take(start_ns, end_ns), messages.PackedWindow)
        found = [messages.unpacked(each) for each in answers]
        return Taken(
            side_by_side([each.window for each in found]),
            sum(each.ended for each in found),
            next((each.first_error for each in found if each.first_error), ""),
        )

    async def recent(self, count: int) -> list[int]:
        """Return latencies of the last requests of each."""
        question = messages.AskRecent(count // self.processes + 1)
        answers = await self._ask(question, messages.Recent)
        return [latency_ns for each in answers for latency_ns in each.latencies_ns]

    async def _ask(self, question: messages.Question, kind: type[A]) -> list[A]:
        return await asyncio.gather(*(each.ask(question, kind) for each in self._senders))
