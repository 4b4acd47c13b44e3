# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The leases of tenants' cluster-wide limits: who has which share, until when. Pure.

Theory of operation. An ingress asks about once a second and says what it holds. It is granted what
is due to it by everybody's demand, but never more than what nobody else may still be using: a share
that is taken from one is given to another when the one has said that it holds less, or its lease is
over. So at no time do the shares sum up to more than the limit.

An ingress that is not heard of goes on with its lease, then with its fair share of it, the limit
divided by the ingresses; that is kept for it until it counts as gone. A new board, after a restart
of the controller, grants nobody more than it holds until all old leases are over.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from deployments.tenants.leases import (
    LEASE_S,
    Lease,
    LeaseAsk,
    LeaseReport,
    Quota,
    decode_report,
    encode,
)

_log = logging.getLogger(__name__)

# An ingress that is not heard of for so long is gone.
GONE_S: Final = 60.0

_Key = tuple[str, int]
# Of an equal part, what each has whatever it would use: enough to notice that it would use more.
_FLOOR: Final = 0.1
# What is used may grow by as much before it is asked for anew.
_HEADROOM: Final = 1.25


def divide(limit: float, demands: Mapping[str, float]) -> dict[str, float]:
    """Return each ingress's share of a limit; the shares sum up to it.

    Each has a little; the least demands are met first, so that nobody who would use less than an
    equal part is cut; what nobody would use is divided equally.
    """
    if not demands:
        return {}
    floor = _FLOOR * limit / len(demands)
    left = limit - floor * len(demands)
    shares: dict[str, float] = {}
    by_demand = sorted(demands, key=lambda name: (demands[name], name))
    for place, name in enumerate(by_demand):
        wanted = max(0.0, demands[name] * _HEADROOM - floor)
        given = min(wanted, left / (len(by_demand) - place))
        shares[name] = floor + given
        left -= given
    return {name: share + left / len(shares) for name, share in shares.items()}


def divide_whole(limit: int, demands: Mapping[str, float]) -> dict[str, float]:
    """Return each ingress's share of a limit of things that cannot be divided."""
    shares = divide(limit, demands)
    whole = {name: int(share) for name, share in shares.items()}
    left = limit - sum(whole.values())
    first = sorted(shares, key=lambda name: (whole[name] - shares[name], -demands[name], name))
    for name in first[:left]:
        whole[name] += 1
    return {name: float(share) for name, share in whole.items()}


@dataclass(slots=True)
class _Holder:
    """What one ingress has of one limit.

    Attributes:
        may_use: What it may be using while its lease is good.
        fair: What it may be using afterwards.
        demand: What it would use.
        until_s: When its lease is over.
        heard_s: When it was last heard of.
    """

    may_use: float
    fair: float
    demand: float
    until_s: float
    heard_s: float

    def outstanding(self, now_s: float) -> float:
        """Return what it may be using now."""
        return self.may_use if now_s < self.until_s else min(self.may_use, self.fair)


class LeaseBoard:
    """All leases. Times are seconds of one clock that only goes forward."""

    def __init__(self, now_s: float) -> None:
        self._settled_s = now_s + LEASE_S
        self._holders: dict[_Key, dict[str, _Holder]] = {}
        # Of each ingress, the newest report, and when it came.
        self._numbers: dict[str, tuple[int, float]] = {}

    def renewed(self, ingress: str, report: bytes, now_s: float) -> bytes:
        """Answer a report; one that cannot be read is answered with nothing."""
        try:
            read = decode_report(report)
        except msgspec.MsgspecError as error:
            _log.warning("what an ingress asks for its tenants cannot be read: %s", error)
            return encode([])
        return encode(self.renew(ingress, read, now_s))

    def renew(self, ingress: str, report: LeaseReport, now_s: float) -> list[Lease]:
        """Return the leases of an ingress; none for a report that was overtaken by a newer one."""
        number, _ = self._numbers.get(ingress, (-1, 0.0))
        if report.number <= number:
            return []
        self._numbers[ingress] = report.number, now_s
        self._forget_gone(now_s)
        return [self._renew(ingress, ask, now_s) for ask in report.asks]

    def _renew(self, ingress: str, ask: LeaseAsk, now_s: float) -> Lease:
        holders = self._holders.setdefault((ask.tenant, ask.quota), {})
        demands = {name: each.demand for name, each in holders.items()}
        demands[ingress] = ask.demand
        others = sum(each.outstanding(now_s) for name, each in holders.items() if name != ingress)
        count = len(demands)
        if ask.quota == Quota.CONCURRENT:
            due = divide_whole(int(ask.limit), demands)[ingress]
            share = float(int(max(0.0, min(due, ask.limit - others)) + 1e-9))
            fair = float(max(1, int(ask.limit) // count))
        else:
            due = divide(ask.limit, demands)[ingress]
            share = max(0.0, min(due, ask.limit - others))
            fair = ask.limit / count
        if now_s < self._settled_s:
            share = min(share, ask.held)
        # What it holds may go on being used if this answer is lost.
        may_use = max(share, ask.held)
        holders[ingress] = _Holder(may_use, fair, ask.demand, now_s + LEASE_S, now_s)
        return Lease(ask.tenant, ask.quota, share, fair)

    def _forget_gone(self, now_s: float) -> None:
        gone = [name for name, (_, at_s) in self._numbers.items() if now_s - at_s > GONE_S]
        for name in gone:
            del self._numbers[name]
        for key, holders in list(self._holders.items()):
            for name in [n for n, each in holders.items() if now_s - each.heard_s > GONE_S]:
                del holders[name]
            if not holders:
                del self._holders[key]
