# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The instances of a model version on one node, as requests of a router get there.

A node is reached by the queue of its pool, or, while it has a pool of one, by the instance's own
lane. A queue that another process holds says how much waits there; what it says goes to
`NodeRoutes`. While its holder has no such queue, because the node's instances are gone or not
adopted yet, the node is *away*: what may as well wait elsewhere is sent there.
"""

import time
from typing import TYPE_CHECKING

from backends.api.errors import TritonError
from backends.api.request import InferenceResponse
from deployments.lane.client import LaneClient
from deployments.lane.inflight import LaneInflight
from deployments.pool_queue.held_queue import HeldQueue
from deployments.pool_queue.messages import Load
from deployments.pool_queue.own_request import OwnRequest, Taken
from deployments.pool_queue.ticket_queue import TicketQueue
from deployments.routing.node_view import NodeView
from deployments.routing.pool import Link, NodeQueue, choose_lane
from deployments.tracing.passing_sink import PassingSink

if TYPE_CHECKING:
    from deployments.routing.node_routes import NodeRoutes


class NodePlace:
    """The instances of a model version on one node.

    Attributes:
        links: The ways to its instances.
        queue: The queue of its pool; None for a pool of one, and while it has no holder.
        view: What is known of it.
    """

    def __init__(self, node_id: str, *, is_own: bool, events: "NodeRoutes") -> None:
        self.node_id = node_id
        self.is_own = is_own
        self.links: list[Link] = []
        self.queue: NodeQueue | None = None
        self.view = NodeView(node_id, is_own=is_own, is_single=True)
        self._events = events
        self._held: HeldQueue | None = None
        self._tickets: TicketQueue | None = None
        self._is_away = False

    def lead_to(self, queue: NodeQueue | None) -> None:
        """Have a queue, or none any more."""
        if queue is self.queue:
            return
        self.let_go()
        self.queue = queue
        self._held = queue if isinstance(queue, HeldQueue) else None
        self._tickets = tickets = queue if isinstance(queue, TicketQueue) else None
        self._forget()
        if tickets is not None:
            tickets.on_load = self._learned
            tickets.on_turned_away = self._turned_away
            if not self.is_own:
                tickets.on_lease = lambda lease: self._events.leased(self, tickets, lease)
            tickets.ask()

    def let_go(self, *, is_only: bool = False) -> None:
        """Hear of the queue no more; what it turns away is the router's again.

        Args:
            is_only: There is no other node: what it turns away is tried there again.
        """
        tickets = self._tickets
        if tickets is not None:
            tickets.on_load = tickets.on_lease = None
            tickets.on_turned_away = None if is_only else lambda: True
        self.queue = self._tickets = self._held = None

    def _forget(self) -> None:
        is_single = self.queue is None
        self.view = NodeView(
            self.node_id, is_own=self.is_own, queue=self._held, is_single=is_single
        )
        self._is_away = False

    @property
    def is_held(self) -> bool:
        """Whether a holder decides what its instances execute, as far as they have said."""
        reached = [link for link in self.links if link.lane is not None]
        if not reached:
            return self.queue is not None
        return not all(link.is_on_its_own for link in reached)

    # What its holder says

    def _learned(self, load: Load) -> None:
        self._is_away = False
        self._events.learned(self, load)

    def _turned_away(self) -> bool:
        if not self._is_away:
            self._forget()
            self._is_away = True
        return self._events.turned_away(self)

    # What is known

    @property
    def is_awaited(self) -> bool:
        """Whether its holder has to say something before it is known."""
        return self._tickets is not None and self.view.is_unheard

    def look(self) -> bool:
        """Renew what is known; return whether requests can be sent there."""
        view = self.view
        if self._held is not None:
            view.waiting_count = self._held.waiting_count
            return True
        if self._tickets is not None:
            view.waiting_count = self._tickets.staying_count
            return (
                not self._is_away
                and self._tickets.is_open
                and any(link.lane is not None for link in self.links)
            )
        lane = self.lane()
        if lane is None:
            return False
        view.waiting_count = lane.outstanding
        return True

    def probe(self, now_ns: int) -> None:
        """Ask a node that has said nothing for long what waits there."""
        view = self.view
        if self._tickets is not None and not view.is_trusted(now_ns) and view.is_probe_due(now_ns):
            view.probed_ns = now_ns
            self._tickets.ask()

    def ask(self, *, when_free: bool = False, is_over: bool = False) -> None:
        """Have its holder say how much waits there; see `TicketQueue.ask`."""
        if self._tickets is not None:
            self._tickets.ask(when_free=when_free, is_over=is_over)

    @property
    def has_movable(self) -> bool:
        """Whether requests wait there that may as well wait elsewhere."""
        return self.queue is not None and self.queue.has_movable

    # Requests

    def lane(self, avoid: object | None = None) -> LaneClient | None:
        """Return the open lane to an instance that is on its own."""
        return choose_lane([link for link in self.links if link.is_on_its_own], avoid)

    def start(
        self, request: OwnRequest, *, was_promised: bool = False, is_compared: bool = True
    ) -> bool:
        """Send a request there; return whether that could be done.

        Args:
            request: The request.
            was_promised: Whether it is counted already.
            is_compared: Whether there is another node; else how long it takes is not measured.
        """
        if self.queue is not None:
            self.view.sent(was_promised=was_promised)
            self.queue.start(request)
            return True
        lane = self.lane(avoid=request.lane)
        if lane is None:
            return False
        if is_compared:
            request.sink = TimedSink(request, lane, self.view)
        request.queue = None
        request.count_wait()
        lane.start(request)
        return True

    def withdraw(self, count: int, taken: Taken) -> int:
        """Have so many requests back that may as well wait elsewhere, or fewer, the oldest first.

        Returns:
            How many there are. ``taken`` is called for each: with what is to be sent elsewhere, or
            with None when there is nothing, as it was granted meanwhile.
        """
        return 0 if self.queue is None else self.queue.withdraw_oldest(count, taken)

    def give_up(self, start: OwnRequest, taken: Taken) -> bool:
        """Have a sequence begin elsewhere that waits for a slot there.

        Returns:
            Whether it may, as far as is known. ``taken`` is called with its first request; or with
            None when that stays, as it was granted meanwhile, or more of it waits there.
        """
        if self._tickets is not None:
            self._tickets.withdraw(start, taken, is_start=True)
            return True
        is_back = self._held is not None and self._held.give_up(start)
        taken(start if is_back else None)
        return is_back


class TimedSink(PassingSink):
    """Tells a view how long a pool of one took to answer, unless another lane has the request then.

    With the terminal outcome the request gets its own sink back: what refers to itself, tensors
    included, is not freed before the garbage collector looks.

    Attributes:
        sink: Where outcomes go.
    """

    __slots__ = ("_lane", "_request", "_start_ns", "_view")

    def __init__(self, request: LaneInflight, lane: LaneClient, view: NodeView) -> None:
        super().__init__(request.sink)
        self._request = request
        self._lane = lane
        self._view = view
        self._start_ns = time.monotonic_ns()

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Take a response."""
        if final and self._request.lane is self._lane:
            now_ns = time.monotonic_ns()
            self._view.waiting_count = max(1, self._lane.outstanding)
            self._view.answered(now_ns - self._start_ns, now_ns)
        if final:
            self._request.sink = self.sink
        self.sink.respond(response, final=final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Take an error."""
        if final:
            self._request.sink = self.sink
        self.sink.fail(error, final=final)
