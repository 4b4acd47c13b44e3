# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import fields

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError
from deployments.rollouts.reading import read_rollout
from deployments.rollouts.rendering import rollout_json, status_json
from deployments.rollouts.spec import (
    Analysis,
    Arm,
    Decision,
    How,
    Kind,
    MetricKind,
    Phase,
    Source,
    Status,
    Step,
)
from tests.support.examples import examples

CANARY = {"kind": "canary", "stable": 1, "candidate": 2}
PRESENT = {"source": "tenant", "how": "present"}
AB = {
    "kind": "ab",
    "arms": [
        {"name": "a", "version": 1, "weight": 33.33},
        {"name": "b", "version": 2, "weight": 66.67},
    ],
}


def test_canary_has_steps_and_an_analysis_by_default() -> None:
    rollout = read_rollout(CANARY)
    assert rollout.arms == (Arm("stable", 1, 10_000), Arm("canary", 2, 0))
    assert [step.weight for step in rollout.steps] == [500, 2500, 5000]
    assert rollout.analysis == Analysis()


def test_weights_are_read_in_percent_with_two_decimals() -> None:
    rollout = read_rollout(AB)
    assert [arm.weight for arm in rollout.arms] == [3333, 6667]
    steps = [{"weight": 0.01, "hold_s": 1, "min_samples": 5}]
    assert read_rollout(CANARY | {"steps": steps}).steps == (Step(1, 1.0, 5),)


def test_header_names_are_compared_in_lower_case() -> None:
    condition = {"source": "header", "name": "X-Team", "how": "glob", "values": "red*"}
    rules = [{"arm": "canary", "conditions": [condition]}]
    (rule,) = read_rollout(CANARY | {"rules": rules}).rules
    (found,) = rule.conditions
    assert (found.source, found.name, found.how) == (Source.HEADER, "x-team", How.GLOB)
    assert found.values == ("red*",)


def test_names_of_parameters_keep_their_case() -> None:
    condition = {"source": "parameter", "name": "Team", "values": "red"}
    rules = [{"arm": "canary", "conditions": [condition]}]
    (rule,) = read_rollout(CANARY | {"rules": rules}).rules
    assert rule.conditions[0].name == "Team"


def test_all_requests_go_to_the_stable_version_beside_a_shadow() -> None:
    rollout = read_rollout({"kind": "shadow", "stable": 1, "shadow": {"version": 2}})
    assert rollout.arms == (Arm("stable", 1, 10_000),)


def test_a_salt_is_the_rollouts() -> None:
    assert [read_rollout(AB | each).salt for each in ({}, {"salt": "s"})] == ["", "s"]


REFUSED = {
    "nothing": ([], "rollout: got a list, expected a mapping"),
    "kind": (
        {"kind": "mirror"},
        "rollout: kind: unknown kind 'mirror', expected canary or ramp or blue",
    ),
    "no version": ({"kind": "canary", "stable": 1}, "rollout: 'candidate' is missing"),
    "boolean version": (
        CANARY | {"stable": True},
        "stable: got true, expected a whole",
    ),
    "same version": (CANARY | {"candidate": 1}, "must differ, got 1, 1"),
    "unknown field": (
        CANARY | {"step": []},
        "step: unknown key 'step', expected",
    ),
    "field of another kind": (AB | {"steps": []}, "rollout: steps: unknown key 'steps'"),
    "third decimal": (CANARY | {"steps": [{"weight": 0.001}]}, "with at most two decimals"),
    "NaN": (CANARY | {"steps": [{"weight": float("nan")}]}, "a percentage"),
    "huge": (CANARY | {"steps": [{"weight": 1e308}]}, "a percentage"),
    "no steps": (
        CANARY | {"steps": []},
        "got 0 entries, expected a list of 1 to 32",
    ),
    "falling steps": (
        CANARY | {"steps": [{"weight": 9}, {"weight": 8}]},
        "rollout: steps: the weights must grow",
    ),
    "zero step": (CANARY | {"steps": [{"weight": 0}]}, "must be more than 0"),
    "hold": (
        CANARY | {"steps": [{"weight": 5, "hold_s": -1}]},
        "got -1, expected a number from 0",
    ),
    "timeout": (CANARY | {"analysis": {"timeout_s": 899}}, "longer than all steps are held"),
    "metric": (
        CANARY | {"analysis": {"metrics": [{"kind": "p42"}]}},
        "kind: unknown kind 'p42'",
    ),
    "metric twice": (
        CANARY | {"analysis": {"metrics": [{"kind": "p95"}, {"kind": "p95"}]}},
        "rollout: analysis.metrics: each metric may stand once",
    ),
    "family": (
        CANARY | {"analysis": {"metrics": [{"kind": "custom"}]}},
        "'family' is missing",
    ),
    "weights": (
        {"kind": "ab", "arms": [{"name": "a", "version": 1, "weight": 60}]},
        "rollout: arms: the weights must be 100 together, got 60",
    ),
    "arm of a rule": (
        CANARY | {"rules": [{"arm": "blue", "conditions": [{"source": "tenant", "values": "a"}]}]},
        "rules[0].arm: got 'blue', expected the name of an arm (stable, canary)",
    ),
    "empty rule": (CANARY | {"rules": [{"arm": "canary"}]}, "rules[0]: 'conditions' is missing"),
    "too many rules": (
        CANARY | {"rules": [{}] * 33},
        "got 33 entries, expected a list of 0 to 32",
    ),
    "long value": (
        CANARY
        | {
            "rules": [
                {"arm": "canary", "conditions": [{"source": "tenant", "values": ["x" * 257]}]}
            ]
        },
        "values[0]: got 'xxx",
    ),
    "values that nothing is compared with": (
        CANARY | {"rules": [{"arm": "canary", "conditions": [PRESENT | {"values": "a"}]}]},
        "rollout: rules[0].conditions[0].values: 'present' compares with nothing",
    ),
    "nameless header": (CANARY | {"sticky": {"source": "header"}}, "sticky: 'name' is missing"),
    "falling ramp": (
        {
            "kind": "ramp",
            "stable": 1,
            "candidate": 2,
            "points": [{"at_s": 1, "weight": 9}, {"at_s": 2, "weight": 8}],
        },
        "must not fall",
    ),
    "shadow": ({"kind": "shadow", "stable": 1, "shadow": 2}, "shadow: got 2, expected a mapping"),
    "control characters": (CANARY | {"salt": "a\nb"}, "printable"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_body_that_is_no_rollout_is_refused_with_what_was_expected(name: str) -> None:
    body, expected = REFUSED[name]
    with pytest.raises(InvalidArgumentError) as caught:
        read_rollout(body)
    assert expected in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 400


def test_custom_metric_names_a_family() -> None:
    metric = {"kind": "custom", "family": "low_confidence", "is_good": False, "tolerance": 0.05}
    good = {"kind": "custom", "family": "confident", "is_good": True}
    rollout = read_rollout(CANARY | {"analysis": {"metrics": [metric, good, {"kind": "p95"}]}})
    assert rollout.analysis is not None
    found, *others = rollout.analysis.metrics
    assert [(each.label, each.is_good) for each in others] == [("confident", True), ("p95", False)]
    assert (found.kind, found.label, found.tolerance) == (
        MetricKind.CUSTOM,
        "low_confidence",
        0.05,
    )


_weights = st.integers(1, 10_000).map(lambda points: points / 100)
_steps = st.lists(_weights, min_size=1, max_size=8, unique=True).map(
    lambda weights: [{"weight": weight, "hold_s": 1.5} for weight in sorted(weights)]
)
_names = st.text("abcXYZ-_", min_size=1, max_size=12)
_values = st.lists(st.text(max_size=20), min_size=1, max_size=3)
_places = st.one_of(
    st.fixed_dictionaries({"source": st.sampled_from(["header", "parameter"]), "name": _names}),
    st.fixed_dictionaries({"source": st.sampled_from(["tenant", "sequence"])}),
)
_conditions = st.one_of(
    st.tuples(_places, st.sampled_from(["exact", "prefix", "glob"]), _values).map(
        lambda found: found[0] | {"how": found[1], "values": found[2]}
    ),
    _places.map(lambda place: place | {"how": "present"}),
)
_rules = st.lists(
    st.fixed_dictionaries(
        {
            "arm": st.sampled_from(["stable", "canary"]),
            "conditions": st.lists(_conditions, min_size=1, max_size=3),
        }
    ),
    max_size=3,
)


@settings(max_examples=examples(100), deadline=None)
@given(_steps, _rules, st.none() | _places)
def test_what_is_rendered_reads_as_the_same_rollout(
    steps: object, rules: object, sticky: object
) -> None:
    body = CANARY | {"steps": steps, "rules": rules, "sticky": sticky}
    rollout = read_rollout(body)
    rendered = rollout_json(rollout)
    # Lists, no tuples: protobuf takes these for no list.
    assert json.loads(json.dumps(rendered)) == rendered
    assert read_rollout(rendered) == rollout


OTHERS = (
    AB | {"salt": "s", "sticky": {"source": "tenant"}},
    {"kind": "blue_green", "stable": 1, "candidate": 2, "warm_s": 3, "keep_s": 4},
    {"kind": "shadow", "stable": 1, "shadow": {"version": 2, "weight": 12.5, "rtol": 0.1}},
    {
        "kind": "ramp",
        "stable": 1,
        "candidate": 2,
        "points": [{"at_s": 60, "weight": 10}, {"at_s": 120, "weight": 100}],
        "analysis": {
            "metrics": [
                {"kind": "queue", "floor_us": 500},
                {"kind": "custom", "family": "f", "is_good": True},
            ],
            "at_timeout": "pause",
        },
    },
)


@pytest.mark.parametrize("body", OTHERS, ids=lambda body: body["kind"])
def test_each_kind_is_rendered_as_it_was_read(body: object) -> None:
    rollout = read_rollout(body)
    assert read_rollout(rollout_json(rollout)) == rollout


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "stable", "candidate", "steps", "weight", "rules", "arms"])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


ACCEPTED: tuple[dict[str, object], ...] = ({}, {"steps": [{"weight": 5, "hold_s": 1}]})


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from([kind.value for kind in Kind]),
    st.dictionaries(st.text(max_size=9), _json, max_size=4),
)
@example("canary", ACCEPTED[0])
@example("canary", ACCEPTED[1])
def test_no_json_makes_the_reader_fail_otherwise(kind: str, body: dict[str, object]) -> None:
    try:
        rollout = read_rollout(CANARY | body | {"kind": kind})
    except InvalidArgumentError:
        assert kind != "canary" or body not in ACCEPTED
    else:
        assert rollout.kind.value == kind


def test_status_tells_weights_in_percent_and_every_decision() -> None:
    decision = Decision(5.0, "start", "5 % to canary", {"stable": 9500, "canary": 500})
    arms = (Arm("stable", 1, 9500), Arm("canary", 2, 500))
    status = Status(Phase.PROGRESSING, 0, arms, "why", 1.0, 5.0, {"p95": "fine"}, (decision,))
    told = status_json(status)
    assert told.keys() == {field.name for field in fields(Status)}
    assert (told["phase"], told["step"], told["reason"]) == ("progressing", 0, "why")
    assert (told["started_s"], told["changed_s"]) == (1.0, 5.0)
    assert told["evidence"] == {"p95": "fine"}
    assert told["arms"] == [
        {"name": "stable", "version": 1, "weight": 95},
        {"name": "canary", "version": 2, "weight": 5},
    ]
    assert told["history"] == [
        {
            "at_s": 5.0,
            "action": "start",
            "reason": "5 % to canary",
            "weights": {"stable": 95, "canary": 5},
        }
    ]
