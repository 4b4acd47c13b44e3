# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is read of processes, from a folder that looks like /proc."""

import os

import pytest

from manta_tools.analyze.measuring.processes import Processes, spent_ns

TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 40 kB\n")

    def add(pid, parent, command, ticks=0, memory_kb=0):
        folder = tmp_path / str(pid)
        folder.mkdir()
        numbers = ["0"] * 9
        (folder / "stat").write_text(
            f"{pid} (a) b) S {parent} {' '.join(numbers)} {ticks} {ticks} 0"
        )
        (folder / "cmdline").write_text(command.replace(" ", "\0"))
        (folder / "smaps_rollup").write_text(f"Rss: 999 kB\nPss: {memory_kb} kB\nPss_Anon: 1 kB\n")

    add(1, 0, "init")
    add(10, 1, "manta serve", ticks=1)
    add(11, 10, "raylet", ticks=2)
    add(12, 11, "ray::simple/1#0.wait_closed ", ticks=3, memory_kb=5)
    add(13, 11, "ray::simple/1#1.wait_closed ", ticks=4, memory_kb=6)
    add(14, 11, "manta: simple_string/1#0", ticks=5, memory_kb=7)
    add(20, 1, "ray::simple/1#0.wait_closed ", ticks=100, memory_kb=100)
    return tmp_path


def test_instances_of_another_server_do_not_count(proc):
    processes = Processes(10, proc)
    assert processes.pids(["simple"]) == {12, 13}
    assert processes.memory_bytes([12, 13]) == 11 * 1024


def test_models_are_told_apart_by_their_whole_names(proc):
    assert Processes(10, proc).pids(["simple_string"]) == {14}
    assert Processes(10, proc).pids(["simple", "simple_string"]) == {12, 13, 14}
    assert Processes(10, proc).pids(["imple"]) == frozenset()


def test_cpu_time_is_that_of_all_descendants(proc):
    ticks = {10: 1, 11: 2, 12: 3, 13: 4, 14: 5}
    assert Processes(10, proc).cpu_ns() == {pid: 2 * n * TICK_NS for pid, n in ticks.items()}


def test_cpu_time_of_processes_that_ended_takes_none_from_the_others():
    assert spent_ns({1: 5, 2: 100}, {1: 8, 3: 4}) == 7


def test_processes_that_end_meanwhile_count_nothing(proc):
    (proc / "13" / "stat").unlink()
    (proc / "12" / "smaps_rollup").unlink()
    assert Processes(10, proc).pids(["simple"]) == {12}
    assert Processes(10, proc).memory_bytes([12]) == 0
    assert Processes(99, proc).cpu_ns() == {}


def test_what_is_left_is_what_the_kernel_calls_available(proc):
    assert Processes(10, proc).available_bytes() == 40 * 1024
