# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether an instance gets on, for observers outside its process: a long execution is no hang.

Asking costs the instance's requests nothing. The observer has both threads of the instance do
something harmless, the reactor's one turn and the execution thread one look at its queue, and
compares what has happened with the time before.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from backends.api.evolving import evolves
from deployments.instance.executor import Executor
from deployments.instance.process_load import UNUSED, ProcessLoad, load_of
from deployments.reactor.reactor import Reactor

# A turn of the reactor takes less than a thousandth of that, on a busy machine a tenth.
TURN_TIMEOUT_S: Final = 1.0
_NS_PER_S: Final = 1e9


@dataclass(frozen=True, slots=True)
class Progress:
    """What an instance has got done when asked.

    Attributes:
        turned: Whether its reactor turned within `TURN_TIMEOUT_S`: its lanes are served.
        executing_for_s: How long the present execution has lasted; 0.0 while there is none.
        is_stuck: Whether requests wait, none executes, and the execution thread has done nothing
            since progress was asked for the last time.
        load: How much it is used.
    """

    turned: bool
    executing_for_s: float
    is_stuck: bool
    load: ProcessLoad = field(default=UNUSED, compare=False)

    @property
    def is_busy(self) -> bool:
        """Whether requests run or wait there."""
        return self.load.pending_count > 0 or self.executing_for_s > 0


evolves(Progress)

# Of an instance that is not loaded yet: nothing is asked of it, so nothing hangs.
NOT_SERVING: Final = Progress(turned=True, executing_for_s=0.0, is_stuck=False)


class ProgressWatch:
    """Asks one instance for its progress, again and again.

    Args:
        executor: The instance's executor.
        reactor: The reactor of its lanes.
    """

    def __init__(self, executor: Executor, reactor: Reactor) -> None:
        self._executor = executor
        self._reactor = reactor
        # Decisions and executions, as far as the thread had got when it had work and did nothing.
        self._last: tuple[int, int] | None = None

    async def ask(self) -> Progress:
        """Look at both threads, for `TURN_TIMEOUT_S` at most; on any event loop."""
        turn = self._reactor.submit(lambda: None)
        activity = self._executor.activity()
        self._executor.poke()
        now: tuple[int, int] | None = None
        if activity.pending_count and not activity.executing_for_ns:
            now = activity.decision_count, activity.execution_count
        is_stuck = now is not None and now == self._last
        self._last = now
        turned = True
        try:
            async with asyncio.timeout(TURN_TIMEOUT_S):
                await asyncio.wrap_future(turn)
        except TimeoutError:
            turned = False
        executing_for_s = activity.executing_for_ns / _NS_PER_S
        return Progress(turned, executing_for_s, is_stuck, load_of(activity))
