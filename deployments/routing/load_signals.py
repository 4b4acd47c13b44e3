# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a router tells the controller of versions that autoscale: requests under way, and how many.

What it costs. A request costs nothing: what is read are counts that lanes and queues have anyway.
While the table has no version that autoscales, nothing runs. Else the router reads, four times a
second, one count for each lane of each such version, some microseconds all told, and sends one call
a second to the controller; it sends none while it has no request for any of them. So a cluster pays
one small call a second for each router that is busy with such versions, however many requests there
are and however many versions.

Every router reports the requests that it has itself, in queues of other processes too, so the sum
over routers counts each request once.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from backends.api.errors import TritonError
from deployments.contracts.control import ControllerLink
from deployments.contracts.load_report import VersionLoad, encode_loads
from deployments.lane.client import LaneClient
from deployments.routing.pool import LinkPool, NodeQueue
from deployments.routing.router import Router

_log = logging.getLogger(__name__)

SAMPLE_S: Final = 0.25
REPORT_S: Final = 1.0


class LoadSignals:
    """Reads the load of one router.

    Args:
        router: The router.
        clock_s: Seconds of a clock that only goes forward.

    Attributes:
        wanted: Set while the table has versions that autoscale.
    """

    def __init__(self, router: Router, clock_s: Callable[[], float] | None = None) -> None:
        self.wanted = asyncio.Event()
        self._router = router
        self._clock_s = clock_s or asyncio.get_running_loop().time
        self._pools: list[_WatchedPool] = []
        self._is_stale = False
        self._reported_s = self._clock_s()

    def refresh(self) -> None:
        """Learn that the table is another one: other versions may autoscale.

        While there are any the next sample looks, so that of many changes the last one counts.
        """
        if self._pools and self._router.autoscaled:
            self._is_stale = True
        else:
            self._look()

    async def run(self, controller: ControllerLink) -> None:
        """Tell the controller for ever."""
        while True:
            await self.wanted.wait()
            await asyncio.sleep(SAMPLE_S)
            report = self.sample()
            if report:
                try:
                    await controller.report_load(report)
                except TritonError as error:
                    # The next report says all that there is to say then.
                    _log.warning("the load could not be told: %s", error.message)

    def _look(self) -> None:
        self._is_stale = False
        known = {watched.pool: watched for watched in self._pools}
        pools = self._router.autoscaled.values()
        if not self._pools:
            self._reported_s = self._clock_s()
        self._pools = [known.get(pool) or _WatchedPool(pool) for pool in pools]
        if pools:
            self.wanted.set()
        else:
            self.wanted.clear()

    def sample(self) -> bytes:
        """Read the counts.

        Returns:
            A report, when one is due and there is something to tell; else nothing.
        """
        if self._is_stale:
            self._look()
        for watched in self._pools:
            watched.sample()
        now_s = self._clock_s()
        period_s = now_s - self._reported_s
        if period_s < REPORT_S:
            return b""
        self._reported_s = now_s
        loads = [each.report(period_s) for each in self._pools]
        told = [load for load in loads if load is not None]
        return encode_loads(told) if told else b""


class _WatchedPool:
    """The counts of one version since the last report."""

    def __init__(self, pool: LinkPool) -> None:
        self.pool = pool
        self._sent: dict[LaneClient, int] = {}
        self._sent_count = 0
        self._ongoing_sum = 0
        self._sample_count = 0
        self._was_quiet = True

    def sample(self) -> None:
        sent: dict[LaneClient, int] = {}
        ongoing = len(self.pool.waiting)
        for lane in self.pool.lanes:
            ongoing += lane.outstanding
            # A lane that opened since was at 0.
            sent[lane] = lane.request_count
            # Fewer: the instance has sent some back, which count where they go next.
            self._sent_count += sent[lane] - self._sent.get(lane, 0)
        self._sent = sent
        self._ongoing_sum += ongoing + sum(queue.waiting_count for queue in _queues(self.pool))
        self._sample_count += 1

    def report(self, period_s: float) -> VersionLoad | None:
        """Return the load; None when it is as quiet as the last report has said."""
        key, version = self.pool.key
        ongoing = self._ongoing_sum / max(1, self._sample_count)
        load = VersionLoad(key, version, ongoing, max(0, self._sent_count) / period_s)
        self._sent_count = self._ongoing_sum = self._sample_count = 0
        was_quiet, self._was_quiet = self._was_quiet, load.is_quiet
        return None if was_quiet and load.is_quiet else load


def _queues(pool: LinkPool) -> set[NodeQueue]:
    """Return the queues that requests for a version may wait in, of this and other nodes."""
    queues = set() if pool.queue is None else {pool.queue}
    return queues if pool.routes is None else queues.union(pool.routes.queues())
