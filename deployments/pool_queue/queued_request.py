# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the queue of a pool asks of what waits in it, and what a router asks of such a queue."""

from collections.abc import Sequence
from typing import Protocol

from backends.api.errors import TritonError
from deployments.lane.batches import BatchPart
from deployments.pool_queue.messages import Grant, Load
from deployments.pool_queue.own_request import OwnRequest
from deployments.scheduling.scheduler import SequencedItem


class Party(Protocol):
    """Whoever has the requests behind tickets: this process, or a router with a lane of tickets."""

    def grant(self, grant: Grant, tickets: "Sequence[QueuedTicket]") -> None:
        """Have these requests sent to an instance as a part of a batch."""


class QueuedTicket(SequencedItem, Protocol):
    """What waits in a queue.

    Attributes:
        party: Who has the request; None for this process.
        number: The ticket's number at that party.
        avoid: Incarnation of an instance that is not to get it; empty for none.
        is_kept: Whether an instance that has begun it keeps it, to execute it once more.
    """

    number: int
    avoid: str
    is_kept: bool

    @property
    def party(self) -> Party | None: ...  # noqa: D102

    def fail(self, error: TritonError) -> None:
        """Take the error that ends the request while it waits."""


class NodeQueue(Protocol):
    """The queue of one model version on one node, as a router uses it.

    Attributes:
        load: How much waits there, as far as it is known here.
        load_s: When that was known, in seconds of the loop's clock; infinite for the queue that is
            held in this process, whose load is always true.
    """

    @property
    def load(self) -> Load: ...  # noqa: D102
    @property
    def load_s(self) -> float: ...  # noqa: D102

    def start(self, request: OwnRequest) -> None:
        """Let a request wait for an instance; never raises: what ends it reaches the request."""

    def cancelled(self, request: OwnRequest) -> None:
        """End a request that waits here and has been cancelled."""

    async def knows(self, correlation_id: int | str) -> bool | None:
        """Whether a sequence goes on there, in a slot or in the backlog; None: nobody says."""


class PartSender(Protocol):
    """Sends parts of batches to instances: what a router gives its queues."""

    def send_part(
        self, instance: str, part: BatchPart, requests: Sequence[OwnRequest]
    ) -> list[OwnRequest]:
        """Send requests to an instance as a part of a batch.

        Args:
            instance: Its incarnation.
            part: What is said of the part.
            requests: Its requests.

        Returns:
            Those that could not be sent because no lane to the instance is open: all or none.
        """
