# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A watch for a wall clock that is set back, which stops health checks of Ray Serve.

Serve's controller dates the health checks of replicas by the wall clock of the head node, and makes
the next one a period after the last. After an hour back it makes none for an hour, and starts no
ingress again that dies meanwhile. A controller of Serve that is started again has dated none yet.

Ray: python/ray/serve/_private/deployment_state.py _should_start_new_health_check
"""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

_log = logging.getLogger(__name__)

# A health check that is late by as much as this harms nobody.
STEP_S: Final = 5.0


@dataclass(slots=True, eq=False)
class WallClockWatch:
    """Compares the wall clock with a monotonic one; runs on the head node, as Serve's controller.

    Attributes:
        restart_serve: Has Ray start Serve's controller again. May raise what Ray raises.
        wall_s: Wall clock.
        clock_s: Monotonic clock.
    """

    restart_serve: Callable[[], Awaitable[None]]
    wall_s: Callable[[], float] = time.time
    clock_s: Callable[[], float] = time.monotonic
    _offset_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._offset_s = self.wall_s() - self.clock_s()

    async def look(self) -> None:
        """Restart Serve's controller if the wall clock was set back; call it again and again."""
        offset_s = self.wall_s() - self.clock_s()
        back_s = self._offset_s - offset_s
        if back_s >= STEP_S:
            _log.warning(
                "the wall clock was set back by %.0f s: the controller of Ray Serve is restarted,"
                " whose health checks wait for as long otherwise",
                back_s,
            )
            await self.restart_serve()
        self._offset_s = offset_s
