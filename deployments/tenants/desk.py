# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The desk of an ingress: whether a tenant may have one more request. Pure.

Tenants that the policy does not name have the limits of its tenant ``default``, each for itself.
What is known of tenants without a request under way is forgotten, the longest unused first, when
there are more than so many. What tenants do is counted by name for a number of them, those of the
policy first; what all others do is counted together.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from mypy_extensions import mypyc_attr

from backends.api.request import InferenceRequest
from deployments.tenants.account import Account, Counts
from deployments.tenants.leases import LEASE_S, RENEW_S, Lease, LeaseAsk
from deployments.tenants.limits import DEFAULT_TENANT, TenantLimits, limits_of

MAX_TENANTS: Final = 1024
# So many tenants have rows of their own on the metrics page.
MAX_COUNTED: Final = 64
OTHER_TENANTS: Final = "other"


class Admission:
    """One request that was let in; called once, it counts the request out.

    Args:
        tenant: Whom it counts for.
        account: The tenant's.
    """

    __slots__ = ("_account", "_is_over", "_tenant")

    def __init__(self, tenant: str, account: Account) -> None:
        self._tenant = tenant
        self._account = account
        self._is_over = False

    def mark(self, request: InferenceRequest) -> None:
        """Have the request queue as the tenant's, and its answer tell what it took."""
        request.tenant = self._tenant
        request.weight = self._account.limits.weight
        request.wants_times = True

    def __call__(self, compute_ns: int = 0, queue_ns: int = 0) -> None:
        """Count the request out; a second call does nothing.

        Args:
            compute_ns: `InferenceResponse.share_ns`, summed over its responses.
            queue_ns: `InferenceResponse.queue_ns`, likewise.
        """
        if not self._is_over:
            self._is_over = True
            self._account.done(compute_ns, queue_ns)


@mypyc_attr(allow_interpreted_subclasses=True)
class TenantDesk:
    """All tenants' accounts. Times are seconds of the process's monotonic clock.

    Args:
        tenants: The policy's rows; see `deployments.tenants.limits.read_tenants`.
        max_tenants: Of how many something is known, at most, unless more have requests under way.
    """

    def __init__(self, tenants: Mapping[str, TenantLimits], max_tenants: int = MAX_TENANTS) -> None:
        self._tenants = dict(tenants)
        self._max_tenants = max_tenants
        # The longest unused first.
        self._accounts: OrderedDict[str, Account] = OrderedDict()
        self._counts: dict[str, Counts] = {OTHER_TENANTS: Counts()}
        self._asked_s = 0.0
        self._count_named()

    def admit(self, tenant: str, model_key: str, size_bytes: int, now_s: float) -> Admission:
        """Count a request in.

        Args:
            tenant: Whom it counts for; empty for nobody in particular, who is a tenant, too.
            model_key: The model's key; limits are of all models together.
            size_bytes: Of its input tensors.
            now_s: Now.

        Returns:
            What marks the request, and has to be called once when it has its outcome.

        Raises:
            ResourceExhaustedError: A quota is used up; the error says for how long.
        """
        del model_key
        account = self._accounts.get(tenant)
        if account is None:
            account = self._open(tenant, now_s)
        else:
            self._accounts.move_to_end(tenant)
        account.check(tenant, size_bytes, now_s)
        return Admission(tenant, account)

    def replace(self, tenants: Mapping[str, TenantLimits], now_s: float) -> None:
        """Take the rows of another policy; what is under way goes on."""
        self._tenants = dict(tenants)
        self._count_named()
        for tenant, account in self._accounts.items():
            limits = limits_of(self._tenants, tenant)
            if limits != account.limits:
                account.limit_to(limits, now_s)

    @property
    def has_shared_limits(self) -> bool:
        """Whether a limit is cluster-wide."""
        return any(each.is_cluster_wide for each in self._tenants.values())

    def asks(self, now_s: float) -> list[LeaseAsk]:
        """Return what to ask the controller for, about every `RENEW_S` seconds."""
        interval_s = max(0.1, now_s - self._asked_s) if self._asked_s else RENEW_S
        self._asked_s = now_s
        return [
            ask
            for tenant, account in self._accounts.items()
            for ask in account.asks(tenant, interval_s, now_s)
        ]

    def take(self, leases: Iterable[Lease], asked_s: float, now_s: float) -> None:
        """Take the controller's answer.

        Args:
            leases: What it has granted.
            asked_s: When that was asked for; the leases are good for `LEASE_S` from then.
            now_s: Now.
        """
        for lease in leases:
            account = self._accounts.get(lease.tenant)
            if account is not None:
                account.take(lease, asked_s + LEASE_S, now_s)

    @property
    def counts(self) -> Mapping[str, Counts]:
        """What tenants have done, by tenant; those without a row of their own as ``other``."""
        return self._counts

    def _count_named(self) -> None:
        """Keep rows for the policy's tenants, before any other tenant takes them."""
        for tenant in self._tenants:
            if tenant != DEFAULT_TENANT:
                self._counts_of(tenant)

    def _counts_of(self, tenant: str) -> Counts:
        counts = self._counts.get(tenant)
        if counts is not None:
            return counts
        if len(self._counts) > MAX_COUNTED:
            return self._counts[OTHER_TENANTS]
        counts = self._counts[tenant] = Counts()
        return counts

    def _open(self, tenant: str, now_s: float) -> Account:
        accounts = self._accounts
        if len(accounts) >= self._max_tenants:
            idle = next((name for name, each in accounts.items() if each.is_idle), None)
            if idle is not None:
                del accounts[idle]
        limits, counts = limits_of(self._tenants, tenant), self._counts_of(tenant)
        account = accounts[tenant] = Account(limits, counts, now_s)
        return account
