# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that wait for a lane: none that takes requests is open, and one may still come.

Their number and their time are bounded. While a model's instances restart, or drain and their
successors are not in the routing table yet, a request gets its answer a little later; when no
instance comes back it gets an error instead of nothing.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from backends.api.errors import ResourceExhaustedError, TritonError, UnavailableError
from deployments.lane.client import LaneInflight
from deployments.routing.pool import Link, LinkPool
from deployments.routing.routed_request import RoutedRequest

_SWEEP_S: Final = 1.0
# Of the instances a request waited for, so many are named.
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class WaitingLimits:
    """How long requests may wait for a lane, and how many of them.

    Attributes:
        requests: How many may wait for the instances of one model version.
        wait_s: How long one may wait, to within a second.
    """

    requests: int = 1000
    wait_s: float = 30.0


DEFAULT_WAITING: Final = WaitingLimits()


class WaitingRequests:
    """The requests of one router that wait; each lies in the `LinkPool.waiting` of its model.

    Args:
        resend: Sends a request that has waited; called when a lane has opened.
        limits: The bounds.
    """

    def __init__(
        self, resend: Callable[[RoutedRequest], None], limits: WaitingLimits = DEFAULT_WAITING
    ) -> None:
        self._resend = resend
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._pools: list[LinkPool] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_exiting = False
        self._is_closed = False

    def add(self, pool: LinkPool, routed: LaneInflight) -> None:
        """Let a request wait for a lane, or fail it when none can come or too many wait already."""
        local_only = isinstance(routed, RoutedRequest) and routed.local_only
        if self._is_closed:
            routed.sink.fail(UnavailableError("Server exiting"))
        elif not self._may_come(pool, local_only=local_only):
            routed.sink.fail(no_instance(routed.request.model_name, local_only=local_only))
        elif len(pool.waiting) >= self._limits.requests:
            routed.sink.fail(self._too_many(routed.request.model_name))
        else:
            if isinstance(routed, RoutedRequest):
                routed.wait_from(time.monotonic_ns())
            self._put(pool, routed, self._loop.time())

    def send(self, pool: LinkPool) -> None:
        """Send what waits for a model's instances: a lane to one of them has opened."""
        waiting, pool.waiting = pool.waiting, {}
        for routed, since_s in waiting.items():
            if isinstance(routed, RoutedRequest):
                self._resend(routed)
            if routed in pool.waiting:
                pool.waiting[routed] = since_s

    def fail(self, pool: LinkPool, error: TritonError) -> None:
        """Fail what waits for a model's instances."""
        waiting, pool.waiting = pool.waiting, {}
        for routed in waiting:
            routed.sink.fail(error)

    def exit(self) -> None:
        """Take note that the server ends, so that instances that drain have no successors."""
        self._is_exiting = True
        for pool in self._pools:
            if not self._may_come(pool):
                self.fail(pool, UnavailableError("Server exiting"))

    def close(self) -> None:
        """Fail everything that waits, and what comes later."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pools, self._pools = self._pools, []
        for pool in pools:
            self.fail(pool, UnavailableError("Server exiting"))

    def _may_come(self, pool: LinkPool, *, local_only: bool = False) -> bool:
        """Whether a lane that takes requests may open."""
        awaits_queue = pool.is_pooled and pool.queue is None
        return any(
            not link.closed
            and (link.is_local or not local_only)
            and (awaits_queue or self._may_open(link))
            for link in pool.links
        )

    def _may_open(self, link: Link) -> bool:
        # A link that is being opened decides by its end. An instance that drains is replaced, or
        # its version goes: either way the next table decides.
        lane = link.lane
        return (
            lane is None
            or (lane.draining and not self._is_exiting)
            or (not link.is_local and lane.holder is not None)
        )

    def _put(self, pool: LinkPool, routed: LaneInflight, since_s: float) -> None:
        pool.waiting[routed] = since_s
        if not any(each is pool for each in self._pools):
            self._pools.append(pool)
        if self._timer is None:
            self._timer = self._loop.call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        """Fail what has waited too long; runs only while something waits."""
        self._timer = None
        oldest_s = self._loop.time() - self._limits.wait_s
        for pool in self._pools:
            late = [routed for routed, since_s in pool.waiting.items() if since_s <= oldest_s]
            for routed in late:
                # The sinks of earlier ones may have cancelled it.
                if pool.waiting.pop(routed, None) is not None:
                    routed.sink.fail(self._too_long(pool, routed.request.model_name))
        self._pools = [pool for pool in self._pools if pool.waiting]
        if self._pools and self._timer is None:
            self._timer = self._loop.call_later(_SWEEP_S, self._sweep)

    def _too_many(self, model_name: str) -> ResourceExhaustedError:
        return ResourceExhaustedError(
            f"model '{model_name}' has no instance that answers at present, and "
            f"{self._limits.requests} requests wait for one already; try again later"
        )

    def _too_long(self, pool: LinkPool, model_name: str) -> UnavailableError:
        names = [link.endpoint.name for link in pool.links if link.lane is None]
        shown = ", ".join(f"'{name}'" for name in names[:_MOST_NAMED])
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        reason = f"no connection to {shown}{more} could be opened" if shown else "all have left"
        return UnavailableError(
            f"model '{model_name}' has had no instance that answers for "
            f"{self._limits.wait_s:g} s: {reason}; the request was not executed, try again"
        )


def no_instance(model_name: str, *, local_only: bool = False) -> UnavailableError:
    """Return the error of a request that no instance can be expected to take."""
    if local_only:
        return UnavailableError(
            f"model '{model_name}' has no instance on this node that answers at present; "
            f"requests with tensors in shared memory need one"
        )
    return UnavailableError(
        f"model '{model_name}' has no instance that answers at present; it is being restarted, "
        f"try again"
    )
