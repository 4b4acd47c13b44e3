# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests in the order they are served: by priority level, first in, first out within a level.

A level has one rank, or two when its policy delays: requests that waited their timeout move behind
every other request of their level, to its second rank, and never expire again. Where the policy
rejects, they leave the queue. A config may have any number of levels up to 2^64 - 1, so a level is
made by the first request that asks for it.

Triton: core/src/scheduler_utils.cc PriorityQueue @73aad7c
"""

from bisect import insort
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Generic

from backends.api.errors import Phase, RequestCancelledError, TritonError, UnavailableError
from backends.api.model_config import DynamicBatching, QueuePolicy
from backends.api.request import id_prefix
from deployments.scheduling.scheduler import Item

NEVER = 1 << 63
_NS_PER_US = 1000
# More ranks than this are looked through for levels that have become empty.
_MAX_RANKS = 64
# The whole queue is looked through at most once in so much time for each request in it, which is
# some ten times what that takes.
_SWEEP_NS = 3_000
_EXPIRED = "Request timeout expired"


@dataclass(frozen=True, slots=True)
class QueueRules:
    """How requests queue.

    Attributes:
        default_policy: The policy of each level that has none of its own.
        level_count: Levels are 1, the highest priority, to this one.
        own_policies: Policies by level.
        default_level: Level of requests that ask for none, or for one there is not.
        ageing_us: For each time it has waited this long, a request counts as one level higher, so
            that low levels cannot starve; 0 keeps the levels strict.
    """

    default_policy: QueuePolicy = QueuePolicy()
    level_count: int = 1
    own_policies: Mapping[int, QueuePolicy] = field(default_factory=dict)
    default_level: int = 1
    ageing_us: int = 0

    def level_of(self, priority: int) -> int:
        """Return the level of a request that asks for this priority."""
        return priority if 0 < priority <= self.level_count else self.default_level

    def policy_of(self, level: int) -> QueuePolicy:
        """Return a level's policy."""
        return self.own_policies.get(level, self.default_policy)


def rules_of(batching: DynamicBatching, ageing_us: int = 0) -> QueueRules:
    """Return the rules of a dynamic batcher's config."""
    return QueueRules(
        batching.default_queue_policy,
        max(1, batching.priority_levels),
        # Without levels Triton has no use for policies of levels.
        batching.priority_queue_policy if batching.priority_levels else {},
        max(1, batching.default_priority_level),
        ageing_us,
    )


class Level(Generic[Item]):
    """One priority level: its policy and how many of its requests are queued."""

    __slots__ = ("count", "delays", "index", "max_count", "may_override", "timeout_ns")

    def __init__(self, policy: QueuePolicy, index: int) -> None:
        self.index = index
        self.count = 0
        self.max_count = policy.max_queue_size
        self.timeout_ns = policy.default_timeout_us * _NS_PER_US
        self.may_override = policy.allow_timeout_override
        self.delays = policy.timeout_action == "DELAY"

    def expires_ns(self, item: Item) -> int:
        """Return when an item has waited its timeout."""
        timeout_ns = self.timeout_ns
        if not timeout_ns:
            # An override counts only when it is shorter than the default: none without a default.
            return NEVER
        if self.may_override and 0 < item.timeout_us * _NS_PER_US < timeout_ns:
            timeout_ns = item.timeout_us * _NS_PER_US
        return item.enqueue_ns + timeout_ns


class Rank(Generic[Item]):
    """A level's requests, or those of them that were delayed; a lower index is served first."""

    __slots__ = ("behind", "index", "items", "level")

    def __init__(self, level: Level[Item], index: int, behind: "Rank[Item] | None") -> None:
        self.level = level
        self.index = index
        # Where requests go that have waited their timeout; None when they do not wait on.
        self.behind = behind
        self.items: deque[Item] = deque()

    def expires_ns(self, item: Item) -> int:
        """Return when an item of this rank has waited its timeout."""
        if self.level.delays and self.behind is None:
            return NEVER
        return self.level.expires_ns(item)


_INDEX = attrgetter("index")


class PriorityQueue(Generic[Item]):
    """The levels' queues.

    Args:
        rules: Levels and their policies.

    Attributes:
        dropped: Requests that left with an error; whoever looks at them empties the list.
        count: Requests admitted that have neither been taken nor dropped.
        deadline_ns: `expire` has nothing to do before; NEVER when none waits for a timeout.
    """

    __slots__ = (
        "_ageing_ns",
        "_default_rank",
        "_first_ranks",
        "_has_levels",
        "_is_plain",
        "_max_ranks",
        "_ranks",
        "_rules",
        "_sweep_ns",
        "count",
        "deadline_ns",
        "dropped",
    )

    def __init__(self, rules: QueueRules) -> None:
        self._rules = rules
        self._ranks: list[Rank[Item]] = []
        self._first_ranks: dict[int, Rank[Item]] = {}
        self._max_ranks = _MAX_RANKS
        self._default_rank = self._make_level(rules.default_level)
        self._has_levels = rules.level_count > 1
        # One rank without a timeout, as most models have it, needs no search.
        is_timed = len(self._ranks) > 1 or self._default_rank.level.timeout_ns > 0
        self._is_plain = not self._has_levels and not is_timed
        # Only between levels: within one the order is that of arrival already.
        self._ageing_ns = rules.ageing_us * _NS_PER_US if self._has_levels else 0
        self.dropped: list[tuple[Item, TritonError]] = []
        self.count = 0
        self.deadline_ns = NEVER
        # When the whole queue may be looked through again.
        self._sweep_ns = -NEVER

    @property
    def is_ageing(self) -> bool:
        """Whether the order changes while requests wait."""
        return self._ageing_ns > 0

    def admit(self, item: Item) -> Rank[Item]:
        """Queue an item and return its rank.

        Raises:
            UnavailableError: The item's level holds its ``max_queue_size`` of requests.
        """
        rank = self._default_rank
        if self._has_levels:
            number = self._rules.level_of(item.priority)
            rank = self._first_ranks.get(number) or self._make_level(number)
        level = rank.level
        if level.max_count and level.count >= level.max_count:
            raise self.full_error(item)
        level.count += 1
        self.count += 1
        rank.items.append(item)
        if level.timeout_ns and not level.delays:
            self.deadline_ns = min(self.deadline_ns, level.expires_ns(item))
        return rank

    def level_of(self, item: Item) -> int:
        """Return the number of an item's level."""
        rules = self._rules
        return rules.level_of(item.priority) if self._has_levels else rules.default_level

    def count_of(self, level: int) -> int:
        """Return how many requests of a level are queued."""
        rank = self._first_ranks.get(level)
        return 0 if rank is None else rank.level.count

    def any_weight(self) -> float:
        """Return the weight of one of the requests; 1.0 when there is none."""
        return next((rank.items[0].weight for rank in self._ranks if rank.items), 1.0)

    def full_error(self, item: Item) -> TritonError:
        """Return the error of a request for which there is no room."""
        text = id_prefix(item.request_id) + "Exceeds maximum queue size"
        return UnavailableError(text, Phase.ENQUEUE)

    def displace(self, level: int) -> None:
        """Drop the newest request of a level, for one of another tenant."""
        rank = self._first_ranks[level]
        if not rank.items and rank.behind is not None:
            rank = rank.behind
        item = rank.items.pop()
        self._drop(rank, item, self.full_error(item))

    def taken(self, ranks: list[Rank[Item]]) -> None:
        """Learn that requests that have left these ranks, once for each, are served."""
        for rank in ranks:
            rank.level.count -= 1
        self.count -= len(ranks)

    def head(self, now_ns: int) -> Rank[Item] | None:
        """Return the rank whose first request is served next, after policies were applied."""
        if self._is_plain:
            rank = self._default_rank
            items = rank.items
            if items and not items[0].is_cancelled:
                return rank
        best: Rank[Item] | None = None
        least = 0
        for rank in self._ranks:
            if not rank.items or not self._settle(rank, now_ns):
                continue
            if not self._ageing_ns:
                return rank
            waited_ns = now_ns - rank.items[0].enqueue_ns
            urgency = rank.level.index - waited_ns // self._ageing_ns
            if best is None or urgency < least:
                best, least = rank, urgency
        return best

    def expire(self, now_ns: int) -> None:
        """Drop requests that have to be rejected by now, or are cancelled.

        The oldest of each rank are always looked at: without timeouts of their own they are all
        that expire. The whole queue is looked through now and then, the less often the longer it
        is, and `deadline_ns` says when that is next.
        """
        if now_ns >= self._sweep_ns:
            self._sweep(now_ns)
            self._sweep_ns = now_ns + self.count * _SWEEP_NS
            return
        deadline_ns = self._sweep_ns if self.count else NEVER
        for rank in self._ranks:
            if rank.items and not rank.level.delays and self._settle(rank, now_ns):
                deadline_ns = min(deadline_ns, rank.expires_ns(rank.items[0]))
        self.deadline_ns = deadline_ns

    def _sweep(self, now_ns: int) -> None:
        deadline_ns = NEVER
        for rank in self._ranks:
            items = list(rank.items)
            rank.items.clear()
            for item in items:
                expires_ns = NEVER if rank.level.delays else rank.expires_ns(item)
                if item.is_cancelled:
                    self._drop(rank, item, RequestCancelledError())
                elif expires_ns <= now_ns:
                    self._drop(rank, item, UnavailableError(_EXPIRED))
                else:
                    rank.items.append(item)
                    deadline_ns = min(deadline_ns, expires_ns)
        self.deadline_ns = deadline_ns

    def clear(self) -> list[Item]:
        """Give up everything, in the order it would be served."""
        items = [item for item, _ in self.dropped]
        self.dropped = []
        for rank in self._ranks:
            items.extend(rank.items)
            rank.items.clear()
            rank.level.count = 0
        self.count = 0
        return items

    def _make_level(self, number: int) -> Rank[Item]:
        if len(self._ranks) > self._max_ranks:
            self._forget_empty_levels()
        level: Level[Item] = Level(self._rules.policy_of(number), number)
        behind: Rank[Item] | None = None
        if level.delays:
            behind = Rank(level, 2 * number + 1, None)
            insort(self._ranks, behind, key=_INDEX)
        rank = self._first_ranks[number] = Rank(level, 2 * number, behind)
        insort(self._ranks, rank, key=_INDEX)
        return rank

    def _forget_empty_levels(self) -> None:
        default = self._default_rank.level
        self._ranks = [each for each in self._ranks if each.level.count or each.level is default]
        self._first_ranks = {each.level.index: each for each in self._ranks if not each.index % 2}
        # Looked through again once it has doubled, so that a request costs little on average.
        self._max_ranks = max(_MAX_RANKS, 2 * len(self._ranks))

    def _settle(self, rank: Rank[Item], now_ns: int) -> bool:
        """Apply the policy at a rank's head; False when nothing is left of the rank."""
        items = rank.items
        while items:
            item = items[0]
            if item.is_cancelled:
                self._drop(rank, items.popleft(), RequestCancelledError())
            elif rank.expires_ns(item) > now_ns:
                return True
            elif rank.behind is not None:
                rank.behind.items.append(items.popleft())
            else:
                self._drop(rank, items.popleft(), UnavailableError(_EXPIRED))
        return False

    def _drop(self, rank: Rank[Item], item: Item, error: TritonError) -> None:
        rank.level.count -= 1
        self.count -= 1
        self.dropped.append((item, error))
