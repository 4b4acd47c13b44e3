# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Renews an ingress's leases of tenants' cluster-wide limits, in the background."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from backends.api.errors import TritonError
from deployments.tenants.desk import TenantDesk
from deployments.tenants.leases import RENEW_S, LeaseReport, decode_leases, encode

_log = logging.getLogger(__name__)

# An answer that takes longer is not worth waiting for: the next question says what is true then.
_PATIENCE_S: Final = 2.0


class TenantControl(Protocol):
    """What is asked of the controller."""

    async def renew_tenants(self, report: bytes) -> bytes:
        """Return the leases for a `LeaseReport`.

        Raises:
            TritonError: There is no controller.
        """


class TenantLeases:
    """Asks the controller every `RENEW_S` seconds, while a limit is cluster-wide.

    Args:
        desk: Whose leases they are.
        controller: Who grants them.
        now_s: The monotonic clock.
    """

    def __init__(
        self,
        desk: TenantDesk,
        controller: TenantControl,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._desk = desk
        self._controller = controller
        self._now_s = now_s
        self._number = 0
        self._is_lost = False

    async def run(self) -> None:
        """Renew for ever."""
        while True:
            await asyncio.sleep(RENEW_S)
            if self._desk.has_shared_limits:
                await self.renew()

    async def renew(self) -> None:
        """Ask once; without an answer the leases go on until they are over."""
        asked_s = self._now_s()
        asks = self._desk.asks(asked_s)
        if not asks:
            return
        self._number += 1
        try:
            async with asyncio.timeout(_PATIENCE_S):
                answer = await self._controller.renew_tenants(
                    encode(LeaseReport(self._number, asks))
                )
            self._desk.take(decode_leases(answer), asked_s, self._now_s())
        # A controller of an older build, while a server is upgraded, has no such method.
        except (TritonError, TimeoutError, AttributeError, msgspec.MsgspecError) as error:
            if not self._is_lost:
                _log.warning("leases of tenants' limits cannot be renewed: %s", error)
            self._is_lost = True
        else:
            self._is_lost = False
