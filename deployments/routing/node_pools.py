# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The pools of this node: which have a queue of their own, where it is, and who adopts whom.

A model version with two or more instances on a node has its queue in the node's *holder*, which is
one of its ingresses ([ADR 9]). Where this process is the holder it adopts the instances over its
lanes and keeps a `HeldQueue`; else the queue is reached over the lane of tickets. While there is no
holder, requests wait as they do for a lane.

[ADR 9]: docs/decisions/0009-one-queue-for-the-pool-of-a-node.md
"""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from backends.api.errors import RequestCancelledError, TritonError
from backends.api.model_config import ModelConfig
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.batches import Adopt, Adopted, Holder
from deployments.lane.client import LaneClient
from deployments.lane.inflight import LaneInflight
from deployments.pool_queue.alarm import AlarmClock, LoopClock
from deployments.pool_queue.held_queue import HeldQueue
from deployments.pool_queue.own_request import OwnRequest
from deployments.pool_queue.queued_request import NodeQueue
from deployments.routing.adoption_states import FREE, AdoptionEvent, AdoptionState
from deployments.routing.instance_link import InstanceLink
from deployments.routing.pool import Link, LinkPool
from deployments.routing.routed_request import RoutedRequest
from deployments.scheduling.holds import Holds

_log = logging.getLogger(__name__)

# A router that is told of a change later than this is taken for gone.
_HOLDER_HEARS_S: Final = 1.0
# How long a new holder waits for instances to tell which sequences run there.
GATHER_S: Final = 5.0


class TicketQueues(Protocol):
    """The queues of this node in another process; `deployments.pool_queue.ticket_lane`."""

    def queue_of(self, name: str, version: int, config: ModelConfig) -> NodeQueue:
        """Return the queue of a model version."""

    def forget(self, model_name: str, version: int) -> None:
        """Have what waits in the queue of a model version back."""


class NodePools:
    """The pools of this node.

    Args:
        send_again: Sends a request to the queue or the instance it belongs to now.
        queue_changed: Called when the queue of a pool, here or on another node, is another one.

    Attributes:
        clock: Wakes queues; to be set, if at all, before there are any.
        holds: Until when schedulers wait for their first requests; the same.
    """

    def __init__(
        self,
        send_again: Callable[[OwnRequest], None],
        queue_changed: Callable[[LinkPool], None],
    ) -> None:
        self.clock: AlarmClock = LoopClock()
        self.holds = Holds()
        self.send_again = send_again
        self._queue_changed = queue_changed
        # Off until there is, or is to be, a holder.
        self._is_on = False
        self._gathering: asyncio.TimerHandle | None = None
        self._adopt: Adopt | None = None
        self._tickets: TicketQueues | None = None
        self._links: dict[Link, InstanceLink] = {}
        # Called when an instance has a later holder than this process.
        self.deposed: Callable[[], None] = lambda: None
        # What an instance of another node says of its holder.
        self.told_of_remote: Callable[[str, Holder], None] | None = None
        # Opens a lane to an instance that is not in the table.
        self.reach: Callable[[LinkPool, InstanceEndpoint], None] = lambda *_: None
        self._by_incarnation: dict[str, InstanceLink] = {}
        self._pools: dict[tuple[str, int], LinkPool] = {}

    # Who holds the node's queues

    def hold(self, adopt: Adopt) -> None:
        """Hold the queues of this node from now on."""
        self._is_on = True
        self._adopt = adopt
        self._tickets = None
        loop = asyncio.get_running_loop()
        self._gathering = loop.call_later(GATHER_S, self._end_gathering)
        for pool in self.all():
            self.refresh(pool)

    def follow(self, tickets: TicketQueues | None) -> None:
        """Have another process hold the queues; None while there is none.

        What waited in queues that were held here is sent again.
        """
        self._is_on = True
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        self._adopt = None
        self._tickets = tickets
        for instance in self._links.values():
            # The next holder may be this process again, with a queue that knows nothing yet.
            instance.let_go()
        for pool in self.all():
            held, pool.held = pool.held, None
            self.refresh(pool)
            self._send_again(pool, held)

    @property
    def has_holder(self) -> bool:
        """Whether somebody holds the queues, as far as this process knows."""
        return self._adopt is not None or self._tickets is not None

    def lane_to(self, incarnation: str) -> LaneClient | None:
        """Return the open lane to an instance of this node."""
        instance = self._by_incarnation.get(incarnation)
        return None if instance is None or not instance.lane.is_open else instance.lane

    def queue_at(self, incarnation: str) -> HeldQueue | None:
        """Return the queue held here that an instance works for, whether that is served or not."""
        instance = self._by_incarnation.get(incarnation)
        return None if instance is None else instance.queue

    def held(self, name: str, version: int) -> HeldQueue | None:
        """Return the queue of a version, if it is held here and has instances."""
        pool = self._pools.get((name, version))
        return None if pool is None or not self._is_served_here(pool) else pool.held

    def remote_changed(self, node_id: str) -> None:
        """Learn that the holder of another node is there, or gone; what is alone there has none."""
        for pool in self.all():
            links = [link for link in pool.links if link.endpoint.node_id == node_id]
            if not all(link.is_on_its_own for link in links):
                self._queue_changed(pool)

    def find(self, name: str, version: int) -> LinkPool | None:
        """Return the pool of a version."""
        return self._pools.get((name, version))

    def has_instances_at(self, node_id: str) -> bool:
        """Whether a pool has an instance on a node, be it one that leaves."""
        return any(
            link.endpoint.node_id == node_id
            for pool in self._pools.values()
            for link in (*pool.links, *pool.retired)
        )

    def cut_off_nodes(self) -> set[str]:
        """Return the nodes whose queues other nodes cannot reach, as far as instances have said."""
        said = [(link.endpoint.node_id, each.lane.holder) for link, each in self._links.items()]
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
            instance = self._links.get(link) if link.is_local else None
            if instance is not None:
                self._ask(instance)
        self._settle(pool)

    def _instances_of(self, pool: LinkPool) -> list[InstanceLink]:
        """Return a pool's instances that have lanes, those that leave included."""
        links = dict.fromkeys((*pool.links, *pool.leaving, *pool.retired))
        found = (self._links.get(link) for link in links)
        return [instance for instance in found if instance is not None]

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
            self._send_again(pool, held)
            if self._tickets is not None:
                # The holder hears of it, too, and has what waits executed.
                loop = asyncio.get_running_loop()
                loop.call_later(_HOLDER_HEARS_S, self._forget_tickets, self._tickets, pool.key)

    def _forget_tickets(self, tickets: TicketQueues, key: tuple[str, int]) -> None:
        # A version that was dormant may be awake again, and uses the same queue.
        if key not in self._pools:
            tickets.forget(*key)

    def _send_again(self, pool: LinkPool, held: HeldQueue | None) -> None:
        """Send what waits in a queue that this process no longer holds."""
        if held is not None:
            held.close()
            for request in held.clear():
                self.send_again(request)

    def _return(self, request: OwnRequest) -> None:
        if request.cancelled:
            request.sink.fail(RequestCancelledError(""))
        else:
            self.send_again(request)

    def _renew(self, pool: LinkPool) -> None:
        """Make the pool's queue, or another one when its config has changed."""
        config, held = pool.config, pool.held
        if config is None:
            return
        if self._adopt is None or (held is not None and held.config is config):
            return
        if held is not None and held.configure(config):
            return
        name, version = pool.key
        last_number = 0 if held is None else held.last_number
        try:
            pool.held = HeldQueue(
                config, version, self._adopt.epoch, self.clock, self.holds, last_number
            )
        except TritonError as error:
            _log.error("model '%s' version %d has no queue: %s", name, version, error)
            return
        if config.sequence_batching is not None:
            pool.held.undecided.has_heard = partial(self._has_heard, pool)
        # As of a new holder: they tell what runs there, and so do those that leave.
        former = [each for each in self._instances_of(pool) if held and each.queue is held]
        for instance in former:
            instance.let_go()
        self._settle(pool)
        self._send_again(pool, held)
        for instance in former:
            self._ask(instance)

    def _is_served_here(self, pool: LinkPool) -> bool:
        """Whether the queue here takes requests.

        That of a model with sequences first learns from all instances which of them run already.
        """
        if pool.held is None or not pool.held.is_open:
            return False
        if self._gathering is None or pool.held.config.sequence_batching is None:
            return True
        asked = AdoptionState.ASKED, AdoptionState.CLAIMED
        if any(each.link.adoption in asked for each in self._instances_of(pool)):
            return False
        adopted = [self._links.get(link) for link in pool.links if link.is_local]
        return all(each is not None and each.queue is pool.held for each in adopted)

    def _has_heard(self, pool: LinkPool) -> bool:
        """Whether all instances of this node have told the queue here what runs there."""
        links = (*pool.links, *pool.retired)
        instances = [self._links.get(link) for link in links if link.is_local]
        return all(
            instance is not None
            and (instance.link.adoption is AdoptionState.PARTED or instance.queue is pool.held)
            for instance in instances
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
        if pool.held is not None:
            pool.held.undecided.look()

    # The instances

    def connected(self, link: Link, lane: LaneClient) -> None:
        """Learn that an instance's lane has opened."""
        before = self._by_incarnation.get(link.endpoint.incarnation)
        if before is not None:
            # It had left the table and is there again; what lies there ends over the lane it had.
            del self._links[before.link]
            self._part(before)
            before.let_go()
        instance = self._links[link] = InstanceLink(self, link, lane)
        self._by_incarnation[link.endpoint.incarnation] = instance
        link.move(AdoptionEvent.CONNECTED)
        lane.events = instance
        if lane.holder is not None:
            self.told_of_holder(instance, lane.holder)
        if link.is_local:
            self._ask(instance)

    def lost(self, link: Link) -> None:
        """Learn that an instance's lane has closed."""
        instance = self._links.pop(link, None)
        if instance is not None:
            link.move(AdoptionEvent.LOST)
            del self._by_incarnation[link.endpoint.incarnation]
            self._leave(instance)
            if link.pool.held is not None:
                self._settle(link.pool)

    def retired(self, link: Link) -> bool:
        """Give an instance that has left the table nothing but what its sequences need.

        Returns:
            Whether its lane stays open until that is done.
        """
        instance = self._links.get(link)
        if instance is None or instance.queue is None:
            return False
        link.move(AdoptionEvent.LEFT_TABLE)
        loop = asyncio.get_running_loop()
        for request in instance.queue.retire(link.endpoint.incarnation):
            request.queue = None
            # Once the router has taken note of all that the table says.
            loop.call_soon(self._return, request)
        if link.pool.held is instance.queue:
            self._settle(link.pool)
        return not self.part_from(instance)

    def restored(self, link: Link) -> None:
        """Learn that an instance which had left the table is there again."""
        instance = self._links.get(link)
        if instance is not None:
            if link.adoption in {AdoptionState.RETIRED, AdoptionState.PARTED}:
                link.move(AdoptionEvent.BACK_IN_TABLE)
            instance.lane.stay_open()
            if instance.queue is not None:
                instance.queue.restore(link.endpoint.incarnation)

    def part_from(self, instance: InstanceLink) -> bool:
        """Let go of an instance that has left the table and has done what it had to."""
        queue, incarnation = instance.queue, instance.link.endpoint.incarnation
        if queue is not None and queue.is_needed(incarnation):
            return False
        instance.link.move(AdoptionEvent.NOTHING_LEFT)
        self._part(instance)
        return True

    def _part(self, instance: InstanceLink) -> None:
        self._leave(instance)
        if instance.link not in instance.link.pool.leaving:
            instance.lane.close_when_idle()

    def _leave(self, instance: InstanceLink) -> None:
        queue, instance.queue = instance.queue, None
        if queue is None:
            return
        queue.leave(instance.link.endpoint.incarnation)
        pool = instance.link.pool
        if pool.held is queue and not queue.is_open:
            # They wait as requests do for which there is no lane: in bounds of number and time.
            pool.queue = None
            self._queue_changed(pool)
            for request in queue.clear():
                self.send_again(request)

    def _ask(self, instance: InstanceLink) -> None:
        adopt, link = self._adopt, instance.link
        if adopt is not None and link.pool.is_pooled and link.adoption in FREE:
            instance.ask(adopt)

    def adopted(self, instance: InstanceLink, message: Adopted) -> None:
        """Learn that an instance takes batches from here."""
        link = instance.link
        queue = link.pool.held
        if message.is_refused or queue is None:
            _log.warning("instance %s is not adopted: it has a later holder", link.endpoint.name)
            instance.let_go()
            if message.is_refused:
                self.deposed()
            return
        link.move(AdoptionEvent.ANSWERED)
        instance.queue = queue
        queue.join(link.endpoint.incarnation, instance.lane, message)
        if link.closed:
            self.retired(link)
        self._settle(link.pool)

    def told_of_holder(self, instance: InstanceLink, message: Holder) -> None:
        """Learn who decides what an instance executes."""
        link, pool, adopt = instance.link, instance.link.pool, self._adopt
        if link.is_local and adopt is not None and message.epoch > adopt.epoch:
            self.deposed()
        link.move(AdoptionEvent.TOLD_OF_HOLDER if message.epoch else AdoptionEvent.TOLD_OF_NONE)
        if not self._is_on:
            return
        if not link.is_local:
            if self.told_of_remote is not None:
                self.told_of_remote(link.endpoint.node_id, message)
            self._queue_changed(pool)
            return
        if not pool.is_pooled and pool.config is not None:
            # It was adopted while its pool was larger, and stays so.
            pool.is_pooled = True
            self._renew(pool)
            self._settle(pool)
        if link in self._links:
            self._ask(instance)

    def bounced(self, inflight: LaneInflight, waited_ns: int) -> None:
        """Send a request by way of the queue."""
        if inflight.cancelled:
            inflight.sink.fail(RequestCancelledError(""))
        elif isinstance(inflight, RoutedRequest) and inflight.may_bounce():
            inflight.wait_from(time.monotonic_ns() - waited_ns)
            self.send_again(inflight)
