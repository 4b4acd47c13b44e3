# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which node of a model gets a request, and what is taken back from a node that is slower.

A request goes to the own node while that has a free instance, and to another one only when the
expected wait that is saved is worth the longer way. When a request has to wait, its router asks
some nodes to tell when they have a free instance. The first that has one gets the request: it sends
a lease, which `for_lease` finds a request for, or its load, upon which `take_back` moves one. So a
request is bound late also between nodes. While leases can be had, a request that has to wait does
so at the own node, unless the wait there is very long: a node that was said to be free may not be
when the request comes, and there it would wait as one that came late. When nothing waits any more
the nodes that were asked hear of it, as an instance idles while a lease comes and goes unused.

What is known of other nodes is old when it is used, and all routers know the same. So that they do
not all go to the same node, a node tells as many routers as it has free instances, what a router
has sent since it heard counts, nodes that are nearly equal are chosen from at random, and of many
nodes a few are compared. A node for which a request is taken back has to be better by more than the
way there and back, so that nothing goes to and fro.

Pure: the clock and the source of random numbers are passed in. ``views`` are all nodes that have
instances of the model, the own one first if it has any; ``now_ns`` is now.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final, NamedTuple

from deployments.routing.node_view import NodeView, expected_wait_ns

# Expected waits that differ by less than this many executions of one instance are equal.
_NEARLY_EQUAL: Final = 0.25
# So many nodes are compared with the own one.
COMPARED: Final = 4
# So many questions are open for each request that waits, and are asked at a time: more of them find
# a free instance sooner, but then several nodes keep one free for the same request.
_QUESTIONS: Final = 3
# What would wait for so many executions goes to another node though leases can be had.
_LONG_WAIT: Final = 3.0
# It saves at least this part of the wait: where all nodes are full, what was said of others is no
# more than noise, and what is sent around keeps instances waiting for it.
_SAVED: Final = 0.5
# Requests are taken back from a node that is slower by this factor, though no node is idle.
_FAR_SLOWER: Final = 3.0


class Move(NamedTuple):
    """Requests to be taken back from one node for another one, the oldest first.

    Attributes:
        source: Where they wait.
        target: Where they are to wait.
        request_count: How many.
    """

    source: NodeView
    target: NodeView
    request_count: int


def choose(views: Sequence[NodeView], now_ns: int, random: Random) -> NodeView:
    """Return the node of the next request; the caller counts it there with `NodeView.sent`.

    Args:
        views: At least one.
        now_ns: Now.
        random: Chooses among nodes that are nearly equal.
    """
    first = views[0]
    if len(views) == 1:
        return first
    own = first if first.is_own else None
    if own is not None and (own.free_count() > 0 or own.is_unheard):
        return own
    best = _best_other(views, now_ns, random)
    if best is None:
        return own or first
    if own is None or best.probed_ns == now_ns:
        return best
    own_ns = expected_wait_ns(own, now_ns)
    least_ns = best.margin_ns
    if _gives_leases(own) and _gives_leases(best):
        if own_ns < _LONG_WAIT * own.current_load.execution_ns:
            return own
        least_ns = max(least_ns, own_ns * _SAVED)
    return best if own_ns - expected_wait_ns(best, now_ns) > least_ns else own


def choose_for_sequence(views: Sequence[NodeView], now_ns: int, random: Random) -> NodeView:
    """Return the node of a new sequence: the one with the most free slots; of equals the own one.

    When none has a free slot it is the one with the shortest expected wait. There is at least one.
    """
    best: NodeView | None = None
    most = equals = 0
    for view in views:
        count = view.free_slot_count() if view.is_trusted(now_ns) else 0
        if count > most:
            best, most, equals = view, count, 1
        elif count and count == most and best is not None and not best.is_own:
            equals += 1
            if random.random() * equals < 1:
                best = view
    return choose(views, now_ns, random) if best is None else best


def full_for_sequences(views: Sequence[NodeView], now_ns: int) -> tuple[list[NodeView], int]:
    """Return where new sequences wait in vain, and how many of them may begin at other nodes.

    A node that was chosen for the slots that it had may have none when the request comes, and one
    that has some may have come later.
    """
    heard = [view for view in views if view.is_trusted(now_ns) and not view.is_single]
    full = [each for each in heard if each.waiting_count and not each.current_load.free_slot_count]
    return full, sum(max(0, view.free_slot_count()) for view in heard) if full else 0


def take_back(views: Sequence[NodeView], now_ns: int) -> list[Move]:
    """Return which of this router's waiting requests are to wait at another node.

    To be asked when a node has said something, and now and then while requests wait. The caller
    counts the requests with `NodeView.promised`, withdraws them, and counts them with
    `NodeView.sent` when they are back and sent again. Mostly there are none.
    """
    sources = [view for view in views if view.waiting_count > 0 and not view.is_single]
    if not sources:
        return []
    waits = [(expected_wait_ns(view, now_ns), view) for view in views if view.is_trusted(now_ns)]
    waits.sort(key=lambda item: item[0])
    room = {view: max(0, view.free_count()) for _, view in waits}
    moves: list[Move] = []
    for source in sources:
        moves += _moves(source, waits, room, now_ns)
    return moves


def for_lease(views: Sequence[NodeView], lessor: NodeView, now_ns: int) -> NodeView | None:
    """Return where the oldest request of this router is to be withdrawn to use a lease.

    That is where its requests wait longest. None: the lease is given back to ``lessor``.
    """
    waiting = [each for each in views if each.waiting_count > 0 and not each.is_single]
    waiting = [each for each in waiting if each is not lessor]
    return max(waiting, key=lambda view: expected_wait_ns(view, now_ns), default=None)


def to_ask(views: Sequence[NodeView], now_ns: int, random: Random) -> list[NodeView]:
    """Return the nodes to be asked to tell when they have a free instance.

    To be called when a request of this router has to wait. They are a few for each request that
    waits, chosen at random, and none that are not worth the way.
    """
    sources: list[NodeView] = []
    due: list[NodeView] = []
    room = 0
    for view in views:
        if view.waiting_count > 0 and not view.is_single:
            sources.append(view)
            room += _QUESTIONS * view.waiting_count
        if not view.is_own and view.is_question_due(now_ns):
            due.append(view)
        elif view.asked_ns is not None:
            room -= 1
    if not due or room <= 0:
        return []
    wait_ns = max(expected_wait_ns(view, now_ns) for view in sources)
    start = int(random.random() * len(due))
    worth = [view for view in due[start:] + due[:start] if view.network_ns < wait_ns]
    asked = worth[: min(room, _QUESTIONS)]
    for view in asked:
        view.asked_ns = now_ns
    return asked


def asked_in_vain(views: Sequence[NodeView]) -> list[NodeView]:
    """Return the nodes to be told that no request waits for a lease of theirs any more.

    To be called when none waits. A node that would tell its load loses nothing by it.
    """
    asked = [view for view in views if view.asked_ns is not None and _gives_leases(view)]
    for view in asked:
        view.asked_ns = None
    return asked


def _best_other(views: Sequence[NodeView], now_ns: int, random: Random) -> NodeView | None:
    """Return the best of some of the other nodes, or one that is to be probed."""
    count = len(views)
    start = int(random.random() * count)
    best: NodeView | None = None
    least_ns = equal_ns = 0.0
    compared = equals = 0
    for offset in range(count):
        view = views[(start + offset) % count]
        if view.is_own:
            continue
        if not view.is_trusted(now_ns):
            if not view.is_probe_due(now_ns):
                continue
            view.probed_ns = now_ns
            return view
        wait_ns = expected_wait_ns(view, now_ns)
        if best is None or wait_ns < least_ns - equal_ns:
            best, least_ns, equals = view, wait_ns, 1
            equal_ns = view.request_cost_ns() * _NEARLY_EQUAL
        elif wait_ns <= least_ns + equal_ns:
            equals += 1
            if random.random() * equals < 1:
                best = view
        compared += 1
        if compared == COMPARED:
            break
    return best


def _gives_leases(view: NodeView) -> bool:
    return not (view.is_single or view.current_load.is_shared)


def _moves(
    source: NodeView, waits: list[tuple[float, NodeView]], room: dict[NodeView, int], now_ns: int
) -> Iterator[Move]:
    """Return which of a router's requests at one node are better off at other nodes.

    Args:
        source: The node.
        waits: The nodes that are trusted, with their expected waits, the shortest first.
        room: Their free instances for which no request is taken back yet.
        now_ns: Now.
    """
    left = source.waiting_count
    is_silent = source.is_silent(now_ns)
    # The way back from the first node comes on top.
    source_ns = expected_wait_ns(source, now_ns) - source.network_ns / 2
    for target_ns, target in waits:
        if target is source:
            continue
        if is_silent:
            yield Move(source, target, left)
            return
        saved_ns = source_ns - target_ns - _least_saved_ns(source, target, is_idle=room[target] > 0)
        if saved_ns <= 0:
            continue
        if not room[target]:
            # It is the fastest of those that are not idle; what went to idle ones is enough.
            if left == source.waiting_count and source_ns > target_ns * _FAR_SLOWER:
                count = min(left, _share(source, target, saved_ns))
                if count:
                    yield Move(source, target, count)
            return
        count = min(left, room[target])
        room[target] -= count
        left -= count
        yield Move(source, target, count)
        if not left:
            return


def _least_saved_ns(source: NodeView, target: NodeView, *, is_idle: bool) -> float:
    """Return how much a request that is taken back has to save.

    Nothing waits at an idle node, however long its executions take: only what is known of the
    source may be wrong. Of an idle own node no way is wasted, either.
    """
    if is_idle and target.is_own:
        return target.travel_margin_ns
    if is_idle:
        return min(target.margin_ns, target.travel_margin_ns + source.uncertain_ns)
    return target.margin_ns


def _share(source: NodeView, target: NodeView, saved_ns: float) -> int:
    """Return how many requests one of several routers moves from a node to one far faster."""
    # Half of what would make both equal, and of that as much as this router has there.
    both_ns = source.request_cost_ns() + target.request_cost_ns()
    share = min(1.0, source.waiting_count / max(1, source.current_load.waiting_count))
    return int(saved_ns / both_ns / 2 * share)
