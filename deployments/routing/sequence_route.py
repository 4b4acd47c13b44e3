# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a router knows of one sequence."""

import hashlib
from collections.abc import Iterable

from backends.api.errors import TritonError
from deployments.pool_queue.own_request import OwnRequest
from deployments.routing.pool import Link


class Route:
    """Where one sequence runs, or the requests that wait to know.

    Args:
        link: The instance that has it, or any instance of the node whose queue has it; None while
            that is asked for.
        is_queued: Whether the queue of the node has it, whichever instance that chose.

    Attributes:
        link: As above.
        is_queued: As above.
        used_s: When a request last took it.
        waiting: Requests that wait while it is looked for, or while its first request is taken
            back; and what each was refused with where it was thought to be.
        restarting: That first request.
    """

    __slots__ = ("is_queued", "link", "restarting", "used_s", "waiting")

    def __init__(self, link: Link | None = None, *, is_queued: bool = False) -> None:
        self.link = link
        self.is_queued = is_queued
        self.used_s = 0.0
        self.waiting: list[tuple[OwnRequest, TritonError | None]] | None = None
        self.restarting: OwnRequest | None = None


def choose(correlation_id: int | str, links: Iterable[Link]) -> Link:
    """Return the instance of a new sequence: the same for every router with the same instances."""
    key = f"{type(correlation_id).__name__}:{correlation_id}\0"

    def weight(link: Link) -> bytes:
        return hashlib.blake2b((key + link.endpoint.name).encode(), digest_size=8).digest()

    return max(links, key=weight)
