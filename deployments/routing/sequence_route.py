# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a router knows of one sequence, and what becomes of requests whose sequence is not found."""

import hashlib
from collections.abc import Iterable

from backends.api.errors import RequestCancelledError, TritonError
from deployments.lane.client import LaneInflight
from deployments.routing.pool import Link
from deployments.routing.routed_request import RoutedRequest
from deployments.routing.sequence_search import Answer


class Route:
    """One sequence: the instance that has it, or the requests that wait to know.

    Attributes:
        generation: The state of the pool it is known for.
        link: The instance.
        is_home: Whether the sequence would start there now, or over nodes goes on there.
        is_queued: Whether the queue of the link's node has it, whichever instance that chose.
        is_remembered: Whether it may have become wrong, as nobody was asked just now.
        used_s: When a request last took it.
        awaits_queue: Whether it was asked for, and requests then found no queue there.
        waiting: Requests that wait while instances are asked, or while the first request is taken
            back, and whether they need this node.
        restarting: That first request.
        answers: What those said who were asked for it last.
    """

    __slots__ = (
        "answers", "awaits_queue", "generation", "is_home", "is_queued", "is_remembered", "link",
        "restarting", "used_s", "waiting",
    )  # fmt: skip

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.link: Link | None = None
        self.is_home = True
        self.is_queued = False
        self.is_remembered = True
        self.used_s = 0.0
        self.awaits_queue = False
        self.waiting: list[tuple[LaneInflight, bool]] | None = None
        self.restarting: LaneInflight | None = None
        self.answers: list[Answer] = []


def is_queued_at(previous: Route | None, link: Link | None) -> bool:
    """Whether a sequence that nobody knows is its queue's to refuse."""
    if previous is not None and previous.link is link:
        return previous.is_queued
    return link is not None and not link.is_on_its_own


def end_doubt(inflight: RoutedRequest, error: TritonError) -> None:
    """Send a request again that an instance may know the sequence of; else its refusal stands."""
    if inflight.cancelled:
        inflight.sink.fail(RequestCancelledError(""))
    elif inflight.is_doubted:
        inflight.send_again()
    else:
        inflight.sink.fail(error)


def choose(correlation_id: int | str, links: Iterable[Link]) -> Link:
    """Return the instance of a new sequence: the same for every router with the same instances."""
    key = f"{type(correlation_id).__name__}:{correlation_id}\0"

    def weight(link: Link) -> bytes:
        return hashlib.blake2b((key + link.endpoint.name).encode(), digest_size=8).digest()

    return max(links, key=weight)
