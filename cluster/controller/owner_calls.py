# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the server's owner, and who upgrades the server, ask of the controller.

A controller that was started in the place of one of another release adopts its instances, and
renews them one by one once its models are settled. What it tells of itself and of that is plain
data, which any release can read.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ray.exceptions import RayError

from cluster.controller.boot import Boot
from cluster.controller.gcs_watch import reconnect_s
from cluster.controller.handover import Handover
from cluster.controller.ownership import Lifeline, Owner
from cluster.models.renewal import RenewalPhase
from cluster.options.parsing import ServerOptions
from cluster.release import own_release
from cluster.threads import FILES, GCS
from deployments.contracts.protocols import told
from deployments.supervision.supervisor import Supervisor

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class OwnerCalls:
    """A part of `cluster.controller.controller.ModelController`; begins the renewal.

    Attributes:
        boot: The start, after which instances are renewed, and what it works with.
        lifeline: What is heard of the owner.
        supervisor: Follows the renewal.
        renewing: The renewal, also when it is over.
    """

    boot: Boot
    lifeline: Lifeline
    supervisor: Supervisor
    renewing: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self._begin_renewal()

    async def server_options(self) -> ServerOptions | None:
        """Return the options this controller runs with; None when it is about to end."""
        return None if self.boot.is_ending else self.boot.options

    async def owner(self) -> tuple[Owner, float]:
        """Return the owner and for how many seconds nothing was heard of it."""
        return self.lifeline.owner, self.lifeline.silence_s(time.monotonic())

    async def process_settings(self) -> tuple[int, float]:
        """Return at which niceness Ray has started this process, and its `reconnect_s`."""
        return os.nice(0), reconnect_s(os.environ)

    async def heartbeat(self, token: str = "") -> None:
        """Note that the owner is there.

        Args:
            token: The owner's; one that is not this server's is not heard. Empty for any.
        """
        if token in ("", self.lifeline.owner.token):
            self.lifeline.heard(time.monotonic())

    async def release(self) -> dict[str, Any]:
        """Return the release that this process runs, and the contracts it speaks."""
        own = await FILES.run(own_release)
        return {"release": str(own), "protocols": dict(told())}

    async def hand_over(self) -> None:
        """Have all that a successor has to know written; what comes next is this process's end."""
        own = await FILES.run(own_release)
        left = Handover(str(own), self.boot.options, self.lifeline.owner, told())
        await self.boot.state.leave(left.encoded())

    async def renewal(self) -> dict[str, Any]:
        """Return how the renewal of the instances gets on.

        ``phase`` is one of `RenewalPhase`; ``instances`` counts the live ones by release, those
        that finish their last requests included.
        """
        own, renewal = str(await FILES.run(own_release)), self.boot.lifecycle.renewal
        is_booting = not self.boot.ended.is_set()
        return {
            "release": own,
            "phase": str(RenewalPhase.RENEWING if is_booting else renewal.phase),
            "reason": renewal.reason,
            "current": renewal.current,
            "done": renewal.done_count,
            "left": sum(1 for _ in renewal.stale(own)),
            "instances": renewal.counts(),
        }

    async def renew(self) -> None:
        """Begin the renewal again, unless it is under way."""
        if self.renewing.done() and not self.boot.is_ending:
            self._begin_renewal()

    def _begin_renewal(self) -> None:
        # Told before the task runs: who asks next shall not take an earlier failure for this one's.
        self.boot.lifecycle.renewal.phase = RenewalPhase.RENEWING
        self.renewing = self.supervisor.spawn("renewal of the instances", self._renew())

    async def _renew(self) -> None:
        # A load settles what has changed; its instances are of this release.
        await self.boot.ended.wait()
        own = await FILES.run(own_release)
        await self.boot.lifecycle.renewal.run(str(own))


async def watch_owner(lifeline: Lifeline, end: Callable[[], Awaitable[None]]) -> None:
    """Wait until the owner is lost, end the server, and return never."""
    owner = lifeline.owner
    while not lifeline.is_lost(time.monotonic()):
        await asyncio.sleep(lifeline.period_s)
        if owner.is_deployed is None:
            continue
        try:
            is_deployed = await GCS.run(owner.is_deployed)
        except RayError as error:
            _log.warning("Serve does not say whether the application is there: %s", error)
            continue
        lifeline.saw_application(time.monotonic(), is_deployed=is_deployed)
    _log.error("the server ends, because its owner is gone: %s", owner.description)
    await end()
    # Nothing is left to watch until the process ends.
    await asyncio.get_running_loop().create_future()
