# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Asks who has a sequence: the queues of nodes, and instances that no queue answers for."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec

from backends.api.errors import TritonError
from deployments.pool_queue.queued_request import NodeQueue
from deployments.routing.pool import Link

_log = logging.getLogger(__name__)

_CorrelationId = int | str
_ASK_TIMEOUT_S: Final = 2.0
# Of refusals that cannot be explained, so many a second at most are told.
_TELL_EACH_S: Final = 1.0


class Answer(NamedTuple):
    """What somebody said of a sequence.

    Attributes:
        links: The instances that it was asked of.
        knowing: Which of them has it; of a queue that has it, the first.
        asked_queue: What the queue of their node said; None where it, or there, is none.
        is_sure: Whether all of them were asked.
    """

    links: list[Link]
    knowing: list[Link]
    asked_queue: bool | None
    is_sure: bool

    def __str__(self) -> str:
        names = ", ".join(
            f"{each.endpoint.name} {each.endpoint.incarnation}" for each in self.links
        )
        who = "instances" if self.asked_queue is None else "queue"
        return f"{who} of [{names}]: {'yes' if self.knowing else 'no'}"


async def search(
    correlation_id: _CorrelationId,
    links: Iterable[Link],
    queue_at: Callable[[Link], NodeQueue | None],
) -> list[Answer]:
    """Ask each queue once, and each instance that no queue answers for.

    Args:
        correlation_id: The sequence.
        links: The instances that may have it.
        queue_at: Returns the queue of an instance's node; None where there is none.
    """
    by_queue: dict[NodeQueue | None, list[Link]] = {}
    for link in links:
        queue = queue_at(link)
        by_queue.setdefault(queue, []).append(link)
        if queue is not None and link.is_on_its_own:
            # Its queue is to adopt it yet: what runs there may have begun before.
            by_queue.setdefault(None, []).append(link)
    return await asyncio.gather(
        *(_knowing(queue, correlation_id, asked) for queue, asked in by_queue.items())
    )


async def _knowing(
    queue: NodeQueue | None, correlation_id: _CorrelationId, links: list[Link]
) -> Answer:
    """Ask a queue, or where there is none, or none that answers, the instances themselves."""
    known = None if queue is None else await queue.knows(correlation_id)
    if known is not None:
        return Answer(links, links[:1] if known else [], known, is_sure=True)
    payload = msgspec.msgpack.encode(correlation_id)
    answers = await asyncio.gather(*(_knows(link, payload) for link in links))
    knowing = [link for link, answer in zip(links, answers, strict=True) if answer]
    return Answer(links, knowing, None, is_sure=all(link.lane is not None for link in links))


async def _knows(link: Link, payload: bytes) -> bool:
    if link.lane is None:
        return False
    try:
        answer = await link.lane.call("knows_sequence", payload, _ASK_TIMEOUT_S)
        return msgspec.msgpack.decode(answer, type=bool)
    except TritonError:
        return False
    except msgspec.MsgspecError as error:
        _log.warning("instance '%s', asked for a sequence: %s", link.endpoint.name, error)
        return False


class Refusals:
    """Tells in the log of requests that were refused where their sequences should be.

    Args:
        clock_s: Seconds of a clock.
    """

    __slots__ = ("_clock_s", "_told_s")

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._told_s = float("-inf")

    def tell(
        self, model_name: str, correlation_id: _CorrelationId, sent_to: str, answers: list[Answer]
    ) -> None:
        """Tell where a request went, and who said what when it was asked for last."""
        now_s = self._clock_s()
        if now_s - self._told_s < _TELL_EACH_S:
            return
        self._told_s = now_s
        said = "; ".join(map(str, answers)) or "nobody was asked"
        _log.info(
            "model '%s' refused a request of sequence %s at %s; %s",
            model_name,
            correlation_id,
            sent_to,
            said,
        )
