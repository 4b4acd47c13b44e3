# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What Ray's workers print comes out whole, once, in order, and where it belongs."""

import os
import select
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.server import worker_output
from cluster.server.shown_lines import Manner
from cluster.server.worker_output import Tails, WorkerOutput, written
from tests.support.examples import examples

OUT = "worker-cafe-ffffffff-7.out"
ERR = "worker-cafe-ffffffff-7.err"


class Printed:
    """What was printed, by stream."""

    def __init__(self) -> None:
        self.of = {1: b"", 2: b""}

    def __call__(self, stream: int, lines: bytes) -> None:
        self.of[stream] += lines

    def taken(self, stream: int = 1) -> bytes:
        """Return what came since the last time."""
        found, self.of[stream] = self.of[stream], b""
        return found


@pytest.fixture
def printed() -> Printed:
    return Printed()


@pytest.fixture
def tails(tmp_path: Path, printed: Printed) -> Tails:
    return Tails(tmp_path, printed, Manner())


def add(folder: Path, content: bytes, name: str = OUT) -> None:
    with Path(folder, name).open("ab") as file:
        file.write(content)


def test_lines_are_printed_once_as_they_were_written(
    tmp_path: Path, tails: Tails, printed: Printed
) -> None:
    add(tmp_path, b"a\n\n  b\xff\r\n")
    tails.read(OUT)
    assert printed.taken() == b"a\n\n  b\xff\r\n"
    tails.look()
    assert printed.taken() == b""
    add(tmp_path, b"c\n")
    tails.read(OUT)
    assert printed.taken() == b"c\n"


def test_errors_go_where_errors_go(tmp_path: Path, tails: Tails, printed: Printed) -> None:
    add(tmp_path, b"wrong\n", ERR)
    add(tmp_path, b"right\n")
    tails.look()
    assert printed.of == {1: b"right\n", 2: b"wrong\n"}


@pytest.mark.parametrize(
    "name",
    ["raylet.out", "gcs_server.err", "worker-1.log", "python-core-worker-1_7.log", f"{OUT}.1", ""],
)
def test_other_files_are_passed_over(
    tmp_path: Path, tails: Tails, printed: Printed, name: str
) -> None:
    if name:
        add(tmp_path, b"of Ray\n", name)
    tails.read(name)
    tails.look()
    assert printed.of == {1: b"", 2: b""}


def test_a_file_that_is_gone_is_passed_over(tails: Tails, printed: Printed) -> None:
    tails.read(OUT)
    assert printed.taken() == b""


def test_a_line_waits_for_its_end(tmp_path: Path, tails: Tails, printed: Printed) -> None:
    add(tmp_path, b"one\ntw")
    tails.read(OUT)
    assert printed.taken() == b"one\n"
    add(tmp_path, b"o")
    tails.read(OUT)
    assert printed.taken() == b""
    add(tmp_path, b"\nthree")
    tails.read(OUT)
    assert printed.taken() == b"two\n"
    tails.flush()
    assert printed.taken() == b"three\n"
    tails.flush()
    assert printed.taken() == b""


def test_the_rest_of_an_error_goes_where_errors_go(
    tmp_path: Path, tails: Tails, printed: Printed
) -> None:
    add(tmp_path, b"Fatal", ERR)
    tails.look()
    tails.flush()
    assert printed.of == {1: b"", 2: b"Fatal\n"}


def test_a_line_that_is_very_long_is_printed_in_parts_and_none_is_lost(
    tmp_path: Path, tails: Tails, printed: Printed
) -> None:
    long = bytes(range(97, 123)) * 100_000
    add(tmp_path, long)
    tails.read(OUT)
    # It does not wait for an end that may never come.
    assert printed.of[1]
    add(tmp_path, b"\nnext\n")
    tails.read(OUT)
    *parts, last = printed.taken().splitlines()
    assert b"".join(parts) == long
    assert last == b"next"


MARKED = b":job_id:01000000\n:actor_name:add_sub/1#0\nready\n:task_name:f\n in f\n:other:x\n"


def test_marks_for_rays_log_monitor_are_not_printed(
    tmp_path: Path, tails: Tails, printed: Printed
) -> None:
    add(tmp_path, MARKED)
    tails.read(OUT)
    assert printed.taken() == b"ready\n in f\n:other:x\n"


def test_lines_begin_with_the_name_of_their_process_where_that_is_wanted(
    tmp_path: Path, printed: Printed
) -> None:
    tails = Tails(tmp_path, printed, Manner(with_names=True))
    add(tmp_path, b"nobody's\n" + MARKED)
    tails.read(OUT)
    assert printed.taken() == (
        b"nobody's\nadd_sub/1#0: ready\nadd_sub/1#0:  in f\nadd_sub/1#0: :other:x\n"
    )
    # The name is one file's.
    add(tmp_path, b"another's\n", ERR)
    tails.read(ERR)
    assert printed.taken(2) == b"another's\n"
    add(tmp_path, b"rest")
    tails.read(OUT)
    tails.flush()
    assert printed.taken() == b"add_sub/1#0: rest\n"


def rotate(folder: Path, kept: int = 5) -> None:
    """Rename a file as Ray does: the newest of those before ends with 1."""
    for number in range(kept - 1, 0, -1):
        older = folder / f"{OUT}.{number}"
        if older.exists():
            older.rename(folder / f"{OUT}.{number + 1}")
    (folder / OUT).rename(folder / f"{OUT}.1")


def test_a_file_that_is_rotated_loses_no_line(
    tmp_path: Path, tails: Tails, printed: Printed
) -> None:
    add(tmp_path, b"1\n")
    tails.read(OUT)
    add(tmp_path, b"2\nhal")
    rotate(tmp_path)
    add(tmp_path, b"f\n4\n")
    tails.read(OUT)
    assert printed.taken() == b"1\n2\nhalf\n4\n"


def test_a_file_that_is_rotated_often_between_two_looks_loses_no_line(
    tmp_path: Path, tails: Tails, printed: Printed
) -> None:
    add(tmp_path, b"0\n")
    rotate(tmp_path)
    add(tmp_path, b"1\n")
    tails.read(OUT)
    # What was there before the first look is of nobody who is known.
    assert printed.taken() == b"1\n"
    for number in range(2, 5):
        rotate(tmp_path)
        add(tmp_path, f"{number}\n".encode())
    add(tmp_path, b"not of a number\n", f"{OUT}.gz")
    tails.read(OUT)
    assert printed.taken() == b"2\n3\n4\n"


def test_of_a_file_that_was_rotated_away_what_is_left_is_printed(
    tmp_path: Path, tails: Tails, printed: Printed
) -> None:
    add(tmp_path, b"0\n")
    tails.read(OUT)
    # No other file gets its inode while it is open.
    with (tmp_path / OUT).open():
        for number in range(1, 5):
            rotate(tmp_path, kept=3)
            add(tmp_path, f"{number}\n".encode())
        tails.read(OUT)
    assert printed.taken() == b"0\n1\n2\n3\n4\n"


@settings(max_examples=examples(100))
@given(st.lists(st.binary(max_size=20).map(lambda each: each.replace(b":", b"")), max_size=8))
def test_however_lines_arrive_all_are_printed(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    tails = Tails(folder, printed := Printed(), Manner())
    for each in parts:
        add(folder, each)
        tails.read(OUT)
    tails.flush()
    written_to = b"".join(parts)
    end = b"" if not written_to or written_to.endswith(b"\n") else b"\n"
    assert printed.taken() == written_to + end


class Reader:
    """Reads a pipe in a thread's place of a process that reads what the server prints."""

    def __init__(self) -> None:
        self.end, self.start = os.pipe()
        self.lines: list[bytes] = []
        self.came = threading.Condition()
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        with os.fdopen(self.end, "rb") as pipe:
            for each in pipe:
                with self.came:
                    self.lines.append(each)
                    self.came.notify_all()

    def wait_for(self, line: bytes) -> None:
        with self.came:
            assert self.came.wait_for(lambda: line in self.lines, 30), self.lines

    def close(self) -> None:
        os.close(self.start)
        self.thread.join()


def test_a_thread_prints_what_comes_until_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Reader()
    monkeypatch.setattr(worker_output, "_STREAMS", {"out": reader.start, "err": reader.start})
    add(tmp_path, b"before\n")
    output = WorkerOutput(tmp_path, Manner(with_names=True))
    reader.wait_for(b"before\n")
    add(tmp_path, b":actor_name:m/1#0\nthen\n")
    reader.wait_for(b"m/1#0: then\n")
    add(tmp_path, b"of another\n", "worker-beef-01000000-8.err")
    reader.wait_for(b"of another\n")
    add(tmp_path, b"last\nwithout an end")
    output.stop()
    reader.close()
    assert reader.lines[-2:] == [b"m/1#0: last\n", b"m/1#0: without an end\n"]
    assert len(reader.lines) == 5


def test_what_came_before_the_server_was_ready_is_shown_as_while_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Reader()
    monkeypatch.setattr(worker_output, "_STREAMS", {"out": reader.start, "err": reader.start})
    output = WorkerOutput(tmp_path, Manner(is_starting=True))
    logged = b'I1128 10:12:13.123456 42 x.py:1] "%b"\n'
    add(tmp_path, logged % b"first")
    output.has_started()
    reader.wait_for(b"         first\n")
    add(tmp_path, logged % b"second")
    reader.wait_for(logged % b"second")
    output.stop()
    reader.close()


def test_a_folder_that_is_not_there_ends_the_thread_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    output = WorkerOutput(tmp_path / "none", Manner())
    output.stop()
    assert "is not printed any more" in caplog.text


def test_nobody_who_reads_ends_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end, start = os.pipe()
    os.close(end)
    monkeypatch.setattr(worker_output, "_STREAMS", {"out": start, "err": start})
    add(tmp_path, b"to nobody\nrest")
    WorkerOutput(tmp_path, Manner()).stop()
    os.close(start)


@pytest.mark.parametrize("blocks", [True, False])
def test_lines_are_written_whole_also_where_little_fits(blocks: bool) -> None:
    end, start = os.pipe()
    os.set_blocking(start, blocks)
    lines = b"0123456789abcde\n" * 20_000
    found = bytearray()

    def read() -> None:
        while part := os.read(end, 1000):
            found.extend(part)

    thread = threading.Thread(target=read)
    thread.start()
    written(start, lines)
    os.close(start)
    thread.join()
    os.close(end)
    assert found == lines


@pytest.mark.parametrize("last", [b"", b"without an end"])
def test_what_others_write_comes_between_lines(
    monkeypatch: pytest.MonkeyPatch, last: bytes
) -> None:
    parts: list[bytes] = []
    monkeypatch.setattr(
        worker_output.os, "write", lambda _stream, part: parts.append(bytes(part)) or len(part)
    )
    lines = b"".join(b"x" * size + b"\n" for size in (0, 1, 3000, 3000, 9000, 10, 4095, 7)) + last
    written(1, lines)
    assert b"".join(parts) == lines
    assert all(each.endswith(b"\n") for each in parts[: -1 if last else None])
    # What is larger is one line.
    assert all(len(each) <= select.PIPE_BUF or each.count(b"\n") == 1 for each in parts)
    assert len(parts) < len(lines.splitlines())
