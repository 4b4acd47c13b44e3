# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Leases of tenants' limits are renewed in the background, whatever the controller does."""

import pytest

from backends.api.errors import ResourceExhaustedError, UnavailableError
from cluster.tenancy.lease_board import LeaseBoard
from deployments.data_plane.tenant_leases import TenantLeases
from deployments.tenants.desk import TenantDesk
from deployments.tenants.limits import TenantLimits

LIMITS = {"t": TenantLimits(concurrent_requests=8, is_cluster_wide=True)}


class Controller:
    def __init__(self) -> None:
        self.board = LeaseBoard(-100.0)
        self.error: Exception | None = None
        self.now_s = 0.0

    async def renew_tenants(self, report: bytes) -> bytes:
        if self.error is not None:
            raise self.error
        return self.board.renewed("i", report, self.now_s)


def fill(desk: TenantDesk, now_s: float) -> int:
    count = 0
    try:
        while True:
            desk.admit("t", "m", 0, now_s)
            count += 1
    except ResourceExhaustedError:
        return count


@pytest.mark.parametrize(
    "error", [UnavailableError("no controller"), AttributeError("renew_tenants"), TimeoutError()]
)
async def test_without_an_answer_the_lease_goes_on_and_with_one_it_is_renewed(error):
    desk, controller = TenantDesk(LIMITS), Controller()
    leases = TenantLeases(desk, controller, lambda: controller.now_s)
    controller.now_s = 1.0
    # The starting share.
    assert fill(desk, 1.0) == 1
    await leases.renew()
    assert fill(desk, 1.0) == 7
    controller.error = error
    controller.now_s = 3.0
    await leases.renew()
    assert fill(desk, 3.0) == 0
    assert desk.counts["t"].ongoing == 8
    controller.error = None
    await leases.renew()


async def test_nothing_is_asked_for_limits_of_a_node():
    desk, controller = TenantDesk({"t": TenantLimits(concurrent_requests=8)}), Controller()
    assert not desk.has_shared_limits
    assert fill(desk, 1.0) == 8
    controller.error = AssertionError("asked")
    await TenantLeases(desk, controller, lambda: 1.0).renew()
