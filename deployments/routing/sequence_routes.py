# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps each sequence where it started.

A sequence begins in the queue of a node, which gives it an instance and knows it from then on. Of
instances on one node only, that queue is all there is. Over nodes a sequence begins where slots are
free, so its id says nothing: a router remembers where one runs, and looks for one that it does not
know (`deployments.routing.sequence_search`). What it remembers may have become wrong, as another
router may have ended the sequence since and begun it elsewhere, and a queue may not have heard of
all its instances yet. So a refusal has the sequence looked for, too, and counts once nobody has it.

An instance that no queue decides for, as where its node has no ingress, or until one has adopted
it, is asked and sent to itself. One that leaves the pool goes on with its sequences until they end;
one that is lost ends them, and nothing of them is tried elsewhere.

A request for an instance that takes its requests from a queue only, while that queue is nowhere to
be found, waits as one that finds no lane. The instance would send it back, again and again.

Routes and waiting requests are bounded: a route is forgotten when no request has taken it for a
time, or when there are too many; the oldest go first.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from backends.api.errors import (
    RequestCancelledError,
    ResourceExhaustedError,
    TritonError,
    UnavailableError,
)
from backends.api.model_config import SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.pool_queue.own_request import OwnRequest
from deployments.routing.pool import Link, LinkPool
from deployments.routing.sequence_search import Said, search
from deployments.routing.waiting_requests import cut_off
from deployments.supervision.supervisor import Supervisor

if TYPE_CHECKING:
    from deployments.routing.node_routes import NodeRoutes

_log = logging.getLogger(__name__)

_CorrelationId = int | str

# Forgetting a sequence costs looking for it again, so this bounds memory and nothing else.
_MOST_ROUTES = 100_000
_FORGET_AFTER_S: Final = 60.0
# Requests of one model that wait, all together, until it is known where their sequences run.
_MOST_WAITING = 1000
_US_PER_S: Final = 1_000_000
# How long a sequence is looked for that an instance may have which cannot be asked, or whose queue
# does not know it yet; and how often.
_SEARCH_S: Final = 5.0
_AGAIN_S: Final = 0.02
# A request is refused so often though its sequence was found: then that has other reasons.
_MOST_REFUSALS: Final = 3
# Refusals that cannot be explained are logged once in this time.
_LOG_EACH_S: Final = 1.0


class _Route:
    """Where one sequence runs, as a router knows it.

    Attributes:
        link: The instance that has it, or any instance of the node whose queue has it.
        is_queued: Whether the queue of the node has it, whichever instance that chose.
        used_s: When a request last took it.
    """

    __slots__ = ("is_queued", "link", "used_s")

    def __init__(self, link: Link, *, is_queued: bool) -> None:
        self.link = link
        self.is_queued = is_queued
        self.used_s = 0.0


class SequenceRoutes:
    """The sequences of one model version, as one router knows them.

    Args:
        pool: Its instances.
        routes: Its nodes.
        batching: Its sequence batcher.
        wait_for_lane: Takes a request while no instance answers; gives it back or fails it.
        tasks: Runs the searches.
    """

    def __init__(
        self,
        pool: LinkPool,
        routes: "NodeRoutes",
        batching: SequenceBatching,
        wait_for_lane: Callable[[LinkPool, OwnRequest], None],
        tasks: Supervisor,
    ) -> None:
        self._pool = pool
        self._nodes = routes
        self._wait_for_lane = wait_for_lane
        self._forget_after_s = max(_FORGET_AFTER_S, batching.max_sequence_idle_us / _US_PER_S)
        self._loop = asyncio.get_running_loop()
        self._tasks = tasks
        self._waiting_count = 0
        self._logged_s = float("-inf")
        # The least recently used first.
        self._routes: dict[_CorrelationId, _Route] = {}
        # What waits while a sequence is looked for, or while its first request is taken back; and
        # what each was refused with where its sequence was thought to be.
        self._kept: dict[_CorrelationId, list[tuple[OwnRequest, TritonError | None]]] = {}

    def start(self, inflight: OwnRequest) -> None:
        """Send a request that has a correlation id to where its sequence runs."""
        correlation_id = inflight.correlation_id
        if correlation_id in self._kept:
            self._keep(inflight)
            return
        route = self._routes.pop(correlation_id, None)
        queue = self._pool.queue
        if route is None and queue is not None and self._nodes.is_only_here:
            queue.start(inflight)
            return
        self._forget_old()
        if inflight.flags & SEQUENCE_START:
            self._begin(inflight, None if route is None else route.link)
        elif route is None:
            self._look_for(inflight)
        else:
            self._go_on(route, inflight)

    def refused(self, inflight: OwnRequest, error: TritonError) -> None:
        """Look for the sequence of a request that was refused where it was thought to be."""
        inflight.refusal_count += 1
        is_midway = bool(inflight.correlation_id) and not inflight.flags & SEQUENCE_START
        if not is_midway or inflight.refusal_count >= _MOST_REFUSALS:
            inflight.sink.fail(error)
            return
        inflight.queue = None
        if inflight.correlation_id in self._kept:
            self._keep(inflight, error)
        else:
            self._routes.pop(inflight.correlation_id, None)
            self._look_for(inflight, error)

    # A sequence whose first request is taken back, to begin at another node

    def hold(self, start: OwnRequest) -> None:
        """Keep what follows a sequence's first request, which is taken back from where it waits."""
        self._kept.setdefault(start.correlation_id, [])

    def release(self, start: OwnRequest, *, is_back: bool) -> None:
        """Send the first request of a sequence, if it is back, and what has followed it."""
        if is_back:
            # It begins wherever there is a slot now.
            start.queue = None
            self._begin(start, None)
        for inflight, _ in self._released(start.correlation_id):
            self.start(inflight)

    # Where sequences begin and go on

    def _begin(self, start: OwnRequest, before: Link | None) -> None:
        route = self._beginning(start, before)
        if route is None:
            self._wait(start)
        else:
            self._go_on(route, start)

    def _go_on(self, route: _Route, inflight: OwnRequest) -> None:
        if not inflight.flags & SEQUENCE_END:
            self._remember(inflight.correlation_id, route)
        self._send(route, inflight)

    def _beginning(self, inflight: OwnRequest, before: Link | None) -> _Route | None:
        """Return where a sequence is to begin: where its id was before, if that may be."""
        nodes, link = self._nodes, before
        if link is None or not _may_begin(link, inflight) or nodes.is_away(link):
            link = nodes.link_for_sequence(inflight.correlation_id, local_only=inflight.local_only)
        if link is None:
            return None
        return _Route(link, is_queued=nodes.queue_at(link) is not None)

    def _remember(self, correlation_id: _CorrelationId, route: _Route) -> None:
        self._routes[correlation_id] = route
        route.used_s = self._loop.time()

    def _send(self, route: _Route, inflight: OwnRequest) -> None:
        link = route.link
        lane, queue, node_id = link.lane, self._nodes.queue_at(link), link.endpoint.node_id
        if inflight.local_only and not link.is_local:
            inflight.fail(_runs_elsewhere(inflight))
        elif lane is not None and not route.is_queued and link.is_on_its_own:
            inflight.count_wait()
            lane.start(inflight)
        elif queue is not None and (route.is_queued or lane is not None):
            route.is_queued = True
            queue.start(inflight)
        elif lane is None and not (route.is_queued and self._pool.has_instance_at(node_id)):
            inflight.fail(_ended(inflight, link))
        elif link.is_cut_off:
            runs = (
                f"sequence {inflight.correlation_id} of model '{inflight.request.model_name}' runs"
            )
            inflight.fail(cut_off(runs, link))
        else:
            # Also where it is the last request: the sequence goes on until that is there.
            self._remember(inflight.correlation_id, route)
            self._wait(inflight)

    def _all_links(self) -> list[Link]:
        return [*self._pool.links, *self._pool.retired]

    def _wait(self, inflight: OwnRequest) -> None:
        inflight.queue = None
        self._wait_for_lane(self._pool, inflight)

    # Looking for sequences

    def _look_for(self, inflight: OwnRequest, refusal: TritonError | None = None) -> None:
        """Send a request once it is known where its sequence runs."""
        nodes, links = self._nodes, self._all_links()
        may_answer = any(each.is_on_its_own or nodes.queue_at(each) is not None for each in links)
        if refusal is None and not may_answer:
            self._wait(inflight)
            return
        if self._keep(inflight, refusal):
            correlation_id = inflight.correlation_id
            kept = self._kept[correlation_id]
            search_for_it = self._search(correlation_id, kept)
            task = self._tasks.spawn("search for a sequence", search_for_it)
            task.add_done_callback(lambda _: self._searched(correlation_id, kept))

    async def _search(self, correlation_id: _CorrelationId, kept: object) -> None:
        until_s = self._loop.time() + _SEARCH_S
        # While its first request is on the way from one queue to another, none has it.
        nodes = self._nodes
        is_last_look = len(nodes.queues()) < 2  # noqa: PLR2004
        answer = await search(correlation_id, self._all_links(), nodes.queue_at)
        while answer.link is None and self._loop.time() < until_s:
            if answer.is_sure and is_last_look:
                break
            is_last_look |= answer.is_sure
            # A lane that is being opened, or a holder that is replaced, is there in a moment.
            await asyncio.sleep(_AGAIN_S)
            answer = await search(correlation_id, self._all_links(), nodes.queue_at)
        if self._kept.get(correlation_id) is not kept:
            # Its first request was taken back meanwhile, and they have followed it.
            return
        is_known = answer.link is not None
        if answer.link is not None:
            self._remember(correlation_id, _Route(answer.link, is_queued=answer.is_queued))
        for inflight, refusal in self._released(correlation_id):
            is_known |= inflight.flags & SEQUENCE_START != 0
            if is_known:
                self.start(inflight)
            else:
                self._log_refusal(inflight, answer.said)
                if answer.have_all_said:
                    self._refuse(inflight, refusal)
                else:
                    # It may go on at an instance that says nothing, so its client is to try again.
                    inflight.fail(_not_found(inflight))

    def _log_refusal(self, inflight: OwnRequest, said: Iterable[Said]) -> None:
        now_s = self._loop.time()
        if now_s - self._logged_s >= _LOG_EACH_S:
            self._logged_s = now_s
            _log.info(
                "model '%s' refused a request of sequence %s; %s",
                inflight.request.model_name,
                inflight.correlation_id,
                "; ".join(map(str, said)),
            )

    def _refuse(self, inflight: OwnRequest, refusal: TritonError | None) -> None:
        """End a request whose sequence nobody has."""
        # By where it would begin, which counts what it refuses.
        route = None if refusal else self._beginning(inflight, None)
        if refusal is not None:
            inflight.sink.fail(refusal)
        elif route is None:
            self._wait(inflight)
        else:
            inflight.refusal_count = _MOST_REFUSALS
            self._send(route, inflight)

    def _searched(self, correlation_id: _CorrelationId, kept: object) -> None:
        """Take the end of a search: it failed, or was cancelled, if its requests still wait."""
        if self._kept.get(correlation_id) is not kept:
            return
        for inflight, _ in self._released(correlation_id):
            inflight.fail(_not_found(inflight))

    def _keep(self, inflight: OwnRequest, refusal: TritonError | None = None) -> bool:
        """Have a request wait until its sequence is found, or fail it: too many do."""
        if self._waiting_count < _MOST_WAITING:
            self._waiting_count += 1
            inflight.wait_from(time.monotonic_ns())
            waiting = self._kept.setdefault(inflight.correlation_id, [])
            waiting.append((inflight, refusal))
            return True
        inflight.fail(
            ResourceExhaustedError(
                f"{_MOST_WAITING} requests of model '{inflight.request.model_name}' wait until its "
                f"instances have said which of them has their sequences; begin a sequence with the "
                f"START flag, or send fewer requests at a time"
            )
        )
        return False

    def _released(
        self, correlation_id: _CorrelationId
    ) -> Iterator[tuple[OwnRequest, TritonError | None]]:
        """Have requests of a sequence wait no more; end what is cancelled, yield the others."""
        waiting = self._kept.pop(correlation_id, [])
        self._waiting_count -= len(waiting)
        for inflight, refusal in waiting:
            # The sinks of earlier ones may have cancelled it.
            if inflight.cancelled:
                inflight.fail(RequestCancelledError(""))
            else:
                yield inflight, refusal

    def _forget_old(self) -> None:
        """Forget the routes that have been unused for long, and the oldest of too many."""
        oldest_s = self._loop.time() - self._forget_after_s
        while self._routes:
            correlation_id, route = next(iter(self._routes.items()))
            if route.used_s >= oldest_s and len(self._routes) < _MOST_ROUTES:
                return
            del self._routes[correlation_id]


def _may_begin(link: Link, start: OwnRequest) -> bool:
    is_there = not link.closed and link.lane is not None and not link.lane.draining
    return is_there and (link.is_local or not start.local_only)


def _ended(inflight: OwnRequest, link: Link) -> UnavailableError:
    return UnavailableError(
        f"sequence {inflight.correlation_id} of model '{inflight.request.model_name}' ended with "
        f"its instance '{link.endpoint.name}'; start the sequence again"
    )


def _not_found(inflight: OwnRequest) -> UnavailableError:
    return UnavailableError(
        f"the instances of model '{inflight.request.model_name}' could not be asked for sequence "
        f"{inflight.correlation_id}; send the request again"
    )


def _runs_elsewhere(inflight: OwnRequest) -> UnavailableError:
    return UnavailableError(
        f"sequence {inflight.correlation_id} of model '{inflight.request.model_name}' runs on "
        f"another node; requests with tensors in shared memory need one on this node"
    )
