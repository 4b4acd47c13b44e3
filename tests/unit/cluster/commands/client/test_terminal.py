# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tables and progress on a terminal."""

import io
import os
import pty
import select
import subprocess
import sys

import pytest
from rich.console import Console
from rich.table import Table

from cluster.commands.client.command_line import print_table, progress, table_that_changes
from cluster.commands.client.terminal import drawn

ON_A_TERMINAL = """
from cluster.commands.client.command_line import print_table, progress, table_that_changes
with progress("loading busy"):
    pass
print_table(("MODEL", "STATE"), [("busy", "READY")])
with table_that_changes() as show:
    show(("MODEL", "REQ/S"), [("busy", 1.5)])
print("after")
"""


def on_terminal(table: Table, columns: int) -> str:
    console = Console(width=columns, file=io.StringIO(), record=True)
    console.print(table)
    return console.export_text()


def test_no_line_is_wider_than_the_terminal_and_nothing_is_cut() -> None:
    reason = "failed to load: " + "word " * 40
    lines = on_terminal(drawn(("MODEL", "REASON"), [["busy", reason]]), 40).splitlines()
    assert max(map(len, lines)) <= 40
    assert len(lines) > 4
    assert " ".join(" ".join(lines).split()).count("word") == 40


def test_a_name_with_brackets_is_shown_as_it_is() -> None:
    assert "[red]" in on_terminal(drawn(("MODEL", "STATE"), [["[red]", "READY"]]), 80)


def test_a_pipe_gets_no_escape_code(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("loading busy"):
        print_table(("MODEL", "STATE"), [("busy", "READY")])
    with table_that_changes() as show:
        show(("MODEL", "REQ/S"), [("busy", 1.5)])
    printed = capsys.readouterr()
    assert printed.out == "MODEL  STATE\nbusy   READY\nMODEL  REQ/S\nbusy   1.5\n"
    assert not printed.err


@pytest.mark.slow
def test_a_terminal_gets_colours_progress_and_a_screen_that_is_given_back() -> None:
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    for name in ("NO_COLOR", "FORCE_COLOR", "CI"):
        environ.pop(name, None)
    with subprocess.Popen(
        [sys.executable, "-c", ON_A_TERMINAL],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environ,
    ) as process:
        os.close(theirs)
        shown = _read_all(ours)
    assert process.returncode == 0, shown
    assert "loading busy" in shown
    assert "\x1b[32mREADY" in shown
    begun, _, ended = shown.partition("\x1b[?1049h")
    assert "READY" in begun
    assert ended.index("1.5") < ended.index("\x1b[?1049l") < ended.index("after")


def _read_all(descriptor: int) -> str:
    parts = []
    while select.select([descriptor], [], [], 30)[0]:
        try:
            part = os.read(descriptor, 65536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    os.close(descriptor)
    return b"".join(parts).decode()
