# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The reconciler: one loop that has all policies of the controller look at the cluster.

In a pass the policies that are due look one after the other, in their order of precedence, so that
a later one meets what an earlier one has begun. A pass waits for its looks for half a second in
all. What takes longer goes on beside the passes, and is not begun again before it has ended: a head
or a node that does not answer costs the other policies half a second, once.

An error is the policy's own. It is logged once, until it is another or there is none; the policy
looks again at growing intervals, and all others go on.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from backends.api.errors import TritonError

_log = logging.getLogger(__name__)

# What a pass waits for all its looks, in sum; instances and the head answer within it.
PATIENCE_S: Final = 0.5
# Between the end of a look and the next one that is asked for.
LEAST_S: Final = 0.5
# What is due so soon looks in the same pass.
_TOGETHER_S: Final = 0.1
# The longest interval after errors, of policies that look more often.
LONGEST_S: Final = 10.0

# Looks, begins what is to be done, and returns when to look again; None for the policy's period.
Look = Callable[[], Awaitable[float | None]]


@dataclass(frozen=True, slots=True)
class Policy:
    """A row of the table of policies.

    Attributes:
        name: What it is called, also in the log.
        period_s: How often it looks; what its look returns overrules it.
        decides: What it has the controller do, for people.
        longest_s: The longest interval after errors, if its period is shorter.
    """

    name: str
    period_s: float
    decides: str
    longest_s: float = LONGEST_S


@dataclass(slots=True, eq=False)
class _Turn:
    """When a policy is due, and how it got on."""

    policy: Policy
    look: Look
    due_s: float
    ended_s: float = float("-inf")
    failures: int = 0
    logged: str = ""
    work: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return self.work is None or self.work.done()


class Reconciler:
    """Has policies look; made on the event loop.

    Args:
        policies: All policies, the first one first.
        looks: By name: those that there are on this server.
    """

    def __init__(self, policies: Iterable[Policy], looks: Mapping[str, Look]) -> None:
        self._clock_s = asyncio.get_running_loop().time
        now_s = self._clock_s()
        self._turns = {
            each.name: _Turn(each, looks[each.name], now_s + each.period_s)
            for each in policies
            if each.name in looks
        }
        self._wake = asyncio.Event()

    def look_soon(self, name: str) -> None:
        """Have a policy look at once, or half a second after its last look has ended, if any."""
        turn = self._turns.get(name)
        if turn is not None:
            turn.due_s = min(turn.due_s, turn.ended_s + LEAST_S)
            self._wake.set()

    async def run(self) -> None:
        """Make passes, for ever; the looks that go on end with this."""
        try:
            while True:
                self._wake.clear()
                due_s = min((t.due_s for t in self._turns.values() if t.is_idle), default=None)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(due_s):
                        await self._wake.wait()
                await self._pass()
        finally:
            for turn in self._turns.values():
                if turn.work is not None:
                    turn.work.cancel()

    async def _pass(self) -> None:
        now_s = self._clock_s()
        until_s = now_s + PATIENCE_S
        for turn in self._turns.values():
            if turn.is_idle and turn.due_s <= now_s + _TOGETHER_S:
                turn.due_s = float("inf")
                turn.work = asyncio.create_task(self._look(turn, now_s), name=turn.policy.name)
                await asyncio.wait({turn.work}, timeout=max(0.0, until_s - self._clock_s()))

    async def _look(self, turn: _Turn, begun_s: float) -> None:
        policy, delay_s = turn.policy, None
        try:
            delay_s = await turn.look()
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Ray's client raises what it likes; a look may be cancelled by something else.
            turn.failures += 1
            limit_s = max(policy.period_s, policy.longest_s)
            delay_s = min(max(policy.period_s, LEAST_S) * 2.0 ** min(turn.failures, 8), limit_s)
            self._tell(turn, error, delay_s)
        else:
            turn.failures, turn.logged = 0, ""
        finally:
            now_s = turn.ended_s = self._clock_s()
            # What takes no time looks at whole periods, with others; what took long has a pause.
            from_s = begun_s if now_s <= begun_s + PATIENCE_S else now_s
            due_s = from_s + (policy.period_s if delay_s is None else delay_s)
            turn.due_s = max(now_s + min(LEAST_S, policy.period_s), min(turn.due_s, due_s))
            self._wake.set()

    def _tell(self, turn: _Turn, error: BaseException, delay_s: float) -> None:
        text = error.message if isinstance(error, TritonError) else repr(error)
        if text == turn.logged:
            return
        turn.logged = text
        is_rays = type(error).__module__.partition(".")[0] == "ray"
        is_expected = is_rays or isinstance(error, TritonError | OSError)
        level = logging.WARNING if is_expected else logging.ERROR
        message = "policy '%s' failed and is tried again in %g s: %s"
        _log.log(level, message, turn.policy.name, delay_s, text, exc_info=not is_expected)
