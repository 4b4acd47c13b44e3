# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The section ``tenants`` of an access policy: quotas as plain data. Pure."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from deployments.settings.documents import FINITE, Part, Section, SectionError
from deployments.tenants.limits import LARGEST_WEIGHT, LEAST_WEIGHT

_Positive = Annotated[
    float, Meta(gt=0, le=FINITE, extra={"if_wrong": "to lock a tenant out, remove its grants"})
]


class TenantRow(Section, frozen=True):
    """Quotas of one tenant; zero for what is not given."""

    requests_per_s: _Positive = 0.0
    burst: _Positive = 0.0
    concurrent_requests: Annotated[int, Meta(ge=1, le=2**32 - 1)] = 0
    bytes_per_s: _Positive = 0.0
    gpu_seconds_per_s: _Positive = 0.0
    weight: Annotated[float, Meta(ge=LEAST_WEIGHT, le=LARGEST_WEIGHT)] = 0.0
    scope: Annotated[Literal["node", "cluster"], Meta(title="scope")] = "node"

    def check(self) -> None:
        """Refuse a burst of no rate."""
        if self.burst and not self.requests_per_s:
            raise SectionError(
                "a burst of no rate", "give 'requests_per_s' as well, or remove it", "burst"
            )


def read_tenants(part: Part) -> Mapping[str, Mapping[str, object]]:
    """Return the rows by tenant, with what is given of the fields of `TenantRow`.

    Raises:
        PolicyError: A row is wrong.
    """
    return {name: _row(row) for name, row in part.parts().items()}


def _row(part: Part) -> dict[str, object]:
    given: Any = part.value
    row = part.read(TenantRow) if given is not None else TenantRow()
    return {name: getattr(row, name) for name in given or ()}
