# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The way to the holder of another node, whoever that is at the moment.

The instances of that node say who holds their queue, and where it listens. The lane to it is opened
when the first of them has said so, and again when it breaks: to the same holder, or to the next one
as soon as an instance names it.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final

from backends.api.errors import UnavailableError
from deployments.lane.batches import Holder
from deployments.pool_queue.ticket_lane import TicketLane
from deployments.pool_queue.waiting_ticket import TicketLaneOptions
from deployments.supervision.backoff import Backoff
from deployments.supervision.supervisor import Supervisor

logger = logging.getLogger(__name__)

_FIRST_RETRY_S: Final = 0.01
_LONGEST_RETRY_S: Final = 1.0


class RemoteHolder:
    """The way to one other node's holder.

    Args:
        node_id: The node.
        options: Of the lane.
        changed: Called when its queues can be used, or no more; what waited there comes back next.
        is_wanted: Asked when no lane can be opened, whether one is wanted any more; if not, this is
            closed soon.
        tls: Context of the lane; None leaves it in clear text.

    Attributes:
        lane: The open lane; None while there is none.
    """

    def __init__(
        self,
        node_id: str,
        options: TicketLaneOptions,
        changed: Callable[[str], None],
        is_wanted: Callable[[str], bool],
        tls: ssl.SSLContext | None,
    ) -> None:
        self.node_id = node_id
        self.lane: TicketLane | None = None
        self._options = options
        self._changed = changed
        self._is_wanted = is_wanted
        self._tls = tls
        self._supervisor = Supervisor(f"holder of node {node_id}")
        self._news = asyncio.Event()
        self._holder = Holder(0)
        self._supervisor.keep("lane of tickets", self._keep_connected)

    def told(self, holder: Holder) -> None:
        """Take what an instance says of its node's holder; only a later one than known counts.

        One without a port is not to be reached.
        """
        if holder.epoch <= self._holder.epoch:
            return
        self._holder = holder
        self._news.set()
        if self.lane is not None:
            # Its successor is there already, so there is nothing to wait for.
            self.lane.close()

    async def close(self) -> None:
        """Close the lane; what waits there is the router's again before this returns."""
        await self._supervisor.close()
        if self.lane is not None:
            self.lane.close()

    async def _keep_connected(self) -> None:
        backoff = Backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        while True:
            self._news.clear()
            holder = self._holder
            if not holder.port:
                await self._news.wait()
                continue
            lane = TicketLane(self._options, is_local=False, epoch=holder.epoch)
            failure = ""
            try:
                await lane.open_tcp((holder.host, holder.port), self._tls)
            except UnavailableError as error:
                failure = error.message
            if failure:
                if not self._is_wanted(self.node_id):
                    await asyncio.Event().wait()
                logger.info("%s; trying again", failure)
                if await self._wait(backoff.next_s()):
                    backoff.reset()
                continue
            if holder is not self._holder:
                lane.close()
                continue
            self.lane = lane
            lane.on_ended = self._lose
            self._changed(self.node_id)
            await lane.wait_ended()
            backoff.reset()
            await self._wait(backoff.next_s())

    def _lose(self) -> None:
        self.lane = None
        self._changed(self.node_id)

    async def _wait(self, delay_s: float) -> bool:
        """Wait for a while, or until there is another holder; return whether there is."""
        try:
            async with asyncio.timeout(delay_s):
                await self._news.wait()
        except TimeoutError:
            return False
        return True
