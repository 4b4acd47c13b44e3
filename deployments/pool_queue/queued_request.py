# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The queue of a pool as a router uses it, in whichever process it is held."""

from typing import Protocol

from deployments.pool_queue.messages import Load
from deployments.pool_queue.own_request import OwnRequest


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
