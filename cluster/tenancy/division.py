# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How a limit is divided among ingresses by what each would use. Pure."""

from collections.abc import Mapping
from typing import Final

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
