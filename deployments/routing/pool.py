# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The instances of one model version as a router sees them, and which of them gets a request."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backends.api.model_config import ModelConfig
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.batches import Adopted, Done, Holder
from deployments.lane.client import LaneClient
from deployments.lane.inflight import LaneInflight
from deployments.pool_queue.held_queue import HeldQueue
from deployments.pool_queue.own_request import OwnRequest
from deployments.pool_queue.ticket_queue import TicketQueue
from deployments.routing.adoption_states import OURS, TRANSITIONS, AdoptionEvent, AdoptionState
from deployments.routing.ordered_sink import Orders

if TYPE_CHECKING:
    from deployments.routing.node_pools import NodePools
    from deployments.routing.node_routes import NodeRoutes
    from deployments.routing.sequence_routes import SequenceRoutes

# A model's key and a version number.
PoolKey = tuple[str, int]
# The queue of one model version on one node: in this process, or at its holder in another one.
NodeQueue = HeldQueue | TicketQueue


class Link:
    """The way to one incarnation of one instance; a `deployments.lane.batches.PoolEvents`.

    Attributes:
        endpoint: The instance.
        pool: Where it belongs.
        is_local: Whether it is on this node.
        lane: Its open lane; None while there is none.
        adoption: Who decides what the instance executes, as far as that is known here.
        task: The attempt to open one.
        closed: Whether no lane is to be opened again and no request goes here any more.
        queue: The queue in this process that it works for; None while it is not adopted by that.
    """

    __slots__ = (
        "_events", "_unanswered_count", "adoption", "closed", "endpoint", "is_local", "lane",
        "pool", "queue", "task",
    )  # fmt: skip

    # Set when its lane opens.
    _events: "NodePools"

    def __init__(self, endpoint: InstanceEndpoint, pool: "LinkPool", *, is_local: bool) -> None:
        self.endpoint = endpoint
        self.pool = pool
        self.is_local = is_local
        self.lane: LaneClient | None = None
        self.adoption = AdoptionState.UNREACHED
        self.task: asyncio.Task[None] | None = None
        self.closed = False
        self.queue: HeldQueue | None = None
        self._unanswered_count = 0

    @property
    def is_on_its_own(self) -> bool:
        """Whether no queue decides what the instance executes, as far as it has said."""
        return self.adoption is AdoptionState.ALONE or self.adoption is AdoptionState.ASKED

    def move(self, event: AdoptionEvent) -> None:
        """Note what changes who decides; a KeyError means that the router is wrong."""
        self.adoption = TRANSITIONS[self.adoption][event]

    @property
    def is_cut_off(self) -> bool:
        """Whether it is on another node whose queue is held by a process without a TCP port."""
        holder = None if self.lane is None or self.is_local else self.lane.holder
        return holder is not None and holder.epoch > 0 and not holder.port

    # What it tells over its lane, and what it is told

    def tell(self, events: "NodePools", lane: LaneClient) -> None:
        """Have somebody act upon what the instance tells over a lane that has opened."""
        self._events = events
        self._unanswered_count = 0
        self.move(AdoptionEvent.CONNECTED)
        lane.events = self

    def ask(self, adopt: Holder) -> None:
        """Ask the instance to work for this process."""
        self.move(AdoptionEvent.ASK)
        if self.lane is not None:
            self._unanswered_count += 1
            self.lane.adopt(adopt)

    def let_go(self) -> None:
        """Note that its queue is not held here any more, or is another one."""
        self.queue = None
        if self.adoption in OURS:
            self.move(AdoptionEvent.LET_GO)

    def adopted(self, message: Adopted) -> None:
        """Take the instance into its queue, unless it was let go since, and perhaps asked anew."""
        self._unanswered_count -= 1
        if not self._unanswered_count and self.adoption is AdoptionState.CLAIMED:
            self._events.adopted(self, message)

    def done(self, message: Done) -> None:
        """Learn that a batch was executed."""
        queue = self.queue
        if queue is not None:
            queue.done(self.endpoint.incarnation, message)
            if self.adoption is AdoptionState.RETIRED:
                self._events.part_from(self)

    def granted(self) -> None:
        """Learn that the instance may execute one batch."""
        if self.queue is not None:
            self.queue.granted(self.endpoint.incarnation)

    def draining(self) -> None:
        """Have what waits executed before the last instances of a pool end."""
        if self.queue is not None:
            self.queue.draining()

    def bounced(self, inflight: LaneInflight, waited_ns: int) -> None:
        """Send a request by way of the queue."""
        self._events.bounced(inflight, waited_ns)

    def holder(self, message: Holder) -> None:
        """Learn that somebody, or nobody any more, decides what the instance executes."""
        self._events.told_of_holder(self, message)


@dataclass(slots=True, eq=False)
class LinkPool:
    """The instances of one model version, and the requests that wait for a first lane.

    Attributes:
        links: Ways to its instances.
        waiting: Requests that wait for a lane, oldest first, and since when, in the loop's seconds.
        sequences: Where its sequences run; None when the model has none.
        retired: Ways to instances that have left the table and go on with their sequences.
        order: The order of its responses; None when any will do.
        unopened: Of a router that opens lanes on demand: instances without a lane, until the
            first request.
        is_used: Whether there was a first request.
        leaving: Ways to instances that finish their last requests, open for what they count.
        has_own: Whether this process is among the instances.
        key: Model key and version number.
        config: The model's config; None before the version was first ready.
        is_pooled: Whether its instances on this node have one queue.
        queue: That queue; None while there is none, or none that has instances.
        held: That queue, if it is in this process.
        routes: Its nodes; None without sequences while all its instances are on this node.
        is_dormant: Whether the version has no instance until it is woken.
        is_restarting: Whether its instances were lost and are being started again.
        wake_s: About how long waking it takes; 0.0 where nobody knows.
        waits_for: What the waking or the restart waits for, as far as is known.
    """

    links: list[Link] = field(default_factory=list)
    waiting: dict[OwnRequest, float] = field(default_factory=dict)
    sequences: "SequenceRoutes | None" = None
    retired: dict[Link, None] = field(default_factory=dict)
    order: Orders | None = None
    unopened: list[InstanceEndpoint] = field(default_factory=list)
    is_used: bool = False
    leaving: dict[Link, None] = field(default_factory=dict)
    has_own: bool = False
    key: tuple[str, int] = ("", 0)
    config: ModelConfig | None = None
    is_pooled: bool = False
    queue: NodeQueue | None = None
    held: HeldQueue | None = None
    routes: "NodeRoutes | None" = None
    is_dormant: bool = False
    is_restarting: bool = False
    wake_s: float = 0.0
    waits_for: str = ""

    def has_instance_at(self, node_id: str) -> bool:
        """Whether an instance is on a node, be it one that leaves."""
        return any(link.endpoint.node_id == node_id for link in (*self.links, *self.retired))

    @property
    def lanes(self) -> list[LaneClient]:
        """The open lanes to its instances."""
        return [link.lane for link in self.links if link.lane is not None]


def choose_lane(links: Iterable[Link], avoid: object | None = None) -> LaneClient | None:
    """Return the open lane with the fewest requests outstanding; None when there is none."""
    best: LaneClient | None = None
    for link in links:
        lane = link.lane
        if lane is None or lane is avoid or lane.draining:
            continue
        if best is None or lane.outstanding < best.outstanding:
            best = lane
    return best


class ModelPools:
    """The pools of a router: those of some models are found without a look at all others."""

    def __init__(self) -> None:
        self._pools: dict[str, dict[int, LinkPool]] = {}

    def get(self, key: PoolKey) -> LinkPool | None:
        """Return the pool of a version, or None."""
        versions = self._pools.get(key[0])
        return None if versions is None else versions.get(key[1])

    def make(self, key: PoolKey) -> LinkPool:
        """Return the pool of a version; an empty one if there was none."""
        versions = self._pools.setdefault(key[0], {})
        pool = versions.get(key[1])
        if pool is None:
            pool = versions[key[1]] = LinkPool(key=key)
        return pool

    def remove(self, key: PoolKey) -> None:
        """Remove the pool of a version."""
        versions = self._pools[key[0]]
        del versions[key[1]]
        if not versions:
            del self._pools[key[0]]

    def of(self, names: Iterable[str]) -> list[LinkPool]:
        """Return the pools of some models."""
        return [pool for name in names for pool in self._pools.get(name, {}).values()]

    def all(self) -> list[LinkPool]:
        """Return all pools."""
        return [pool for versions in self._pools.values() for pool in versions.values()]
