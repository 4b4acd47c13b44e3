# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that wait for a lane: none that takes requests is open, and one may still come.

Their number and their time are bounded. While a model's instances restart, be it all of them, or
drain and their successors are not in the routing table yet, a request gets its answer a little
later; when no instance comes back it gets an error instead of nothing.

What waits is sent when a lane opens, a queue is there or a node speaks. It is also tried with each
look at the times, so that nothing waits for an event that has passed.

Requests for a dormant version wait here too, in the bounds of `deployments.routing.wakes`.
"""

import asyncio
import time
from typing import Final

from backends.api.errors import (
    RequestCancelledError,
    ResourceExhaustedError,
    TritonError,
    UnavailableError,
)
from deployments.contracts.faults import end_with_fault
from deployments.contracts.routing_table import ModelVersion
from deployments.pool_queue.own_request import OwnRequest
from deployments.routing.pool import Link, LinkPool
from deployments.routing.wakes import Wakes, too_long

_SWEEP_S: Final = 1.0
_NS_PER_S: Final = 1e9
# Of the instances a request waited for, so many are named.
_MOST_NAMED: Final = 3
_WHAT: Final = "a request that waited for an instance"
# How many requests may wait for the instances of one model version.
MOST_REQUESTS = 1000
# How long one may wait, to within a second.
WAIT_S = 30.0


class WaitingRequests:
    """The requests of one router that wait; each lies in the `LinkPool.waiting` of its model.

    Attributes:
        wakes: Has dormant versions woken; to be set where there is a controller.
    """

    def __init__(self) -> None:
        self.wakes = Wakes()
        self._loop = asyncio.get_running_loop()
        # Those in which something waits, or did when `_sweep` looked last.
        self._pools: dict[LinkPool, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_exiting = False
        self._is_closed = False

    def add(self, pool: LinkPool, routed: OwnRequest) -> None:
        """Let a request wait for a lane, or fail it when none can come or too many wait already."""
        if self._is_closed:
            routed.sink.fail(UnavailableError("Server exiting"))
        elif pool.is_dormant and not self._is_exiting:
            refusal = self.wakes.refusal(pool, routed)
            if refusal is not None:
                routed.sink.fail(refusal)
            else:
                self._put(pool, routed)
                self.wakes.begin(pool, self.fail)
        elif not self._may_come(pool, local_only=routed.local_only):
            routed.sink.fail(_none_may_come(pool, routed))
        elif len(pool.waiting) >= MOST_REQUESTS:
            routed.sink.fail(_too_many(routed.request.model_name))
        else:
            self._put(pool, routed)

    def follow(self, pool: LinkPool, entry: ModelVersion | None, waits_for: str = "") -> None:
        """Take note of a version as the table has it now.

        Args:
            pool: Its instances.
            entry: Whether it is dormant, awake or restarting; None: it takes no requests.
            waits_for: What its start waits for.
        """
        pool.waits_for = waits_for
        pool.is_restarting = entry is not None and entry.is_restarting
        is_dormant = entry is not None and entry.is_dormant
        if entry is not None:
            pool.wake_s = entry.load_duration_ns / _NS_PER_S
        if is_dormant == pool.is_dormant:
            return
        pool.is_dormant = is_dormant
        # Now another bound of time holds.
        now_s = self._loop.time()
        pool.waiting = dict.fromkeys(pool.waiting, now_s)
        if is_dormant and pool.waiting:
            self.wakes.begin(pool, self.fail)

    def send(self, pool: LinkPool) -> None:
        """Send what waits for a model's instances: a lane to one of them has opened."""
        waiting, pool.waiting = pool.waiting, {}
        for routed, since_s in waiting.items():
            self._send(pool, routed)
            if routed in pool.waiting:
                pool.waiting[routed] = since_s

    def _send(self, pool: LinkPool, routed: OwnRequest) -> None:
        """Send a request; whatever that raises is its outcome, and others are sent all the same."""
        if routed.cancelled:
            # The sinks of earlier ones may have cancelled it, which nobody else has answered.
            end_with_fault(routed.sink, RequestCancelledError(""), _WHAT)
            return
        try:
            routed.send_again()
        except Exception as error:
            pool.waiting.pop(routed, None)
            end_with_fault(routed.sink, error, _WHAT)

    def fail(self, pool: LinkPool, error: TritonError) -> None:
        """Fail what waits for a model's instances."""
        waiting, pool.waiting = pool.waiting, {}
        for routed in waiting:
            end_with_fault(routed.sink, error, _WHAT)

    def exit(self) -> None:
        """Take note that the server ends, so that instances that drain have no successors."""
        self._is_exiting = True
        for pool in list(self._pools):
            if not self._may_come(pool):
                self.fail(pool, UnavailableError("Server exiting"))

    def close(self) -> None:
        """Fail everything that waits, and what comes later."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pools, self._pools = self._pools, {}
        for pool in pools:
            self.fail(pool, UnavailableError("Server exiting"))

    def _may_come(self, pool: LinkPool, *, local_only: bool = False) -> bool:
        """Whether a lane that takes requests may open."""
        if pool.is_restarting and not self._is_exiting:
            return True
        # Also one that is known may be away: its holder has not heard of the instances yet.
        has_queue = pool.is_pooled or (pool.routes is not None and bool(pool.routes.queues()))
        awaits_queue = has_queue and (
            not self._is_exiting or (pool.is_pooled and pool.queue is None)
        )
        return any(
            not (link.closed or link.is_cut_off)
            and (link.is_local or not local_only)
            and (awaits_queue or self._may_open(link))
            for link in pool.links
        ) or _lacks_holder(pool)

    def _may_open(self, link: Link) -> bool:
        # A link that is being opened decides by its end. An instance that drains is replaced, or
        # its version goes: either way the next table decides.
        lane = link.lane
        return (
            lane is None
            or (lane.draining and not self._is_exiting)
            or not (link.is_local or link.is_on_its_own)
        )

    def _put(self, pool: LinkPool, routed: OwnRequest) -> None:
        routed.wait_from(time.monotonic_ns())
        pool.waiting[routed] = self._loop.time()
        self._pools[pool] = None
        self._arm()

    def _arm(self) -> None:
        """Have `_sweep` called, once; asked here, where mypyc knows nothing of the timer."""
        if self._timer is None:
            self._timer = self._loop.call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        """Fail what has waited too long and try the rest; runs only while something waits."""
        self._timer = None
        now_s = self._loop.time()
        for pool in list(self._pools):
            oldest_s = now_s - (self.wakes.limits.wait_s if pool.is_dormant else WAIT_S)
            late = [routed for routed, since_s in pool.waiting.items() if since_s <= oldest_s]
            for routed in late:
                # The sinks of earlier ones may have cancelled it.
                if pool.waiting.pop(routed, None) is not None:
                    late_error = self._too_long(pool, routed.request.model_name)
                    end_with_fault(routed.sink, late_error, _WHAT)
            if pool.waiting and not pool.is_dormant and self._may_go(pool):
                self.send(pool)
        self._pools = {pool: None for pool in self._pools if pool.waiting}
        if self._pools:
            # What was sent and waits once more may have done so.
            self._arm()

    def _may_go(self, pool: LinkPool) -> bool:
        """Try the oldest request of each kind, where all of a kind find the same.

        Returns:
            Whether to try the others: one was taken. Each sequence is a kind of its own.
        """
        if pool.sequences is not None:
            return True
        oldest: dict[tuple[bool, object], OwnRequest] = {}
        for routed in pool.waiting:
            oldest.setdefault((routed.local_only, routed.lane), routed)
        return any(self._goes(pool, routed) for routed in oldest.values())

    def _goes(self, pool: LinkPool, routed: OwnRequest) -> bool:
        """Send one request; return whether it does not wait any more."""
        since_s = pool.waiting.pop(routed, None)
        if since_s is None:
            return True
        self._send(pool, routed)
        if pool.waiting.pop(routed, None) is None:
            return True
        # It is the oldest yet.
        pool.waiting = {routed: since_s, **pool.waiting}
        return False

    def _too_long(self, pool: LinkPool, model_name: str) -> UnavailableError:
        if pool.is_dormant:
            return too_long(pool, self.wakes.limits.wait_s)
        return UnavailableError(
            f"model '{model_name}' has had no instance that answers for "
            f"{WAIT_S:g} s: {_why_none(pool)}; the request was not executed, try again"
        )


def _too_many(model_name: str) -> ResourceExhaustedError:
    return ResourceExhaustedError(
        f"model '{model_name}' has no instance that answers at present, and "
        f"{MOST_REQUESTS} requests wait for one already; try again later"
    )


def _none_may_come(pool: LinkPool, routed: OwnRequest) -> UnavailableError:
    model_name, local_only = routed.request.model_name, routed.local_only
    out_of_reach = [link for link in pool.links if link.is_cut_off]
    if out_of_reach and not local_only:
        return cut_off(f"model '{model_name}' is served", out_of_reach[0])
    return no_instance(model_name, local_only=local_only)


def _why_none(pool: LinkPool) -> str:
    if pool.is_restarting:
        return pool.waits_for or "all are being started again"
    names = [link.endpoint.name for link in pool.links if link.lane is None]
    if not names:
        return "its queue has moved and is not found" if pool.links else "all have left"
    shown = ", ".join(f"'{name}'" for name in names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"no connection to {shown}{more} could be opened"


def _lacks_holder(pool: LinkPool) -> bool:
    """Whether an instance that has left goes on with sequences, once its queue is found again."""
    return any(
        link.lane is not None and not (link.is_on_its_own or link.is_cut_off)
        for link in pool.retired
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


def cut_off(what: str, link: Link) -> UnavailableError:
    """Return the error of a request for a node whose queue other nodes cannot reach.

    Args:
        what: What is on that node.
        link: The way to one of the node's instances.
    """
    return UnavailableError(
        f"{what} on node {link.endpoint.node_id}, where the process that queues requests has found "
        f"no TCP port to listen at for other nodes; the request was not executed. Free a port of "
        f"--lane-port-range on that node or give a wider range, or send requests to that node"
    )
