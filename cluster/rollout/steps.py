# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of a rollout next. Pure: observations and the time are given.

Theory of operation. `advanced` is called again and again with what is seen of the versions. It
counts time only while the rollout progresses: not while it is paused, and not while a version
cannot serve. Then all requests go to the stable arm, and a candidate that stays away is rolled
back. Each change is a `Decision` with its reason, and the weights are those of the last one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from backends.api.errors import InvalidArgumentError
from cluster.rollout.analysis import Outcome, Verdict, judge, next_step, observed, summed
from cluster.rollout.readings import ArmReading
from cluster.rollout.state import (
    TRANSITIONS,
    Event,
    State,
    candidate_weights,
    changed,
    decided,
    stable_weights,
)
from deployments.rollouts.spec import (
    TOTAL_WEIGHT,
    AtTimeout,
    Decision,
    Kind,
    Phase,
    RampPoint,
)

# A candidate that cannot serve for so long is rolled back.
UNREADY_LIMIT_S: Final = 120.0
# A ramp's weight moves in steps of this many basis points.
_RAMP_GRAIN: Final = 100
# Of a ramp, which names no number: answers before its candidate is judged.
_RAMP_SAMPLES: Final = 200
# A controller that was away does not count its absence as time in which all was well.
_MOST_TICK_S: Final = 60.0

Decisions = tuple[Decision, ...]
Outcomes = tuple[State, Decisions]


@dataclass(frozen=True, slots=True)
class Observations:
    """What is seen of the versions.

    Attributes:
        ready: Versions that can serve.
        stable: Counters of the stable arm; None where they could not be read.
        candidate: Those of the candidate.
    """

    ready: frozenset[int]
    stable: ArmReading | None = None
    candidate: ArmReading | None = None


# By word, what it asks for.
COMMANDS: Final[Mapping[str, Event]] = {
    "promote": Event.PROMOTE,
    "pause": Event.PAUSE,
    "resume": Event.RESUME,
    "roll_back": Event.ROLL_BACK,
    "abort": Event.END,
    "supersede": Event.SUPERSEDE,
}


def commanded(state: State, command: str, now_s: float) -> Outcomes:
    """Return the state after a command of a user's.

    Args:
        state: Before it.
        command: ``promote``, ``pause``, ``resume``, ``roll_back``, ``abort``; ``supersede`` when
            another rollout takes its place.
        now_s: Seconds since the epoch.

    Raises:
        InvalidArgumentError: There is no such command, or it cannot be followed now.
    """
    event = COMMANDS.get(command)
    if event is None:
        known = ", ".join(COMMANDS)
        raise InvalidArgumentError(f"a rollout has no command '{command}'; there are {known}")
    if event not in TRANSITIONS[state.phase]:
        raise InvalidArgumentError(
            f"a rollout that is {state.phase.value} cannot be told to {command}"
        )
    if event in {Event.PROMOTE, Event.ROLL_BACK} and not state.has_candidate:
        raise InvalidArgumentError(
            f"a rollout of kind {state.rollout.kind.value} has no candidate to {command}; "
            "abort ends it"
        )
    after, decision = changed(state, event, command, "asked for", now_s, _WEIGHTS_OF[event](state))
    step_s = 0.0 if event is Event.PROMOTE else state.step_s
    return replace(after, seen_s=now_s, step_s=step_s), (decision,)


_WEIGHTS_OF: Final[Mapping[Event, Callable[[State], tuple[int, ...]]]] = {
    Event.PROMOTE: lambda state: candidate_weights(state.rollout, TOTAL_WEIGHT),
    Event.ROLL_BACK: lambda state: stable_weights(state.rollout),
    Event.END: lambda state: stable_weights(state.rollout),
    Event.SUPERSEDE: lambda state: stable_weights(state.rollout),
    Event.PAUSE: lambda state: state.weights,
    Event.RESUME: lambda state: state.weights,
}


def advanced(state: State, seen: Observations, now_s: float) -> Outcomes:
    """Return the state now, and what was decided on the way.

    Args:
        state: At the last call.
        seen: Of the versions, now.
        now_s: Seconds since the epoch; a clock that was set back counts as standing still.
    """
    if state.phase.is_terminal:
        return state, ()
    tick_s = min(max(0.0, now_s - state.seen_s), _MOST_TICK_S)
    state = replace(state, seen_s=now_s)
    if state.phase is Phase.ROLLING_BACK:
        return _one(changed(state, Event.DONE, "rolled_back", _last(state), now_s))
    needed = state.rollout.versions
    if state.phase is Phase.PROMOTING:
        needed = needed[1:2]
    away = [version for version in needed if version not in seen.ready]
    if away:
        return _without(state, seen, away, tick_s, now_s)
    state = replace(state, unready_s=0.0, ready_s=state.ready_s + tick_s)
    if state.phase is Phase.PROMOTING:
        return _promoting(state, tick_s, now_s)
    if state.phase is Phase.PAUSED:
        return _returned(state, now_s)
    if state.step < 0:
        return _start(state, now_s)
    state, decisions = _returned(state, now_s)
    state = replace(state, active_s=state.active_s + tick_s, step_s=state.step_s + tick_s)
    state = _read(state, seen, tick_s)
    state, more = _PROGRESS[state.rollout.kind](state, now_s)
    return state, (*decisions, *more)


def _one(pair: tuple[State, Decision]) -> Outcomes:
    return pair[0], (pair[1],)


def _last(state: State) -> str:
    return state.history[-1].reason if state.history else ""


def _percent(weight: int) -> str:
    return f"{weight * 100 / TOTAL_WEIGHT:g} %"


# Versions that cannot serve.


def _without(
    state: State, seen: Observations, away: list[int], tick_s: float, now_s: float
) -> Outcomes:
    """Send all requests to arms that can serve while a version cannot."""
    # What is counted across such a time compares nothing.
    state = replace(state, ready_s=0.0, trial=replace(state.trial, last=None), period_s=0.0)
    rollout = state.rollout
    named = ", ".join(map(str, away))
    if state.step < 0 and state.phase is not Phase.PROMOTING:
        return state, ()
    is_candidate_away = state.has_candidate and rollout.arms[1].version in away
    if is_candidate_away:
        state = replace(state, unready_s=state.unready_s + tick_s)
        is_switched = state.phase is Phase.PROMOTING
        if (is_switched or state.unready_s >= UNREADY_LIMIT_S) and (
            rollout.arms[0].version in seen.ready
        ):
            reason = f"version {rollout.arms[1].version} cannot serve"
            if not is_switched:
                reason += f" since {state.unready_s:.0f} s"
            return _rolled_back(state, reason, now_s)
    weights = _weights_without(state, seen)
    if weights == state.weights:
        return state, ()
    taker = rollout.arms[next(at for at, weight in enumerate(weights) if weight)]
    reason = f"version {named} cannot serve; its requests go to {taker.name} until it can"
    return _one(decided(state, "fall_back", reason, now_s, weights))


def _weights_without(state: State, seen: Observations) -> tuple[int, ...]:
    """Return the weights with those of arms that cannot serve given to the first that can."""
    arms = state.rollout.arms
    usable = [at for at, arm in enumerate(arms) if arm.version in seen.ready]
    wanted = _wanted(state)
    if not usable:
        return wanted
    weights = [weight if at in usable else 0 for at, weight in enumerate(wanted)]
    weights[usable[0]] += TOTAL_WEIGHT - sum(weights)
    return tuple(weights)


def _wanted(state: State) -> tuple[int, ...]:
    """Return the weights that are in force while all versions can serve."""
    rollout = state.rollout
    if state.phase is Phase.PROMOTING:
        return candidate_weights(rollout, TOTAL_WEIGHT)
    if state.step < 0 or rollout.kind is Kind.BLUE_GREEN:
        return stable_weights(rollout)
    if rollout.kind is Kind.CANARY:
        return candidate_weights(rollout, rollout.steps[state.step].weight)
    if rollout.kind is Kind.RAMP:
        return candidate_weights(rollout, ramp_weight(rollout.points, state.active_s))
    return tuple(arm.weight for arm in rollout.arms)


def _returned(state: State, now_s: float) -> Outcomes:
    """Return to the weights that are wanted, after a version could not serve."""
    wanted = _wanted(state)
    if wanted == state.weights:
        return state, ()
    return _one(decided(state, "return", "all versions can serve again", now_s, wanted))


# Steps.


def _start(state: State, now_s: float) -> Outcomes:
    rollout = state.rollout
    if rollout.kind is Kind.BLUE_GREEN:
        if state.ready_s < rollout.warm_s:
            return state, ()
        reason = f"version {rollout.arms[1].version} has been ready for {state.ready_s:.0f} s"
        return _promoted(state, reason, now_s)
    # One that was paused before it started has the phase already.
    event = Event.START if state.phase is Phase.CREATED else Event.STEP
    state = replace(state, step=0)
    weights = _wanted(state)
    reason = f"all versions can serve; {_shares(state, weights)}"
    return _one(changed(state, event, "start", reason, now_s, weights))


def _shares(state: State, weights: tuple[int, ...]) -> str:
    if state.rollout.shadow is not None:
        shadow = state.rollout.shadow
        return f"version {shadow.version} gets copies of {_percent(shadow.weight)} of the requests"
    named = zip(state.rollout.arms, weights, strict=True)
    return ", ".join(f"{_percent(weight)} to {arm.name}" for arm, weight in named)


def _read(state: State, seen: Observations, tick_s: float) -> State:
    """Count a period of the analysis when one is over."""
    over_s = state.period_s + tick_s
    is_due = over_s >= state.analysis.period_s or state.trial.last is None
    if not is_due or seen.stable is None or seen.candidate is None:
        return replace(state, period_s=over_s)
    trial = observed(state.trial, state.analysis, seen.stable, seen.candidate)
    return replace(state, period_s=0.0, trial=trial)


def _verdict(state: State) -> Verdict:
    return summed(judge(state.trial, state.analysis, max(1, len(state.rollout.steps))))


def _progress_canary(state: State, now_s: float) -> Outcomes:
    step = state.rollout.steps[state.step]
    has_samples = state.trial.requests >= step.min_samples
    # A verdict changes only as a period ends.
    verdict = _verdict(state) if has_samples and not state.period_s else None
    if verdict is not None and verdict.outcome is Outcome.BAD:
        return _rolled_back(state, verdict.reason, now_s)
    is_last = state.step == len(state.rollout.steps) - 1
    if state.step_s >= step.hold_s and verdict is not None:
        if not is_last:
            return _stepped(state, verdict, now_s)
        if verdict.outcome is Outcome.GOOD:
            return _promoted(state, verdict.reason or _held(state), now_s)
    if state.rollout.analysis is not None and state.active_s >= state.analysis.timeout_s:
        return _timed_out(state, now_s)
    return state, ()


def _held(state: State) -> str:
    return f"the last step was held for {state.step_s:.0f} s, and nothing is analysed"


def _stepped(state: State, verdict: Verdict, now_s: float) -> Outcomes:
    before = state.rollout.steps[state.step]
    after = state.rollout.steps[state.step + 1]
    reason = (
        f"{_percent(before.weight)} held for {state.step_s:.0f} s with {state.trial.requests} "
        f"answers and not found worse, now {_percent(after.weight)}"
    )
    if verdict.reason:
        reason += f"; {verdict.reason}"
    trial = next_step(state.trial, state.analysis)
    state = replace(state, step=state.step + 1, step_s=0.0, trial=trial)
    weights = candidate_weights(state.rollout, after.weight)
    return _one(changed(state, Event.STEP, "step", reason, now_s, weights))


def _timed_out(state: State, now_s: float) -> Outcomes:
    rollout, choice = state.rollout, state.analysis.at_timeout
    verdict = summed(judge(state.trial, state.analysis, len(rollout.steps), is_last_look=True))
    is_last = state.step == len(rollout.steps) - 1
    has_samples = state.trial.requests >= rollout.steps[state.step].min_samples
    if is_last and has_samples and verdict.outcome is Outcome.GOOD:
        reason = f"at the end of the analysis, after {state.active_s:.0f} s; {verdict.reason}"
        return _promoted(state, reason, now_s)
    reason = (
        f"no result after {state.active_s:.0f} s of analysis with {state.trial.requests} answers "
        f"in this step, so {choice.value} as configured; {verdict.reason}"
    )
    if choice is AtTimeout.PROMOTE:
        return _promoted(state, reason, now_s)
    if choice is AtTimeout.ROLL_BACK:
        return _rolled_back(state, reason, now_s)
    # When it is resumed, the analysis has its whole time again.
    state = replace(state, active_s=0.0)
    return _one(changed(state, Event.PAUSE, "pause", reason, now_s))


def _progress_ramp(state: State, now_s: float) -> Outcomes:
    rollout = state.rollout
    if state.trial.requests >= _RAMP_SAMPLES and not state.period_s:
        verdict = _verdict(state)
        if verdict.outcome is Outcome.BAD:
            return _rolled_back(state, verdict.reason, now_s)
    weight = ramp_weight(rollout.points, state.active_s)
    if state.active_s >= rollout.points[-1].at_s and weight == TOTAL_WEIGHT:
        return _promoted(state, "the ramp has reached 100 %", now_s)
    if weight == state.weights[1]:
        return state, ()
    reason = f"{state.active_s:.0f} s of the ramp are over, now {_percent(weight)}"
    return _one(
        changed(state, Event.STEP, "step", reason, now_s, candidate_weights(rollout, weight))
    )


def ramp_weight(points: tuple[RampPoint, ...], at_s: float) -> int:
    """Return a ramp's weight at an instant, rounded down to whole percents between its points."""
    if at_s >= points[-1].at_s:
        return points[-1].weight
    for before, after in pairwise((RampPoint(0.0, 0), *points)):
        if before.at_s <= at_s < after.at_s:
            part = (at_s - before.at_s) / (after.at_s - before.at_s)
            risen = int((after.weight - before.weight) * part)
            return before.weight + risen - risen % _RAMP_GRAIN if risen else before.weight
    return points[0].weight


def _progress_fixed(state: State, _now_s: float) -> Outcomes:
    return state, ()


_PROGRESS: Final[Mapping[Kind, Callable[[State, float], Outcomes]]] = {
    Kind.CANARY: _progress_canary,
    Kind.RAMP: _progress_ramp,
    Kind.AB: _progress_fixed,
    Kind.SHADOW: _progress_fixed,
    # Switches as it starts.
    Kind.BLUE_GREEN: _progress_fixed,
}


# Ends.


def _promoted(state: State, reason: str, now_s: float) -> Outcomes:
    weights = candidate_weights(state.rollout, TOTAL_WEIGHT)
    state = replace(state, step=max(0, state.step), step_s=0.0)
    return _one(changed(state, Event.PROMOTE, "promote", reason, now_s, weights))


def _rolled_back(state: State, reason: str, now_s: float) -> Outcomes:
    weights = stable_weights(state.rollout)
    return _one(changed(state, Event.ROLL_BACK, "roll_back", reason, now_s, weights))


def _promoting(state: State, tick_s: float, now_s: float) -> Outcomes:
    state = replace(state, step_s=state.step_s + tick_s)
    is_kept = state.rollout.kind is Kind.BLUE_GREEN and state.step_s < state.rollout.keep_s
    if is_kept:
        return _returned(state, now_s)
    reason = _last(state)
    if state.rollout.kind is Kind.BLUE_GREEN:
        reason = f"the way back was open for {state.step_s:.0f} s and is closed"
    weights = candidate_weights(state.rollout, TOTAL_WEIGHT)
    return _one(changed(state, Event.DONE, "promoted", reason, now_s, weights))
