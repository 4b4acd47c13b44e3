# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How often routers hear of a queue's load."""

import asyncio

from deployments.pool_queue.load_reports import DRY_PERIOD_S, INTEREST_S, PERIOD_S, LoadReports
from deployments.pool_queue.messages import Load
from tests.support.virtual_time import run


class Hearer:
    def __init__(self):
        self.heard = []

    def send_load(self, load):
        self.heard.append(load.waiting_count)


def reports_of(counts):
    loop = asyncio.get_running_loop()
    return LoadReports(loop, lambda: Load("m", 1, counts["waiting"]))


def test_a_router_hears_at_once_and_then_every_ten_milliseconds():
    async def main():
        counts = {"waiting": 0}
        reports, hearer = reports_of(counts), Hearer()
        reports.changed(1, 0)
        reports.used_by(hearer)
        for waiting in range(1, 101):
            counts["waiting"] = waiting
            reports.changed(waiting, 0)
            await asyncio.sleep(0.001)
        await asyncio.sleep(PERIOD_S)
        assert 11 <= len(hearer.heard) <= 12
        assert hearer.heard[-1] == 100
        reports.used_by(hearer)
        assert len(hearer.heard) <= 12

    run(main())


def test_a_queue_that_runs_dry_says_so_sooner():
    async def main():
        counts = {"waiting": 5}
        reports, hearer = reports_of(counts), Hearer()
        reports.used_by(hearer)
        reports.changed(5, 0)
        assert hearer.heard == [5, 5]
        await asyncio.sleep(DRY_PERIOD_S * 2)
        counts["waiting"] = 0
        reports.changed(0, 0)  # nothing waits, but nothing is free either
        assert hearer.heard == [5, 5]
        reports.changed(0, 1)
        assert hearer.heard == [5, 5, 0]
        await asyncio.sleep(DRY_PERIOD_S * 2)
        reports.changed(0, 1)  # it was dry before
        assert hearer.heard == [5, 5, 0]
        reports.close()

    run(main())


def test_a_router_that_has_sent_nothing_for_long_hears_no_more():
    async def main():
        reports, old, new = reports_of({"waiting": 1}), Hearer(), Hearer()
        reports.used_by(old)
        await asyncio.sleep(INTEREST_S - 1)
        reports.used_by(new)
        await asyncio.sleep(2)
        reports.changed(1, 0)
        assert (len(old.heard), len(new.heard)) == (1, 2)
        reports.forget(new)
        await asyncio.sleep(1)
        reports.changed(1, 0)
        assert len(new.heard) == 2

    run(main())
