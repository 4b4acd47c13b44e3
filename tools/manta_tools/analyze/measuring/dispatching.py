# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Gives trials to the places where they are measured, each to one that is free."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from backends.api.errors import UnavailableError
from backends.api.model_config import ModelConfig
from manta_tools.analyze.records import Candidate, Measured, Trial

# A trial that has cost so many places is an outcome: it may be what they die of.
_MOST_LOSSES: Final = 2

Running = dict["asyncio.Task[Measured]", tuple["Place", Trial]]


class PlaceLostError(UnavailableError):
    """A place measures nothing any more; the message says which and why."""


class Place(Protocol):
    """Where trials are measured, one after the other: a server, and clients beside it."""

    @property
    def name(self) -> str:
        """What lines call it; empty for this machine."""

    @property
    def idle_gpus(self) -> Mapping[str, Mapping[str, float]]:
        """Metrics of its GPUs by UUID before any model was loaded."""

    async def measure(self, trial: Trial) -> Measured:
        """Serve the candidate, put it under load and return what came of it.

        Raises:
            PlaceLostError: Nothing is measured there any more.
        """

    async def default_config(self, model: str) -> ModelConfig:
        """Return a model's config as its repository says, completed by the server.

        Raises:
            UnavailableError: The model does not load.
            PlaceLostError: Nothing is measured there any more.
        """

    async def close(self) -> None:
        """Stop what was started there."""


class Pool:
    """Places that share trials.

    Args:
        places: At least one, with different names.
        say: Takes a line about a place that is lost.
        hardware: What each of them has, as JSON; empty for this machine.

    Attributes:
        width: How many trials may run at once.
        hardware: The same.
    """

    def __init__(
        self,
        places: Sequence[Place],
        say: Callable[[str], None],
        hardware: Mapping[str, Any] | None = None,
    ) -> None:
        self.width, self.hardware = len(places), dict(hardware or {})
        self._say = say
        self._all, self._left = tuple(places), list(places)
        self._reasons: list[str] = []
        self._losses: Counter[Trial] = Counter()
        # By name of a place: what it has measured last, and so has loaded.
        self._loaded: dict[str, Candidate] = {}

    @property
    def idle_gpus(self) -> Mapping[str, Mapping[str, float]]:
        """Metrics of the GPUs of all places by UUID before any model was loaded."""
        return {uuid: metrics for each in self._all for uuid, metrics in each.idle_gpus.items()}

    async def default_config(self, model: str) -> ModelConfig:
        """Return a model's config as its repository says, completed by a server.

        Raises:
            UnavailableError: The model does not load, or no place is left.
        """
        while self._left:
            place = self._left[0]
            try:
                return await place.default_config(model)
            except PlaceLostError as error:
                self._lose(place, error)
        raise self._none_is_left()

    async def measure_all(
        self,
        trials: Sequence[Trial],
        *,
        is_stopping: Callable[[], bool],
        on_measured: Callable[[Measured, str], None],
    ) -> bool:
        """Measure trials, and return whether all of them were.

        A trial whose place is lost is measured again elsewhere, once.

        Args:
            trials: The trials, in the order in which they are begun.
            is_stopping: Whether no more are begun; those that run are waited for.
            on_measured: Takes each outcome as it comes, and the name of its place.

        Raises:
            UnavailableError: No place is left.
        """
        waiting, running = list(trials), Running()
        try:
            while True:
                if not is_stopping():
                    self._begin(waiting, running)
                if not running:
                    return not waiting
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in [each for each in running if each in done]:
                    place, trial = running.pop(task)
                    measured = self._outcome(task, place, trial)
                    if measured is None:
                        waiting.insert(0, trial)
                    else:
                        on_measured(measured, place.name)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def close(self) -> None:
        """Stop what was started, at all places at once; the first error is raised in the end."""
        outcomes = await asyncio.gather(
            *(each.close() for each in self._all), return_exceptions=True
        )
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    def _begin(self, waiting: list[Trial], running: Running) -> None:
        """Give trials to all places that are free."""
        if waiting and not self._left:
            raise self._none_is_left()
        busy = {place.name for place, _ in running.values()}
        free = [each for each in self._left if each.name not in busy]
        while waiting and free:
            trial, place = _pair(waiting, free, self._loaded)
            waiting.remove(trial)
            free.remove(place)
            self._loaded[place.name] = trial.candidate
            running[asyncio.create_task(_measure(place, trial))] = (place, trial)

    def _outcome(
        self, task: "asyncio.Task[Measured]", place: Place, trial: Trial
    ) -> Measured | None:
        """Return what came of a trial; None where it is to be measured again."""
        try:
            return task.result()
        except PlaceLostError as error:
            self._lose(place, error)
            self._losses[trial] += 1
            if self._losses[trial] < _MOST_LOSSES:
                return None
            reason = f"{_MOST_LOSSES} nodes were lost while it was measured, the last: {error}"
            return Measured(trial, {}, is_stable=False, error=reason)

    def _lose(self, place: Place, error: PlaceLostError) -> None:
        self._left.remove(place)
        self._reasons.append(str(error))
        self._say(f"note: {error}; {len(self._left)} of {self.width} nodes are left")

    def _none_is_left(self) -> UnavailableError:
        return UnavailableError(
            f"none of {self.width} nodes is left ({'; '.join(self._reasons)}), expected one at "
            "least; run the same command again once nodes are there, and it goes on from the "
            "checkpoint"
        )


async def _measure(place: Place, trial: Trial) -> Measured:
    return await place.measure(trial)


def _pair(
    waiting: Sequence[Trial], free: Sequence[Place], loaded: Mapping[str, Candidate]
) -> tuple[Trial, Place]:
    """Return what is begun next and where: a candidate stays where it is loaded already.

    Else it is the first trial, at a place whose candidate nobody waits for if there is one.
    """
    for trial in waiting:
        for place in free:
            if loaded.get(place.name) == trial.candidate:
                return trial, place
    wanted = {trial.candidate for trial in waiting}
    unwanted = (each for each in free if loaded.get(each.name) not in wanted)
    return waiting[0], next(unwanted, free[0])
