# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""When an ingress counts as started for Serve, which then counts its application as running.

KubeRay moves all traffic to a new cluster at the moment when its application runs, so that has to
be when the models can answer. Nothing else waits for it: the sockets are open meanwhile and what
can be answered is.

Whether every model is ready is asked until the application has run once. Later replicas of the same
deployment, on a node that has come or in the place of one that was lost, do not stay behind because
of a model that has failed since.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from backends.api.model_identifier import shown
from deployments.contracts.routing_table import RoutingTable
from deployments.settings.wait_for_models import WaitForModels
from deployments.supervision.handover import Inheritance

_log = logging.getLogger(__name__)

# A successor listens no later than this: its controller may be adopting many instances.
_INITIALISED_TIMEOUT_S: Final = 20.0
# A node that has come may have no other replica, and the controller may be starting anew just then.
_TABLE_TIMEOUT_S: Final = 45.0
# How often a replica that waits says so, and asks whether another one runs.
_ASK_AGAIN_S: Final = 10.0
_SHOWN_MODELS: Final = 10


class StartGate:
    """Opens once for all when what is to be waited for is there.

    Args:
        wait_for: What that is.
        has_run: Says whether another replica of this deployment has passed its gate.

    Attributes:
        attempted: Set when the start-up models were attempted.
    """

    def __init__(self, wait_for: WaitForModels, has_run: Callable[[], Awaitable[bool]]) -> None:
        self._wait_for = wait_for
        self._has_run = has_run
        self._has_table = asyncio.Event()
        self.attempted = asyncio.Event()
        self._changed = asyncio.Event()
        self._table = RoutingTable()
        self._is_open = False

    def take(self, table: RoutingTable) -> None:
        """Note a newer table."""
        self._table = table
        self._has_table.set()
        self._changed.set()
        if table.initialised:
            self.attempted.set()

    async def wait_for_table(self, inherited: Inheritance) -> None:
        """Wait until requests can be answered as well as other replicas would.

        Without the table every model is unknown, and clients take that for the last word.
        """
        event, timeout_s = (
            (self.attempted, _INITIALISED_TIMEOUT_S)
            if inherited.has_predecessor
            else (self._has_table, _TABLE_TIMEOUT_S)
        )
        if not await _is_set_within(event, timeout_s):
            _log.warning("listening without the controller's routing table")

    async def wait(self, check: Callable[[], None]) -> None:
        """Wait until the gate opens, or ``check``, called again and again meanwhile, raises."""
        if self._wait_for is not WaitForModels.NONE:
            while not self.attempted.is_set():
                check()
                await _is_set_within(self.attempted, _ASK_AGAIN_S)
        while not self._is_open:
            if await self._may_open():
                self._is_open = True
                return
            check()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ASK_AGAIN_S):
                    await self._wait_all_ready()

    async def _may_open(self) -> bool:
        if self._wait_for is not WaitForModels.ALL or not self._missing():
            return True
        if await self._has_run():
            return True
        missing = self._missing()
        more = "" if len(missing) <= _SHOWN_MODELS else f" and {len(missing) - _SHOWN_MODELS} more"
        _log.warning(
            "the application is not running yet, these models are not ready: %s%s",
            ", ".join(missing[:_SHOWN_MODELS]),
            more,
        )
        return False

    async def _wait_all_ready(self) -> None:
        while self._missing():
            self._changed.clear()
            await self._changed.wait()

    def _missing(self) -> list[str]:
        models = self._table.models.items()
        return [shown(key) for key, model in models if not model.counts_as_ready]


async def _is_set_within(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for an event; False when that takes longer."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
