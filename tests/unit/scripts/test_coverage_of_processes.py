# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Coverage of servers' processes: probes that change nothing, and that outlive their process."""

import subprocess
import venv
from pathlib import Path

import pytest

from scripts import coverage_of_processes
from scripts.coverage_of_processes import probed

_SOURCE = '''\
"""A docstring stays the first statement."""
from __future__ import annotations

import os

class Shape:
    """A class."""
    sides = 3

def branch(n):
    for i in range(n):
        if i == 3:
            break
    if n:
        return 1
    match n:
        case 0:
            return __doc__
'''


def _passed(call: str) -> set[int]:
    """Return the lines of the probes that running the source and a call passes."""
    code, lines = probed(_SOURCE.encode(), "shape.py")
    marks = bytearray(len(lines))
    module = {"__reached__": marks, "__name__": "shape"}
    exec(code, module)
    marks[:] = bytes(len(marks))
    assert eval(call, module) in {1, "A docstring stays the first statement."}
    return {line for line, mark in zip(lines, marks, strict=True) if mark}


@pytest.mark.parametrize(
    ("call", "lines"),
    [
        ("branch(1)", {11, 12, 14, 15}),
        ("branch(5)", {11, 12, 13, 14, 15}),
        ("branch(0)", {11, 14, 16, 18}),
    ],
)
def test_each_statement_that_runs_passes_its_probe(call: str, lines: set[int]) -> None:
    assert _passed(call) == lines


def test_a_branch_that_is_not_taken_has_a_probe_of_its_own() -> None:
    _, lines = probed(b"if 1:\n    pass\nfor i in ():\n    pass\n", "two.py")
    assert sorted(lines) == [1, 1, 2, 3, 3, 4]


def test_what_a_killed_process_has_reached_is_counted(tmp_path: Path) -> None:
    script = Path(coverage_of_processes.__file__)
    (tmp_path / "killed.py").write_text(
        "import os, signal\n"
        "if os.fork() == 0:\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "    never = 1\n"
        "os.wait()\n"
        "os._exit(0)\n"
    )
    venv.create(tmp_path / "venv", symlinks=True)
    python = str(tmp_path / "venv/bin/python")
    asked = [python, str(script)]
    marks = tmp_path / "marks"
    subprocess.run([*asked, "install", str(marks), "killed.py"], cwd=tmp_path, check=True)
    subprocess.run(
        [python, "-c", "import killed"],
        cwd=tmp_path,
        env={coverage_of_processes.VARIABLE: str(marks)},
        check=True,
    )
    report = subprocess.run(
        [*asked, "report", str(marks)], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert report.stdout.splitlines()[0].split() == ["85.7", "%", "of", "7", "killed.py", "4"]
