# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Counters of model versions, gathered from all who count: instances, routers, those that left.

Everybody is asked at once and under one deadline, so three hundred models take as long as one. What
does not answer in time is left out.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from backends.api.errors import TritonError
from deployments.contracts.control import ClusterControl
from deployments.contracts.routing_table import ModelVersion
from deployments.metrics.counters import Snapshot, decode, merge
from deployments.routing.pool import Link
from deployments.routing.reports import counters_by_model, make_report
from deployments.routing.router import Router

_log = logging.getLogger(__name__)

T = TypeVar("T")

# Instances answer control calls from their event loop; one that does not within this is hung.
DEADLINE_S: Final = 2.0

Entry = tuple[str, ModelVersion]


class StatisticsCollector:
    """Gathers counters for this process.

    Args:
        router: Knows the instances, and what was counted in this process.
        control: Has the other routers report.
    """

    def __init__(self, router: Router, control: ClusterControl) -> None:
        self._router = router
        self._control = control

    async def collect(self, entries: Sequence[Entry]) -> list[Snapshot]:
        """Return the counters of each version, of all nodes, in the order given.

        Args:
            entries: Model key and version.
        """
        (parts,) = (await self._gather(entries, None)).values()
        return [merge(part) for part in parts]

    async def collect_by_node(
        self, entries: Sequence[Entry], node_ids: Sequence[str]
    ) -> dict[str, list[Snapshot | None]]:
        """Return the counters of each version, in the order given, by node.

        Args:
            entries: Model key and version.
            node_ids: The nodes, the own one first.

        Returns:
            None for a version that has no instance, and was not asked for, on another node.
        """
        gathered = await self._gather(entries, node_ids)
        own = node_ids[0]
        return {
            node_id: [merge(part) if part or node_id == own else None for part in parts]
            for node_id, parts in gathered.items()
        }

    async def _gather(
        self, entries: Sequence[Entry], node_ids: Sequence[str] | None
    ) -> dict[str, list[list[Snapshot]]]:
        """Return what was counted for each version, by node; as of one node, "", for all."""
        router, shown = self._router, node_ids or ("",)
        parts: dict[str, list[list[Snapshot]]] = {each: [[] for _ in entries] for each in shown}

        def at(node_id: str) -> list[list[Snapshot]] | None:
            return parts.get(node_id if node_ids else "")

        asked: list[tuple[list[Snapshot], Link]] = []
        # All of one table and of one instant: an instance is among the links or among the past.
        for number, (name, entry) in enumerate(entries):
            asked += [
                (there[number], link)
                for link in router.links_of(name, entry.version)
                if (there := at(link.endpoint.node_id))
            ]
            for node_id, counted in router.table.past(name, entry.version).items():
                if there := at(node_id):
                    there[number] += _decoded(counted)
            waiting = router.waiting_count(name, entry.version)
            if waiting and (there := at(router.node_id)):
                there[number].append(Snapshot(pending_count=waiting))
        reporting = asyncio.ensure_future(self._reports(entries))
        try:
            links = [link for _, link in asked]
            answers = await router.links.ask(links, "statistics", DEADLINE_S)
            reports = await reporting
        finally:
            reporting.cancel()
        for (part, _), answer in zip(asked, answers, strict=True):
            part.extend(() if answer is None else _decoded(answer))
        for node_id, of_node in parts.items():
            counted_in_routers = counters_by_model(reports, node_id)
            for number, (name, entry) in enumerate(entries):
                of_node[number] += counted_in_routers.get((name, entry.version), [])
        return parts

    async def _reports(self, entries: Sequence[Entry]) -> list[bytes]:
        """Return what routers have counted, others only where these models are counted there."""
        own = make_report(self._router)
        if not any(
            (entry.config and (entry.config.has_ensemble_scheduling or entry.config.response_cache))
            or self._router.counts_elsewhere(name, entry.version)
            for name, entry in entries
        ):
            return [own]
        try:
            async with asyncio.timeout(DEADLINE_S):
                return [own, *await self._control.router_reports()]
        except TimeoutError:
            reason = f"the model controller has not answered within {DEADLINE_S:g} s"
        except TritonError as error:
            reason = error.message
        _log.warning("only the counters of this process are shown: %s", reason)
        return [own]


def _decoded(counted: bytes) -> list[Snapshot]:
    """Return a snapshot; none when it cannot be read, as of an instance of another release."""
    try:
        return [decode(counted)]
    except msgspec.MsgspecError as error:
        _log.warning("the counters of an instance cannot be read: %s", error)
        return []


class Recent(Generic[T]):
    """A value that takes a while to make: made once for all who ask while it is being made.

    Args:
        make: Makes the value; one call of it runs at a time.
    """

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None
        self._made: tuple[float, T] | None = None

    async def new(self) -> T:
        """Return a value whose making begins after this call."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._run(self._running))
        return await asyncio.shield(self._next)

    async def at_most_old(self, age_s: float) -> T:
        """Return a value whose making ended at most so long ago."""
        now_s = asyncio.get_running_loop().time()
        if self._made is not None and now_s - self._made[0] <= age_s:
            return self._made[1]
        return await self.new()

    async def _run(self, before: asyncio.Task[T] | None) -> T:
        if before is not None:
            await asyncio.wait({before})
        self._running, self._next = self._next, None
        value = await self._make()
        self._made = (asyncio.get_running_loop().time(), value)
        return value
