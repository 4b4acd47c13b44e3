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

Over nodes a sequence starts where slots are free, so its id says nothing. A router that does not
know one asks the nodes' queues, which know their backlog too, and remembers the answer. Another
router may have ended the sequence since and started it elsewhere: a request that is refused where
it was sent by memory is asked for once.

A request for an instance that takes its requests from a queue only, while that queue is nowhere to
be found, waits as one that finds no lane. The instance would send it back, again and again.

Routes and waiting requests are bounded: a route is forgotten when no request has taken it for a
time, or when there are too many; the oldest go first.
"""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Final

from backends.api.errors import (
    RequestCancelledError,
    ResourceExhaustedError,
    TritonError,
    UnavailableError,
)
from backends.api.model_config import SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.lane.client import LaneInflight
from deployments.pool_queue.own_request import OwnRequest
from deployments.pool_queue.queued_request import NodeQueue
from deployments.routing.pool import Link, LinkPool
from deployments.routing.routed_request import RoutedRequest
from deployments.routing.sequence_route import Route, choose, end_doubt, is_queued_at
from deployments.routing.sequence_search import Refusals, search
from deployments.routing.waiting_requests import cut_off
from deployments.supervision.supervisor import Supervisor

_CorrelationId = int | str

# Forgetting a sequence costs asking for it again, so this bounds memory and nothing else.
_MOST_ROUTES = 100_000
_FORGET_AFTER_S: Final = 60.0
# Requests of one model that wait, all together, until instances have said what they know.
_MOST_WAITING = 1000
_US_PER_S: Final = 1_000_000
# How long a sequence is looked for that an instance may have which cannot be asked, or whose queue
# does not know it yet; and how often.
_DOUBT_S: Final = 5.0
_DOUBT_AGAIN_S: Final = 0.02


class SequenceRoutes:
    """The sequences of one model version, as one router knows them.

    Args:
        pool: Its instances.
        batching: Its sequence batcher.
        wait_for_lane: Takes a request while no instance answers; gives it back or fails it.
        tasks: Runs the questions to instances.
    """

    def __init__(
        self,
        pool: LinkPool,
        batching: SequenceBatching,
        wait_for_lane: Callable[[LinkPool, LaneInflight], None],
        tasks: Supervisor,
    ) -> None:
        self.retired: list[Link] = []
        self._pool = pool
        self._wait_for_lane = wait_for_lane
        idle_s = batching.max_sequence_idle_us / _US_PER_S
        self._idle_s = idle_s or math.inf
        self._forget_after_s = max(_FORGET_AFTER_S, idle_s)
        self._loop = asyncio.get_running_loop()
        # Counts the changes of the pool.
        self._generation = 0
        self._tasks = tasks
        self._waiting_count = 0
        self._refusals = Refusals(self._loop.time)
        # For each sequence, the question for the request of it that was refused last.
        self._doubts: dict[_CorrelationId, asyncio.Task[None]] = {}
        # The least recently used first.
        self._routes: dict[_CorrelationId, Route] = {}

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
            if self._may_wait(inflight):
                # One that was to be taken back has come back by itself.
                place = 0 if inflight is route.restarting else len(route.waiting)
                route.waiting.insert(place, (inflight, local_only))
            return
        self._forget_old()
        previous = route
        if route is not None and not self._is_valid(route):
            route = None
        if inflight.request.flags & SEQUENCE_START:
            if route is None or not self._may_begin(route.link):
                route = self._route_to(self._home(correlation_id, local_only=local_only))
        elif previous is not None and previous.awaits_queue and self._lacks_queue(previous.link):
            # To ask each time that it is tried would have it wait without end.
            route = previous
        elif route is None:
            known = None if previous is None else previous.link
            links = self._candidates(correlation_id, previous, local_only=local_only)
            if len(links) > 1 or (known is not None and links not in ([], [known])):
                self._ask_first(inflight, links, previous, local_only=local_only)
                return
            route = self._route_to(known or (links[0] if links else None))
            if route is not None:
                route.is_queued = is_queued_at(previous, route.link)
        if route is None:
            self._wait(inflight)
            return
        self._routes[correlation_id] = route
        route.used_s = self._loop.time()
        self._send(route, inflight, local_only=local_only)

    def refused(self, inflight: LaneInflight, error: TritonError) -> None:
        """Ask where the sequence of a request is that is not where this router remembers.

        Args:
            inflight: The request.
            error: What it was refused with, where it was not remembered only.
        """
        if not isinstance(inflight, RoutedRequest):
            return
        correlation_id = inflight.request.correlation_id
        route = self._routes.get(correlation_id)
        if not inflight.is_guess:
            link = None if route is None else route.link
            sent_to = "an unknown place" if link is None else link.endpoint.name
            answers = [] if route is None else route.answers
            self._refusals.tell(inflight.request.model_name, correlation_id, sent_to, answers)
            if not (self._pool.is_pooled or (route is not None and route.is_queued)):
                inflight.sink.fail(error)
                return
            question = self._doubt(inflight, self._doubts.get(correlation_id))
            task = self._tasks.spawn("question for a refused sequence", question)
            self._doubts[correlation_id] = task
            task.add_done_callback(lambda ended: self._doubted(inflight, error, ended))
            return
        if route is not None and route.waiting is None:
            del self._routes[correlation_id]
        inflight.retried = True
        inflight.queue = None
        self.start(inflight, local_only=inflight.local_only)

    def hold(self, start: OwnRequest) -> bool:
        """Keep what follows a sequence's first request, which is taken back from where it waits.

        Args:
            start: That request.

        Returns:
            Whether it may be taken back: not while its sequence is asked for.
        """
        route = self._routes.get(start.correlation_id)
        if route is None or start.flags & SEQUENCE_END:
            return True
        if route.waiting is not None:
            return False
        route.waiting, route.restarting = [], start
        return True

    def release(self, start: OwnRequest, *, is_back: bool) -> None:
        """Send the first request of a sequence, if it is back, and what has followed it."""
        correlation_id = start.correlation_id
        route = self._routes.get(correlation_id)
        is_held = route is not None and route.restarting is start
        if is_back:
            # It begins wherever there is a slot now.
            self._routes.pop(correlation_id, None)
            start.queue = None
            self.start(start)
            if route is not None and not is_held:
                # Another sequence has the id since.
                self._routes[correlation_id] = route
        if route is None or not is_held:
            return
        if is_back:
            self._go_on(route)
        else:
            # What a lost lane gives back comes before what has followed.
            self._loop.call_soon(self._go_on, route)

    def _go_on(self, route: Route) -> None:
        route.restarting = None
        self._send_released(route)

    async def _doubt(self, inflight: RoutedRequest, earlier: "asyncio.Task[None] | None") -> None:
        """Ask the instances for a sequence that a queue has refused, which may be behind.

        Args:
            inflight: The request that was refused.
            earlier: The same for the one of the sequence that was refused before, and stays ahead.
        """
        inflight.is_doubted = False
        now_s = self._loop.time()
        # Its first request may be on the way from a node without a free slot to one that has some.
        may_know = not inflight.refused_s and self._pool.routes is not None
        inflight.refused_s = inflight.refused_s or now_s
        correlation_id = inflight.request.correlation_id
        links = [*self._pool.links, *self.retired]
        answers = await search(correlation_id, links, lambda _: None)
        may_know |= any(answer.knowing or not answer.is_sure for answer in answers)
        if may_know and now_s - inflight.refused_s < _DOUBT_S:
            await asyncio.sleep(_DOUBT_AGAIN_S)
            inflight.is_doubted = True
        if earlier is not None:
            await asyncio.wait([earlier])

    def _doubted(
        self, inflight: RoutedRequest, error: TritonError, ended: "asyncio.Task[None]"
    ) -> None:
        correlation_id = inflight.request.correlation_id
        if self._doubts.get(correlation_id) is ended:
            del self._doubts[correlation_id]
        end_doubt(inflight, error)

    def _may_begin(self, link: Link | None) -> bool:
        """Whether a sequence may start where it was sent before."""
        routes = self._pool.routes
        return _may_start(link) and (routes is None or link is None or not routes.is_away(link))

    def _is_valid(self, route: Route) -> bool:
        """Whether requests may take a route without a question."""
        if not route.is_home or route.generation != self._generation:
            return False
        # Over nodes it may have idled out and started again anywhere.
        may_idle = self._pool.routes is not None and route.is_remembered
        return not may_idle or self._loop.time() - route.used_s < self._idle_s

    def joined(self) -> None:
        """Count the change: an instance's lane has opened."""
        self._generation += 1

    def retire(self, link: Link) -> None:
        """Keep an instance that left the pool until its sequences end; it then closes the lane."""
        self._generation += 1
        self.retired.append(link)

    def restore(self, link: Link) -> None:
        """Count the change: an instance that had left the pool is there again."""
        self._generation += 1
        self.retired.remove(link)

    def lost(self, link: Link) -> None:
        """Count the change: an instance's lane has closed, and its sequences have ended."""
        self._generation += 1
        if link in self.retired:
            self.retired.remove(link)

    def close(self) -> None:
        """Close the lanes to instances that have left the pool, when they are idle."""
        for link in list(self.retired):
            if link.lane is not None:
                link.lane.close_when_idle()

    def _route_to(self, link: Link | None) -> Route | None:
        if link is None:
            return None
        route = Route(self._generation)
        route.link = link
        return route

    def _home(self, correlation_id: _CorrelationId, *, local_only: bool) -> Link | None:
        """Return the instance where a sequence would start now; over nodes, one of the node."""
        routes = self._pool.routes
        if routes is not None:
            return routes.link_for_sequence(local_only=local_only)
        links = [
            link
            for link in self._pool.links
            if _may_start(link) and (link.is_local or not local_only)
        ]
        return choose(correlation_id, links) if links else None

    def _candidates(
        self, correlation_id: _CorrelationId, known: Route | None, *, local_only: bool
    ) -> list[Link]:
        """Return the instances that may have a sequence which one router saw last at ``known``."""
        all_links = [*self._pool.links, *self.retired]
        links = [link for link in all_links if self._may_answer(link)]
        if self._pool.routes is not None:
            # Those whose lanes are being opened may have it, and can be asked in a moment.
            return all_links if links else []
        if known is not None and known.generation == self._generation:
            # Since it was asked for, the id can only have started again at its home.
            home = self._home(correlation_id, local_only=local_only)
            links = [link for link in links if link in {home, known.link}]
        return links

    def _may_answer(self, link: Link) -> bool:
        return link.lane is not None or self._queue_at(link) is not None

    def _ask_first(
        self,
        inflight: LaneInflight,
        links: list[Link],
        previous: Route | None,
        *,
        local_only: bool,
    ) -> None:
        """Send a request when the instances have said which of them has its sequence."""
        if not self._may_wait(inflight):
            return
        correlation_id = inflight.request.correlation_id
        route = self._routes[correlation_id] = Route(self._generation)
        route.is_remembered = False
        route.used_s = self._loop.time()
        route.waiting = [(inflight, local_only)]
        question = self._ask(correlation_id, route, links, previous)
        task = self._tasks.spawn("question for a sequence", question)
        task.add_done_callback(lambda _: self._asked(correlation_id, route))

    async def _ask(
        self,
        correlation_id: _CorrelationId,
        route: Route,
        links: list[Link],
        previous: Route | None,
    ) -> None:
        until_s = self._loop.time() + _DOUBT_S
        while True:
            route.answers = answers = await search(correlation_id, links, self._queue_at)
            is_sure = all(answer.is_sure for answer in answers)
            is_found = any(answer.knowing for answer in answers)
            if is_found or is_sure or self._loop.time() >= until_s:
                break
            # A lane that is being opened, or a holder that is replaced, is there in a moment.
            await asyncio.sleep(_DOUBT_AGAIN_S)
            links = self._candidates(correlation_id, previous, local_only=False) or links
        found = [answer for answer in route.answers if answer.knowing]
        knowing = [link for answer in found for link in answer.knowing]
        is_hashed = self._pool.routes is None
        home = self._home(correlation_id, local_only=False) if is_hashed else None
        if home in knowing:
            route.link = home
        else:
            # Nobody: then the one that had it, or would have it, is the one to say so.
            known = None if previous is None else previous.link
            there = [link for link in links if self._may_answer(link)] or links
            route.link = knowing[0] if knowing else known or choose(correlation_id, there)
        route.is_queued = (
            found[0].asked_queue is not None if found else is_queued_at(previous, route.link)
        )
        self._send_released(route)
        # What came meanwhile was asked for too; the next request asks again.
        route.is_home = route.link is home if is_hashed else bool(knowing)
        route.is_remembered = True

    def _lacks_queue(self, link: Link | None) -> bool:
        """Whether an instance takes requests from a queue only, and there is none at present."""
        if link is None or link.lane is None or link.is_on_its_own:
            return False
        return self._queue_at(link) is None

    def _wait(self, inflight: LaneInflight) -> None:
        if isinstance(inflight, OwnRequest):
            inflight.queue = None
        self._wait_for_lane(self._pool, inflight)

    def _queue_at(self, link: Link) -> NodeQueue | None:
        routes = self._pool.routes
        return None if routes is None else routes.queue_at(link)

    def _asked(self, correlation_id: _CorrelationId, route: Route) -> None:
        """Take the end of a question: it failed, or was cancelled, if requests still wait."""
        if route.waiting is None:
            return
        if self._routes.get(correlation_id) is route:
            del self._routes[correlation_id]
        for inflight, _ in self._released(route):
            inflight.fail(
                UnavailableError(
                    f"the instances of model '{inflight.request.model_name}' could not be asked "
                    f"for sequence {correlation_id}; send the request again"
                )
            )

    def _send_released(self, route: Route) -> None:
        for inflight, local_only in self._released(route):
            if inflight.cancelled:
                inflight.fail(RequestCancelledError(""))
            else:
                self.start(inflight, local_only=local_only)

    def _released(self, route: Route) -> list[tuple[LaneInflight, bool]]:
        """Return the requests that wait for a route, which nobody does any more."""
        waiting, route.waiting = route.waiting or [], None
        self._waiting_count -= len(waiting)
        return waiting

    def _may_wait(self, inflight: LaneInflight) -> bool:
        """Count a request that waits for what instances know, or fail it: too many do."""
        if self._waiting_count < _MOST_WAITING:
            self._waiting_count += 1
            if isinstance(inflight, OwnRequest):
                inflight.wait_from(time.monotonic_ns())
            return True
        inflight.fail(
            ResourceExhaustedError(
                f"{_MOST_WAITING} requests of model '{inflight.request.model_name}' wait until its "
                f"instances have said which of them has their sequences; begin a sequence with the "
                f"START flag, or send fewer requests at a time"
            )
        )
        return False

    def _send(self, route: Route, inflight: LaneInflight, *, local_only: bool) -> None:
        link, request = route.link, inflight.request
        if request.flags & SEQUENCE_END:
            del self._routes[request.correlation_id]
        routes = self._pool.routes
        if isinstance(inflight, RoutedRequest):
            is_over_nodes = routes is not None and not request.flags & SEQUENCE_START
            inflight.is_guess = is_over_nodes and route.is_remembered and not inflight.retried
        begins = request.flags & SEQUENCE_START != 0
        if link is not None and (begins or route.is_queued or not link.is_on_its_own):
            queue = self._queue_at(link)
            if queue is not None and isinstance(inflight, OwnRequest):
                route.is_queued = True
                queue.start(inflight)
                return
        if link is None or (link.lane is None and not route.is_queued):
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
        elif link.is_cut_off:
            runs = f"sequence {request.correlation_id} of model '{request.model_name}' runs"
            inflight.fail(cut_off(runs, link))
        elif link.lane is None or (
            routes is not None and (route.is_queued or not link.is_on_its_own)
        ):
            # Also where it is the last request: the sequence goes on until that is there.
            self._routes[request.correlation_id] = route
            route.awaits_queue |= not route.is_remembered
            self._wait(inflight)
        else:
            if isinstance(inflight, OwnRequest):
                inflight.count_wait()
            link.lane.start(inflight)

    def _forget_old(self) -> None:
        """Forget the routes that have been unused for long, and the oldest of too many."""
        oldest_s = self._loop.time() - self._forget_after_s
        while self._routes:
            correlation_id, route = next(iter(self._routes.items()))
            is_old = route.used_s < oldest_s or len(self._routes) >= _MOST_ROUTES
            # A route that requests wait for is no older than a question may take.
            if route.waiting is not None or not is_old:
                return
            del self._routes[correlation_id]


def _may_start(link: Link | None) -> bool:
    return link is not None and not link.closed and link.lane is not None and not link.lane.draining
