# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The desk of tenants follows the access policy."""

import pytest

from backends.api.errors import ResourceExhaustedError
from deployments.data_plane.policy_tenants import PolicyTenants


class Policy:
    def __init__(self) -> None:
        self.rows: dict[str, object] = {}
        self.revision = 1

    def take(self, **rows: object) -> None:
        self.rows = rows
        self.revision += 1


def test_a_changed_policy_counts_with_the_next_request():
    policy = Policy()
    tenants = PolicyTenants(lambda: policy.rows, lambda: policy.revision, lambda: 1.0)
    assert not tenants.is_needed
    first = tenants.admit("t", "m", 0, 1.0)
    policy.take(t={"concurrent_requests": 1, "scope": "cluster"})
    with pytest.raises(ResourceExhaustedError, match="concurrent_requests"):
        tenants.admit("t", "m", 0, 1.0)
    assert tenants.is_needed
    assert tenants.desk.has_shared_limits
    first()
    tenants.admit("t", "m", 0, 1.0)
    policy.take()
    tenants.admit("t", "m", 0, 1.0)
    assert not tenants.is_needed
