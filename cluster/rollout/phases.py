# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The life of a rollout: a table of changes. Pure.

`PROMOTING` and `ROLLING_BACK` are phases of their own so that routers have taken the weights before
the rollout is over; of blue/green, `PROMOTING` is the time in which the way back is open.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from deployments.rollouts.spec import Phase


class Event(StrEnum):
    """What can happen to a rollout."""

    START = "START"
    STEP = "STEP"
    PAUSE = "PAUSE"
    RESUME = "RESUME"
    PROMOTE = "PROMOTE"
    ROLL_BACK = "ROLL_BACK"
    DONE = "DONE"
    END = "END"
    SUPERSEDE = "SUPERSEDE"


_OVER: Final[Mapping[Event, Phase]] = {
    Event.END: Phase.ENDED,
    Event.SUPERSEDE: Phase.SUPERSEDED,
}

TRANSITIONS: Final[Mapping[Phase, Mapping[Event, Phase]]] = {
    Phase.CREATED: {
        Event.START: Phase.PROGRESSING,
        Event.PAUSE: Phase.PAUSED,
        Event.PROMOTE: Phase.PROMOTING,
        Event.ROLL_BACK: Phase.ROLLING_BACK,
        **_OVER,
    },
    Phase.PROGRESSING: {
        Event.STEP: Phase.PROGRESSING,
        Event.PAUSE: Phase.PAUSED,
        Event.PROMOTE: Phase.PROMOTING,
        Event.ROLL_BACK: Phase.ROLLING_BACK,
        **_OVER,
    },
    Phase.PAUSED: {
        Event.RESUME: Phase.PROGRESSING,
        Event.PROMOTE: Phase.PROMOTING,
        Event.ROLL_BACK: Phase.ROLLING_BACK,
        **_OVER,
    },
    Phase.PROMOTING: {
        Event.DONE: Phase.PROMOTED,
        Event.ROLL_BACK: Phase.ROLLING_BACK,
        **_OVER,
    },
    Phase.ROLLING_BACK: {Event.DONE: Phase.ROLLED_BACK, **_OVER},
    Phase.PROMOTED: {},
    Phase.ROLLED_BACK: {},
    Phase.ENDED: {},
    Phase.SUPERSEDED: {},
}


def phase_after(phase: Phase, event: Event) -> Phase:
    """Look the change up.

    Raises:
        KeyError: The event is illegal in this phase.
    """
    return TRANSITIONS[phase][event]
