# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

"""Loads from processes of their own against tiny servers of this one."""

import asyncio
import csv

import pytest
import uvloop

from backends.api.errors import UnavailableError
from manta_tools.perf.command import main, perform
from manta_tools.perf.options.parsing import parse_options
from manta_tools.perf.processes.group import Group
from tests.support.echo_servers import Counters, EchoHttpServer

TWO = ("-m", "echo", "--processes", "2")


@pytest.mark.slow
async def test_requests_of_all_processes_are_one_report(tmp_path, capsys):
    counters = Counters()
    report, page = tmp_path / "report.csv", tmp_path / "report.html"
    async with EchoHttpServer(counters) as port:
        files = ("-f", str(report), "--html-report", str(page))
        load = ("--concurrency-range", "5", "--request-count", "41", "--warmup-request-count", "3")
        assert await perform(parse_options([*TWO, "-u", f"127.0.0.1:{port}", *load, *files])) == 0
    assert counters.served == 44
    assert "    Request count: 41" in capsys.readouterr().out.splitlines()
    with report.open() as file:
        assert [row["Concurrency"] for row in csv.DictReader(file)] == ["5"]
    assert "5,level,,client_processes,2" in (tmp_path / "report.data.csv").read_text()


@pytest.mark.slow
async def test_sequences_of_all_processes_at_a_rate_have_ids_of_their_own():
    counters = Counters(sequence_batching={})
    async with EchoHttpServer(counters) as port:
        load = ("--request-rate-range", "60", "--request-count", "60", "--serial-sequences")
        ids = ("--sequence-id-range", "70:90", "--num-of-sequences", "5", "--sequence-length", "4")
        await perform(parse_options([*TWO, "-u", f"127.0.0.1:{port}", *load, *ids]))
    parts = [header["parameters"] for header in counters.headers]
    used = {each["sequence_id"] for each in parts}
    assert used <= set(range(70, 90))
    assert {each < 80 for each in used} == {True, False}
    live = set()
    for each in parts:
        assert each["sequence_start"] == (each["sequence_id"] not in live)
        (live.discard if each["sequence_end"] else live.add)(each["sequence_id"])
    assert not live


async def test_a_process_that_ends_ends_the_run():
    async with EchoHttpServer(Counters()) as port:
        group = Group(parse_options([*TWO, "-u", f"127.0.0.1:{port}"]))
        try:
            await group.start()
            drive = group.drive(2, 0, is_sequence=False)
            with pytest.raises(UnavailableError, match=r"process \d of the load: there is no load"):
                await drive.status()
            status = asyncio.create_task(drive.status())
            await asyncio.sleep(0)
            status.cancel()
            # The answer to the question that was given up is not taken for that to the next one.
            await drive.start()
            assert (await drive.status()).in_flight <= 2
            for each in group._processes:
                each._process.kill()
            with pytest.raises(UnavailableError, match=r"process \d of the load has ended"):
                await drive.status()
        finally:
            await group.end()


def test_a_process_that_was_killed_while_nobody_asked_is_named_on_the_loop_of_the_command():
    async def run():
        async with EchoHttpServer(Counters()) as port:
            group = Group(parse_options([*TWO, "-u", f"127.0.0.1:{port}"]))
            try:
                await group.start()
                drive = group.drive(2, 0, is_sequence=False)
                await drive.start()
                killed = group._processes[1]._process
                killed.kill()
                async with asyncio.timeout(60):
                    while not killed.stdin.is_closing():  # noqa: ASYNC110 - it tells nobody
                        await asyncio.sleep(0.01)
                for question in (drive.status, drive.stop):
                    with pytest.raises(UnavailableError, match="process 1 of the load has ended"):
                        await question()
            finally:
                await group.end()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


async def test_a_process_that_cannot_connect_says_so():
    group = Group(parse_options([*TWO, "-u", "127.0.0.1:1"]))
    try:
        with pytest.raises(UnavailableError, match=r"process \d of the load: cannot connect"):
            await group.start()
    finally:
        await group.end()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--profile-export-file", "/tmp/no-such-export.json"),
        ("--sequence-id-range", "1:2"),
    ],
)
def test_what_one_process_has_to_know_is_refused(capsys, arguments):
    assert main([*TWO, *arguments]) == 99
    assert "--processes" in capsys.readouterr().err
