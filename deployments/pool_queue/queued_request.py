# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the queue of a pool asks of what waits in it, and what a router asks of such a queue."""

from collections.abc import Sequence
from typing import Protocol

from backends.api.errors import TritonError
from deployments.lane.batches import BatchPart
from deployments.lane.inflight import Carrier, LaneInflight
from deployments.pool_queue.messages import Grant, Load
from deployments.scheduling.scheduler import SequencedItem


class Party(Protocol):
    """Whoever has the requests behind tickets: this process, or a router with a lane of tickets."""

    def grant(self, grant: Grant, tickets: "Sequence[QueuedTicket]") -> None:
        """Have these requests sent to an instance as a part of a batch."""


class QueuedTicket(SequencedItem, Protocol):
    """What waits in a queue.

    Attributes:
        party: Who has the request.
        number: The ticket's number at that party.
        avoid: Incarnation of an instance that is not to get it; empty for none.
    """

    party: Party
    number: int
    avoid: str

    def fail(self, error: TritonError) -> None:
        """Take the error that ends the request while it waits."""


class OwnRequest(QueuedTicket, Protocol):
    """A request that came in here, and its own ticket; a `LaneInflight` besides."""

    @property
    def lane(self) -> Carrier | None:
        """The lane that has it, or the last one that had it."""


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
        """Learn that a request that was started here has been cancelled."""

    def withdraw(self, request: OwnRequest) -> None:
        """Have a request that waits sent elsewhere, unless it is granted meanwhile."""


class PartSender(Protocol):
    """Sends parts of batches to instances: what a router gives its queues."""

    def send_part(
        self, instance: str, part: BatchPart, requests: Sequence[LaneInflight]
    ) -> list[LaneInflight]:
        """Send requests to an instance as a part of a batch.

        Args:
            instance: Its incarnation.
            part: What is said of the part.
            requests: Its requests.

        Returns:
            Those that could not be sent because no lane to the instance is open: all or none.
        """
