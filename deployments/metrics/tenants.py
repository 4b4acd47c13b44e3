# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of tenants. Triton has none."""

from collections.abc import Callable, Mapping
from typing import Final

from deployments.metrics.exposition import head, label_set
from deployments.tenants.account import FIELDS, Counts
from deployments.tenants.desk import OTHER_TENANTS

_NS_PER_S: Final = 1e9
_REFUSED: Final = "manta_tenant_refused_total"
_REFUSED_HELP: Final = "Number of requests of a tenant that a quota rejected, at this ingress"

# Name, type, help and number of what is told of each tenant.
_FAMILIES: Final[tuple[tuple[str, str, str, Callable[[Counts], str]], ...]] = (
    (
        "manta_tenant_requests_total",
        "counter",
        "Number of requests of a tenant that were admitted, at this ingress",
        lambda counts: str(counts.admitted),
    ),
    (
        "manta_tenant_requests_ongoing",
        "gauge",
        "Number of requests of a tenant in flight, at this ingress",
        lambda counts: str(counts.ongoing),
    ),
    (
        "manta_tenant_queue_seconds_total",
        "counter",
        "Seconds that answered requests of a tenant waited in queues, at this ingress",
        lambda counts: f"{counts.queue_ns / _NS_PER_S:.6f}",
    ),
    (
        "manta_tenant_compute_seconds_total",
        "counter",
        "Seconds of execution that requests of a tenant took by their rows, at this ingress",
        lambda counts: f"{counts.compute_ns / _NS_PER_S:.6f}",
    ),
)


def render_tenants(counts: Mapping[str, Counts]) -> bytes:
    """Return the lines that the metrics page has about tenants."""
    counts = {
        tenant: each
        for tenant, each in counts.items()
        # Without others there is nothing to tell of them.
        if tenant != OTHER_TENANTS or each.admitted or each.refused
    }
    if not counts:
        return b""
    lines: list[str] = []
    for name, kind, text, number in _FAMILIES:
        lines += head(name, kind, text)
        for tenant, each in counts.items():
            lines.append(f"{name}{label_set([('tenant', tenant)])} {number(each)}")
    lines += head(_REFUSED, "counter", _REFUSED_HELP)
    for tenant, each in counts.items():
        for quota, count in zip(FIELDS, each.refused or (), strict=False):
            labels = label_set([("quota", FIELDS[quota]), ("tenant", tenant)])
            lines.append(f"{_REFUSED}{labels} {count}")
    return "\n".join([*lines, ""]).encode()
