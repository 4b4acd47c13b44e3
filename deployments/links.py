# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ways from a router to the instances of a model version."""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deployments.lane.client import LaneClient, LaneInflight
from deployments.routing import InstanceEndpoint

if TYPE_CHECKING:
    from deployments.ordered_sink import Order
    from deployments.sequence_routes import SequenceRoutes


class Link:
    """The way to one incarnation of one instance."""

    __slots__ = ("closed", "endpoint", "is_local", "lane", "pool", "task")

    def __init__(self, endpoint: InstanceEndpoint, pool: "Pool", *, is_local: bool) -> None:
        self.endpoint = endpoint
        self.pool = pool
        self.is_local = is_local
        self.lane: LaneClient | None = None
        self.task: asyncio.Task[None] | None = None
        self.closed = False


@dataclass(slots=True)
class Pool:
    """The instances of one model version, and the requests that wait for a first lane.

    Attributes:
        sequences: Where its sequences run; None when the model has none.
        order: The order of its responses; None when any will do.
    """

    links: list[Link] = field(default_factory=list)
    lanes: list[LaneClient] = field(default_factory=list)
    waiting: list[LaneInflight] = field(default_factory=list)
    sequences: "SequenceRoutes | None" = None
    order: "Order | None" = None
    next_index: int = 0
    # Of a router that opens lanes on demand: instances without a lane, until the first request.
    unopened: list[InstanceEndpoint] = field(default_factory=list)
    is_used: bool = False
    # Whether this process is among the instances.
    has_own: bool = False

    def choose(self, avoid: LaneClient | None = None) -> LaneClient | None:
        """Return the open lane with the fewest requests outstanding, or None."""
        lanes = self.lanes
        if len(lanes) == 1:
            only = lanes[0]
            return None if only is avoid or only.draining else only
        best: LaneClient | None = None
        count = len(lanes)
        # Starting one further each time spreads equal instances evenly.
        self.next_index = start = (self.next_index + 1) % count if count else 0
        for offset in range(count):
            lane = lanes[(start + offset) % count]
            if lane is avoid or lane.draining:
                continue
            if best is None or lane.outstanding < best.outstanding:
                best = lane
        return best
