# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests of several tenants: which tenant is served next, by weight.

Theory of operation. Each tenant has a `PriorityQueue` of its own: the choice between tenants comes
first, and levels order the requests of one tenant, so that nobody gains over others by asking for
a high level. Between tenants it is start-time fair queueing. A tenant's next request has a *start*
in virtual time: where the tenant's last one finished, or the virtual time now for a tenant that had
nothing queued. The least start is served; virtual time is then that start, and the tenant's next
start is later by the rows of the request over the weight. So tenants that always have something
queued get rows in the proportion of their weights, one that comes is served soon, and one that was
away has saved up nothing.

What the batcher has taken into its forming batch is *popped*; it may be put back, which undoes what
it cost.

Where a level's queue is full, each tenant has a share of it by weight. A tenant within its share
displaces the newest request of the tenant that is furthest above its own.

Goyal, Vin, Cheng: Start-time fair queueing, SIGCOMM 1996.
"""

from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, Generic

from deployments.scheduling.priority_queue import NEVER, PriorityQueue, QueueRules, Rank
from deployments.scheduling.scheduler import Item

# Less than this counts as this: a weight of nothing would never be served again.
LEAST_WEIGHT: Final = 0.001
# More tenants than this are looked through for those that have nothing queued.
_MAX_TENANTS: Final = 64


class TenantQueue(Generic[Item]):
    """What one tenant has queued.

    Attributes:
        queue: Its requests, by level.
        weight: Of its latest request.
        start: Of its next request, in virtual time.
        finish: Of the last one that was served.
        popped_count: Its requests in the forming batch.
        place: Number of its entry in the heap; 0 while it has none.
    """

    __slots__ = ("finish", "place", "popped_count", "queue", "start", "weight")

    def __init__(self, queue: PriorityQueue[Item], weight: float) -> None:
        self.queue = queue
        self.weight = weight
        self.start = 0.0
        self.finish = 0.0
        self.popped_count = 0
        self.place = 0


class FairQueue(PriorityQueue[Item]):
    """The queues of several tenants, in place of the queue of one.

    Args:
        rules: Levels and their policies, for each tenant.
        tenant: Whose requests are queued already.
        queue: Those.
    """

    __slots__ = ("_heap", "_last_place", "_max_tenants", "_popped", "_tenants", "_virtual")

    def __init__(self, rules: QueueRules, tenant: str, queue: PriorityQueue[Item]) -> None:
        super().__init__(rules)
        self._virtual = 0.0
        self._last_place = 0
        self._max_tenants = _MAX_TENANTS
        # Start and place of each tenant with something queued; entries whose place is not their
        # tenant's any more are passed over.
        self._heap: list[tuple[float, int, TenantQueue[Item]]] = []
        # Of what is popped: the tenant, and its start, finish and place before, and virtual time.
        self._popped: list[tuple[TenantQueue[Item], float, float, int, float]] = []
        first = TenantQueue(queue, _weight(queue.any_weight()))
        self._tenants: dict[str, TenantQueue[Item]] = {tenant: first}
        self.count = queue.count
        self.deadline_ns = queue.deadline_ns
        self.dropped, queue.dropped = queue.dropped, []
        self._line_up(first)

    def admit(self, item: Item) -> Rank[Item]:
        """Queue an item and return its rank.

        Raises:
            UnavailableError: The item's level is full, and the tenant has its share of it.
        """
        tenant = self._tenant_of(item)
        tenant.weight = _weight(item.weight)
        level = self.level_of(item)
        limit = self._rules.policy_of(level).max_queue_size
        if limit and self._is_full(level, limit):
            victim = self._displaced(tenant, level, limit)
            if victim is None:
                raise self.full_error(item)
            victim.queue.displace(level)
            self._collect(victim)
            # Whoever was displaced is told at once, though all instances are busy.
            self.deadline_ns = min(self.deadline_ns, item.enqueue_ns)
        rank = tenant.queue.admit(item)
        self.count += 1
        self.deadline_ns = min(self.deadline_ns, tenant.queue.deadline_ns)
        if not tenant.place:
            tenant.start = max(self._virtual, tenant.finish)
            self._line_up(tenant)
        return rank

    def displaces(self, item: Item) -> bool:
        """Whether to admit an item costs another tenant a request, which must not be popped."""
        level = self.level_of(item)
        limit = self._rules.policy_of(level).max_queue_size
        if not limit or not self._is_full(level, limit):
            return False
        return self._displaced(self._tenant_of(item), level, limit) is not None

    def head(self, now_ns: int) -> Rank[Item] | None:
        """Return the rank whose first request is served next, after policies were applied."""
        heap = self._heap
        while heap:
            _, place, tenant = heap[0]
            if place == tenant.place:
                rank = tenant.queue.head(now_ns)
                if tenant.queue.dropped:
                    self._collect(tenant)
                if rank is not None:
                    return rank
                tenant.place = 0
            heappop(heap)
        return None

    def popped(self, item: Item) -> None:
        """Learn that the first request of the rank that `head` returned has left it."""
        heap = self._heap
        _, place, tenant = heap[0]
        start = tenant.start
        self._popped.append((tenant, start, tenant.finish, place, self._virtual))
        self._virtual = max(self._virtual, start)
        tenant.finish = tenant.start = start + item.batch_size / tenant.weight
        tenant.popped_count += 1
        if tenant.queue.count > tenant.popped_count:
            self._last_place = tenant.place = self._last_place + 1
            heapreplace(heap, (tenant.start, tenant.place, tenant))
        else:
            tenant.place = 0
            heappop(heap)

    def put_back(self, count: int) -> None:
        """Learn that all but the first ``count`` popped requests are in their ranks again."""
        changed: dict[TenantQueue[Item], None] = {}
        while len(self._popped) > count:
            tenant, start, finish, place, self._virtual = self._popped.pop()
            tenant.start, tenant.finish, tenant.place = start, finish, place
            tenant.popped_count -= 1
            changed[tenant] = None
        for tenant in changed:
            heappush(self._heap, (tenant.start, tenant.place, tenant))
        if len(self._heap) > self._max_tenants + 2 * len(self._tenants):
            self._heap = [entry for entry in self._heap if entry[1] == entry[2].place]
            heapify(self._heap)

    def taken(self, ranks: list[Rank[Item]]) -> None:
        """Learn that what is popped, from these ranks, is served."""
        for popped in self._popped:
            tenant = popped[0]
            tenant.queue.count -= 1
            tenant.popped_count -= 1
        self._popped.clear()
        super().taken(ranks)
        if len(self._tenants) > self._max_tenants:
            self._forget_idle()

    def expire(self, now_ns: int) -> None:
        """Drop requests that have to be rejected by now, or are cancelled."""
        deadline_ns = NEVER
        for tenant in self._tenants.values():
            queue = tenant.queue
            if queue.count:
                queue.expire(now_ns)
                self._collect(tenant)
                deadline_ns = min(deadline_ns, queue.deadline_ns)
        self.deadline_ns = deadline_ns

    def clear(self) -> list[Item]:
        """Give up everything, in the order it would be served."""
        items: list[Item] = []
        while (rank := self.head(-NEVER)) is not None:
            items.append(rank.items.popleft())
            self.popped(items[-1])
        items = [item for item, _ in self.dropped] + items
        self.dropped = []
        for tenant in self._tenants.values():
            tenant.queue.clear()
        self._tenants.clear()
        self._popped.clear()
        self._heap.clear()
        self.count = 0
        return items

    def _tenant_of(self, item: Item) -> TenantQueue[Item]:
        tenant = self._tenants.get(item.tenant)
        if tenant is None:
            queue: PriorityQueue[Item] = PriorityQueue(self._rules)
            tenant = self._tenants[item.tenant] = TenantQueue(queue, _weight(item.weight))
        return tenant

    def _line_up(self, tenant: TenantQueue[Item]) -> None:
        self._last_place = tenant.place = self._last_place + 1
        heappush(self._heap, (tenant.start, tenant.place, tenant))

    def _is_full(self, level: int, limit: int) -> bool:
        if self.count < limit:
            return False
        return sum(each.queue.count_of(level) for each in self._tenants.values()) >= limit

    def _displaced(
        self, tenant: TenantQueue[Item], level: int, limit: int
    ) -> TenantQueue[Item] | None:
        """Return the tenant that makes room in a full level; None if the one that asks has to go.

        A tenant's share is in proportion to its weight among those that have something queued in
        the level, and at least one request.
        """
        count = tenant.queue.count_of(level)
        others = [
            each
            for each in self._tenants.values()
            if each is not tenant and each.queue.count_of(level)
        ]
        unit = limit / (tenant.weight + sum(each.weight for each in others))
        if count + 1 > max(1.0, unit * tenant.weight):
            return None
        furthest: TenantQueue[Item] | None = None
        excess = 0.0
        for each in others:
            above = each.queue.count_of(level) / max(1.0, unit * each.weight)
            if above > 1.0 and above > excess:
                furthest, excess = each, above
        return furthest

    def _collect(self, tenant: TenantQueue[Item]) -> None:
        """Take over what has left a tenant's queue with an error."""
        queue = tenant.queue
        self.count -= len(queue.dropped)
        self.dropped += queue.dropped
        queue.dropped = []

    def _forget_idle(self) -> None:
        """Forget tenants that would start now as any other that comes does."""
        virtual = self._virtual
        self._tenants = {
            name: tenant
            for name, tenant in self._tenants.items()
            if tenant.queue.count or tenant.finish > virtual
        }
        # Looked through again once it has doubled, so that a request costs little on average.
        self._max_tenants = max(_MAX_TENANTS, 2 * len(self._tenants))


def _weight(weight: float) -> float:
    # What is no number is not greater either.
    return max(LEAST_WEIGHT, weight)
