# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import os
import pty
import re

import pytest

from manta_tools.perf.command import perform
from manta_tools.perf.driving import LocalDrive
from manta_tools.perf.load.loops import ClosedLoop
from manta_tools.perf.options.parsing import parse_options
from manta_tools.perf.reports.progress import Live, Screen, Watch, lines
from tests.support.echo_servers import Counters, EchoHttpServer
from tests.support.simulated_queue import Rows

MS = 1_000_000
LIVE = Live(4.0, 2, 8, 2, 10, 0.5, 12345.6, 812.0, 1903.0, 4, 1, 37.4)


def test_the_current_level_is_two_lines():
    bar, numbers = lines(LIVE, "Concurrency", 200)
    assert bar == "Concurrency 4 (level 3/8)  window 2/10 [############------------]  50%"
    assert numbers == (
        "12,346 requests/s  p50 812 us  p99 1,903 us  in flight 4  errors 1  client 37 %"
    )


def test_lines_are_no_longer_than_the_terminal_is_wide():
    written = []
    screen = Screen(parse_options(["-m", "m"]), written.append)
    screen.show(LIVE, 20)
    assert [len(line) for line in written[0].splitlines()] == [19, 19]


def test_lines_are_written_in_place_of_those_before_and_removed_for_what_is_printed():
    written = []
    screen = Screen(parse_options(["-m", "m", "--request-rate-range", "9"]), written.append)
    screen.clear()
    assert written == []
    screen.show(LIVE, 200)
    assert written[0].startswith("Request rate 4")
    screen.show(LIVE, 200)
    assert written[1] == "\x1b[2F\x1b[0J" + written[0]
    screen.clear()
    screen.clear()
    assert written[2:] == ["\x1b[2F\x1b[0J"]


class Server:
    def __init__(self):
        self.requests = []

    def send(self, request, listener):
        self.requests.append((request, listener))


async def test_what_is_live_is_of_the_current_window():
    now_ns = 0
    server = Server()
    loop = ClosedLoop(server, Rows(), lambda: now_ns, concurrency=2)
    watch = Watch(
        parse_options(["-m", "m", "--concurrency-range", "1:3:1", "-p", "100"]), lambda: now_ns
    )
    watch.level_begins(1)
    assert await watch.live() is None
    watch.level_begins(2)
    drive = LocalDrive(loop, lambda: now_ns // 2)
    await drive.start()
    now_ns = MS
    await watch.drive_begins(drive)
    now_ns += 50 * MS
    for error in ("", "broken"):
        request, listener = server.requests.pop(0)
        request.error = error
        listener.ended(request, now_ns)
    live = await watch.live()
    assert (live.level, live.levels_done, live.levels_in_all) == (2, 1, 3)
    assert (live.window, live.share, live.in_flight, live.errors) == (1, 0.5, 2, 1)
    assert (live.throughput, live.p50_us, live.p99_us) == (40.0, 51_000, 51_000)
    assert live.busy_percentage == 50.0
    watch.pass_ends(1)
    assert (await watch.live()).throughput == 0
    assert (await watch.live()).window == 2


async def printed_on_a_terminal(monkeypatch, *arguments):
    """Run against a server that is slow enough to be looked at; return what a terminal got."""
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w") as terminal, os.fdopen(reader, "rb", buffering=0) as shown:
        os.set_blocking(reader, False)
        monkeypatch.setattr("sys.stdout", terminal)
        counts = ("--measurement-mode", "count_windows", "--measurement-request-count", "1")
        async with EchoHttpServer(Counters()) as port:
            url = ("-m", "echo", "-u", f"127.0.0.1:{port}")
            assert await perform(parse_options([*url, *counts, "-s", "1e9", *arguments])) == 0
        terminal.flush()
        return shown.read().decode()


@pytest.mark.slow
async def test_a_terminal_shows_progress_and_keeps_only_the_report(monkeypatch):
    shown = await printed_on_a_terminal(monkeypatch)
    assert re.search(r"Concurrency 1 \(level 1/1\)  window \d/10 \[", shown)
    # Whatever was shown was removed.
    assert shown.count("in flight") == shown.count("\x1b[2F\x1b[0J")
    assert "  Client: " in shown


@pytest.mark.slow
async def test_progress_can_be_switched_off(monkeypatch):
    assert "\x1b" not in await printed_on_a_terminal(monkeypatch, "--no-progress")


async def test_what_is_no_terminal_gets_no_progress(capsys):
    async with EchoHttpServer(Counters()) as port:
        await perform(
            parse_options(["-m", "echo", "-u", f"127.0.0.1:{port}", "--request-count", "9"])
        )
    assert "\x1b" not in capsys.readouterr().out
