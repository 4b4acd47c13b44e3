# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a file of a model in parallel runs of parts, and computes its SHA-256 while they arrive.

What is read goes to the disk at once, so memory holds only what is under way. The digest follows
what is written from the beginning and reads it back, out of the page cache: parts that come early
do not wait in memory.
"""

import errno
import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Event
from typing import Final, Protocol, runtime_checkable

from backends.api.errors import UnavailableError
from deployments.model_files.contracts import FileSource, ModelFile, StreamingSource, Write
from deployments.model_files.locks import StoppedError
from deployments.model_files.partial import PART_BYTES, Partial

# Requests under way in one process, of all its downloads. One connection to an object store carries
# 50 to 100 MB/s; clients of their makers use 8 to 10.
PARALLEL: Final = 8
# Parts that one request asks for at most. A request to S3 costs the CPU time of 3 MiB; the digest,
# which follows in order, waits the longer the larger they are. What is cut off loses no part.
_RUN_PARTS: Final = 4
_CHUNK_BYTES: Final = 1 << 20


class NotYetError(Exception):
    """Raised by a source for a part that it will have soon; it is asked again, after others.

    Waiting in the source would keep a thread from parts that others wait for in turn.
    """


@runtime_checkable
class JudgingSource(Protocol):
    """A `FileSource` that does not trust all that it reads from."""

    def accept(self, file: ModelFile, sha256: str) -> bool:
        """Say whether a file that was read as a whole is right. Blocks.

        Args:
            file: Which.
            sha256: Hex digest of what was read.

        Returns:
            False when all of it must be read again; it comes from elsewhere then, so that this
            happens once for a file.
        """


def stream_from(
    source: FileSource, file: ModelFile, offset_bytes: int, length_bytes: int, write: Write
) -> int:
    """Read as `StreamingSource.stream`, from any source: one part from one that does not stream."""
    if isinstance(source, StreamingSource):
        return source.stream(file, offset_bytes, length_bytes, write)
    data = source.read(file, offset_bytes, min(length_bytes, PART_BYTES))
    write(data, offset_bytes)
    return len(data)


class Downloads:
    """Downloads of one process.

    Args:
        parallel: Parts under way at the same time.
    """

    def __init__(self, parallel: int = PARALLEL) -> None:
        self._pool = ThreadPoolExecutor(parallel, "manta-model-files")

    def close(self) -> None:
        """End the threads, once what is under way is done. Nothing can be fetched any more."""
        self._pool.shutdown()

    def fetch(
        self,
        source: FileSource,
        file: ModelFile,
        partial: Partial,
        on_bytes: Callable[[int], None],
        stop: Event,
    ) -> str:
        """Read what a download lacks and return the SHA-256 of the whole.

        Args:
            source: Where to read.
            file: Which.
            partial: Where to write; allocated. Locked by the caller.
            on_bytes: Called with the count of bytes that were read, from several threads.
            stop: Ends it early.

        Raises:
            FileChangedError: The source has another file by now.
            UnavailableError: It cannot be read, or has not the digest that was told.
            StoppedError: ``stop`` was set.
            OSError: It cannot be written.
        """
        sha256 = self._fetch_once(source, file, partial, on_bytes, stop)
        while isinstance(source, JudgingSource) and not source.accept(file, sha256):
            partial.allocate(_nothing)
            sha256 = self._fetch_once(source, file, partial, on_bytes, stop)
        if file.sha256 and sha256 != file.sha256:
            partial.discard()
            raise UnavailableError(
                f"file '{file.path}' has the SHA-256 {sha256}, expected {file.sha256}: it was "
                "damaged on its way or where it is stored; load again, or publish the model again"
            )
        return sha256

    def _fetch_once(
        self,
        source: FileSource,
        file: ModelFile,
        partial: Partial,
        on_bytes: Callable[[int], None],
        stop: Event,
    ) -> str:
        descriptor = os.open(partial.path, os.O_RDWR)
        ended = Event()
        is_written = partial.written()
        lacking = [part for part in range(partial.part_count) if not is_written[part]]
        reads: dict[int, Future[None]] = {part: Future() for part in lacking}
        reading = _Reading(source, file, partial, descriptor, reads, on_bytes, (stop, ended))

        def attempt(run: deque[int]) -> None:
            try:
                while run:
                    reading.read(run)
            except NotYetError:
                self._pool.submit(attempt, run)
            except BaseException as error:
                for part in run:
                    reads[part].set_exception(error)

        try:
            for run in _runs(lacking):
                self._pool.submit(attempt, run)
            return _digest(descriptor, partial, reads)
        finally:
            # The descriptor's number may be another file's once it is closed.
            ended.set()
            wait(reads.values())
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What reads a file's parts. Used from several threads."""

    source: FileSource
    file: ModelFile
    partial: Partial
    descriptor: int
    reads: dict[int, Future[None]]
    on_bytes: Callable[[int], None]
    ends: tuple[Event, ...]

    def read(self, run: deque[int]) -> None:
        """Ask for the parts of a run once; those that came are taken off it."""
        self._require_wanted()
        begin, _ = self.partial.span(run[0])
        end = sum(self.partial.span(run[-1]))
        at = begin

        def write(data: bytes, offset: int) -> None:
            nonlocal at
            self._require_wanted()
            if offset != at or at + len(data) > end:
                raise self._unexpected(offset, len(data), at, end - at)
            _write(self.descriptor, data, offset)
            at += len(data)
            while run and at >= sum(self.partial.span(run[0])):
                part = run.popleft()
                self.partial.note(part)
                self.on_bytes(self.partial.span(part)[1])
                self.reads[part].set_result(None)

        stream_from(self.source, self.file, begin, end - begin, write)
        if at == begin or (run and at != self.partial.span(run[0])[0]):
            part_begin, part_bytes = self.partial.span(run[0])
            raise self._unexpected(part_begin, at - part_begin, part_begin, part_bytes)

    def _require_wanted(self) -> None:
        if any(end.is_set() for end in self.ends):
            raise StoppedError

    def _unexpected(
        self, offset: int, count_bytes: int, wanted_offset: int, wanted_bytes: int
    ) -> UnavailableError:
        there = "" if offset == wanted_offset else f" from offset {wanted_offset}"
        return UnavailableError(
            f"file '{self.file.path}': got {count_bytes} bytes from offset {offset}, expected "
            f"{wanted_bytes}{there}; load again"
        )


def _runs(parts: Sequence[int]) -> Iterator[deque[int]]:
    """Yield parts in runs without gaps, short ones where there are few: all threads have some."""
    longest = max(1, min(_RUN_PARTS, len(parts) // (2 * PARALLEL)))
    run: deque[int] = deque()
    for part in parts:
        if run and (part != run[-1] + 1 or len(run) == longest):
            yield run
            run = deque()
        run.append(part)
    if run:
        yield run


def _digest(descriptor: int, partial: Partial, reads: dict[int, Future[None]]) -> str:
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(min(_CHUNK_BYTES, partial.size_bytes)))
    for part in range(partial.part_count):
        if part in reads:
            reads[part].result()
        offset, left = partial.span(part)
        while left:
            count = os.preadv(descriptor, [buffer[: min(left, len(buffer))]], offset)
            if not count:
                raise OSError(errno.EIO, "the file became shorter while it was written")
            digest.update(buffer[:count])
            offset, left = offset + count, left - count
    return digest.hexdigest()


def _write(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(descriptor, view, offset)
        view, offset = view[count:], offset + count


def _nothing(_descriptor: int, _size_bytes: int) -> None:
    """Take no room."""
