# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Prints what the processes of an embedded Ray print: whole lines, as they were written.

Ray's workers write into files of the session, ``worker-<id>-<job>-<pid>.out`` and ``.err``, which
Ray's own log monitor would send over the GCS, shortened to one of equal lines. A thread of this
process reads them as they grow and writes their lines to its own output, as
`cluster.server.shown_lines` says.
"""

import logging
import os
import re
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cluster.server.file_changes import FileChanges
from cluster.server.shown_lines import Manner

_log = logging.getLogger(__name__)

_FILE: Final = re.compile(r"worker-[^.]*\.(out|err)")
# Lines by which Ray tells its log monitor of whom the next ones are.
_MARK: Final = re.compile(rb":(job_id|actor_name|task_name):(.*)")
_NAME: Final = b"actor_name"
_STREAMS: Final = {"out": 1, "err": 2}
_READ_BYTES: Final = 1 << 16
# A line that is longer is printed in parts.
_LINE_BYTES: Final = 1 << 20

_CATCH_UP_S: Final = 1.0

Print = Callable[[int, bytes], None]


@dataclass
class _Tail:
    """How far a file has been printed.

    Attributes:
        inode: Of the file of that name; another one when it was rotated.
        offset: Bytes that were read.
        rest: The beginning of a line whose end has not come yet.
    """

    inode: int
    offset: int = 0
    rest: bytes = b""
    name: bytes = b""


@dataclass
class Tails:
    """The files of a folder, and what was printed of them.

    Args:
        folder: Where they are.
        print_lines: Takes the number of a standard stream and whole lines.
        manner: How lines are shown.
    """

    folder: Path
    print_lines: Print
    manner: Manner
    _tails: dict[str, _Tail] = field(default_factory=dict)

    def look(self) -> None:
        """Print what is new in all files."""
        for each in sorted(self.folder.iterdir()):
            self.read(each.name)

    def read(self, name: str) -> None:
        """Print what is new in one file; those of others are passed over."""
        found = _FILE.fullmatch(name)
        if found is None:
            return
        try:
            with Path(self.folder, name).open("rb", buffering=0) as file:
                tail = self._tail_of(name, os.fstat(file.fileno()).st_ino)
                self._print_new(file, tail, _STREAMS[found[1]])
        except OSError as error:
            _log.debug("%s cannot be read: %s", name, error)

    def flush(self) -> None:
        """Print lines that have no end."""
        for name, tail in self._tails.items():
            if tail.rest:
                stream = _STREAMS[name[-3:]]
                self.print_lines(stream, self._shown([tail.rest], tail, stream))
                tail.rest = b""

    def _tail_of(self, name: str, inode: int) -> _Tail:
        tail = self._tails.get(name)
        if tail is None:
            tail = self._tails[name] = _Tail(inode)
        elif tail.inode != inode:
            self._end_rotated(name, tail)
            tail.inode, tail.offset = inode, 0
        return tail

    def _end_rotated(self, name: str, tail: _Tail) -> None:
        """Print the end of a file that has got another name since, and those that came after it."""
        rotated = {each.stat().st_ino: each for each in _rotated(self.folder, name)}
        if tail.inode not in rotated:
            tail.offset = 0
        is_printed = tail.inode in rotated
        for inode, each in rotated.items():
            is_printed = is_printed and inode != tail.inode
            if is_printed:
                continue
            with each.open("rb", buffering=0) as file:
                self._print_new(file, tail, _STREAMS[name[-3:]])
            tail.offset = 0

    def _print_new(self, file: Any, tail: _Tail, stream: int) -> None:
        file.seek(tail.offset)
        while part := file.read(_READ_BYTES):
            tail.offset += len(part)
            *lines, tail.rest = (tail.rest + part).split(b"\n")
            if len(tail.rest) > _LINE_BYTES:
                lines, tail.rest = [*lines, tail.rest], b""
            shown = self._shown(lines, tail, stream)
            if shown:
                self.print_lines(stream, shown)

    def _shown(self, lines: list[bytes], tail: _Tail, stream: int) -> bytes:
        return b"".join(each + b"\n" for each in self._each_shown(lines, tail, stream))

    def _each_shown(self, lines: list[bytes], tail: _Tail, stream: int) -> Iterator[bytes]:
        for line in lines:
            mark = _MARK.fullmatch(line)
            if mark is None:
                shown = self.manner.shown(line, stream, tail.name)
                if shown is not None:
                    yield shown
            elif mark[1] == _NAME:
                tail.name = mark[2]


def _rotated(folder: Path, name: str) -> list[Path]:
    """Return the files that had this name before, the oldest first: it has the largest number."""
    found = {each.suffix[1:]: each for each in folder.glob(f"{name}.*")}
    return [found[each] for each in sorted(filter(str.isdecimal, found), key=int, reverse=True)]


class WorkerOutput:
    """The thread that prints them, from the folder where Ray's session keeps its logs."""

    def __init__(self, folder: Path, manner: Manner) -> None:
        self._tails = Tails(folder, written, manner)
        self._is_ending = False
        self._has_caught_up = threading.Event()
        self._end, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._run, name="manta-output", daemon=True)
        self._thread.start()

    def has_started(self) -> None:
        """Print what there is, and then all as it comes: the server is ready."""
        os.write(self._wake, b".")
        self._has_caught_up.wait(_CATCH_UP_S)

    def stop(self) -> None:
        """Print what there is, and end."""
        self._is_ending = True
        os.write(self._wake, b".")
        self._thread.join()
        for each in (self._end, self._wake):
            os.close(each)

    def _run(self) -> None:
        try:
            with closing(FileChanges(self._tails.folder)) as changes:
                self._tails.look()
                while not self._is_ending:
                    names = changes.wait(self._end)
                    if names is None:
                        os.read(self._end, 1)
                        self._tails.look()
                        self._tails.manner.is_starting = False
                        self._has_caught_up.set()
                    for each in sorted(names or ()):
                        self._tails.read(each)
            self._tails.look()
            self._tails.flush()
        except OSError as error:
            # Nobody reads this process's output any more, or the folder is gone.
            _log.warning("what processes print is not printed any more: %s", error)


def written(stream: int, lines: bytes) -> None:
    """Write lines to a standard stream, all of them.

    What others write there meanwhile comes between lines: a pipe takes this much at once or waits.
    """
    while lines:
        size = lines.rfind(b"\n", 0, select.PIPE_BUF) + 1 or lines.find(b"\n") + 1 or len(lines)
        _write(stream, memoryview(lines)[:size])
        lines = lines[size:]


def _write(stream: int, part: memoryview) -> None:
    while part:
        try:
            part = part[os.write(stream, part) :]
        except BlockingIOError:
            # Whoever has the stream as well wants it so.
            select.select([], [stream], [])
