# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the end of a process's log says of its crash."""

import os
from pathlib import Path

import pytest

from deployments.instance.crash_page import CrashPage
from deployments.instance.work import ExecutedModel, UnaryWork
from deployments.lane.crash_report import PAGE_BYTES, WORD_BYTES, open_report, signal_and_place
from deployments.lane.messages import Setup
from deployments.lane.server_request import ServerRequest
from tests.support.cluster_of_instances import CONFIG, request

STACK = """Fatal Python error: {}

Current thread 0x00007f0c2b7fe640 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "<string>", line 1 in <module>
  File "/models/m/1/model.py", line 12 in execute
  File "/models/m/1/model.py", line 30 in helper
"""


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ("Segmentation fault", "SIGSEGV"),
        ("Aborted", "SIGABRT"),
        ("Bus error", "SIGBUS"),
        ("Floating-point exception", "SIGFPE"),
        ("Illegal instruction", "SIGILL"),
    ],
)
def test_the_signal_and_the_models_innermost_line_are_told(text: str, signal: str) -> None:
    assert signal_and_place("x\n" + STACK.format(text)) == (signal, "model.py:12")


def test_a_crash_outside_of_a_models_code_has_no_line() -> None:
    stack = STACK.format("Aborted").replace("model.py", "backend.py")
    assert signal_and_place(stack) == ("SIGABRT", "")


def test_the_line_is_that_of_the_last_stack() -> None:
    last = STACK.format("Aborted").replace("12", "77")
    assert signal_and_place(STACK.format("Bus error") + last) == ("SIGABRT", "model.py:77")


@pytest.mark.parametrize("log", ["", "all is well\n", "a Fatal Python error: Aborted\n"])
def test_a_log_without_a_stack_tells_of_no_crash(log: str) -> None:
    assert signal_and_place(log) is None


def page_of(log: Path, count: int, number: int = 1) -> CrashPage:
    page = CrashPage(str(log))
    model = ExecutedModel(CONFIG, 1, None)
    marks = [number << 32 | each for each in range(1, count + 1)]
    requests = [ServerRequest(None, 0, request(), mark) for mark in marks]
    page.note([UnaryWork(model, each, 0) for each in requests])
    return page


def setup(page: CrashPage, number: int = 1) -> Setup:
    return Setup(page_fd=page.place.fd, crash_log=page.place.log, lane_number=number)


def test_a_lane_hears_of_its_own_requests_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(STACK.format("Aborted"))
    page = page_of(log, 3)
    own, other = (open_report(os.getpid(), setup(page, number)) for number in (1, 2))
    assert own is not None
    assert other is not None
    crash = own.read()
    assert crash is not None
    assert crash.executing == {1, 2, 3}
    assert other.read() is None


def test_a_batch_that_is_larger_than_the_page_is_noted_as_far_as_it_fits(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(STACK.format("Aborted"))
    most = PAGE_BYTES // WORD_BYTES - 1
    report = open_report(os.getpid(), setup(page_of(log, most + 2)))
    assert report is not None
    crash = report.read()
    assert crash is not None
    assert len(crash.executing) == most


def test_what_cannot_be_read_tells_of_no_crash(tmp_path: Path) -> None:
    page = page_of(tmp_path / "gone", 1)
    report = open_report(os.getpid(), setup(page))
    assert report is not None
    assert report.read() is None
    os.mkfifo(tmp_path / "pipe")
    report = open_report(os.getpid(), setup(page_of(tmp_path / "pipe", 1)))
    assert report is not None
    assert report.read() is None
    assert open_report(os.getpid(), Setup(page_fd=99_999, crash_log="x")) is None
    assert open_report(0, setup(page)) is None
    assert open_report(os.getpid(), Setup()) is None
