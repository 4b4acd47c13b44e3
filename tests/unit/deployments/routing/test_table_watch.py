# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A watch of the routing table survives every error, and says when it gets nowhere."""

import asyncio
from collections.abc import Callable

import pytest

from backends.api.errors import InternalError
from deployments.contracts.routing_table import RoutingTable
from deployments.routing.router import Router
from deployments.routing.table_watch import TableWatch
from deployments.slabs.pool import SlabPool
from tests.support import virtual_time
from tests.support.lane_rig import SECRET


class Controller:
    """Hands out the tables of a queue to whoever watches."""

    def __init__(self) -> None:
        self.tables: asyncio.Queue[RoutingTable] = asyncio.Queue()
        self.watches = 0

    async def watch_routing_table(
        self, update: Callable[[RoutingTable], None], report: Callable[[], bytes]
    ) -> None:
        self.watches += 1
        report()
        while True:
            update(await self.tables.get())


class Process:
    """Takes tables, and fails on those of some versions."""

    def __init__(self) -> None:
        self.controller = Controller()
        self.taken: list[int] = []
        self.refused: set[int] = set()
        router = Router("node", SECRET, SlabPool(0))
        self.watch = TableWatch("test", self.controller, self._update, router)  # type: ignore[arg-type]

    def _update(self, table: RoutingTable) -> None:
        if table.version in self.refused:
            raise KeyError(table.version)
        self.taken.append(table.version)

    async def hand(self, *versions: int) -> None:
        for version in versions:
            self.controller.tables.put_nowait(RoutingTable(version))
            await asyncio.sleep(60)


def test_a_table_that_cannot_be_applied_does_not_end_the_watch() -> None:
    async def main() -> None:
        here = Process()
        here.refused = {2}
        await here.hand(1, 2, 3)
        assert here.taken == [1, 3]
        assert here.controller.watches == 2
        here.watch.check()
        await here.watch.close()

    virtual_time.run(main())


def test_a_watch_that_gets_nowhere_says_so_and_recovers() -> None:
    async def main() -> None:
        here = Process()
        here.refused = {1, 2, 3}
        await here.hand(1, 2)
        here.watch.check()
        await here.hand(3)
        with pytest.raises(InternalError, match="3 times in a row: KeyError: 3"):
            here.watch.check()
        await here.hand(4)
        here.watch.check()
        await here.watch.wait_first()
        await here.watch.close()

    virtual_time.run(main())


def test_a_watch_that_was_ended_from_outside_says_so() -> None:
    async def main() -> None:
        here = Process()
        await here.hand(1)
        await here.watch.close()
        with pytest.raises(InternalError, match="no longer followed"):
            here.watch.check()

    virtual_time.run(main())
