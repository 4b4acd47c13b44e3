# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Carries the requests of a model with instances on other nodes to one of its nodes.

`deployments.routing.node_choice` decides by what is known of each node; this keeps that knowledge,
sends, and takes requests back that wait at one node while another one has run dry. A node is
reached by the queue of its pool, or, while it has a pool of one, by the instance's own lane.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterable
from typing import Final

from deployments.lane.client import LaneClient, LaneInflight
from deployments.pool_queue.held_queue import HeldQueue
from deployments.pool_queue.own_request import OwnRequest
from deployments.pool_queue.queued_request import NodeQueue
from deployments.pool_queue.ticket_queue import TicketQueue
from deployments.routing.node_choice import choose, choose_for_sequence, take_back
from deployments.routing.node_view import NodeView
from deployments.routing.pool import Link, LinkPool
from deployments.routing.routed_request import RoutedRequest

# While requests wait, and another node may be better, this often.
_LOOK_S: Final = 0.01


class NodePlace:
    """The instances of a model version on one node, as requests get there.

    Attributes:
        node_id: The node.
        is_own: Whether it is this router's.
        links: The ways to its instances.
        queue: The queue of its pool; None for a pool of one, and while it has no holder.
        view: What is known of it.
    """

    __slots__ = ("_load_s", "is_own", "links", "node_id", "queue", "view")

    def __init__(self, node_id: str, *, is_own: bool) -> None:
        self.node_id = node_id
        self.is_own = is_own
        self.links: list[Link] = []
        self.queue: NodeQueue | None = None
        self.view = NodeView(node_id, is_own=is_own, is_single=True)
        self._load_s = 0.0

    def lead_to(self, queue: NodeQueue | None) -> None:
        """Have a queue, or none any more."""
        if queue is self.queue:
            return
        self.queue = queue
        held = queue if isinstance(queue, HeldQueue) else None
        self.view = NodeView(self.node_id, is_own=self.is_own, queue=held, is_single=queue is None)
        self._load_s = 0.0

    def look(self, now_ns: int) -> bool:
        """Renew what is known; return whether requests can be sent there."""
        queue, view = self.queue, self.view
        if isinstance(queue, TicketQueue):
            if queue.load_s != self._load_s and queue.load_s > 0:
                self._load_s = queue.load_s
                view.learned(queue.load, now_ns)
            view.waiting_count = queue.waiting_count
        elif isinstance(queue, HeldQueue):
            view.waiting_count = queue.own_waiting_count
        else:
            lane = self.lane()
            if lane is None:
                return False
            view.known_ns = now_ns
            view.waiting_count = lane.outstanding
        return True

    def lane(self, avoid: object | None = None) -> LaneClient | None:
        """Return the open lane to an instance that is on its own."""
        best: LaneClient | None = None
        for link in self.links:
            lane = link.lane
            if lane is None or lane.draining or lane.holder is not None or lane is avoid:
                continue
            if best is None or lane.outstanding < best.outstanding:
                best = lane
        return best

    def start(self, request: OwnRequest) -> bool:
        """Send a request there; return whether that could be done."""
        if self.queue is not None:
            self.view.sent()
            self.queue.start(request)
            return True
        lane = self.lane(avoid=request.lane)
        if lane is None:
            return False
        request.queue = None
        lane.start(request)
        return True


class NodeRoutes:
    """The nodes of one model version.

    Args:
        pool: Its instances.
        own_node_id: This router's node.
        remote_queue: Returns the queue of a version on another node; None while there is none.
        send_again: Sends a request that was taken back.
    """

    def __init__(
        self,
        pool: LinkPool,
        own_node_id: str,
        remote_queue: Callable[[str, LinkPool], NodeQueue | None],
        send_again: Callable[[OwnRequest], None],
    ) -> None:
        self._send_again = send_again
        self._pool = pool
        self._own_node_id = own_node_id
        self._remote_queue = remote_queue
        # The own node first, if it is one of them.
        self._places: list[NodePlace] = []
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def refresh(self, links: Iterable[Link]) -> None:
        """Look again at where instances are and how requests get there."""
        known = {place.node_id: place for place in self._places}
        places: dict[str, NodePlace] = {}
        for link in links:
            node_id = link.endpoint.node_id
            place = places.get(node_id)
            if place is None:
                is_own = node_id == self._own_node_id
                place = known.get(node_id) or NodePlace(node_id, is_own=is_own)
                place.links = []
                places[node_id] = place
            place.links.append(link)
        for place in places.values():
            place.lead_to(
                self._pool.queue if place.is_own else self._remote_queue(place.node_id, self._pool)
            )
        self._places = sorted(places.values(), key=lambda place: not place.is_own)

    def close(self) -> None:
        """Take nothing back any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def send(self, request: OwnRequest) -> bool:
        """Send a request to one of the nodes; return whether that could be done."""
        local_only = isinstance(request, RoutedRequest) and request.local_only
        now_ns = time.monotonic_ns()
        views = self._views(now_ns, local_only=local_only)
        while views:
            view = views[0] if len(views) == 1 else choose(list(views), now_ns, random)
            place = next(each for each in self._places if each.view is view)
            if place.start(request):
                if len(views) > 1 and self._timer is None:
                    self._timer = self._loop.call_later(_LOOK_S, self._look)
                return True
            views.remove(view)
        return False

    def link_for_sequence(self, *, local_only: bool) -> Link | None:
        """Return the way to an instance of the node where a new sequence is to start."""
        now_ns = time.monotonic_ns()
        views = self._views(now_ns, local_only=local_only)
        if not views:
            return None
        view = choose_for_sequence(views, now_ns, random)
        place = next(each for each in self._places if each.view is view)
        return next((link for link in place.links if link.lane is not None), None)

    def start_at(self, link: Link, request: LaneInflight) -> bool:
        """Send a request to a link's node, where its sequence is; return whether it was sent."""
        node_id = link.endpoint.node_id
        place = next((each for each in self._places if each.node_id == node_id), None)
        if place is not None and place.queue is not None and isinstance(request, OwnRequest):
            place.queue.start(request)
            return True
        return False

    def _views(self, now_ns: int, *, local_only: bool) -> list[NodeView]:
        return [
            place.view
            for place in self._places
            if (place.is_own or not local_only) and place.look(now_ns)
        ]

    def _look(self) -> None:
        """Take requests back that wait at one node while another one would start them."""
        self._timer = None
        now_ns = time.monotonic_ns()
        views = self._views(now_ns, local_only=False)
        if len(views) < 2 or not any(view.waiting_count for view in views):  # noqa: PLR2004
            return
        for move in take_back(views, now_ns):
            place = next(each for each in self._places if each.view is move.source)
            self._withdraw(place, move.request_count)
        self._timer = self._loop.call_later(_LOOK_S, self._look)

    def _withdraw(self, place: NodePlace, count: int) -> None:
        queue = place.queue
        if isinstance(queue, TicketQueue):
            for request in queue.oldest(count):
                queue.withdraw(request)
        elif isinstance(queue, HeldQueue):
            for request in queue.withdraw_oldest(count):
                if isinstance(request, RoutedRequest):
                    self._send_again(request.moved())
