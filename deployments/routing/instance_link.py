# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One instance as the pools of its router know it."""

from typing import Protocol

from deployments.lane.batches import Adopt, Adopted, Done, Holder
from deployments.lane.client import LaneClient
from deployments.lane.inflight import LaneInflight
from deployments.pool_queue.held_queue import HeldQueue
from deployments.routing.adoption_states import OURS, AdoptionEvent, AdoptionState
from deployments.routing.pool import Link


class InstancePools(Protocol):
    """Who acts upon what instances tell; `deployments.routing.node_pools.NodePools`."""

    def adopted(self, instance: "InstanceLink", message: Adopted) -> None:
        """Learn that an instance takes batches from here."""

    def part_from(self, instance: "InstanceLink") -> bool:
        """Let go of an instance that has left the table and has done what it had to."""

    def bounced(self, inflight: LaneInflight, waited_ns: int) -> None:
        """Send a request by way of the queue."""

    def told_of_holder(self, instance: "InstanceLink", message: Holder) -> None:
        """Learn who decides what an instance executes."""


class InstanceLink:
    """What one instance tells its router; a `deployments.lane.batches.PoolEvents`.

    Attributes:
        link: The way to the instance.
        lane: The lane that is open now.
        queue: The queue that it works for; None while it is not adopted by this process.
    """

    __slots__ = ("_pools", "_unanswered_count", "lane", "link", "queue")

    def __init__(self, pools: InstancePools, link: Link, lane: LaneClient) -> None:
        self._pools = pools
        self.link = link
        self.lane = lane
        self.queue: HeldQueue | None = None
        self._unanswered_count = 0

    def ask(self, adopt: Adopt) -> None:
        """Ask the instance to work for this process."""
        self.link.move(AdoptionEvent.ASK)
        self._unanswered_count += 1
        self.lane.adopt(adopt)

    def let_go(self) -> None:
        """Note that its queue is not held here any more, or is another one."""
        self.queue = None
        if self.link.adoption in OURS:
            self.link.move(AdoptionEvent.LET_GO)

    def adopted(self, message: Adopted) -> None:
        """Take the instance into its queue, unless it was let go since, and perhaps asked anew."""
        self._unanswered_count -= 1
        if not self._unanswered_count and self.link.adoption is AdoptionState.CLAIMED:
            self._pools.adopted(self, message)

    def done(self, message: Done) -> None:
        """Learn that a batch was executed."""
        queue = self.queue
        if queue is not None:
            queue.done(self.link.endpoint.incarnation, message)
            if self.link.adoption is AdoptionState.RETIRED:
                self._pools.part_from(self)

    def granted(self) -> None:
        """Learn that the instance may execute one batch."""
        if self.queue is not None:
            self.queue.granted(self.link.endpoint.incarnation)

    def draining(self) -> None:
        """Have what waits executed before the last instances of a pool end."""
        if self.queue is not None:
            self.queue.draining()

    def bounced(self, inflight: LaneInflight, waited_ns: int) -> None:
        """Send a request by way of the queue."""
        self._pools.bounced(inflight, waited_ns)

    def holder(self, message: Holder) -> None:
        """Learn that somebody, or nobody any more, decides what the instance executes."""
        self._pools.told_of_holder(self, message)
