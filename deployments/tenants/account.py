# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What one tenant has used at one ingress, against what it may have. Pure.

A cluster-wide limit counts here with the ingress's share of it; see `deployments.tenants.leases`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from backends.api.errors import ResourceExhaustedError
from deployments.tenants.buckets import TokenBucket
from deployments.tenants.leases import STARTING_SHARE, Lease, LeaseAsk, Quota
from deployments.tenants.limits import TenantLimits

# What a request is told that found all concurrent ones under way: nobody knows when one ends.
_CONCURRENT_RETRY_S: Final = 1.0
_LEAST_RETRY_S: Final = 0.001
_MOST_RETRY_S: Final = 3600.0
_NS_PER_S: Final = 1e9
_NOTHING: Final = 1e-9

_UNITS: Final = {
    Quota.REQUESTS: "requests per second",
    Quota.CONCURRENT: "concurrent requests",
    Quota.BYTES: "bytes of input per second",
    Quota.GPU: "seconds of execution per second",
}
# By quota, the field of the policy.
FIELDS: Final = {
    Quota.REQUESTS: "requests_per_s",
    Quota.CONCURRENT: "concurrent_requests",
    Quota.BYTES: "bytes_per_s",
    Quota.GPU: "gpu_seconds_per_s",
}


@dataclass(slots=True)
class Counts:
    """What the requests of a tenant, or of several, have done at this ingress since it began.

    Attributes:
        admitted: Requests that were let in.
        ongoing: Requests without an outcome.
        refused: Requests that a quota refused, by quota.
        queue_ns: How long answered requests waited for their execution.
        compute_ns: What their rows' part of executions took.
    """

    admitted: int = 0
    ongoing: int = 0
    refused: list[int] | None = None
    queue_ns: int = 0
    compute_ns: int = 0

    def refuse(self, quota: Quota) -> None:
        """Count a refusal."""
        if self.refused is None:
            self.refused = [0] * len(Quota)
        self.refused[quota] += 1


@dataclass(slots=True)
class _Share:
    """What this ingress has of one cluster-wide limit."""

    held: float
    fair: float
    until_s: float = 0.0
    # What was asked for since the last report, and before it.
    offered: float = 0.0
    demand: float = 0.0


class Account:
    """One tenant's.

    Args:
        limits: What it may have.
        counts: Where what it does is counted.
        now_s: Now, in seconds of the process's monotonic clock.

    Attributes:
        limits: The same.
        counts: The same.
        ongoing: Its requests without an outcome.
    """

    __slots__ = ("_buckets", "_concurrent", "_shares", "counts", "limits", "ongoing")

    def __init__(self, limits: TenantLimits, counts: Counts, now_s: float) -> None:
        self.counts = counts
        self.ongoing = 0
        self._buckets: dict[Quota, TokenBucket] = {}
        self._shares: dict[Quota, _Share] = {}
        self._concurrent = 0.0
        self.limits = limits
        self.limit_to(limits, now_s)

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it is under way."""
        return not self.ongoing

    def limit_to(self, limits: TenantLimits, now_s: float) -> None:
        """Let other limits count from now on; what is under way goes on."""
        before = self._shares
        self.limits = limits
        self._shares = {}
        if limits.is_cluster_wide:
            for quota, limit in _limits(limits):
                start = limit * STARTING_SHARE
                self._shares[quota] = before.get(quota) or _Share(start, start)
        for quota in list(self._buckets):
            if not _limit(limits, quota):
                del self._buckets[quota]
        for quota, _ in _limits(limits):
            self._set(quota, now_s)
        if not limits.concurrent_requests:
            self._concurrent = 0.0

    def check(self, tenant: str, size_bytes: int, now_s: float) -> None:
        """Count a request in.

        Raises:
            ResourceExhaustedError: A quota is used up.
        """
        if self._shares:
            self._note_offered(size_bytes, now_s)
        limits, buckets = self.limits, self._buckets
        if limits.concurrent_requests and self.ongoing >= self._concurrent:
            raise self._refusal(tenant, Quota.CONCURRENT, _CONCURRENT_RETRY_S)
        for quota, bucket in buckets.items():
            needed = 1.0 if quota is Quota.REQUESTS else _NOTHING
            wait_s = bucket.wait_s(needed, now_s)
            if wait_s:
                raise self._refusal(tenant, quota, wait_s)
        bucket_of = buckets.get
        requests = bucket_of(Quota.REQUESTS)
        if requests is not None:
            requests.use(1.0)
        size = bucket_of(Quota.BYTES)
        if size is not None:
            size.use(size_bytes)
        self.ongoing += 1
        self.counts.ongoing += 1
        self.counts.admitted += 1

    def done(self, compute_ns: int, queue_ns: int) -> None:
        """Count a request out.

        Args:
            compute_ns: Its part of what executions took; 0 when nobody knows.
            queue_ns: How long it waited; 0 when nobody knows.
        """
        self.ongoing -= 1
        self.counts.ongoing -= 1
        self.counts.compute_ns += compute_ns
        self.counts.queue_ns += queue_ns
        if compute_ns:
            bucket = self._buckets.get(Quota.GPU)
            if bucket is not None:
                bucket.use(compute_ns / _NS_PER_S)
            share = self._shares.get(Quota.GPU)
            if share is not None:
                share.offered += compute_ns / _NS_PER_S

    # Shares of cluster-wide limits

    def asks(self, tenant: str, interval_s: float, now_s: float) -> Iterator[LeaseAsk]:
        """Go through what is to be asked for, after an interval of so many seconds."""
        for quota, share in self._shares.items():
            if quota is Quota.CONCURRENT:
                demand = max(share.offered, float(self.ongoing))
                held = max(self._share(quota, now_s), float(self.ongoing))
            else:
                demand, held = share.offered / interval_s, self._share(quota, now_s)
                if quota is Quota.GPU and self._buckets[quota].level(now_s) < 0:
                    # Refused meanwhile: it would use more than it has.
                    demand = max(demand, 2 * held)
            # Up at once, down with the second quiet interval.
            wanted, share.demand = max(demand, share.demand), demand
            share.offered = 0.0
            limit = _limit(self.limits, quota)
            yield LeaseAsk(tenant, quota, limit, min(limit, wanted), held)

    def take(self, lease: Lease, until_s: float, now_s: float) -> None:
        """Take a share, which is good until then."""
        quota = Quota(lease.quota)
        share = self._shares.get(quota)
        if share is not None:
            share.held, share.fair, share.until_s = lease.share, lease.fair, until_s
            self._set(quota, now_s)

    def settle(self, now_s: float) -> None:
        """Let shares whose leases are over shrink to what is fair."""
        for quota, share in self._shares.items():
            if share.until_s and share.until_s <= now_s and share.held > share.fair:
                share.held = share.fair
                self._set(quota, now_s)

    def _share(self, quota: Quota, now_s: float) -> float:
        """Return what this ingress has of a limit."""
        share = self._shares.get(quota)
        if share is None:
            return _limit(self.limits, quota)
        if share.until_s and share.until_s <= now_s:
            return min(share.held, share.fair)
        return share.held

    def _set(self, quota: Quota, now_s: float) -> None:
        """Make a limit, or the share of it, what counts."""
        share = self._share(quota, now_s)
        if quota is Quota.CONCURRENT:
            self._concurrent = share
            return
        limit = _limit(self.limits, quota)
        # A share of nothing still says when to come again.
        rate = max(share, limit * 1e-6)
        capacity = rate
        if quota is Quota.REQUESTS:
            capacity = max(1.0, self.limits.burst * share / limit)
        bucket = self._buckets.get(quota)
        if bucket is None:
            self._buckets[quota] = TokenBucket(rate, capacity, now_s)
        else:
            bucket.change(rate, capacity, now_s)

    def _note_offered(self, size_bytes: int, now_s: float) -> None:
        shares = self._shares
        for quota, share in shares.items():
            if quota is Quota.REQUESTS:
                share.offered += 1.0
            elif quota is Quota.BYTES:
                share.offered += size_bytes
            elif quota is Quota.CONCURRENT:
                share.offered = max(share.offered, self.ongoing + 1.0)
        self.settle(now_s)

    def _refusal(self, tenant: str, quota: Quota, wait_s: float) -> ResourceExhaustedError:
        self.counts.refuse(quota)
        retry_s = min(max(wait_s, _LEAST_RETRY_S), _MOST_RETRY_S)
        limit, where = _limit(self.limits, quota), ""
        if quota in self._shares:
            where = " in the cluster"
        return ResourceExhaustedError(
            f"tenant '{tenant}' has used its quota {FIELDS[quota]}: {limit:g} {_UNITS[quota]}"
            f"{where}; try again in {retry_s:.3g} s",
            retry_after_s=retry_s,
        )


def _limit(limits: TenantLimits, quota: Quota) -> float:
    return float(getattr(limits, FIELDS[quota]))


def _limits(limits: TenantLimits) -> Iterator[tuple[Quota, float]]:
    for quota in Quota:
        limit = _limit(limits, quota)
        if limit:
            yield quota, limit
