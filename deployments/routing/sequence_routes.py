# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps each sequence on the instance that it started on.

Every router gives a new sequence to the same instance, by rendezvous hashing of its correlation id
over the instances that answer, and remembers it until the sequence ends. So a pool may grow or
shrink around running sequences. A router that does not know a running sequence, because another
one saw it start, asks the instances once; so it does for what it knew before the pool changed, as
the sequence may have ended and started again by another router since, and for what runs where its
id would not start now. Where several instances know an id, the one where it would start now has
the latest sequence of it. An instance that leaves the
pool goes on with its sequences until they end; one that is lost ends them, and nothing of them is
tried elsewhere.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from backends.api.errors import RequestCancelledError, TritonError, UnavailableError
from backends.api.model_config import SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.lane.client import LaneInflight
from deployments.routing.pool import Link, LinkPool

_CorrelationId = int | str

_ASK_TIMEOUT_S: Final = 2.0
# Forgetting a sequence costs asking for it again, so this bounds memory and nothing else.
_MOST_ROUTES: Final = 100_000
_FORGET_AFTER_S: Final = 60.0
_US_PER_S: Final = 1_000_000


class _Route:
    """One sequence: the instance that has it, or the requests that wait to know.

    Attributes:
        generation: The state of the pool it is known for.
        link: The instance.
        is_home: Whether the sequence would start there now.
        used_s: When a request last took it.
        waiting: Requests that wait while instances are asked, and whether they need this node.
    """

    __slots__ = ("generation", "is_home", "link", "used_s", "waiting")

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.link: Link | None = None
        self.is_home = True
        self.used_s = 0.0
        self.waiting: list[tuple[LaneInflight, bool]] | None = None


class SequenceRoutes:
    """The sequences of one model version, as one router knows them.

    Args:
        pool: Its instances.
        batching: Its sequence batcher.
        wait_for_lane: Takes a request while no instance answers; gives it back or fails it.
    """

    def __init__(
        self,
        pool: LinkPool,
        batching: SequenceBatching,
        wait_for_lane: Callable[[LinkPool, LaneInflight], None],
    ) -> None:
        self.retired: list[Link] = []
        self._pool = pool
        self._wait_for_lane = wait_for_lane
        self._forget_after_s = max(_FORGET_AFTER_S, batching.max_sequence_idle_us / _US_PER_S)
        self._loop = asyncio.get_running_loop()
        # Counts the changes of the pool.
        self._generation = 0
        self._asking: set[asyncio.Task[None]] = set()
        # The least recently used first.
        self._routes: dict[_CorrelationId, _Route] = {}

    def start(self, inflight: LaneInflight, *, local_only: bool = False) -> None:
        """Send a request that has a correlation id to its sequence's instance.

        Args:
            inflight: The request; it hears of everything that follows.
            local_only: Whether it can only be served on this node.
        """
        correlation_id = inflight.request.correlation_id
        route = self._routes.pop(correlation_id, None)
        if route is not None and route.waiting is not None:
            self._routes[correlation_id] = route
            route.waiting.append((inflight, local_only))
            return
        previous = route
        if route is not None and not (route.is_home and route.generation == self._generation):
            route = None
        if inflight.request.flags & SEQUENCE_START:
            if route is None or not _may_start(route.link):
                route = self._new_route(correlation_id, local_only=local_only)
        elif route is None:
            route = self._find(inflight, previous, local_only=local_only)
        if route is None:
            self._wait_for_lane(self._pool, inflight)
            return
        self._routes[correlation_id] = route
        route.used_s = self._loop.time()
        if route.waiting is None:
            self._send(route, inflight, local_only=local_only)

    def joined(self) -> None:
        """Take note that an instance answers."""
        self._generation += 1

    def retire(self, link: Link) -> None:
        """Let an instance that left the pool go on with its sequences; it closes the lane."""
        self._generation += 1
        self.retired.append(link)

    def lost(self, link: Link) -> None:
        """Take note that an instance is gone; its sequences hear of it by their next request."""
        self._generation += 1
        if link in self.retired:
            self.retired.remove(link)

    def close(self) -> None:
        """Close the lanes to instances that have left the pool, when they are idle."""
        for link in list(self.retired):
            if link.lane is not None:
                link.lane.close_when_idle()

    def _new_route(self, correlation_id: _CorrelationId, *, local_only: bool) -> _Route | None:
        self._forget_old()
        home = self._home(correlation_id, local_only=local_only)
        if home is None:
            return None
        route = _Route(self._generation)
        route.link = home
        return route

    def _home(self, correlation_id: _CorrelationId, *, local_only: bool) -> Link | None:
        """Return the instance where a sequence would start now."""
        links = [
            link
            for link in self._pool.links
            if _may_start(link) and (link.is_local or not local_only)
        ]
        return choose(correlation_id, links) if links else None

    def _find(
        self, inflight: LaneInflight, known: _Route | None, *, local_only: bool
    ) -> _Route | None:
        """Return the route of a sequence that any instance may have, likeliest the ``known``."""
        previous = None if known is None else known.link
        links = [link for link in (*self._pool.links, *self.retired) if link.lane is not None]
        if known is not None and known.generation == self._generation:
            # Since it was asked for, the id can only have started again at its home.
            home = self._home(inflight.request.correlation_id, local_only=local_only)
            links = [link for link in links if link in {home, previous}]
        others = [link for link in links if link is not previous]
        route = _Route(self._generation)
        if not others or (previous is None and len(links) == 1):
            route.link = previous or (links[0] if links else None)
            return route if route.link is not None else None
        route.waiting = [(inflight, local_only)]
        task = self._loop.create_task(
            self._ask(inflight.request.correlation_id, route, links, previous)
        )
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        return route

    async def _ask(
        self,
        correlation_id: _CorrelationId,
        route: _Route,
        links: list[Link],
        previous: Link | None,
    ) -> None:
        payload = msgspec.msgpack.encode(correlation_id)
        answers = await asyncio.gather(*(_knows(link, payload) for link in links))
        knowing = [link for link, answer in zip(links, answers, strict=True) if answer]
        home = self._home(correlation_id, local_only=False)
        if home in knowing:
            route.link = home
        else:
            # Nobody: then the one that had it, or would have it, is the one to say so.
            route.link = knowing[0] if knowing else previous or choose(correlation_id, links)
        waiting, route.waiting = route.waiting or [], None
        for inflight, local_only in waiting:
            if inflight.cancelled:
                inflight.fail(RequestCancelledError(""))
            else:
                self.start(inflight, local_only=local_only)
        # What came meanwhile was asked for too; the next request asks again.
        route.is_home = route.link is home

    def _send(self, route: _Route, inflight: LaneInflight, *, local_only: bool) -> None:
        link, request = route.link, inflight.request
        if request.flags & SEQUENCE_END:
            del self._routes[request.correlation_id]
        if link is None or link.lane is None:
            name = "" if link is None else link.endpoint.name
            inflight.fail(
                UnavailableError(
                    f"sequence {request.correlation_id} of model '{request.model_name}' ended with "
                    f"its instance '{name}'; start the sequence again"
                )
            )
        elif local_only and not link.is_local:
            inflight.fail(
                UnavailableError(
                    f"sequence {request.correlation_id} of model '{request.model_name}' runs on "
                    f"another node; requests with tensors in shared memory need one on this node"
                )
            )
        else:
            link.lane.start(inflight)

    def _forget_old(self) -> None:
        oldest_s = self._loop.time() - self._forget_after_s
        while self._routes:
            correlation_id, route = next(iter(self._routes.items()))
            is_old = route.used_s < oldest_s or len(self._routes) >= _MOST_ROUTES
            if route.waiting is not None or not is_old:
                return
            del self._routes[correlation_id]


def choose(correlation_id: _CorrelationId, links: Iterable[Link]) -> Link:
    """Return the instance of a new sequence: the same for every router with the same instances."""
    key = f"{type(correlation_id).__name__}:{correlation_id}\0"

    def weight(link: Link) -> bytes:
        return hashlib.blake2b((key + link.endpoint.name).encode(), digest_size=8).digest()

    return max(links, key=weight)


def _may_start(link: Link | None) -> bool:
    return link is not None and not link.closed and link.lane is not None and not link.lane.draining


async def _knows(link: Link, payload: bytes) -> bool:
    if link.lane is None:
        return False
    try:
        answer = await link.lane.call("knows_sequence", payload, _ASK_TIMEOUT_S)
    except TritonError:
        return False
    return bool(msgspec.msgpack.decode(answer, type=bool))
