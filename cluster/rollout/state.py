# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A rollout with all that has become of it, and its life: a table of changes. Pure.

It is a value that survives its controller as JSON. `PROMOTING` and `ROLLING_BACK` are phases of
their own so that routers have taken the weights before the rollout is over; of blue/green,
`PROMOTING` is the time in which the way back is open.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import msgspec

from backends.api.errors import InternalError
from cluster.rollout.analysis import Trial, begun, judge
from deployments.rollouts.spec import (
    MOST_DECISIONS,
    TOTAL_WEIGHT,
    Analysis,
    Arm,
    Decision,
    Kind,
    Phase,
    Rollout,
    Status,
    Traffic,
)

# Of a rollout that nobody judges: nothing is compared, and all is well.
UNJUDGED: Final = Analysis(metrics=())

# Match rules hold while both versions are tried, and no longer.
_WITH_RULES: Final = frozenset((Phase.PROGRESSING, Phase.PAUSED))
_WITHOUT_TRAFFIC: Final = frozenset((Phase.ENDED, Phase.SUPERSEDED))


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


@dataclass(frozen=True, slots=True)
class State:
    """A rollout and what has become of it.

    Attributes:
        rollout: What was asked for.
        salt: Of the hash of keys.
        phase: Of its life.
        step: Of a canary; 0 of other kinds once they have started; -1 before.
        weights: By arm, in force, basis points; together 10,000 always.
        revision: Grows with each change of what routers need.
        started_s: When it was created, seconds since the epoch.
        changed_s: When the phase or step began.
        active_s: How long it has progressed: neither paused nor waiting for a version.
        step_s: How long it has progressed in this step.
        seen_s: When it was last looked at.
        period_s: How much of the period of the analysis is over.
        unready_s: How long the candidate has been unable to serve; 0.0 while it can.
        ready_s: How long all versions have been able to serve without a break.
        trial: What the analysis has counted.
        history: The last decisions.
    """

    rollout: Rollout
    salt: str
    phase: Phase
    step: int
    weights: tuple[int, ...]
    revision: int
    started_s: float
    changed_s: float
    seen_s: float
    trial: Trial
    active_s: float = 0.0
    step_s: float = 0.0
    period_s: float = 0.0
    unready_s: float = 0.0
    ready_s: float = 0.0
    history: tuple[Decision, ...] = ()

    @property
    def analysis(self) -> Analysis:
        """How the candidate is judged."""
        return self.rollout.analysis or UNJUDGED

    @property
    def has_candidate(self) -> bool:
        """Whether there is a version that can be promoted or rolled back."""
        return self.rollout.kind not in {Kind.AB, Kind.SHADOW}

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms with the weights in force."""
        return tuple(
            replace(arm, weight=weight)
            for arm, weight in zip(self.rollout.arms, self.weights, strict=True)
        )


def created(rollout: Rollout, rollout_id: str, now_s: float) -> State:
    """Return a rollout that has just been asked for.

    Args:
        rollout: What was asked for.
        rollout_id: Salts the hash of keys where the rollout names no salt.
        now_s: Seconds since the epoch.
    """
    return State(
        rollout=rollout,
        salt=rollout.salt or rollout_id,
        phase=Phase.CREATED,
        step=-1,
        weights=stable_weights(rollout),
        revision=1,
        started_s=now_s,
        changed_s=now_s,
        seen_s=now_s,
        trial=begun(rollout.analysis or UNJUDGED),
    )


def stable_weights(rollout: Rollout) -> tuple[int, ...]:
    """Return weights by which the stable arm answers all requests."""
    return (TOTAL_WEIGHT, *(0 for _ in rollout.arms[1:]))


def candidate_weights(rollout: Rollout, weight: int) -> tuple[int, ...]:
    """Return weights by which the candidate answers ``weight`` basis points."""
    return (TOTAL_WEIGHT - weight, weight, *(0 for _ in rollout.arms[2:]))


def changed(
    state: State,
    event: Event,
    action: str,
    reason: str,
    now_s: float,
    weights: tuple[int, ...] | None = None,
) -> tuple[State, Decision]:
    """Return the state after an event, and the decision that tells of it.

    Raises:
        KeyError: The event is illegal in this phase.
    """
    after = replace(state, phase=phase_after(state.phase, event), changed_s=now_s)
    return decided(after, action, reason, now_s, weights)


def decided(
    state: State, action: str, reason: str, now_s: float, weights: tuple[int, ...] | None = None
) -> tuple[State, Decision]:
    """Return the state with a decision in its history, and other weights perhaps."""
    weights = state.weights if weights is None else weights
    named = {arm.name: weight for arm, weight in zip(state.rollout.arms, weights, strict=True)}
    decision = Decision(now_s, action, reason, named)
    history = (*state.history, decision)[-MOST_DECISIONS:]
    after = replace(state, weights=weights, history=history, revision=state.revision + 1)
    return after, decision


def traffic_of(state: State) -> Traffic | None:
    """Return what routers need; None where the model's version policy chooses again."""
    if state.phase in _WITHOUT_TRAFFIC:
        return None
    rollout = state.rollout
    has_begun = state.phase in _WITH_RULES and state.step >= 0
    return Traffic(
        revision=state.revision,
        salt=state.salt,
        arms=state.arms,
        rules=rollout.rules if has_begun else (),
        sticky=rollout.sticky,
        shadow=rollout.shadow if has_begun else None,
    )


def status_of(state: State) -> Status:
    """Return what a user is told."""
    steps = max(1, len(state.rollout.steps))
    evidence: dict[str, str] = {}
    if not state.phase.is_terminal:
        verdicts = judge(state.trial, state.analysis, steps)
        evidence = {label: verdict.reason for label, verdict in verdicts.items()}
    return Status(
        phase=state.phase,
        step=state.step,
        arms=state.arms,
        reason=state.history[-1].reason if state.history else "waits until all versions can serve",
        started_s=state.started_s,
        changed_s=state.changed_s,
        evidence=evidence,
        history=state.history,
    )


_decoder = msgspec.json.Decoder(State)


def encode(state: State) -> bytes:
    """Return the state as JSON, without the counters of the current period."""
    return msgspec.json.encode(replace(state, trial=replace(state.trial, last=None)))


def decode(data: bytes) -> State:
    """Read what `encode` wrote; the first reading of the analysis then begins a period.

    Raises:
        InternalError: The bytes are no state.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InternalError(f"the stored state of a rollout cannot be read: {error}") from error
