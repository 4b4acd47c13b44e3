# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests in the order they are served: by priority level, first in, first out within a level.

A level has one rank, or two when its policy delays: requests that waited their timeout move behind
every other request of their level, to its second rank, and never expire again. Where the policy
rejects, they leave the queue.

Triton: core/src/scheduler_utils.cc PriorityQueue @73aad7c
"""

from collections import deque
from dataclasses import dataclass
from typing import Generic

from backends.api.errors import RequestCancelledError, TritonError, UnavailableError
from backends.api.model_config import DynamicBatching, QueuePolicy
from backends.api.request import id_prefix
from deployments.scheduling.scheduler import Item

NEVER = 1 << 63
_NS_PER_US = 1000
_EXPIRED = "Request timeout expired"


@dataclass(frozen=True, slots=True)
class QueueRules:
    """How requests queue.

    Attributes:
        policies: The policy of each level, the highest priority first.
        default_level: Index of the level of requests that ask for none, or for one there is not.
        ageing_us: For each time it has waited this long, a request counts as one level higher, so
            that low levels cannot starve; 0 keeps the levels strict.
    """

    policies: tuple[QueuePolicy, ...] = (QueuePolicy(),)
    default_level: int = 0
    ageing_us: int = 0


def rules_of(batching: DynamicBatching, ageing_us: int = 0) -> QueueRules:
    """Return the rules of a dynamic batcher's config."""
    default = batching.default_queue_policy
    own = batching.priority_queue_policy
    levels = range(1, batching.priority_levels + 1)
    policies = tuple(own.get(level, default) for level in levels) or (default,)
    return QueueRules(policies, max(0, batching.default_priority_level - 1), ageing_us)


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

    __slots__ = ("index", "is_delayed", "items", "level")

    def __init__(self, level: Level[Item], index: int, *, is_delayed: bool) -> None:
        self.level = level
        self.index = index
        self.is_delayed = is_delayed
        self.items: deque[Item] = deque()

    def expires_ns(self, item: Item) -> int:
        """Return when an item of this rank has waited its timeout."""
        return NEVER if self.is_delayed else self.level.expires_ns(item)


class PriorityQueue(Generic[Item]):
    """The levels' queues.

    Args:
        rules: Levels and their policies.

    Attributes:
        dropped: Requests that left with an error; whoever looks at them empties the list.
        deadline_ns: No request has to be rejected before; NEVER when none waits for a timeout.
    """

    __slots__ = (
        "_ageing_ns",
        "_default_rank",
        "_first_ranks",
        "_has_levels",
        "_is_plain",
        "_ranks",
        "deadline_ns",
        "dropped",
    )

    def __init__(self, rules: QueueRules) -> None:
        self._ranks: list[Rank[Item]] = []
        self._first_ranks: list[Rank[Item]] = []
        for index, policy in enumerate(rules.policies):
            level: Level[Item] = Level(policy, index)
            self._first_ranks.append(Rank(level, len(self._ranks), is_delayed=False))
            self._ranks.append(self._first_ranks[-1])
            if level.delays:
                self._ranks.append(Rank(level, len(self._ranks), is_delayed=True))
        self._default_rank = self._first_ranks[rules.default_level]
        self._has_levels = len(rules.policies) > 1
        # One rank without a timeout, as most models have it, needs no search.
        self._is_plain = len(self._ranks) == 1 and not self._default_rank.level.timeout_ns
        # Only between levels: within one the order is that of arrival already.
        self._ageing_ns = rules.ageing_us * _NS_PER_US if self._has_levels else 0
        self.dropped: list[tuple[Item, TritonError]] = []
        self.deadline_ns = NEVER

    def __len__(self) -> int:
        return sum(len(rank.items) for rank in self._ranks)

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
        if self._has_levels and 0 < item.priority <= len(self._first_ranks):
            rank = self._first_ranks[item.priority - 1]
        level = rank.level
        if level.max_count and level.count >= level.max_count:
            raise UnavailableError(id_prefix(item.request_id) + "Exceeds maximum queue size")
        level.count += 1
        rank.items.append(item)
        if level.timeout_ns and not level.delays:
            self.deadline_ns = min(self.deadline_ns, level.expires_ns(item))
        return rank

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
        """Drop all requests that are cancelled or have to be rejected by now."""
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
        return items

    def _settle(self, rank: Rank[Item], now_ns: int) -> bool:
        """Apply the policy at a rank's head; False when nothing is left of the rank."""
        items = rank.items
        while items:
            item = items[0]
            if item.is_cancelled:
                self._drop(rank, items.popleft(), RequestCancelledError())
            elif rank.expires_ns(item) > now_ns:
                return True
            elif rank.level.delays:
                self._ranks[rank.index + 1].items.append(items.popleft())
            else:
                self._drop(rank, items.popleft(), UnavailableError(_EXPIRED))
        return False

    def _drop(self, rank: Rank[Item], item: Item, error: TritonError) -> None:
        rank.level.count -= 1
        self.dropped.append((item, error))
