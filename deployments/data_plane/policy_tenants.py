# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The desk of tenants that follows the access policy."""

import time
from collections.abc import Callable, Mapping

from mypy_extensions import mypyc_attr

from deployments.access.guard import PolicyGuard
from deployments.tenants.desk import Admission, TenantDesk
from deployments.tenants.limits import read_tenants


@mypyc_attr(allow_interpreted_subclasses=True)
class PolicyTenants:
    """Counts the requests of tenants, as the policy says.

    Args:
        read_rows: Returns the section ``tenants`` of the policy that holds, checked.
        read_revision: Returns the revision of that policy.
        now_s: The monotonic clock.

    Attributes:
        desk: What does the work.
    """

    def __init__(
        self,
        read_rows: Callable[[], Mapping[str, object]],
        read_revision: Callable[[], int],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.desk = TenantDesk({})
        self._read_rows = read_rows
        self._read_revision = read_revision
        self._now_s = now_s
        self._is_needed = False
        self._revision = -1
        self._follow()

    @classmethod
    def of(cls, guard: PolicyGuard) -> "PolicyTenants":
        """Return the desk for the policy of a guard."""
        return cls(lambda: guard.policy.tenants, lambda: guard.revision)

    @property
    def is_needed(self) -> bool:
        """Whether the policy says anything of tenants."""
        self._follow()
        return self._is_needed

    def admit(self, tenant: str, model_key: str, size_bytes: int, now_s: float) -> Admission:
        """Count a request in; see `TenantDesk.admit`."""
        self._follow()
        return self.desk.admit(tenant, model_key, size_bytes, now_s)

    def _follow(self) -> None:
        revision = self._read_revision()
        if revision != self._revision:
            self._revision = revision
            rows = self._read_rows()
            self._is_needed = bool(rows)
            self.desk.replace(read_tenants(rows), self._now_s())
