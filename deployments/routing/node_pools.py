# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The pools of this node: which have a queue of their own, where it is, and who adopts whom.

A model version with two or more instances on a node has its queue in the node's *holder*, which is
one of its ingresses (docs/decisions/0009). Where this process is the holder it adopts the instances
over its lanes and keeps a `HeldQueue`; else the queue is reached over the lane of tickets. While
there is no holder, requests wait as they do for a lane.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from backends.api.errors import RequestCancelledError, TritonError
from deployments.lane.batches import Adopted, Holder
from deployments.lane.client import LaneClient
from deployments.lane.inflight import LaneInflight
from deployments.pool_queue.alarm import AlarmClock, LoopClock
from deployments.pool_queue.held_queue import HeldQueue
from deployments.pool_queue.ticket_lane import TicketLane
from deployments.pool_queue.ticket_server import PartyLane
from deployments.routing.adoption_states import FREE, AdoptionEvent, AdoptionState
from deployments.routing.pool import Link, LinkPool, NodeQueue
from deployments.routing.routed_request import RoutedRequest
from deployments.scheduling.holds import Holds

_log = logging.getLogger(__name__)

# A router that is told of a change later than this is taken for gone.
_HOLDER_HEARS_S: Final = 1.0
# How long a new holder waits for instances to tell which sequences run there.
GATHER_S: Final = 5.0


class NodePools:
    """The pools of this node.

    Args:
        queue_changed: Called when the queue of a pool, here or on another node, is another one.

    Attributes:
        clock: Wakes queues; to be set, if at all, before there are any.
        holds: Until when schedulers wait for their first requests; the same.
    """

    def __init__(self, queue_changed: Callable[[LinkPool], None]) -> None:
        self.clock: AlarmClock = LoopClock()
        self.holds = Holds()
        self._queue_changed = queue_changed
        # Off until there is, or is to be, a holder.
        self._is_on = False
        self._gathering: asyncio.TimerHandle | None = None
        self._adopt: Holder | None = None
        self._tickets: TicketLane | None = None
        # Called when an instance has a later holder than this process.
        self.deposed: Callable[[], None] = lambda: None
        # What an instance of another node says of its holder.
        self.told_of_remote: Callable[[str, Holder], None] = lambda *_: None
        # The ways to instances whose lanes are open.
        self._links: dict[str, Link] = {}
        self._pools: dict[tuple[str, int], LinkPool] = {}

    # Who holds the node's queues

    def hold(self, adopt: Holder) -> None:
        """Hold the queues of this node from now on."""
        self._is_on = True
        self._adopt = adopt
        self._tickets = None
        loop = asyncio.get_running_loop()
        self._gathering = loop.call_later(GATHER_S, self._end_gathering)
        for pool in self.all():
            self.refresh(pool)

    def follow(self, tickets: TicketLane | None) -> None:
        """Have another process hold the queues; None while there is none.

        What waited in queues that were held here is sent again.
        """
        self._is_on = True
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        self._adopt = None
        self._tickets = tickets
        for link in self._links.values():
            # The next holder may be this process again, with a queue that knows nothing yet.
            link.let_go()
        for pool in self.all():
            held, pool.held = pool.held, None
            self.refresh(pool)
            _give_up(held)

    def lane_to(self, incarnation: str) -> LaneClient | None:
        """Return the open lane to an instance of this node."""
        link = self._links.get(incarnation)
        return None if link is None else link.lane

    # `deployments.pool_queue.ticket_server.HeldQueues`

    def find(self, name: str, version: int) -> HeldQueue | None:
        """Return the queue of a version, if it is held here and has instances."""
        pool = self._pools.get((name, version))
        return None if pool is None or not self._is_served_here(pool) else pool.held

    def queue_at(self, incarnation: str) -> HeldQueue | None:
        """Return the queue held here that an instance works for, whether that is served or not."""
        link = self._links.get(incarnation)
        return None if link is None else link.queue

    def party_lost(self, party: PartyLane) -> None:
        """Learn that another router is gone."""
        for queue in self.all_held():
            queue.party_lost(party)

    # Other nodes

    def remote_changed(self, node_id: str) -> None:
        """Learn that the holder of another node is there, or gone; what is alone there has none."""
        for pool in self.all():
            links = [link for link in pool.links if link.endpoint.node_id == node_id]
            if not all(link.is_on_its_own for link in links):
                self._queue_changed(pool)

    def cut_off_nodes(self) -> set[str]:
        """Return the nodes whose queues other nodes cannot reach, as far as instances have said."""
        open_links = [(link, link.lane) for link in self._links.values()]
        said = [(link.endpoint.node_id, lane.holder) for link, lane in open_links if lane]
        return {node_id for node_id, at in said if at is not None and at.epoch and not at.port}

    def all(self) -> list[LinkPool]:
        """Return all pools."""
        return list(self._pools.values())

    def all_held(self) -> list[HeldQueue]:
        """Return the queues that are held here."""
        return [pool.held for pool in self._pools.values() if pool.held is not None]

    # The pools

    def refresh(self, pool: LinkPool) -> None:
        """Look at a pool again: its instances, its config or the holder have changed."""
        self._pools[pool.key] = pool
        if pool.config is None or not self._is_on:
            return
        local_count = sum(link.is_local for link in pool.links)
        # Whoever gets a request of a sequence has to find it, so a holder adopts all that have any;
        # others hear of it from the instances. A holder of an older release leaves one alone.
        least = 2 if pool.sequences is None or self._adopt is None else 1
        if not pool.is_pooled and local_count + pool.has_own < least:
            return
        pool.is_pooled = True
        self._renew(pool)
        # Those that have left the table go on with their sequences.
        for link in (*pool.links, *pool.retired):
            if link.is_local:
                self._ask(link)
        self._settle(pool)

    def _is_open(self, link: Link) -> bool:
        """Whether the lane is open, and no later one to the same instance."""
        return self._links.get(link.endpoint.incarnation) is link

    def _open_of(self, pool: LinkPool) -> list[Link]:
        """Return the ways to a pool's instances that are open, those that leave included."""
        links = dict.fromkeys((*pool.links, *pool.leaving, *pool.retired))
        return [link for link in links if self._is_open(link)]

    def forget(self, pool: LinkPool) -> None:
        """Let go of a pool whose version is served no more.

        What waits is executed by the instances that leave; what cannot be is sent, to fail.
        """
        self._pools.pop(pool.key, None)
        if pool.is_pooled:
            pool.is_pooled = False
            held, pool.held, pool.queue = pool.held, None, None
            if held is not None:
                held.flush()
            _give_up(held)
            if self._tickets is not None:
                # The holder hears of it, too, and has what waits executed.
                loop = asyncio.get_running_loop()
                loop.call_later(_HOLDER_HEARS_S, self._forget_tickets, self._tickets, pool.key)

    def _forget_tickets(self, tickets: TicketLane, key: tuple[str, int]) -> None:
        # A version that was dormant may be awake again, and uses the same queue.
        if key not in self._pools:
            tickets.forget(*key)

    def _renew(self, pool: LinkPool) -> None:
        """Make the pool's queue, or another one when its config has changed."""
        config, held, adopt = pool.config, pool.held, self._adopt
        if config is None or adopt is None:
            return
        if held is not None and (held.config is config or held.configure(config)):
            return
        name, version = pool.key
        last = 0 if held is None else held.waiting.last_number
        try:
            pool.held = HeldQueue(config, version, adopt.epoch, self.clock, self.holds, last)
        except TritonError as error:
            _log.error("model '%s' version %d has no queue: %s", name, version, error)
            return
        if config.sequence_batching is not None:
            pool.held.has_heard = partial(self._has_heard, pool)
        # As of a new holder: they tell what runs there, and so do those that leave.
        former = [link for link in self._open_of(pool) if held and link.queue is held]
        for link in former:
            link.let_go()
        self._settle(pool)
        _give_up(held)
        for link in former:
            self._ask(link)

    def _is_served_here(self, pool: LinkPool) -> bool:
        """Whether the queue here takes requests.

        That of a model with sequences first learns from all instances which of them run already.
        """
        if pool.held is None or not pool.held.is_open:
            return False
        if self._gathering is None or pool.held.config.sequence_batching is None:
            return True
        asked = AdoptionState.ASKED, AdoptionState.CLAIMED
        if any(link.adoption in asked for link in self._open_of(pool)):
            return False
        return self._have_told(pool, pool.links)

    def _has_heard(self, pool: LinkPool) -> bool:
        """Whether all instances of this node have told the queue here what runs there."""
        return self._have_told(pool, (*pool.links, *pool.retired))

    def _have_told(self, pool: LinkPool, links: Iterable[Link]) -> bool:
        return all(
            self._is_open(link)
            and (link.adoption is AdoptionState.PARTED or link.queue is pool.held)
            for link in links
            if link.is_local
        )

    def _end_gathering(self) -> None:
        self._gathering = None
        for pool in self.all():
            self._settle(pool)

    def _settle(self, pool: LinkPool) -> None:
        """Choose where requests of a pool wait."""
        queue: NodeQueue | None = None
        if self._is_served_here(pool):
            queue = pool.held
        elif self._adopt is None and self._tickets is not None and pool.config is not None:
            queue = self._tickets.queue_of(*pool.key, pool.config)
        if queue is not pool.queue:
            pool.queue = queue
            self._queue_changed(pool)

    # The instances

    def connected(self, link: Link, lane: LaneClient) -> None:
        """Learn that an instance's lane has opened."""
        before = self._links.pop(link.endpoint.incarnation, None)
        if before is not None:
            # It had left the table and is there again; what lies there ends over the lane it had.
            self._part(before)
            before.let_go()
        self._links[link.endpoint.incarnation] = link
        link.tell(self, lane)
        if lane.holder is not None:
            self.told_of_holder(link, lane.holder)
        if link.is_local:
            self._ask(link)

    def lost(self, link: Link) -> None:
        """Learn that an instance's lane has closed."""
        if self._is_open(link):
            link.move(AdoptionEvent.LOST)
            del self._links[link.endpoint.incarnation]
            self._leave(link)
            if link.pool.held is not None:
                self._settle(link.pool)

    def retired(self, link: Link) -> bool:
        """Give an instance that has left the table nothing but what its sequences need.

        Returns:
            Whether its lane stays open until that is done.
        """
        queue = link.queue
        if queue is None:
            return False
        link.move(AdoptionEvent.LEFT_TABLE)
        loop = asyncio.get_running_loop()
        for request in queue.retire(link.endpoint.incarnation):
            # Once the router has taken note of all that the table says.
            loop.call_soon(request.come_back)
        if link.pool.held is queue:
            self._settle(link.pool)
        return not self.part_from(link)

    def restored(self, link: Link) -> None:
        """Learn that an instance which had left the table is there again."""
        if link.lane is not None and self._is_open(link):
            if link.adoption in {AdoptionState.RETIRED, AdoptionState.PARTED}:
                link.move(AdoptionEvent.BACK_IN_TABLE)
            link.lane.stay_open()
            if link.queue is not None:
                link.queue.restore(link.endpoint.incarnation)

    def part_from(self, link: Link) -> bool:
        """Let go of an instance that has left the table and has done what it had to."""
        queue = link.queue
        if queue is not None and queue.waiting.is_needed(link.endpoint.incarnation):
            return False
        link.move(AdoptionEvent.NOTHING_LEFT)
        self._part(link)
        return True

    def _part(self, link: Link) -> None:
        self._leave(link)
        if link.lane is not None and link not in link.pool.leaving:
            link.lane.close_when_idle()

    def _leave(self, link: Link) -> None:
        queue, link.queue = link.queue, None
        if queue is None:
            return
        queue.leave(link.endpoint.incarnation)
        pool = link.pool
        if pool.held is queue and not queue.is_open:
            # They wait as requests do for which there is no lane: in bounds of number and time.
            pool.queue = None
            self._queue_changed(pool)
            for request in queue.clear():
                request.come_back()

    def _ask(self, link: Link) -> None:
        adopt, is_open = self._adopt, self._is_open(link)
        if adopt is not None and is_open and link.pool.is_pooled and link.adoption in FREE:
            link.ask(adopt)

    # What links hear

    def adopted(self, link: Link, message: Adopted) -> None:
        """Learn that an instance takes batches from here."""
        queue, lane = link.pool.held, link.lane
        if message.is_refused or queue is None or lane is None:
            _log.warning("instance %s is not adopted: it has a later holder", link.endpoint.name)
            link.let_go()
            if message.is_refused:
                self.deposed()
            return
        link.move(AdoptionEvent.ANSWERED)
        link.queue = queue
        queue.join(link.endpoint.incarnation, lane, message)
        if link.closed:
            self.retired(link)
        self._settle(link.pool)

    def told_of_holder(self, link: Link, message: Holder) -> None:
        """Learn who decides what an instance executes."""
        pool, adopt = link.pool, self._adopt
        if link.is_local and adopt is not None and message.epoch > adopt.epoch:
            self.deposed()
        link.move(AdoptionEvent.TOLD)
        if not self._is_on:
            return
        if not link.is_local:
            self.told_of_remote(link.endpoint.node_id, message)
            self._queue_changed(pool)
            return
        if not pool.is_pooled and pool.config is not None:
            # It was adopted while its pool was larger, and stays so.
            pool.is_pooled = True
            self._renew(pool)
            self._settle(pool)
        self._ask(link)

    def bounced(self, inflight: LaneInflight, waited_ns: int) -> None:
        """Send a request by way of the queue."""
        if inflight.cancelled:
            inflight.sink.fail(RequestCancelledError(""))
        elif isinstance(inflight, RoutedRequest) and inflight.may_bounce():
            inflight.wait_from(time.monotonic_ns() - waited_ns)
            inflight.send_again()


def _give_up(held: HeldQueue | None) -> None:
    """Send what waits in a queue that this process no longer holds."""
    if held is not None:
        held.close()
        for request in held.clear():
            request.come_back()
