# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps a process's routing table up to date, whatever the controller answers.

An ingress and an instance whose model calls other models follow the table alike. A watch that ends,
by an error of the controller's or of this process's, begins anew with the whole table. Who asks
`TableWatch.check` learns that it does not get anywhere, and may have the process replaced.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from backends.api.errors import InternalError
from deployments.contracts.control import ControllerLink
from deployments.contracts.routing_table import RoutingTable
from deployments.routing.arm_signals import ArmSignals
from deployments.routing.load_signals import LoadSignals
from deployments.routing.reports import make_report
from deployments.routing.router import Router
from deployments.supervision.supervisor import Supervisor

# One table that cannot be applied may be followed by one that can.
_MOST_FAILURES: Final = 3


class TableWatch:
    """Follows the table from its making until `close`.

    Args:
        owner: Whose watch it is, for the log.
        controller: Where the table comes from.
        update: Takes each newer table, and hands it to the router; called on the event loop.
        router: What it has counted, and its load, the controller is told.
    """

    def __init__(
        self,
        owner: str,
        controller: ControllerLink,
        update: Callable[[RoutingTable], None],
        router: Router,
    ) -> None:
        self._controller = controller
        self._take = update
        self._router = router
        self._has_table = asyncio.Event()
        # Ends of the watch since a table was last applied.
        self._failures = 0
        self._last_error = ""
        self._tasks = Supervisor(owner)
        self._task = self._tasks.keep("watch of the routing table", self._follow)
        self._signals = LoadSignals(router), ArmSignals(router)
        for each in self._signals:
            self._tasks.keep(type(each).__name__, partial(each.run, controller))

    async def wait_first(self) -> None:
        """Wait until there is a table."""
        await self._has_table.wait()

    def check(self) -> None:
        """Check that the table is followed.

        Raises:
            InternalError: The watch has ended, or fails again and again.
        """
        if self._task.done():
            raise InternalError("the routing table is no longer followed")
        if self._failures >= _MOST_FAILURES:
            raise InternalError(
                f"the routing table could not be followed {self._failures} times in a row: "
                f"{self._last_error}"
            )

    async def close(self) -> None:
        """End the watch."""
        await self._tasks.close()

    async def _follow(self) -> None:
        try:
            await self._controller.watch_routing_table(
                self._update, lambda: make_report(self._router)
            )
        except Exception as error:
            self._failures += 1
            self._last_error = f"{type(error).__name__}: {error}"
            raise

    def _update(self, table: RoutingTable) -> None:
        self._take(table)
        for each in self._signals:
            each.refresh()
        self._failures = 0
        self._has_table.set()
