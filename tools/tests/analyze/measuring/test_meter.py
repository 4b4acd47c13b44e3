# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a load took of a server's processes, read from a folder that looks like /proc."""

import asyncio
import contextlib
import os

import pytest

from manta_tools.analyze.measuring.meter import Meter
from manta_tools.analyze.measuring.processes import Processes
from manta_tools.analyze.measuring.repository import Repository
from tests.support.loadable_server import LoadableServer

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
SERVER, INSTANCE = 10, 11


class Proc:
    """A folder with a server and an instance of the model ``echo``."""

    def __init__(self, folder):
        self.folder = folder
        self.show(available_mb=900)
        for pid, parent, title in ((SERVER, 1, "manta"), (INSTANCE, SERVER, "ray::echo/1#0.run")):
            (folder / str(pid)).mkdir()
            (folder / str(pid) / "cmdline").write_text(title)
            self.show(pid, parent=parent)

    def show(self, pid=0, *, parent=SERVER, ticks=0, memory_mb=0, available_mb=0):
        if available_mb:
            self._write("meminfo", f"MemAvailable: {available_mb * 1000 // 1.024:.0f} kB\n")
        if pid:
            numbers = " ".join(["0"] * 9)
            self._write(f"{pid}/stat", f"{pid} (x) S {parent} {numbers} {ticks} 0 0")
            self._write(f"{pid}/smaps_rollup", f"Pss: {memory_mb * 1000 // 1.024:.0f} kB\n")

    def _write(self, path, text):
        # Whoever reads meanwhile sees the old text or the new one.
        fresh = self.folder / "fresh"
        fresh.write_text(text)
        fresh.rename(self.folder / path)


@pytest.fixture
def proc(tmp_path):
    return Proc(tmp_path)


@contextlib.asynccontextmanager
async def meter_of(proc, interval_s=1e-4):
    server = LoadableServer()
    async with server as port:
        repository = Repository(f"127.0.0.1:{port}")
        await repository.open()
        try:
            processes = Processes(SERVER, proc.folder)
            meter = Meter(processes, repository, {"echo": frozenset({"echo"})}, interval_s)
            yield meter, server.counters
        finally:
            await repository.close()


def is_seen(metrics):
    return metrics["cpu_used_ram"] > 299 and metrics["cpu_available_ram"] < 201


async def test_memory_is_the_most_that_was_read_during_the_load(proc):
    async with meter_of(proc) as (meter, _):
        async with meter:
            proc.show(INSTANCE, memory_mb=300)
            proc.show(available_mb=200)
            while not is_seen(meter.metrics("echo")):  # noqa: ASYNC110 - of a thread
                await asyncio.sleep(0)
            proc.show(INSTANCE, memory_mb=50)
            proc.show(available_mb=800)
        found = meter.metrics("echo")
    assert found["cpu_used_ram"] == pytest.approx(300, abs=0.1)
    assert found["cpu_available_ram"] == pytest.approx(200, abs=0.1)


async def test_memory_is_read_in_the_end_however_long_the_interval_is(proc):
    async with meter_of(proc, interval_s=1e6) as (meter, _), meter:
        proc.show(INSTANCE, memory_mb=70)
    assert meter.metrics("echo")["cpu_used_ram"] == pytest.approx(70, abs=0.1)


async def test_cpu_time_is_that_of_the_whole_server_by_inferences(proc):
    async with meter_of(proc) as (meter, counters), meter:
        proc.show(SERVER, parent=1, ticks=3)
        proc.show(INSTANCE, ticks=5)
        counters.served += 4
    assert meter.metrics("echo")["cpu_per_inference"] == pytest.approx(2 * TICK_MS)


async def test_an_instance_that_ends_under_the_load_has_died(proc):
    async with meter_of(proc) as (meter, _), meter:
        (proc.folder / str(INSTANCE) / "stat").unlink()
    assert meter.died == 1


async def test_a_load_that_fails_leaves_nothing_running(proc):
    async with meter_of(proc) as (meter, _):
        before = asyncio.all_tasks()
        with pytest.raises(ValueError, match="no load"):
            async with meter:
                raise ValueError("no load")
        assert asyncio.all_tasks() <= before


async def test_of_processes_that_are_not_seen_nothing_is_known():
    async with Meter(None, Repository("h:1"), {"echo": frozenset({"echo"})}) as meter:
        pass
    assert (meter.metrics("echo"), meter.died) == ({}, 0)
