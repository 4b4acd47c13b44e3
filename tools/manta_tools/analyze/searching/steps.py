# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A search written as a generator: it yields trials, and is sent what came of them.

What it was told before is never asked for again, so a search that starts over with what a
checkpoint holds goes on where the first one ended.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import islice
from typing import TypeVar

from manta_tools.analyze.records import Measured, Trial

R = TypeVar("R")
# Trials that may be run at once, and their outcomes in the same order.
Steps = Generator[Sequence[Trial], Sequence[Measured], R]


class SteppedSearch:
    """A `Search` that follows a generator."""

    def __init__(self, steps: Callable[[], Steps[object]]) -> None:
        self._steps = steps()
        self._known: dict[Trial, Measured] = {}
        # None before the first step, and after the last.
        self._asked: Sequence[Trial] | None = None
        self._is_started = self._is_over = False

    def ask(self) -> Sequence[Trial]:
        """Return trials that may be run at once; none when the search is over."""
        if not self._is_started:
            self._is_started = True
            self._advance(None)
        while not self._is_over and self._asked is not None:
            unknown = [trial for trial in self._asked if trial not in self._known]
            if unknown:
                return list(dict.fromkeys(unknown))
            self._advance([self._known[trial] for trial in self._asked])
        return []

    def tell(self, measured: Measured) -> None:
        """Take the outcome of a trial, also one that nobody has asked for yet."""
        self._known[measured.trial] = measured

    def _advance(self, outcomes: Sequence[Measured] | None) -> None:
        try:
            if outcomes is None:
                self._asked = next(self._steps)
            else:
                self._asked = self._steps.send(outcomes)
        except StopIteration:
            self._asked, self._is_over = None, True


def side_by_side(searches: Iterable[Steps[R]], width: int) -> Steps[list[R]]:
    """Run so many searches at once and return what each returns, in their order.

    With a width of 1 they run in turn, so trials of the same candidate follow one another.
    """
    queue = enumerate(searches)
    results: dict[int, R] = {}
    running: list[tuple[int, Steps[R], Sequence[Trial]]] = []
    while True:
        while len(running) < width and (fresh := list(islice(queue, 1))):
            index, search = fresh[0]
            _advance(running, results, index, search, None)
        if not running:
            return [results[index] for index in sorted(results)]
        outcomes = yield [trial for _, _, trials in running for trial in trials]
        rest = iter(outcomes)
        current, running = running, []
        for index, search, trials in current:
            _advance(running, results, index, search, list(islice(rest, len(trials))))


def _advance(
    running: list[tuple[int, Steps[R], Sequence[Trial]]],
    results: dict[int, R],
    index: int,
    search: Steps[R],
    outcomes: Sequence[Measured] | None,
) -> None:
    """Let a search go one step on; it is running, or has its result."""
    try:
        trials = next(search) if outcomes is None else search.send(outcomes)
        running.append((index, search, trials))
    except StopIteration as stop:
        results[index] = stop.value
