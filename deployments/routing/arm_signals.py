# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a router tells the controller of the arms of rollouts, once a second.

While the table has no rollout nothing runs. A report says what has happened since the last one that
arrived, so that neither a router nor a controller that was replaced counts anything twice.
"""

import asyncio
from typing import Final

from backends.api.errors import TritonError
from deployments.contracts.arm_report import encode_arms
from deployments.contracts.control import ControllerLink
from deployments.routing.router import Router

REPORT_S: Final = 1.0


class ArmSignals:
    """Reports the arms of one router.

    Attributes:
        wanted: Set while the table has rollouts.
    """

    def __init__(self, router: Router) -> None:
        self.wanted = asyncio.Event()
        self._router = router

    def refresh(self) -> None:
        """Learn that the table is another one."""
        if self._router.models.rollouts:
            self.wanted.set()
        else:
            self.wanted.clear()

    async def run(self, controller: ControllerLink) -> None:
        """Report for ever."""
        while True:
            await self.wanted.wait()
            await asyncio.sleep(REPORT_S)
            await self.tell(controller)

    async def tell(self, controller: ControllerLink) -> None:
        """Send a report, if there is anything to tell; what does not arrive is told next time."""
        rollouts = self._router.models.rollouts
        reports = [row for rollout in rollouts.values() for row in rollout.take_counts()]
        if not reports:
            return
        try:
            await controller.report_arms(encode_arms(reports))
        except TritonError:
            for report in reports:
                rollout = rollouts.get(report.key)
                if rollout is not None:
                    rollout.counts(report.version).add(report)
