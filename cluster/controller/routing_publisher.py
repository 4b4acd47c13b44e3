# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The routing table's versions, and those who wait for the next."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from cluster.models.states import ModelRecord
from deployments.contracts.routing_table import RoutingTable
from deployments.settings.server_settings import ServerSettings


class RoutingPublisher:
    """Hands out the newest table.

    Versions are at least the clock's nanoseconds, so that those of a restarted controller are
    higher than any its predecessor gave out. A table is built when someone takes it: of a hundred
    changes between two polls of a router one table is made.

    Nothing is handed out before `release`: what a controller knows before it has looked for live
    instances is no table, and routers that took it would refuse models that are being served.

    Args:
        records: The records to render; read when a table is built.
        clock_ns: Wall clock.
        settings: What clients may change of a running server.
        router_ids: Routers an earlier controller had; `wait_known` waits for them.

    Attributes:
        settings: The same; call `changed` after setting it.
    """

    def __init__(
        self,
        records: Mapping[str, ModelRecord],
        clock_ns: Callable[[], int],
        settings: ServerSettings | None = None,
        router_ids: Iterable[str] = (),
    ) -> None:
        self.settings = settings or ServerSettings()
        self._records = records
        self._clock_ns = clock_ns
        self._version = clock_ns()
        self._table: RoutingTable | None = None
        self._initialised = False
        self._exiting = False
        self._held = True
        self._changed = asyncio.Event()
        # The table each router has said that it has.
        self._known: dict[str, int] = dict.fromkeys(router_ids, 0)
        self._reports: dict[str, bytes] = {}
        self._told = asyncio.Event()

    @property
    def is_initialised(self) -> bool:
        """Whether start-up loading is done."""
        return self._initialised

    def changed(self) -> None:
        """Note that the records changed."""
        self._version = max(self._version + 1, self._clock_ns())
        self._table = None
        # Waiters hold this event; the next ones wait for another.
        self._changed.set()
        self._changed = asyncio.Event()

    def mark_initialised(self) -> None:
        """Note that start-up loading is done."""
        self._initialised = True
        self.changed()

    def mark_exiting(self) -> None:
        """Note that the server is shutting down."""
        self._exiting = True
        self.release()

    @property
    def router_ids(self) -> list[str]:
        """Routers that have asked for a table and are not taken for gone."""
        return list(self._known)

    def release(self) -> None:
        """Hand out tables from now on."""
        self._held = False
        self.changed()

    def table(self) -> RoutingTable:
        """Return the newest table."""
        if self._table is None:
            self._table = RoutingTable(
                version=self._version,
                models={
                    name: record.routing_model()
                    for name, record in self._records.items()
                    if record.versions
                },
                initialised=self._initialised,
                exiting=self._exiting,
                settings=self.settings,
            )
        return self._table

    async def wait_newer(
        self, known_version: int, timeout_s: float, router_id: str = "", report: bytes = b""
    ) -> RoutingTable | None:
        """Return the newest table as soon as it is newer; None when that takes too long.

        Args:
            known_version: Version of the table the router has.
            timeout_s: How long to wait.
            router_id: Who asks; `wait_known` waits for those that have a name.
            report: What the router has counted; see `collect`.
        """
        if router_id:
            self._known[router_id] = known_version
            self._reports[router_id] = report
            self._told.set()
            self._told = asyncio.Event()
        try:
            async with asyncio.timeout(timeout_s):
                while self._held or self._version <= known_version:
                    await self._changed.wait()
        except TimeoutError:
            return None
        return self.table()

    async def collect(self, router_id: str, timeout_s: float) -> list[bytes]:
        """Have all other routers report, and return what they do."""
        if self._known.keys() - {router_id}:
            self.changed()
            await self.wait_known(timeout_s)
        self._reports = {name: self._reports.get(name, b"") for name in self._known}
        return [report for name, report in self._reports.items() if report and name != router_id]

    async def wait_known(self, timeout_s: float) -> None:
        """Wait until every router has the table as it is now.

        A router that does not say so in time is taken for gone, until it asks again.
        """
        version = self._version
        try:
            async with asyncio.timeout(timeout_s):
                while any(known < version for known in self._known.values()):
                    await self._told.wait()
        except TimeoutError:
            self._known = {name: known for name, known in self._known.items() if known >= version}
