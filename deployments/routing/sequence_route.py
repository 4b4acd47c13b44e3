# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a router knows of one sequence, and which instance of several a new one gets."""

import hashlib
from collections.abc import Iterable

from deployments.routing.pool import Link


class Route:
    """Where one sequence runs.

    Attributes:
        link: The instance that has it, or any instance of the node whose queue has it.
        is_queued: Whether the queue of the node has it, whichever instance that chose.
        used_s: When a request last took it.
    """

    __slots__ = ("is_queued", "link", "used_s")

    def __init__(self, link: Link, *, is_queued: bool) -> None:
        self.link = link
        self.is_queued = is_queued
        self.used_s = 0.0


def choose_by_id(correlation_id: int | str, links: Iterable[Link]) -> Link:
    """Return the instance of a new sequence: the same for every router with the same instances."""
    key = f"{type(correlation_id).__name__}:{correlation_id}\0"

    def weight(link: Link) -> bytes:
        return hashlib.blake2b((key + link.endpoint.name).encode(), digest_size=8).digest()

    return max(links, key=weight)
