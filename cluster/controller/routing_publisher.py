# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The routing table's versions, what has changed since each, and the routers that wait for more.

Theory of operation. The table as a whole has one version; each model and the settings have the
version in which they last changed. A router that polls says which version it has and gets what has
a higher one. A router with a version that an earlier controller gave out, or one so old that the
names of models removed since have been forgotten, gets the whole table.

A change costs O(models that have changed), for the first router that takes it and for each other
one: whoever changes a record says whose it is, and what has changed is kept in the order in which
it did.

Reports for a scrape go the same way and cost no table: the number of the latest collection wakes
the polls, and each router polls again with a report and that number.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from typing import Final

from cluster.models.states import ModelRecord
from deployments.contracts.routing_table import Model, PollAnswer, RoutingTable, TableChanges
from deployments.settings.server_settings import ServerSettings


class RouterWaits:
    """The waits for all routers to get somewhere: to a version of the table, or to a report.

    What a router says costs O(waits), and a wait O(routers) altogether: there are thousands.
    """

    def __init__(self) -> None:
        self._waits: dict[asyncio.Event, tuple[int, set[str]]] = {}

    def said(self, router_id: str, number: int) -> None:
        """Learn how far a router is; one that is new is waited for, too, if it is behind."""
        for done, (wanted, behind) in self._waits.items():
            if number < wanted:
                behind.add(router_id)
            else:
                behind.discard(router_id)
            if not behind:
                done.set()

    def gone(self, router_ids: Iterable[str]) -> None:
        """Wait for some routers no more."""
        names = set(router_ids)
        for done, (_, behind) in self._waits.items():
            behind.difference_update(names)
            if not behind:
                done.set()

    async def wait(self, behind: Iterable[str], number: int, timeout_s: float) -> set[str]:
        """Wait until routers have said at least a number.

        Returns:
            Those that have not said so in time.
        """
        names = set(behind)
        if not names:
            return names
        done = asyncio.Event()
        self._waits[done] = number, names
        try:
            async with asyncio.timeout(timeout_s):
                await done.wait()
        except TimeoutError:
            return names
        finally:
            del self._waits[done]
        return set()


# Names of removed models that are remembered; forgetting them costs a whole table.
_MOST_REMOVED: Final = 1000


class RoutingPublisher:
    """Hands out what has changed in the table.

    Versions are at least the clock's nanoseconds, so that those of a restarted controller are
    higher than any its predecessor gave out. Records are rendered when a router takes the table:
    of a hundred changes between two polls of a router one is rendered.

    Nothing is handed out before `release`: what a controller knows before it has looked for live
    instances is no table, and routers that took it would refuse models that are being served.

    Args:
        records: The records to render; read when a table is taken. Of a change of one of them
            `changed` has to hear.
        clock_ns: Wall clock.
        settings: What clients may change of a running server.
        router_ids: Routers an earlier controller had; `wait_known` waits for them.
        has_namespaces: Whether models of one name may be in several repositories.
        read_reachable: Tells of each repository whether it can be listed; call `changed` when that
            has changed.

    Attributes:
        settings: What clients may change; call `changed` after setting it.
        tables: How many routers were given changes of the table, or the whole of it.
    """

    def __init__(
        self,
        records: Mapping[str, ModelRecord],
        clock_ns: Callable[[], int],
        settings: ServerSettings | None = None,
        router_ids: Iterable[str] = (),
        *,
        has_namespaces: bool = False,
        read_reachable: Callable[[], Mapping[str, bool]] = dict,
    ) -> None:
        self._read_reachable = read_reachable
        self._has_namespaces = has_namespaces
        self.settings = settings or ServerSettings()
        self.tables = 0
        self._records = records
        self._clock_ns = clock_ns
        # Of this controller's versions the first is never handed out: `release` makes a newer one.
        self._version = self._oldest_version = clock_ns()
        self._initialised = False
        self._exiting = False
        self._held = True
        self._changed = asyncio.Event()
        # The version that each router has said it has.
        self._known: dict[str, int] = dict.fromkeys(router_ids, 0)
        self._known_waits = RouterWaits()
        # What was rendered last, and from which version on it has been as it is, latest last.
        self._rendered_version = 0
        self._rendered: dict[str, tuple[ModelRecord, Model]] = {}
        self._model_versions: dict[str, int] = {}
        # By a router's version: what it has to change for the one that was rendered last.
        self._made: dict[int, TableChanges] = {}
        # Names of records that may have changed since.
        self._touched: dict[str, None] = dict.fromkeys(records)
        self._removed: dict[str, int] = {}
        self._rendered_settings = self.settings
        self._settings_version = self._version
        # The latest collection of reports, and the one that each router has answered.
        self._report_number = clock_ns()
        self._reported: dict[str, int] = {}
        self._report_waits = RouterWaits()
        self._reports: dict[str, bytes] = {}

    @property
    def router_ids(self) -> list[str]:
        """Routers that have asked for a table and are not taken for gone."""
        return list(self._known)

    def changed(self, key: str = "") -> None:
        """Note that a model's record was put, replaced or removed, or that something else changed.

        Args:
            key: The model's key; empty for something else.
        """
        if key:
            self._touched[key] = None
        self._version = max(self._version + 1, self._clock_ns())
        self._wake()

    def mark_initialised(self) -> None:
        """Note that start-up loading is done."""
        self._initialised = True
        self.changed()

    def mark_exiting(self) -> None:
        """Note that the server is shutting down."""
        self._exiting = True
        self.release()

    def release(self) -> None:
        """Hand out tables from now on."""
        self._held = False
        self.changed()

    def table(self) -> RoutingTable:
        """Return the newest table."""
        return RoutingTable().after(self.changes_since(0))

    def changes_since(self, known_version: int) -> TableChanges:
        """Return what a router with a version of the table has to change in it."""
        self._render()
        is_whole = not self._oldest_version < known_version <= self._version
        since = 0 if is_whole else known_version
        made = self._made.get(since)
        if made is None:
            made = self._made[since] = self._changes_after(since, is_whole=is_whole)
        return made

    def _changes_after(self, since: int, *, is_whole: bool) -> TableChanges:
        has_settings = is_whole or self._settings_version > since
        return TableChanges(
            version=self._version,
            is_whole=is_whole,
            models={name: self._rendered[name][1] for name in _since(self._model_versions, since)},
            removed=frozenset(_since(self._removed, since)),
            initialised=self._initialised,
            exiting=self._exiting,
            settings=self._rendered_settings if has_settings else None,
            has_namespaces=self._has_namespaces,
            reachable=self._read_reachable(),
        )

    async def poll(
        self,
        known_version: int,
        timeout_s: float,
        router_id: str = "",
        reported: int = 0,
        report: bytes = b"",
    ) -> PollAnswer:
        """Answer as soon as the table is newer or a report is wanted, or else after a time.

        Args:
            known_version: Version of the table the router has.
            timeout_s: How long to wait.
            router_id: The router; one without a name is neither waited for nor asked to report.
            reported: The latest collection the router has heard of.
            report: What the router has counted, when it has just heard of that collection.
        """
        if router_id:
            if known_version > self._version:
                # Given out by a controller whose clock was ahead of this one's.
                self._version = self._oldest_version = known_version
                self.changed()
            self._known[router_id] = known_version
            if reported > self._reported.get(router_id, 0):
                self._reported[router_id] = reported
                self._reports[router_id] = report
            self._known_waits.said(router_id, known_version)
            self._report_waits.said(router_id, self._reported.get(router_id, 0))
        try:
            async with asyncio.timeout(timeout_s):
                while not (self._is_newer_than(known_version) or self._asks(router_id, reported)):
                    await self._changed.wait()
        except TimeoutError:
            pass
        changes = None
        if self._is_newer_than(known_version):
            self.tables += 1
            changes = self.changes_since(known_version)
        return PollAnswer(changes, self._report_number)

    async def collect(self, router_id: str, timeout_s: float) -> list[bytes]:
        """Have all other routers report, and return their reports; no table is made for it.

        Collections that begin while routers answer an earlier one share the next reports. A router
        that does not report in time is taken for gone, until it asks again.
        """
        self._report_number = number = max(self._report_number + 1, self._clock_ns())
        self._wake()
        silent = [
            name
            for name in self._known
            if name != router_id and self._reported.get(name, 0) < number
        ]
        self._forget_routers(await self._report_waits.wait(silent, number, timeout_s))
        for name in self._reports.keys() - self._known.keys():
            del self._reports[name], self._reported[name]
        return [report for name, report in self._reports.items() if report and name != router_id]

    async def wait_known(self, timeout_s: float) -> None:
        """Wait until every router has the table as it is now.

        A router that does not say so in time is taken for gone, until it asks again.
        """
        version = self._version
        behind = [name for name, known in self._known.items() if known < version]
        self._forget_routers(await self._known_waits.wait(behind, version, timeout_s))

    def _forget_routers(self, names: Iterable[str]) -> None:
        """Take routers for gone, until they ask again."""
        for name in names:
            self._known.pop(name, None)
        self._known_waits.gone(names)
        self._report_waits.gone(names)

    def _is_newer_than(self, known_version: int) -> bool:
        return not self._held and self._version > known_version

    def _asks(self, router_id: str, reported: int) -> bool:
        return bool(router_id) and self._report_number != reported

    def _wake(self) -> None:
        # Waiters hold this event; the next ones wait for another.
        self._changed.set()
        self._changed = asyncio.Event()

    def _render(self) -> None:
        """Note with the present version what has changed since the records were last rendered."""
        version = self._version
        if self._rendered_version == version:
            return
        self._rendered_version = version
        self._made.clear()
        touched, self._touched = self._touched, {}
        for name in touched:
            record = self._records.get(name)
            if record is not None and (record.versions or record.is_on_demand):
                self._render_one(name, record, version)
            elif self._rendered.pop(name, None) is not None:
                del self._model_versions[name]
                self._removed[name] = version
        if self.settings is not self._rendered_settings:
            self._rendered_settings, self._settings_version = self.settings, version
        while len(self._removed) > _MOST_REMOVED:
            oldest = next(iter(self._removed))
            self._oldest_version = max(self._oldest_version, self._removed.pop(oldest))

    def _render_one(self, name: str, record: ModelRecord, version: int) -> None:
        known = self._rendered.get(name)
        # Records are immutable: a record that is the same object has not changed.
        if known is not None and known[0] is record:
            return
        model = record.routing_model()
        if known is not None and known[1] == model:
            model = known[1]
        else:
            self._model_versions.pop(name, None)
            self._model_versions[name] = version
            self._removed.pop(name, None)
        self._rendered[name] = (record, model)


def _since(versions: dict[str, int], since: int) -> list[str]:
    """Return the names whose versions are higher, the latest last; versions ascend."""
    later = takewhile(lambda item: item[1] > since, reversed(versions.items()))
    names = [name for name, _ in later]
    names.reverse()
    return names
