# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Processes that are given another wall clock and a slow disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.conditions import FOLDER, Conditions

# Tells how far the clock is from a file's stamp, and what opening a file took, before and after a
# line on standard input.
CODE = """
import os, sys, time

def tell():
    begin_s = time.monotonic()
    open(sys.argv[1]).close()
    took_s = time.monotonic() - begin_s
    print(round(time.time() - os.stat(sys.argv[2]).st_mtime), round(took_s, 1), flush=True)

tell()
input()
tell()
"""


@pytest.mark.slow
def test_a_running_process_sees_a_step_of_the_clock_and_a_slow_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "file").touch()
    conditions = Conditions(tmp_path / "conditions", disk)
    stamp = tmp_path / "stamp"
    stamp.touch()
    os.utime(stamp, (0, 0))
    environment = {**os.environ, "PYTHONPATH": str(FOLDER), **conditions.environment}
    with subprocess.Popen(
        [sys.executable, "-c", CODE, str(disk / "file"), str(stamp)],
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        calm_s, _ = map(float, process.stdout.readline().split())
        conditions.step_clock(-86_400 * 365)
        conditions.slow_disk(1_500_000)
        process.stdin.write("\n")
        process.stdin.flush()
        stepped_s, took_s = map(float, process.stdout.readline().split())
        # A test that takes a day is another matter.
        assert abs(stepped_s - calm_s + 86_400 * 365) < 86_400
        assert took_s >= 1.5


def test_a_process_without_conditions_has_the_kernels_clock() -> None:
    environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
    environment.pop("MANTA_CHAOS_CONTROL", None)
    code = "import time; print(type(time.time).__name__)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, text=True, capture_output=True, check=True
    )
    assert done.stdout.strip() == "builtin_function_or_method"
