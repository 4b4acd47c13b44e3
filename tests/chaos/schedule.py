# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""When which fault strikes: drawn from a seed, printed, and read again.

A schedule is drawn round by round. In each round every kind strikes once, in an order of its own,
so that a short run has seen each kind before one comes back.
"""

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Final

# Between the end of a fault and the beginning of the next. What a fault has broken may still be
# healing then.
_SHORTEST_GAP_S: Final = 1.5
_LONGEST_GAP_S: Final = 7.0
_DRAWS: Final = 1 << 16


@dataclass(frozen=True)
class Kind:
    """What a schedule has to know of a kind of fault.

    Attributes:
        name: Its name in the table of faults.
        shortest_s: How long it lasts at least; longest_s: at most. Both 0: it is over at once.
        rounds: It strikes in each so-manieth round only.
    """

    name: str
    shortest_s: float = 0.0
    longest_s: float = 0.0
    rounds: int = 1


@dataclass(frozen=True)
class Event:
    """A fault in a schedule.

    Attributes:
        at_s: When it begins, counted from the beginning of the schedule; later if the one before it
            takes longer than planned.
        fault: Name of its kind.
        lasts_s: How long it lasts.
        draw: Chooses whom it hits, out of those there are then.
    """

    at_s: float
    fault: str
    lasts_s: float
    draw: int


@dataclass(frozen=True)
class Schedule:
    """Faults in the order of time.

    Attributes:
        seed: What it was drawn from.
        length_s: How long the load lasts; the last fault ends before.
        events: The faults.
    """

    seed: int
    length_s: float
    events: tuple[Event, ...]

    def choose(self, names: Iterable[str]) -> "Schedule":
        """Return the same schedule with the faults of some kinds only."""
        wanted = frozenset(names)
        events = tuple(event for event in self.events if event.fault in wanted)
        return Schedule(self.seed, self.length_s, events)


def draw_schedule(seed: int, length_s: float, kinds: Iterable[Kind]) -> Schedule:
    """Draw a schedule; the same arguments give the same one.

    Args:
        seed: Any number.
        length_s: How long the load lasts.
        kinds: The kinds that may strike; their order does not matter.
    """
    events = []
    for event in _endless(random.Random(seed), sorted(kinds, key=lambda kind: kind.name)):
        if event.at_s + event.lasts_s > length_s:
            break
        events.append(event)
    return Schedule(seed, length_s, tuple(events))


def _endless(source: random.Random, kinds: list[Kind]) -> Iterator[Event]:
    at_s, number = 0.0, 0
    while kinds:
        due = [kind for kind in kinds if number % kind.rounds == 0]
        source.shuffle(due)
        for kind in due:
            at_s = round(at_s + source.uniform(_SHORTEST_GAP_S, _LONGEST_GAP_S), 3)
            lasts_s = round(source.uniform(kind.shortest_s, kind.longest_s), 3)
            yield Event(at_s, kind.name, lasts_s, source.randrange(_DRAWS))
            at_s = round(at_s + lasts_s, 3)
        number += 1


def render(schedule: Schedule) -> str:
    """Return a schedule as text: a line of JSON for itself, and one for each fault."""
    head = {"seed": schedule.seed, "length_s": schedule.length_s}
    lines = [head, *(asdict(event) for event in schedule.events)]
    return "".join(json.dumps(line) + "\n" for line in lines)


def parse(text: str, known: Iterable[str]) -> Schedule:
    """Read what `render` has written. Empty lines and lines that begin with # are passed over.

    Raises:
        ValueError: A line is not one of a schedule, names a kind that is not known, or begins
            before the one above it.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise ValueError("the schedule is empty; expected a line with seed and length_s")
    names = frozenset(known)
    try:
        head = json.loads(lines[0])
        seed, length_s = int(head["seed"]), float(head["length_s"])
    except (ValueError, LookupError, TypeError):
        expected = '{"seed": 7, "length_s": 180}'
        raise ValueError(f"line '{lines[0]}' of a schedule: expected {expected}") from None
    events: list[Event] = []
    for line in lines[1:]:
        event = _event(line)
        if event.fault not in names:
            known_text = ", ".join(sorted(names))
            raise ValueError(f"unknown fault '{event.fault}'; expected one of {known_text}")
        if events and event.at_s < events[-1].at_s:
            raise ValueError(f"line '{line}' of a schedule begins before the line above it")
        events.append(event)
    return Schedule(seed, length_s, tuple(events))


def _event(line: str) -> Event:
    try:
        found = json.loads(line)
        return Event(
            float(found["at_s"]), str(found["fault"]), float(found["lasts_s"]), int(found["draw"])
        )
    except (ValueError, LookupError, TypeError):
        expected = '{"at_s": 4.5, "fault": "kill-instance", "lasts_s": 0, "draw": 17}'
        raise ValueError(f"line '{line}' of a schedule: expected {expected}") from None
