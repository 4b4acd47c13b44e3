# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Asks who has a sequence: the queues of nodes, which know their backlog, and the instances."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from backends.api.errors import TritonError
from deployments.routing.pool import Link, NodeQueue

_log = logging.getLogger(__name__)

_CorrelationId = int | str
_ASK_TIMEOUT_S: Final = 2.0


class Said(NamedTuple):
    """What somebody said of a sequence: the queue of these instances, or they themselves."""

    who: str
    links: Sequence[Link]
    is_known: bool | None

    def __str__(self) -> str:
        names = [f"{each.endpoint.name} {each.endpoint.incarnation}" for each in self.links]
        answer = "not sure" if self.is_known is None else "yes" if self.is_known else "no"
        return f"{self.who} of [{', '.join(names)}]: {answer}"


class Answer(NamedTuple):
    """What all said who were asked for a sequence at a time.

    Attributes:
        link: The instance that has it, or one of the node whose queue has it; None where nobody
            has said so.
        is_queued: Whether the queue of that node has it.
        is_sure: Whether all have said so.
        have_all_said: Whether all have said something.
        said: Who said what.
    """

    link: Link | None
    is_queued: bool
    is_sure: bool
    have_all_said: bool
    said: list[Said]


async def search(
    correlation_id: _CorrelationId,
    links: Iterable[Link],
    queue_at: Callable[[Link], NodeQueue | None],
) -> Answer:
    """Ask the queues, and the instances that are on their own; then, if need be, the others.

    An instance knows best, as its queue may not have adopted it yet. But it takes nothing that
    does not come from there, so a queue that is behind is to be asked again.

    ``links`` lead to the instances that may have it; ``queue_at`` finds the queue of one's node.
    """
    by_queue: dict[NodeQueue, list[Link]] = {}
    alone: list[Link] = []
    adopted: list[Link] = []
    have_all_said = True
    for link in links:
        queue = queue_at(link)
        if queue is not None:
            by_queue.setdefault(queue, []).append(link)
        if link.is_on_its_own:
            alone.append(link)
        else:
            adopted.append(link)
            have_all_said &= queue is not None and link.lane is not None
    # Both at once. Not by one `gather` of two kinds, of which mypyc believes that it gives a tuple.
    asked = asyncio.gather(*(queue.knows(correlation_id) for queue in by_queue))
    knowing, have_answered = await _knowing(correlation_id, alone)
    known = await asked
    said = [_said(alone, knowing, have_answered)] if alone else []
    have_all_said &= have_answered
    for there, is_known in zip(by_queue.values(), known, strict=True):
        said.append(Said("queue", there, is_known))
        have_all_said &= is_known is not None
        if is_known:
            return Answer(_best(there), True, True, True, said)
    if knowing:
        return Answer(knowing[0], False, True, True, said)
    knowing, have_answered = await _knowing(correlation_id, adopted)
    said.append(_said(adopted, knowing, have_answered))
    without_queue = [link for link in knowing if queue_at(link) is None]
    found = without_queue[0] if without_queue else None
    return Answer(found, True, have_all_said and not knowing, have_all_said, said)


def _best(links: Sequence[Link]) -> Link:
    """Return the instance of a node by which its queue is remembered: one that stays, if any."""
    return min(links, key=lambda link: link.closed or link.lane is None)


def _said(links: Sequence[Link], knowing: Sequence[Link], have_answered: bool) -> Said:
    return Said("instances", links, bool(knowing) if knowing or have_answered else None)


async def _knowing(
    correlation_id: _CorrelationId, links: Sequence[Link]
) -> tuple[list[Link], bool]:
    """Return the instances that have a sequence, and whether all have said."""
    payload = msgspec.msgpack.encode(correlation_id)
    answers = await asyncio.gather(*(_knows(link, payload) for link in links))
    knowing = [link for link, answer in zip(links, answers, strict=True) if answer]
    return knowing, None not in answers


async def _knows(link: Link, payload: bytes) -> bool | None:
    if link.lane is None:
        return None
    try:
        answer = await link.lane.call("knows_sequence", payload, _ASK_TIMEOUT_S)
        return msgspec.msgpack.decode(answer, type=bool)
    except TritonError:
        return None
    except msgspec.MsgspecError as error:
        _log.warning("instance '%s', asked for a sequence: %s", link.endpoint.name, error)
        return False
