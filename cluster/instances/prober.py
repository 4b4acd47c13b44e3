# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Finds instances that are alive and get nowhere: stopped processes, hung reactors and threads.

One round after the other asks every instance once, the questions spread evenly over the round. It
takes half the time that an instance may get nowhere, and longer only where there are thousands. An
instance that does not answer, or whose answer says that it gets nowhere, is asked again until it
does or its time is up. A router that has seen an instance fall silent has it asked at once, with
little time.

One that says nothing because its node is cut off is given more time: a network that comes back
within it costs no instance. Of a node that does not come back Ray tells, or the time is over.

Time is given in slices of which only one can pass while this process itself is stopped: whoever
wakes up late does not take the others for hung.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from deployments.instance.progress import Progress
from deployments.supervision.supervisor import Supervisor

# A sixth of what one process can ask; two thousand instances are asked in a round of 5 s.
MOST_QUESTIONS_PER_S: Final = 400.0
# What an instance gets that a router has waited for already.
_SUSPECT_PATIENCE_S: Final = 2.0
_SLICES: Final = 4
# How many more times the whole patience an instance gets whose node is cut off.
_CUT_OFF_ROUNDS: Final = 2

AskProgress = Callable[[], Awaitable[Progress]]
# Whether the instance's node is cut off; has so many seconds to find out.
AskCutOff = Callable[[float], Awaitable[bool]]


async def _never(_: float) -> bool:
    return False


@dataclass(slots=True, eq=False)
class _Watched:
    ask: AskProgress
    is_cut_off: AskCutOff
    wedged: asyncio.Future[None]
    examination: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Prober:
    """Asks all instances of one controller for their progress.

    Args:
        timeout_s: How long an instance may get nowhere; 0.0 turns the asking off.
    """

    timeout_s: float
    _watched: dict[str, _Watched] = field(default_factory=dict)
    _supervisor: Supervisor = field(default_factory=lambda: Supervisor("prober"))
    _is_running: bool = False

    @property
    def round_s(self) -> float:
        """How long one round takes at present."""
        return max(self.timeout_s / 2, len(self._watched) / MOST_QUESTIONS_PER_S)

    def watch(
        self, incarnation: str, ask: AskProgress, is_cut_off: AskCutOff = _never
    ) -> asyncio.Future[None]:
        """Ask an instance from now on, until `forget`.

        Args:
            incarnation: Its process.
            ask: Asks it; may raise anything, which counts as no answer.
            is_cut_off: Whether its node is cut off; asked when it does not get on.

        Returns:
            What is done when the instance is wedged.
        """
        loop = asyncio.get_running_loop()
        self._watched[incarnation] = _Watched(ask, is_cut_off, loop.create_future())
        if self.timeout_s and not self._is_running:
            self._is_running = True
            self._supervisor.keep("rounds", self._go_round)
        return self._watched[incarnation].wedged

    def forget(self, incarnation: str) -> None:
        """Ask an instance no more."""
        watched = self._watched.pop(incarnation, None)
        if watched is not None and watched.examination is not None:
            watched.examination.cancel()

    def suspect(self, incarnation: str) -> None:
        """Ask an instance at once that a router got no answer from; an unknown one is ignored."""
        watched = self._watched.get(incarnation)
        if watched is not None:
            if watched.examination is not None:
                watched.examination.cancel()
            self._examine(watched, min(_SUSPECT_PATIENCE_S, self.timeout_s))

    async def ask_all(self, incarnations: Iterable[str], timeout_s: float) -> dict[str, Progress]:
        """Ask instances for their progress at once.

        Returns:
            By incarnation: the answers that came in time.
        """
        asked = {
            each: asyncio.ensure_future(_progress_of(self._watched[each].ask))
            for each in incarnations
            if each in self._watched
        }
        if asked:
            _, late = await asyncio.wait(asked.values(), timeout=timeout_s)
            for task in late:
                task.cancel()
        answers = {each: task.result() for each, task in asked.items() if task.done()}
        return {each: progress for each, progress in answers.items() if progress is not None}

    async def close(self) -> None:
        """Ask nobody any more."""
        await self._supervisor.close()

    async def _go_round(self) -> None:
        while True:
            for incarnation in list(self._watched):
                await asyncio.sleep(self.round_s / max(1, len(self._watched)))
                watched = self._watched.get(incarnation)
                if watched is not None and watched.examination is None:
                    self._examine(watched, self.timeout_s)
            if not self._watched:
                await asyncio.sleep(self.round_s)

    def _examine(self, watched: _Watched, patience_s: float) -> None:
        task = self._supervisor.spawn("examination", self._judge(watched, patience_s))
        watched.examination = task
        task.add_done_callback(lambda ended: _ended(watched, ended))

    async def _judge(self, watched: _Watched, patience_s: float) -> None:
        was_cut_off = False
        left = _CUT_OFF_ROUNDS
        while not await _gets_on(watched.ask, patience_s / _SLICES):
            is_cut_off = await watched.is_cut_off(self.timeout_s / _SLICES)
            # One whose node has just come back has not been asked since.
            if not (is_cut_off or was_cut_off) or (is_cut_off and not left):
                break
            left -= is_cut_off
            was_cut_off, patience_s = is_cut_off, self.timeout_s
        else:
            return
        if not watched.wedged.done():
            watched.wedged.set_result(None)


def _ended(watched: _Watched, task: asyncio.Task[None]) -> None:
    if watched.examination is task:
        watched.examination = None


async def _gets_on(ask: AskProgress, slice_s: float) -> bool:
    """Ask until the answer is that the instance gets on; False when the slices are over."""
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[bool] | None = None
    try:
        for _ in range(_SLICES):
            ends_s = loop.time() + slice_s
            if asked is None:
                asked = asyncio.ensure_future(_has_progress(ask))
            await asyncio.wait({asked}, timeout=slice_s)
            if not asked.done():
                continue
            if asked.result():
                return True
            asked = None
            await asyncio.sleep(ends_s - loop.time())
        return False
    finally:
        if asked is not None:
            asked.cancel()


async def _progress_of(ask: AskProgress) -> Progress | None:
    with contextlib.suppress(Exception):
        return await ask()
    return None


async def _has_progress(ask: AskProgress) -> bool:
    progress = await _progress_of(ask)
    return progress is not None and progress.turned and not progress.is_stuck
