# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Loads wait for a GCS that is away, but not for ever."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from backends.api.errors import InternalError, UnavailableError
from cluster.controller.gcs_watch import AWAY_AFTER_S, PATIENCE_S, PERIOD_S, GcsWatch
from tests.support import virtual_time
from tests.support.control_plane_fakes import in_virtual_time, now


class Gcs:
    """A GCS that answers at once while it is there."""

    def __init__(self) -> None:
        self.is_there = asyncio.Event()
        self.is_there.set()
        self.fail: list[Exception] = []
        self.watch = GcsWatch(self.ask)
        self.running = asyncio.ensure_future(self.watch.run())
        self.done: list[str] = []

    async def ask(self) -> None:
        await self.is_there.wait()
        if self.fail:
            raise self.fail.pop()

    def work(self, duration_s: float) -> Callable[[], Awaitable[str]]:
        async def run() -> str:
            await self.is_there.wait()
            await asyncio.sleep(duration_s)
            self.done.append("work")
            return "loaded"

        return run


@in_virtual_time
async def test_work_of_any_length_is_done_while_the_gcs_answers() -> None:
    gcs = Gcs()
    assert await gcs.watch.through("the load", gcs.work(1000)) == "loaded"
    gcs.running.cancel()


@in_virtual_time
async def test_an_error_of_the_work_is_raised_as_it_is() -> None:
    gcs = Gcs()

    async def fail() -> None:
        raise InternalError("no such file")

    with pytest.raises(InternalError, match="no such file"):
        await gcs.watch.through("the load", fail)
    gcs.running.cancel()


@in_virtual_time
async def test_work_that_fails_without_the_gcs_is_unavailable_and_says_why() -> None:
    gcs = Gcs()

    async def fail() -> None:
        gcs.is_there.clear()
        await asyncio.sleep(AWAY_AFTER_S + 2 * PERIOD_S)
        raise InternalError("no number")

    with pytest.raises(UnavailableError, match=r"the load failed \(no number\).*try again"):
        await gcs.watch.through("the load", fail)
    gcs.running.cancel()


@in_virtual_time
async def test_work_waits_for_a_gcs_that_comes_back_soon() -> None:
    gcs = Gcs()
    gcs.is_there.clear()
    await asyncio.sleep(60)
    assert gcs.watch.is_away
    load = asyncio.ensure_future(gcs.watch.through("the load", gcs.work(1)))
    await asyncio.sleep(PATIENCE_S - 2 * PERIOD_S)
    assert not load.done()
    gcs.is_there.set()
    assert await load == "loaded"
    assert not gcs.watch.is_away
    gcs.running.cancel()


@in_virtual_time
async def test_work_that_cannot_begin_fails_within_the_bound_and_says_what_to_do() -> None:
    gcs = Gcs()
    gcs.is_there.clear()
    await asyncio.sleep(60)
    began_s = now()
    with pytest.raises(UnavailableError, match=r"GCS.*not begun.*try again when the head is back"):
        await gcs.watch.through("the load of model 'm'", gcs.work(1))
    assert now() - began_s < PATIENCE_S + PERIOD_S
    gcs.is_there.set()
    await asyncio.sleep(5)
    assert not gcs.done
    gcs.running.cancel()


@in_virtual_time
async def test_work_that_has_begun_goes_on_when_its_client_is_told_that_the_gcs_is_away() -> None:
    gcs = Gcs()
    await asyncio.sleep(PERIOD_S / 2)
    gcs.is_there.clear()
    began_s = now()
    with pytest.raises(UnavailableError, match=r"the load of model 'm' goes on when it is back"):
        await gcs.watch.through("the load of model 'm'", gcs.work(1))
    assert PATIENCE_S < now() - began_s < PATIENCE_S + 4 * PERIOD_S
    gcs.is_there.set()
    await asyncio.sleep(5)
    assert gcs.done == ["work"]
    gcs.running.cancel()


@in_virtual_time
async def test_an_error_of_the_gcs_is_no_answer() -> None:
    gcs = Gcs()
    gcs.fail = [ConnectionError("away")] * 10
    await asyncio.sleep(AWAY_AFTER_S + 2 * PERIOD_S)
    assert gcs.watch.is_away
    await asyncio.sleep(10)
    assert not gcs.watch.is_away
    gcs.running.cancel()


def test_an_outage_is_said_once_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    async def outage() -> None:
        gcs = Gcs()
        gcs.is_there.clear()
        await asyncio.sleep(100)
        gcs.is_there.set()
        await asyncio.sleep(5)
        gcs.running.cancel()

    with caplog.at_level(logging.WARNING):
        virtual_time.run(outage())
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "the GCS of the Ray cluster does not answer",
        "the GCS of the Ray cluster is back after 100 s",
    ]
