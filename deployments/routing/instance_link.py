# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One instance as the pools of its router know it."""

from typing import Protocol

from deployments.lane.batches import Adopted, Done, Holder
from deployments.lane.client import LaneClient
from deployments.lane.inflight import LaneInflight
from deployments.pool_queue.held_queue import HeldQueue
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
        is_asked: Whether it was asked to be adopted and has not answered.
        is_parted: Whether it has left the table, and had nothing left to do for its queue.
    """

    __slots__ = ("_pools", "is_asked", "is_parted", "lane", "link", "queue")

    def __init__(self, pools: InstancePools, link: Link, lane: LaneClient) -> None:
        self._pools = pools
        self.link = link
        self.lane = lane
        self.queue: HeldQueue | None = None
        self.is_asked = False
        self.is_parted = False

    def adopted(self, message: Adopted) -> None:
        """Take the instance into its queue."""
        self._pools.adopted(self, message)

    def done(self, message: Done) -> None:
        """Learn that a batch was executed."""
        queue = self.queue
        if queue is not None:
            queue.done(self.link.endpoint.incarnation, message)
            if self.link.closed:
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
