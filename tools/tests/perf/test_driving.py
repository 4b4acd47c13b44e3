# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from manta_tools.perf.driving import LocalDrive
from manta_tools.perf.load.loops import ClosedLoop
from tests.support.simulated_queue import Rows


class Server:
    """Ends requests when it is told to."""

    def __init__(self):
        self.under_way = []

    def send(self, request, listener):
        self.under_way.append((request, listener))

    def end(self, now_ns, error=""):
        request, listener = self.under_way.pop(0)
        request.error = error
        listener.ended(request, now_ns)


@pytest.fixture
def server():
    return Server()


@pytest.fixture
async def drive(server):
    drive = LocalDrive(ClosedLoop(server, Rows(), lambda: 1, concurrency=1), lambda: 77)
    await drive.start()
    return drive


async def test_what_ends_after_a_window_is_of_the_next_one(drive, server):
    for end_ns in (10, 20, 30):
        server.end(end_ns)
    first = await drive.take(1, 20)
    assert (first.window.requests, first.ended) == (2, 2)
    server.end(40)
    second = await drive.take(20, 40)
    assert [request.end_ns for request in second.requests] == [30, 40]


async def test_looking_at_the_span_takes_nothing(drive, server):
    assert await drive.span() is None
    server.end(10)
    assert await drive.span() == (1, 10)
    server.end(30)
    assert await drive.span() == (1, 30)
    assert (await drive.take(1, 30)).ended == 2
    assert await drive.span() is None


async def test_failures_are_counted_and_the_first_is_told(drive, server):
    server.end(10)
    server.end(20, "broken")
    server.end(30, "broken again")
    status = await drive.status()
    assert (status.ended, status.failed, status.sent, status.cpu_ns) == (3, 2, 4, 77)
    assert await drive.recent(10) == [9]
    taken = await drive.take(1, 30)
    assert (taken.window.requests, taken.window.failures) == (1, 2)
    assert taken.first_error == "broken"


async def test_a_stopped_load_is_done_once_nothing_is_under_way(drive, server):
    await drive.stop()
    assert not (await drive.status()).is_done
    server.end(10)
    assert (await drive.status()).is_done
