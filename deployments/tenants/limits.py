# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What tenants may have, as the section ``tenants`` of the access policy says it. Pure."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from backends.api.errors import InvalidArgumentError

# The row of tenants that have none of their own.
DEFAULT_TENANT: Final = "default"
SCOPES: Final = ("node", "cluster")
_LARGEST: Final = 1e15
# Of a tenant beside others; one of nothing would never be served.
LEAST_WEIGHT: Final = 0.001
LARGEST_WEIGHT: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimits:
    """What one tenant may have. A rate or a count of 0 is no limit.

    Attributes:
        requests_per_s: Requests that start, a second.
        burst: Requests that may start at once; with a rate, at least 1.
        concurrent_requests: Requests without an outcome.
        bytes_per_s: Bytes of input tensors, a second.
        gpu_seconds_per_s: Seconds of execution, a second.
        weight: Share beside other tenants in a queue.
        is_cluster_wide: Whether the limits are of all ingresses together, and not of each.
    """

    requests_per_s: float = 0.0
    burst: float = 0.0
    concurrent_requests: int = 0
    bytes_per_s: float = 0.0
    gpu_seconds_per_s: float = 0.0
    weight: float = 1.0
    is_cluster_wide: bool = False


UNLIMITED: Final = TenantLimits()


def read_tenants(rows: Mapping[str, object]) -> dict[str, TenantLimits]:
    """Return the limits by tenant.

    Args:
        rows: The section of the policy: by tenant, a mapping with some of the fields of
            `TenantLimits`, ``scope`` (``node`` or ``cluster``) among them, or None for none.

    Raises:
        InvalidArgumentError: A row is wrong; the text names the tenant and the field.
    """
    return {name: _read_row(name, row) for name, row in rows.items()}


def limits_of(tenants: Mapping[str, TenantLimits], tenant: str) -> TenantLimits:
    """Return a tenant's limits: its own, the default's, or none."""
    found = tenants.get(tenant)
    return tenants.get(DEFAULT_TENANT, UNLIMITED) if found is None else found


def _read_row(name: str, row: object) -> TenantLimits:
    subject = f"tenant '{name}'"
    if not name:
        raise InvalidArgumentError("the policy has a tenant '', expected a name")
    if row is None:
        return UNLIMITED
    if not isinstance(row, Mapping):
        raise InvalidArgumentError(f"{subject} is {row!r}, expected a mapping of limits")
    unknown = [key for key in row if key not in _READ]
    if unknown:
        raise InvalidArgumentError(
            f"{subject} has a field {unknown[0]!r}, expected some of {', '.join(_READ)}"
        )
    if "burst" in row and "requests_per_s" not in row:
        raise InvalidArgumentError(
            f"{subject} has a burst of no rate; give 'requests_per_s' as well, or remove it"
        )
    read = {key: _READ[key](f"{subject} field '{key}'", value) for key, value in row.items()}
    rate = read.get("requests_per_s", 0.0)
    return TenantLimits(
        requests_per_s=rate,
        # A second's worth, unless it is given.
        burst=max(1.0, read.get("burst", rate)) if rate else 0.0,
        concurrent_requests=int(read.get("concurrent_requests", 0)),
        bytes_per_s=read.get("bytes_per_s", 0.0),
        gpu_seconds_per_s=read.get("gpu_seconds_per_s", 0.0),
        weight=read.get("weight", 1.0),
        is_cluster_wide=read.get("scope", 0.0) > 0,
    )


def _number(subject: str, value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not 0 < value <= _LARGEST:  # type: ignore[arg-type, operator]
        raise InvalidArgumentError(
            f"{subject} is {value!r}, expected a number above 0; to lock a tenant out, remove its "
            "grants"
        )
    return float(value)  # type: ignore[arg-type]


def _count(subject: str, value: object) -> float:
    number = _number(subject, value)
    if not number.is_integer():
        raise InvalidArgumentError(f"{subject} is {value!r}, expected a whole number above 0")
    return number


def _weight(subject: str, value: object) -> float:
    number = _number(subject, value)
    if not LEAST_WEIGHT <= number <= LARGEST_WEIGHT:
        raise InvalidArgumentError(
            f"{subject} is {value!r}, expected a number from {LEAST_WEIGHT} to {LARGEST_WEIGHT:.0f}"
        )
    return number


def _scope(subject: str, value: object) -> float:
    if value not in SCOPES:
        raise InvalidArgumentError(f"{subject} is {value!r}, expected 'node' or 'cluster'")
    return float(SCOPES.index(str(value)))


_READ: Final[Mapping[str, Callable[[str, object], float]]] = {
    "requests_per_s": _number,
    "burst": _number,
    "concurrent_requests": _count,
    "bytes_per_s": _number,
    "gpu_seconds_per_s": _number,
    "weight": _weight,
    "scope": _scope,
}
