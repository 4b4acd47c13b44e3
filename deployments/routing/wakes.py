# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Has dormant versions woken, once for all requests that wait for them.

A dormant version is READY and has no instance. Its requests lie in the `LinkPool.waiting` of their
version, in bounds of their own, while one task of this router asks the controller to wake it. The
routing table then brings the instance. While the controller is away the task asks again; a load
that fails is the error of all that wait, and the next request asks again.

A model that was never loaded has no config, so that requests cannot even be read. Who meets one
waits in `Wakes.first_use` and then begins anew.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from backends.api.errors import TritonError, UnavailableError
from backends.api.model_identifier import name_of
from backends.api.request import InferenceRequest
from deployments.contracts.routing_table import ModelReadyState, RoutingTable
from deployments.contracts.wake_limits import DEFAULT_WAKES, WakeLimits
from deployments.lane.inflight import LaneInflight
from deployments.routing.pool import LinkPool
from deployments.supervision.supervisor import Supervisor

_log = logging.getLogger(__name__)

# Asks the controller to wake a version by model key and number; returns the load's error, if it has
# one. Raises TritonError when the controller cannot be asked.
Wake = Callable[[str, int], Awaitable[TritonError | None]]

# The table is some milliseconds behind the answer.
_FIRST_PAUSE_S: Final = 0.25
_MOST_PAUSE_S: Final = 5.0
# What clients are told to wait at least, and at most, before they try again.
_LEAST_RETRY_S: Final = 1.0
_MOST_RETRY_S: Final = 60.0


class Wakes:
    """The dormant versions that requests of one router wait for.

    Args:
        wake: Asks the controller; None in a router without one, whose requests wait in vain.
        limits: The bounds.
    """

    def __init__(self, wake: Wake | None = None, limits: WakeLimits = DEFAULT_WAKES) -> None:
        self.limits = limits
        self._wake = wake
        self._tasks = Supervisor("wakes")
        self._asking: dict[LinkPool, asyncio.Task[None]] = {}
        # Counts what was added, and not what has left since; made right when it seems too much.
        self._size_bytes = 0
        self._pools: set[LinkPool] = set()
        self._loads: dict[str, asyncio.Task[TritonError | None]] = {}
        self._first_users: dict[str, int] = {}
        self._changed = asyncio.Event()

    def table_changed(self) -> None:
        """Take note that the router has a newer table."""
        # Waiters hold this event; the next ones wait for another.
        self._changed.set()
        self._changed = asyncio.Event()

    def refusal(self, pool: LinkPool, routed: LaneInflight) -> UnavailableError | None:
        """Count a request in; or return why it may not wait for its version."""
        limits = self.limits
        if len(pool.waiting) >= limits.request_count:
            return too_many(pool, f"{limits.request_count} requests wait for one already")
        self._pools.add(pool)
        size = size_bytes(routed.request)
        if self._size_bytes + size > limits.size_bytes:
            self._recount()
        if self._size_bytes + size > limits.size_bytes:
            return too_many(
                pool,
                f"the request's {size} bytes are more than what may wait, which is"
                f" {limits.size_bytes} bytes of all such requests together",
            )
        self._size_bytes += size
        return None

    def begin(self, pool: LinkPool, fail: Callable[[LinkPool, TritonError], None]) -> None:
        """Have a version woken that requests wait for; ``fail`` ends what waits for it."""
        if self._wake is not None and pool not in self._asking:
            task = self._tasks.spawn(f"wake of {pool.key[0]}", self._ask(pool, self._wake, fail))
            self._asking[pool] = task
            task.add_done_callback(lambda _: self._asking.pop(pool, None))

    def first_use(self, key: str, table: Callable[[], RoutingTable]) -> Awaitable[None] | None:
        """Return what has a model loaded of which nothing is known yet; None for any other.

        Awaited, it raises TritonError when the load fails or takes too long, or too many wait.
        """
        wake = self._wake
        return None if wake is None or not is_unread(table(), key) else self._use(key, wake, table)

    async def _use(self, key: str, wake: Wake, table: Callable[[], RoutingTable]) -> None:
        limits = self.limits
        count = self._first_users.get(key, 0)
        if count >= limits.request_count:
            raise too_many(LinkPool(key=(key, -1)), f"{count} requests wait for it already")
        self._first_users[key] = count + 1
        try:
            async with asyncio.timeout(limits.wait_s):
                while is_unread(table(), key):
                    changed = self._changed
                    await self._load(key, wake)
                    # The table is some milliseconds behind; or the load waits for room for longer
                    # than those did who asked first, and has to be asked for again.
                    if is_unread(table(), key):
                        await changed.wait()
        except TimeoutError:
            pool = LinkPool(key=(key, -1), waits_for=waits_for(table(), key))
            raise too_long(pool, limits.wait_s) from None
        finally:
            self._first_users[key] -= 1
            if not self._first_users[key]:
                del self._first_users[key]

    async def _load(self, key: str, wake: Wake) -> None:
        """Ask once for all callers, again while the controller is away."""
        asked = self._loads.get(key)
        if asked is None:
            asked = self._loads[key] = self._tasks.spawn(f"load of {key}", _loaded(key, wake))
            asked.add_done_callback(lambda _: self._loads.pop(key, None))
        await asyncio.wait({asked})
        if asked.cancelled():
            raise UnavailableError("Server exiting")
        error: TritonError | None = asked.result()
        if error is not None:
            raise error

    async def close(self) -> None:
        """Ask no more."""
        await self._tasks.close()

    async def _ask(
        self, pool: LinkPool, wake: Wake, fail: Callable[[LinkPool, TritonError], None]
    ) -> None:
        pause_s = _FIRST_PAUSE_S
        while pool.is_dormant and pool.waiting:
            try:
                error = await wake(*pool.key)
            except TritonError as unreachable:
                _log.info("wake of %s: %s", pool.key[0], unreachable.message)
            else:
                if error is not None and pool.is_dormant:
                    # Before the callback of this task: a request that comes now asks anew.
                    self._asking.pop(pool, None)
                    fail(pool, error)
                    return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _MOST_PAUSE_S)

    def _recount(self) -> None:
        self._pools = {pool for pool in self._pools if pool.is_dormant and pool.waiting}
        waiting = (routed for pool in self._pools for routed in pool.waiting)
        self._size_bytes = sum(size_bytes(routed.request) for routed in waiting)


async def _loaded(key: str, wake: Wake) -> TritonError | None:
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return await wake(key, -1)
        except TritonError as unreachable:
            _log.info("load of %s: %s", key, unreachable.message)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _MOST_PAUSE_S)


def is_unread(table: RoutingTable, key: str) -> bool:
    """Return whether a model has to be loaded before anything can be said of it."""
    model = table.models.get(key)
    return model is not None and model.is_unread


def waits_for(table: RoutingTable, key: str) -> str:
    """Return what the start of a model waits for, as far as the table says; mostly nothing."""
    model = table.models.get(key)
    if model is None:
        return ""
    starting = [
        version
        for version in model.versions
        if version.is_dormant or version.is_restarting or version.state is ModelReadyState.LOADING
    ]
    return model.waits_for or "; ".join(each.reason for each in starting if each.reason)


def size_bytes(request: InferenceRequest) -> int:
    """Return the size of a request's tensors."""
    return sum(tensor.data.nbytes for tensor in request.inputs)


def too_many(pool: LinkPool, why: str) -> UnavailableError:
    """Return the error of a request that may not wait for a dormant version."""
    retry_s = min(max(pool.wake_s, _LEAST_RETRY_S), _MOST_RETRY_S)
    return UnavailableError(
        f"model '{name_of(pool.key[0])}' is being started by the requests that came first, and"
        f" {why}; try again in {retry_s:.0f} s",
        retry_after_s=retry_s,
    )


def too_long(pool: LinkPool, wait_s: float) -> UnavailableError:
    """Return the error of a request whose version was not woken in time."""
    why = f": {pool.waits_for}" if pool.waits_for else ""
    return UnavailableError(
        f"model '{name_of(pool.key[0])}' has no instance, and none has started within"
        f" {wait_s:g} s{why}; the request was not executed, try again",
        retry_after_s=_LEAST_RETRY_S,
    )
