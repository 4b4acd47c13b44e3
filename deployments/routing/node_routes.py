# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Carries the requests of a model with instances on other nodes to one of its nodes.

`deployments.routing.node_choice` decides by what is known of each node; this keeps that knowledge
and carries out what was decided.

All of that happens when a node says something. A slow timer is there for nodes that do not, and a
faster one looks, while questions are open, whether anything waits for an answer yet.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import Final

from deployments.pool_queue.messages import Lease, Load
from deployments.pool_queue.own_request import OwnRequest
from deployments.pool_queue.ticket_queue import TicketQueue
from deployments.routing.node_choice import (
    COMPARED,
    asked_in_vain,
    choose,
    choose_for_sequence,
    for_lease,
    full_for_sequences,
    take_back,
    to_ask,
)
from deployments.routing.node_place import NodePlace
from deployments.routing.node_view import NodeView
from deployments.routing.pool import Link, LinkPool, NodeQueue
from deployments.routing.sequence_routes import SequenceRoutes

# While requests wait, or a node is to say something, this often.
_LOOK_S: Final = 0.1
# While questions are open, this often.
_QUESTION_S: Final = 0.002
# A node that has told of a free instance to which nothing goes is not asked again for so long.
_TOLD_NS: Final = 1_000_000
_MOST: Final = 1 << 30
_RANDOM: Final = Random()  # noqa: S311 - shares load


class NodeRoutes:
    """The nodes of one model version.

    Args:
        pool: Its instances.
        own_node_id: This router's node.
        remote_queue: Returns the queue of a version on another node; None while there is none.
        can_send: Called when a node has spoken while requests wait for a lane or a queue: it may
            be one that had turned them away.

    Attributes:
        is_only_here: Whether all instances are on this node, those that leave included.
    """

    def __init__(
        self,
        pool: LinkPool,
        own_node_id: str,
        remote_queue: Callable[[str, LinkPool], NodeQueue | None],
        can_send: Callable[[LinkPool], None],
    ) -> None:
        self._can_send = can_send
        self._pool = pool
        self._own_node_id = own_node_id
        self._remote_queue = remote_queue
        # The own node first, if it is one of them.
        self._places: list[NodePlace] = []
        self._by_node: dict[str, NodePlace] = {}
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_question_due = False
        self._question_timer: asyncio.TimerHandle | None = None
        self.is_only_here = True
        # Sequences that have been asked back, to begin elsewhere.
        self._restarting_count = 0

    def refresh(self, links: Sequence[Link]) -> None:
        """Look again at where instances are and how requests get there."""
        self.is_only_here = all(link.is_local for link in (*links, *self._pool.retired))
        known, self._by_node = self._by_node, {}
        places = self._by_node
        for link in links:
            node_id = link.endpoint.node_id
            place = places.get(node_id)
            if place is None:
                is_own = node_id == self._own_node_id
                place = known.pop(node_id, None) or NodePlace(node_id, is_own=is_own, events=self)
                place.links = []
                places[node_id] = place
            place.links.append(link)
        self._places = sorted(places.values(), key=lambda place: not place.is_own)
        for place in self._places:
            queue = self._pool.queue
            if not place.is_own:
                # A holder adopts all that have sequences; it may have no queue of others.
                is_held = self._pool.sequences is not None or place.is_held
                queue = self._remote_queue(place.node_id, self._pool) if is_held else None
            place.lead_to(queue)
            if place.is_awaited:
                self._watch()
        for gone in known.values():
            self._part_from(gone)

    def queues(self) -> list[NodeQueue]:
        """Return the queues of the nodes that have one."""
        return [place.queue for place in self._places if place.queue is not None]

    def close(self) -> None:
        """Take nothing back any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._question_timer is not None:
            self._question_timer.cancel()
            self._question_timer = None
        places, self._places, self._by_node = self._places, [], {}
        for place in places:
            if place.is_own:
                place.let_go(is_only=True)
            else:
                self._part_from(place)

    def _part_from(self, place: NodePlace) -> None:
        place.withdraw(_MOST, self._returned)
        place.let_go()

    def send(self, request: OwnRequest) -> bool:
        """Send a request to one of the nodes; return whether that could be done."""
        places = self._places
        local_only = request.local_only
        if self.is_only_here and self._pool.queue is not None:
            self._pool.queue.start(request)
            return True
        if len(places) == 1 and places[0].queue is None:
            only = places[0]
            return (only.is_own or not local_only) and only.start(request, is_compared=False)
        if self._starts_here(request):
            return True
        now_ns = time.monotonic_ns()
        views = self._some_views(now_ns, local_only=local_only)
        while views:
            view = choose(views, now_ns, _RANDOM)
            place = self._place_of(view)
            if place.start(request):
                self._watch()
                if view.queue is not None:
                    self._ask_soon()
                return True
            views.remove(view)
        return False

    def _starts_here(self, request: OwnRequest) -> bool:
        """Send a request to the own node if that has a free instance; return whether it was."""
        if not self._places:
            return False
        own = self._places[0]
        if not (own.is_own and own.look() and own.view.free_count() > 0):
            return False
        if not own.start(request):
            return False
        if own.view.queue is None:
            self._watch()
        return True

    def link_for_sequence(self, correlation_id: int | str, *, local_only: bool) -> Link | None:
        """Return the way to an instance of the node where a new sequence is to begin.

        Where the node has a queue that is any one: the queue chooses.
        """
        now_ns = time.monotonic_ns()
        views = self._views(now_ns, local_only=local_only)
        if not views:
            return None
        view = choose_for_sequence(views, now_ns, _RANDOM)
        view.promised()
        self._watch()
        place = self._place_of(view)
        links = [link for link in place.links if link.lane is not None]
        if place.queue is not None:
            return links[0] if links else None
        # The others take nothing without a queue.
        alone = [link for link in links if link.is_on_its_own]
        return choose_by_id(correlation_id, alone) if alone else None

    def queue_at(self, link: Link) -> NodeQueue | None:
        """Return the queue of a link's node, where sequences begin; None while it has none."""
        node_id = link.endpoint.node_id
        place = self._by_node.get(node_id)
        if place is not None:
            return place.queue
        # All its instances leave, and go on with their sequences.
        if link.is_local:
            return self._pool.queue
        return self._remote_queue(node_id, self._pool) if link.lane is not None else None

    def is_away(self, link: Link) -> bool:
        """Whether a link's node has no queue at present for what is to begin."""
        place = self._by_node.get(link.endpoint.node_id)
        return place is None or not place.look()

    # What nodes say

    def learned(self, place: NodePlace, load: Load) -> None:
        """Take what a node says of its load."""
        now_ns = time.monotonic_ns()
        place.view.learned(load, now_ns)
        if self._pool.waiting:
            self._can_send(self._pool)
        self._move(now_ns)

    def leased(self, place: NodePlace, queue: TicketQueue, lease: Lease) -> None:
        """Use a lease for the request that waits longest elsewhere, or give it back."""
        now_ns = time.monotonic_ns()
        # That is the answer to the question.
        place.view.asked_ns = None
        views = self._views(now_ns)
        sources = [view for view in views if self._place_of(view).has_movable]
        view = for_lease(sources, place.view, now_ns)
        taken = partial(self._taken_for_lease, queue, lease)
        if view is None or not self._place_of(view).withdraw(1, taken):
            queue.give_back(lease)
            return
        self._ask(views, now_ns)

    def turned_away(self, place: NodePlace) -> bool:
        """Learn that a node has no queue at present; return whether there is another node."""
        self._watch()
        return any(each is not place and each.look() for each in self._places)

    # What waits

    def _some_views(self, now_ns: int, *, local_only: bool) -> list[NodeView]:
        """Return as many as `choose` compares: the own node's, and those of others at random."""
        places = self._places
        count = len(places)
        if local_only or count <= COMPARED + 1:
            return self._views(now_ns, local_only=local_only)
        views: list[NodeView] = []
        first = 0
        if places[0].is_own:
            first = 1
            if places[0].look():
                views.append(places[0].view)
        others = count - first
        start = int(_RANDOM.random() * others)
        compared = 0
        for offset in range(others):
            place = places[first + (start + offset) % others]
            if not place.look():
                continue
            place.probe(now_ns)
            view = place.view
            views.append(view)
            compared += view.is_trusted(now_ns)
            if compared == COMPARED:
                break
        return views

    def _views(self, now_ns: int, *, local_only: bool = False) -> list[NodeView]:
        views: list[NodeView] = []
        for place in self._places:
            if (place.is_own or not local_only) and place.look():
                # By a question, so that no request has to find out.
                place.probe(now_ns)
                views.append(place.view)
        return views

    def _place_of(self, view: NodeView) -> NodePlace:
        return self._by_node[view.node]

    def _move(self, now_ns: int) -> None:
        """Take requests back that are better off at another node."""
        views = self._views(now_ns)
        if len(views) < 2 or not any(view.waiting_count for view in views):  # noqa: PLR2004
            return
        self._restart_sequences(views, now_ns)
        for source, target, count in take_back(views, now_ns):
            taken = partial(self._taken, self._place_of(target))
            target.promised(self._place_of(source).withdraw(count, taken))
        self._ask(views, now_ns)

    def _restart_sequences(self, views: list[NodeView], now_ns: int) -> None:
        """Have sequences that wait for a slot begin at a node that has one."""
        sequences = self._pool.sequences
        if sequences is None:
            return
        full, free_count = full_for_sequences(views, now_ns)
        room = free_count - self._restarting_count
        for view in full:
            place = self._place_of(view)
            for start in place.queue.starts() if place.queue is not None and room > 0 else ():
                if room > 0:
                    sequences.hold(start)
                    self._restarting_count += 1
                    room -= place.give_up(start, partial(self._restarted, sequences, start))

    def _restarted(
        self, sequences: SequenceRoutes, start: OwnRequest, back: OwnRequest | None
    ) -> None:
        self._restarting_count -= 1
        sequences.release(start, is_back=back is not None)

    def _ask_soon(self) -> None:
        """Ask once the own queue has looked at what came in this tick."""
        if not self._is_question_due:
            self._is_question_due = True
            self._loop.call_soon(self._ask_now)

    def _ask_now(self) -> None:
        self._is_question_due = False
        now_ns = time.monotonic_ns()
        self._ask(self._views(now_ns), now_ns)

    def _ask(self, views: list[NodeView], now_ns: int) -> None:
        """Ask some nodes to tell when they have a free instance, if requests wait for one."""
        if not any(place.has_movable for place in self._places):
            self._ask_no_more()
            return
        for view in to_ask([x for x in views if not _is_told(x, now_ns)], now_ns, _RANDOM):
            self._place_of(view).ask(when_free=True)
            self._watch_questions()

    def _ask_no_more(self) -> None:
        """Have no instance kept free for requests that do not wait any more."""
        for view in asked_in_vain([place.view for place in self._places]):
            self._place_of(view).ask(is_over=True)

    def _watch_questions(self) -> None:
        if self._question_timer is None:
            self._question_timer = self._loop.call_later(_QUESTION_S, self._look_at_questions)

    def _look_at_questions(self) -> None:
        self._question_timer = None
        if not any(place.has_movable for place in self._places):
            self._ask_no_more()
        elif any(place.view.asked_ns is not None for place in self._places):
            self._watch_questions()

    def _taken(self, target: NodePlace, request: OwnRequest | None) -> None:
        """Send a request that was taken back to where it is better off."""
        if request is None:
            return
        is_there = target in self._places and target.look()
        if request.cancelled or not (is_there and target.start(request, was_promised=True)):
            self._returned(request)

    def _taken_for_lease(
        self, queue: TicketQueue, lease: Lease, request: OwnRequest | None
    ) -> None:
        if request is None or request.cancelled:
            queue.give_back(lease)
        elif queue.start_on(lease, request):
            return
        self._returned(request)

    def _returned(self, request: OwnRequest | None) -> None:
        if request is not None:
            request.come_back()

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        """Do without what nodes should have said."""
        self._timer = None
        awaited = [place for place in self._places if place.is_awaited]
        for place in awaited:
            place.ask()
        self._move(time.monotonic_ns())
        if awaited or any(place.view.waiting_count for place in self._places):
            self._watch()


def choose_by_id(correlation_id: int | str, links: Iterable[Link]) -> Link:
    """Return the instance of a new sequence: the same for every router with the same instances."""
    key = f"{type(correlation_id).__name__}:{correlation_id}\0"

    def weight(link: Link) -> bytes:
        return hashlib.blake2b((key + link.endpoint.name).encode(), digest_size=8).digest()

    return max(links, key=weight)


def _is_told(view: NodeView, now_ns: int) -> bool:
    """Whether a node has just told of a free instance, and going there was not worth the way."""
    known_ns = view.known_ns
    return known_ns is not None and now_ns - known_ns < _TOLD_NS and view.free_count() > 0
