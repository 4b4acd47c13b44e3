# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Control calls on the instances that a router has lanes to."""

import asyncio
from collections.abc import Iterable
from typing import Final

from deployments.routing.links import LinkSet
from deployments.routing.pool import Link
from deployments.supervision.supervisor import Supervisor

_GREETING_TIMEOUT_S: Final = 5.0


class InstanceCalls:
    """Calls instances.

    Attributes:
        greeting: Method and payload of the control call that each instance gets when a lane to it
            opens; None for no call.
    """

    def __init__(self, links: LinkSet, tasks: Supervisor) -> None:
        self._links = links
        self._tasks = tasks
        self.greeting: tuple[str, bytes] | None = None

    async def ask(
        self, links: Iterable[Link], method: str, timeout_s: float, payload: bytes = b""
    ) -> list[bytes | None]:
        """Call a control method on instances, all at once.

        Returns:
            For each link the answer; None for an instance that does not answer in time.
        """
        answers = await asyncio.gather(
            *(_asked(link, method, payload, timeout_s) for link in links), return_exceptions=True
        )
        return [answer if isinstance(answer, bytes) else None for answer in answers]

    def greet(self, method: str, payload: bytes) -> None:
        """Call a control method on every instance, also on those that come later."""
        self.greeting = (method, payload)
        self.send_greeting(self._links.all())

    def send_greeting(self, links: list[Link]) -> None:
        """Greet instances, if there is a greeting."""
        if self.greeting is None:
            return
        method, payload = self.greeting
        calls = self.ask(links, method, _GREETING_TIMEOUT_S, payload)
        self._tasks.spawn(f"call of '{method}'", calls)


async def _asked(link: Link, method: str, payload: bytes, timeout_s: float) -> bytes | None:
    return None if link.lane is None else await link.lane.call(method, payload, timeout_s)
