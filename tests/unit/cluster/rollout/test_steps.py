# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import InternalError, InvalidArgumentError
from cluster.rollout.readings import ArmReading
from cluster.rollout.state import (
    TRANSITIONS,
    Event,
    State,
    created,
    decode,
    encode,
    status_of,
    traffic_of,
)
from cluster.rollout.steps import (
    COMMANDS,
    UNREADY_LIMIT_S,
    Observations,
    Outcomes,
    advanced,
    commanded,
    ramp_weight,
)
from deployments.rollouts.spec import (
    Analysis,
    Arm,
    AtTimeout,
    Condition,
    How,
    Kind,
    Metric,
    MetricKind,
    Phase,
    RampPoint,
    Rollout,
    Rule,
    Shadow,
    Source,
    Step,
)
from tests.support.examples import examples

PAIR = (Arm("stable", 1, 10_000), Arm("candidate", 2, 0))
ERRORS = Analysis((Metric(MetricKind.ERRORS, 0.01),), period_s=10.0, timeout_s=900.0)
STEPS = (Step(1000, 60.0, 500), Step(5000, 60.0, 500))
RULES = (Rule("candidate", (Condition(Source.HEADER, "beta", How.PRESENT),)),)
POINTS = (RampPoint(100.0, 1000), RampPoint(200.0, 10_000))

CANARY = Rollout(Kind.CANARY, PAIR, RULES, steps=STEPS, analysis=ERRORS)
UNJUDGED = replace(CANARY, analysis=None)
BLUE_GREEN = Rollout(Kind.BLUE_GREEN, PAIR, warm_s=10.0, keep_s=50.0)
RAMP = Rollout(Kind.RAMP, PAIR, points=POINTS)
AB = Rollout(Kind.AB, (Arm("a", 1, 7000), Arm("b", 2, 3000)))
SHADOW = Rollout(Kind.SHADOW, PAIR[:1], shadow=Shadow(2))
KINDS = (CANARY, UNJUDGED, BLUE_GREEN, RAMP, AB, SHADOW)

BOTH = frozenset((1, 2))


class Lead:
    """A rollout in virtual time; each arm answers at a rate and fails at a share."""

    def __init__(self, rollout: Rollout, per_s: float = 100.0, failing: float = 0.0) -> None:
        self.state = created(rollout, "id", 1000.0)
        self.now_s = 1000.0
        self.per_s = per_s
        self.failing = failing
        self.served = [0.0, 0.0]
        self.ready = BOTH
        self.actions: list[str] = []

    def take(self, outcomes: Outcomes) -> None:
        self.state, decisions = outcomes
        self.actions += [decision.action for decision in decisions]

    def tick(self, seconds: float = 1.0) -> None:
        self.now_s += seconds
        weights = (*self.state.weights, 0)
        for at in range(2):
            self.served[at] += self.per_s * seconds * weights[at] / 10_000
        readings = [
            ArmReading(int(self.served[0]), 0),
            ArmReading(int(self.served[1]), int(self.served[1] * self.failing)),
        ]
        self.take(advanced(self.state, Observations(self.ready, *readings), self.now_s))

    def go(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.tick()

    def command(self, command: str) -> None:
        self.take(commanded(self.state, command, self.now_s))

    @property
    def phase(self) -> Phase:
        return self.state.phase


def test_a_good_canary_takes_its_steps_and_is_promoted() -> None:
    lead = Lead(CANARY)
    lead.tick()
    assert lead.state.weights == (9000, 1000)
    lead.go(300)
    assert lead.actions == ["start", "step", "promote", "promoted"]
    assert (lead.phase, lead.state.weights) == (Phase.PROMOTED, (0, 10_000))


def test_a_failing_canary_is_rolled_back_with_the_numbers() -> None:
    lead = Lead(CANARY, failing=0.1)
    lead.go(300)
    assert lead.actions == ["start", "roll_back", "rolled_back"]
    assert (lead.phase, lead.state.weights) == (Phase.ROLLED_BACK, (10_000, 0))
    reason = status_of(lead.state).reason
    assert "errors: worse: " in reason
    assert "of the stable version 0.00%" in reason


def test_nothing_is_decided_before_the_least_number_of_samples() -> None:
    lead = Lead(CANARY, per_s=40.0, failing=0.5)
    while lead.state.trial.requests < STEPS[0].min_samples and not lead.phase.is_terminal:
        assert lead.phase in {Phase.CREATED, Phase.PROGRESSING}
        lead.tick()
    lead.go(30)
    assert lead.phase is Phase.ROLLED_BACK


@pytest.mark.parametrize(
    ("choice", "phase"),
    [
        (AtTimeout.ROLL_BACK, Phase.ROLLED_BACK),
        (AtTimeout.PROMOTE, Phase.PROMOTED),
        (AtTimeout.PAUSE, Phase.PAUSED),
    ],
)
def test_without_a_result_in_time_what_is_configured_is_done(
    choice: AtTimeout, phase: Phase
) -> None:
    lead = Lead(replace(CANARY, analysis=replace(ERRORS, at_timeout=choice)), per_s=0.1)
    lead.go(950)
    assert lead.phase is phase
    assert any("no result after 900 s" in each.reason for each in lead.state.history)


def test_an_analysis_that_paused_has_its_whole_time_again_when_resumed() -> None:
    lead = Lead(replace(CANARY, analysis=replace(ERRORS, at_timeout=AtTimeout.PAUSE)), per_s=0.1)
    lead.go(950)
    lead.command("resume")
    lead.go(600)
    assert lead.phase is Phase.PROGRESSING


def test_a_pause_holds_weights_and_its_time_does_not_count() -> None:
    lead = Lead(CANARY)
    lead.go(30)
    lead.command("pause")
    before = lead.state
    lead.go(1000)
    assert (lead.state.weights, lead.state.active_s) == (before.weights, before.active_s)
    lead.command("resume")
    lead.go(20)
    assert lead.state.step == 0


def test_a_rollout_waits_until_its_versions_can_serve() -> None:
    lead = Lead(CANARY)
    lead.ready = frozenset((1,))
    lead.go(500)
    assert (lead.phase, lead.state.weights) == (Phase.CREATED, (10_000, 0))
    assert status_of(lead.state).reason == "waits until all versions can serve"
    lead.ready = BOTH
    lead.tick()
    assert lead.phase is Phase.PROGRESSING


def test_a_candidate_that_cannot_serve_falls_back_to_stable_says_so_and_returns() -> None:
    lead = Lead(CANARY)
    lead.go(10)
    lead.ready = frozenset((1,))
    lead.tick()
    assert lead.state.weights == (10_000, 0)
    assert "version 2 cannot serve; its requests go to stable" in status_of(lead.state).reason
    active_s = lead.state.active_s
    lead.go(20)
    assert lead.state.active_s == active_s
    lead.ready = BOTH
    lead.tick()
    assert lead.state.weights == (9000, 1000)
    assert lead.actions == ["start", "fall_back", "return"]


@pytest.mark.parametrize("rollout", [CANARY, RAMP], ids=lambda rollout: rollout.kind)
def test_a_candidate_that_stays_away_is_rolled_back(rollout: Rollout) -> None:
    lead = Lead(rollout)
    lead.go(30)
    lead.ready = frozenset((1,))
    lead.go(UNREADY_LIMIT_S + 3)
    assert lead.phase is Phase.ROLLED_BACK
    assert "version 2 cannot serve since 120 s" in status_of(lead.state).reason


def test_without_the_stable_version_the_candidate_answers_until_it_is_back() -> None:
    lead = Lead(CANARY)
    lead.go(5)
    lead.ready = frozenset((2,))
    lead.tick()
    assert lead.state.weights == (0, 10_000)
    lead.ready = BOTH
    lead.tick()
    assert lead.state.weights == (9000, 1000)


def test_a_promotion_does_not_wait_for_the_version_that_leaves() -> None:
    lead = Lead(CANARY)
    lead.go(5)
    lead.command("promote")
    lead.ready = frozenset((2,))
    lead.tick()
    assert lead.phase is Phase.PROMOTED


def test_blue_green_switches_once_warm_and_the_way_back_is_open_for_a_time() -> None:
    lead = Lead(BLUE_GREEN)
    lead.go(9)
    assert lead.state.weights == (10_000, 0)
    lead.go(2)
    assert (lead.phase, lead.state.weights) == (Phase.PROMOTING, (0, 10_000))
    back = Lead(BLUE_GREEN)
    back.go(20)
    back.command("roll_back")
    assert back.state.weights == (10_000, 0)
    back.tick()
    assert back.phase is Phase.ROLLED_BACK
    lead.go(60)
    assert lead.phase is Phase.PROMOTED
    with pytest.raises(InvalidArgumentError, match="that is promoted cannot be told to roll_back"):
        lead.command("roll_back")


def test_blue_green_goes_back_at_once_when_green_cannot_serve() -> None:
    lead = Lead(BLUE_GREEN)
    lead.go(20)
    lead.ready = frozenset((1,))
    lead.tick()
    assert (lead.phase, lead.state.weights) == (Phase.ROLLING_BACK, (10_000, 0))


def test_green_is_warm_only_when_it_was_ready_without_a_break() -> None:
    lead = Lead(BLUE_GREEN)
    lead.go(8)
    lead.ready = frozenset((1,))
    lead.tick()
    lead.ready = BOTH
    lead.go(8)
    assert lead.phase is Phase.CREATED


def test_a_ramp_follows_its_schedule_and_promotes_at_the_end() -> None:
    lead = Lead(RAMP)
    seen = []
    for _ in range(250):
        lead.tick()
        seen.append(lead.state.weights[1])
    assert seen == sorted(seen)
    assert seen[51] == 500
    assert seen[101] == 1000
    assert lead.phase is Phase.PROMOTED


def test_a_ramp_rolls_a_bad_candidate_back() -> None:
    lead = Lead(replace(RAMP, analysis=ERRORS), failing=0.2)
    lead.go(250)
    assert lead.phase is Phase.ROLLED_BACK


@settings(max_examples=examples(100), deadline=None)
@given(st.floats(0, 300), st.floats(0, 300))
def test_a_ramp_never_falls(one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert 0 <= ramp_weight(POINTS, less) <= ramp_weight(POINTS, more) <= 10_000


@pytest.mark.parametrize("rollout", [AB, SHADOW], ids=lambda rollout: rollout.kind)
def test_fixed_weights_hold_until_they_are_ended(rollout: Rollout) -> None:
    lead = Lead(rollout)
    lead.go(5)
    weights = lead.state.weights
    assert weights == tuple(arm.weight for arm in rollout.arms)
    lead.go(500)
    assert (lead.phase, lead.state.weights) == (Phase.PROGRESSING, weights)
    with pytest.raises(InvalidArgumentError, match="has no candidate to promote; abort ends it"):
        lead.command("promote")
    lead.command("abort")
    assert lead.phase is Phase.ENDED
    assert traffic_of(lead.state) is None


def test_a_shadow_is_copied_to_while_the_rollout_progresses_and_answers_nobody() -> None:
    lead = Lead(SHADOW)
    before = traffic_of(lead.state)
    assert before is not None
    assert before.shadow is None
    lead.tick()
    traffic = traffic_of(lead.state)
    assert traffic is not None
    assert traffic.shadow == SHADOW.shadow
    assert [(arm.version, arm.weight) for arm in traffic.arms] == [(1, 10_000)]


def test_rules_hold_only_while_both_versions_are_tried() -> None:
    lead = Lead(CANARY, failing=0.2)
    seen = {}
    for _ in range(200):
        traffic = traffic_of(lead.state)
        assert traffic is not None
        seen[lead.phase] = traffic.rules
        lead.tick()
    assert seen == {
        Phase.CREATED: (),
        Phase.PROGRESSING: RULES,
        Phase.ROLLING_BACK: (),
        Phase.ROLLED_BACK: (),
    }


def test_a_command_says_what_there_is() -> None:
    with pytest.raises(InvalidArgumentError, match="no command 'rollback'; there are promote"):
        commanded(created(CANARY, "id", 0.0), "rollback", 1.0)


def test_state_that_cannot_be_read_is_an_error_of_ours() -> None:
    with pytest.raises(InternalError, match="cannot be read"):
        decode(b'{"rollout": 7}')


def check(state: State, before: State) -> None:
    assert sum(state.weights) == 10_000
    assert all(weight >= 0 for weight in state.weights)
    assert state.revision >= before.revision
    assert state.weights == before.weights or state.revision > before.revision
    if state.phase in {Phase.ROLLED_BACK, Phase.ROLLING_BACK}:
        assert state.weights == (10_000, 0)
    if state.phase is Phase.PROMOTED:
        assert state.weights == (0, 10_000)
    if before.phase.is_terminal:
        # A restart drops the last reading, which nobody needs any more.
        assert replace(state, trial=before.trial) == before
    traffic = traffic_of(state)
    assert traffic is None or sum(arm.weight for arm in traffic.arms) == 10_000


_seen = st.builds(
    Observations,
    st.sampled_from([BOTH, BOTH, BOTH, frozenset((1,)), frozenset((2,)), frozenset()]),
    st.none() | st.builds(ArmReading, st.integers(0, 9000), st.integers(0, 90)),
    st.none() | st.builds(ArmReading, st.integers(0, 9000), st.integers(0, 900)),
)
_events = st.lists(
    st.one_of(
        st.tuples(st.floats(-5, 100), _seen),
        st.sampled_from(sorted(COMMANDS)),
        st.just("restart"),
    ),
    max_size=40,
)


@settings(max_examples=examples(120), deadline=None)
@given(st.sampled_from(KINDS), _events)
def test_whatever_happens_weights_are_valid_and_there_is_one_end(
    rollout: Rollout, events: list[object]
) -> None:
    state, now_s = created(rollout, "id", 0.0), 0.0
    for event in events:
        before = state
        if event == "restart":
            state = decode(encode(state))
            assert replace(state, trial=before.trial) == before
        elif isinstance(event, str):
            try:
                state, decisions = commanded(state, event, now_s)
            except InvalidArgumentError:
                continue
            assert decisions
        elif isinstance(event, tuple):
            now_s += event[0]
            state, decisions = advanced(state, event[1], now_s)
            assert all(decision.reason for decision in decisions)
            assert state.phase is before.phase or decisions
        check(state, before)
        assert status_of(state).phase is state.phase


def test_every_phase_but_the_last_has_a_way_to_an_end() -> None:
    for phase, events in TRANSITIONS.items():
        assert bool(events) is not phase.is_terminal
        if events:
            assert events[Event.END] is Phase.ENDED
            assert events[Event.SUPERSEDE] is Phase.SUPERSEDED


def test_a_restart_goes_on_where_the_rollout_was() -> None:
    lead, restarted = Lead(CANARY), Lead(CANARY)
    for _ in range(300):
        lead.tick()
        restarted.tick()
        restarted.state = decode(encode(restarted.state))
    # Each restart loses a period of the analysis, and so it never has one here.
    assert restarted.phase is Phase.PROGRESSING
    restarted.go(300)
    assert lead.phase is restarted.phase is Phase.PROMOTED
