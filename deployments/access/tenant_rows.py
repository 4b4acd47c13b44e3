# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The section ``tenants`` of an access policy: quotas as plain data. Pure."""

from collections.abc import Callable, Mapping
from typing import Final

from deployments.access.reading import Item

SCOPES: Final = ("node", "cluster")


def _positive(item: Item) -> object:
    number = item.number()
    if not number:
        raise item.wrong("a number above 0", "to lock a tenant out, remove its grants")
    return number


def _count(item: Item) -> object:
    return item.whole(1)


def _scope(item: Item) -> object:
    return item.choice(SCOPES, "scope")


# By key of a tenant's row.
_READ: Final[Mapping[str, Callable[[Item], object]]] = {
    "requests_per_s": _positive,
    "burst": _positive,
    "concurrent_requests": _count,
    "bytes_per_s": _positive,
    "gpu_seconds_per_s": _positive,
    "weight": _positive,
    "scope": _scope,
}


def read_tenants(item: Item) -> Mapping[str, Mapping[str, object]]:
    """Return the rows by tenant.

    A row has what is given of: ``requests_per_s``, ``burst`` (requests), ``bytes_per_s``,
    ``gpu_seconds_per_s`` and ``weight``, floats above 0; ``concurrent_requests``, a whole number
    above 0; ``scope``, ``node`` or ``cluster``.

    Raises:
        PolicyError: A row is wrong.
    """
    return {name: _row(row) for name, row in item.mapping().items()}


def _row(item: Item) -> dict[str, object]:
    if item.value is None:
        return {}
    fields = item.fields(_READ)
    if "burst" in fields and "requests_per_s" not in fields:
        raise fields["burst"].error(
            "a burst of no rate", "give 'requests_per_s' as well, or remove it"
        )
    return {name: _READ[name](field) for name, field in fields.items()}
