# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The bounds of a rollout's fields, their defaults, and how errors name them."""

import re
from collections.abc import Callable

import pytest

from backends.api.errors import InvalidArgumentError
from deployments.rollouts.reading import read_rollout
from deployments.rollouts.spec import (
    MOST_CONDITIONS,
    MOST_METRICS,
    MOST_RULES,
    MOST_STEPS,
    MOST_VALUES,
    TOTAL_WEIGHT,
    Analysis,
    Arm,
    Kind,
    Metric,
    MetricKind,
    Phase,
    Rollout,
    Shadow,
    Step,
)

CANARY = {"kind": "canary", "stable": 1, "candidate": 2}
RAMP = {"kind": "ramp", "stable": 1, "candidate": 2}
BLUE_GREEN = {"kind": "blue_green", "stable": 1, "candidate": 2}
TENANT = {"source": "tenant", "values": ["red"]}

Body = Callable[[object], dict[str, object]]


def step(name: str) -> Body:
    return lambda value: CANARY | {"steps": [{"weight": 5, "hold_s": 1} | {name: value}]}


def shadow(name: str) -> Body:
    return lambda value: {"kind": "shadow", "stable": 1, "shadow": {"version": 2, name: value}}


def analysis(name: str) -> Body:
    steps = [{"weight": 5, "hold_s": 0.5}]
    return lambda value: CANARY | {"steps": steps, "analysis": {name: value}}


def metric(kind: str, name: str) -> Body:
    of_kind = {"family": "f"} if kind == "custom" else {}
    return lambda value: (
        CANARY | {"analysis": {"metrics": [{"kind": kind} | of_kind | {name: value}]}}
    )


def rule(name: str) -> Body:
    return lambda value: (
        CANARY | {"rules": [{"arm": "canary", "conditions": [TENANT]} | {name: value}]}
    )


def condition(name: str) -> Body:
    return lambda value: (
        CANARY | {"rules": [{"arm": "canary", "conditions": [TENANT | {name: value}]}]}
    )


def arm(name: str) -> Body:
    return lambda value: {
        "kind": "ab",
        "arms": [{"name": "a", "version": 1, "weight": 100} | {name: value}],
    }


def points(*given: tuple[float, float]) -> list[dict[str, float]]:
    return [{"at_s": at_s, "weight": weight} for at_s, weight in given]


MONTH_S = 30 * 86_400

# A body with a field, the field's path, values at its bounds, and such beyond them.
BOUNDS: dict[str, tuple[Body, str, list[object], list[object]]] = {
    "version": (
        lambda value: CANARY | {"stable": value},
        "stable",
        [1, (1 << 63) - 1],
        [0, 1 << 63, 1.0, "1", None],
    ),
    "salt": (
        lambda value: CANARY | {"salt": value},
        "salt",
        ["s", "s" * 128],
        ["", "s" * 129, 1, "a\tb"],
    ),
    "rules": (
        lambda value: CANARY | {"rules": value},
        "rules",
        [[], [{"arm": "canary", "conditions": [TENANT]}] * MOST_RULES],
        [{}, [{}] * (MOST_RULES + 1)],
    ),
    "conditions": (
        rule("conditions"),
        "rules[0].conditions",
        [[TENANT], [TENANT] * MOST_CONDITIONS],
        [[], None, [TENANT] * (MOST_CONDITIONS + 1)],
    ),
    "values": (
        condition("values"),
        "rules[0].conditions[0].values",
        ["one", [""], ["v" * 256], ["v"] * MOST_VALUES],
        [[], None, [1], ["v" * 257], ["v"] * (MOST_VALUES + 1)],
    ),
    "how": (
        condition("how"),
        "rules[0].conditions[0].how",
        ["exact", "prefix", None],
        ["regex", 1, ["exact"]],
    ),
    "steps": (
        lambda value: CANARY | {"steps": value, "analysis": {"timeout_s": 10_000}},
        "steps",
        [[{"weight": at + 1} for at in range(MOST_STEPS)], [{"weight": 100}]],
        [[], [{"weight": at + 1} for at in range(MOST_STEPS + 1)], {"weight": 5}],
    ),
    "weight": (step("weight"), "steps[0].weight", [0.01, 100], [-1, 100.01, True, "5", 0.005]),
    "hold_s": (step("hold_s"), "steps[0].hold_s", [0, 3599], [-0.5, MONTH_S + 1, True, "1"]),
    "min_samples": (
        step("min_samples"),
        "steps[0].min_samples",
        [0, 1_000_000_000],
        [-1, 1_000_000_001, True, 1.5],
    ),
    "points": (
        lambda value: RAMP | {"points": value},
        "points",
        [points((0, 0)), points((0, 5), (1, 5)), points((MONTH_S, 100))],
        [[], None, points(*((at, 1) for at in range(MOST_STEPS + 1)))],
    ),
    "warm_s": (
        lambda value: BLUE_GREEN | {"warm_s": value},
        "warm_s",
        [0, MONTH_S],
        [-1, MONTH_S + 1, float("nan"), False],
    ),
    "keep_s": (lambda value: BLUE_GREEN | {"keep_s": value}, "keep_s", [0, MONTH_S], [-1]),
    "rtol": (shadow("rtol"), "shadow.rtol", [0, 1e6], [-1e-9, 1.1e6, True, "0"]),
    "atol": (shadow("atol"), "shadow.atol", [0, 1e300], [-1e-9, 1.1e300]),
    "mismatches_per_minute": (
        shadow("mismatches_per_minute"),
        "shadow.mismatches_per_minute",
        [0, 10_000],
        [-1, 10_001],
    ),
    "max_pending": (shadow("max_pending"), "shadow.max_pending", [1, 10_000], [0, 10_001]),
    "period_s": (analysis("period_s"), "analysis.period_s", [1, MONTH_S], [0.9, MONTH_S + 1]),
    "error_rate": (analysis("error_rate"), "analysis.error_rate", [1e-6, 0.2], [9e-7, 0.21]),
    "timeout_s": (analysis("timeout_s"), "analysis.timeout_s", [1, MONTH_S], [0.9, MONTH_S + 1]),
    "at_timeout": (
        analysis("at_timeout"),
        "analysis.at_timeout",
        ["promote", "pause", "roll_back"],
        ["wait", 1],
    ),
    "metrics": (
        analysis("metrics"),
        "analysis.metrics",
        [[], [{"kind": "custom", "family": f"f{at}"} for at in range(MOST_METRICS)]],
        [{}, [{"kind": "custom", "family": f"f{at}"} for at in range(MOST_METRICS + 1)]],
    ),
    "tolerance of a share": (
        metric("errors", "tolerance"),
        "analysis.metrics[0].tolerance",
        [0.0001, 0.5],
        [0.00009, 0.51],
    ),
    "tolerance of a custom share": (
        metric("custom", "tolerance"),
        "analysis.metrics[0].tolerance",
        [0.0001, 0.5],
        [0.00009, 0.51],
    ),
    "tolerance of a time": (
        metric("p99", "tolerance"),
        "analysis.metrics[0].tolerance",
        [0.01, 10],
        [0.009, 10.1],
    ),
    "floor_us": (
        metric("p99", "floor_us"),
        "analysis.metrics[0].floor_us",
        [0, 1_000_000_000],
        [-1, 1_000_000_001],
    ),
    "is_good": (
        metric("custom", "is_good"),
        "analysis.metrics[0].is_good",
        [True, False],
        [1, "true"],
    ),
    "arms": (lambda value: {"kind": "ab", "arms": value}, "arms", [], [[], None, {}]),
    "name of an arm": (arm("name"), "arms[0].name", ["n" * 128], ["", "n" * 129, None]),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_field_is_taken_up_to_its_bounds_and_no_further(name: str) -> None:
    body, path, accepted, refused = BOUNDS[name]
    for value in accepted:
        read_rollout(body(value))
    for value in refused:
        with pytest.raises(InvalidArgumentError) as caught:
            read_rollout(body(value))
        message = caught.value.message
        parent, _, field = path.rpartition(".")
        at = f"rollout: {parent}: " if parent else "rollout: "
        missing = message.startswith(f"{at}'{field}' is missing")
        wrong = message.startswith(f"rollout: {path}") and re.search(
            r"(got|unknown) .*, exp", message
        )
        assert missing or wrong, (value, message)


# What has no such field, and what it has.
OBJECTS: dict[str, tuple[dict[str, object], str]] = {
    "rollout": (
        CANARY | {"x": 1},
        "rollout: x: unknown key 'x', expected one of kind, rules, sticky, salt, stable, candidate,"
        " steps, analysis; remove it",
    ),
    "rule": (
        rule("x")(1),
        "rollout: rules[0].x: unknown key 'x', expected one of arm, conditions; remove it",
    ),
    "condition": (
        condition("x")(1),
        "rollout: rules[0].conditions[0].x: unknown key 'x', expected one of source, name, how,"
        " values; remove it",
    ),
    "sticky": (
        CANARY | {"sticky": {"source": "tenant", "name": "n"}},
        "rollout: sticky.name: a tenant has no name; remove it",
    ),
    "step": (
        step("x")(1),
        "rollout: steps[0].x: unknown key 'x', expected one of weight, hold_s, min_samples;"
        " remove it",
    ),
    "point": (
        RAMP | {"points": [{"at_s": 1, "weight": 1, "x": 1}]},
        "rollout: points[0].x: unknown key 'x', expected one of at_s, weight; remove it",
    ),
    "shadow": (
        shadow("x")(1),
        "rollout: shadow.x: unknown key 'x', expected one of version, weight, rtol, atol,"
        " mismatches_per_minute, max_pending; remove it",
    ),
    "analysis": (
        analysis("x")(1),
        "rollout: analysis.x: unknown key 'x', expected one of metrics, period_s, error_rate,"
        " timeout_s, at_timeout; remove it",
    ),
    "share": (
        metric("errors", "floor_us")(1),
        "rollout: analysis.metrics[0].floor_us: metric 'errors' has no 'floor_us'; remove it",
    ),
    "time": (
        metric("p50", "family")("f"),
        "rollout: analysis.metrics[0].family: metric 'p50' has no 'family'; remove it",
    ),
    "custom": (
        metric("custom", "floor_us")(1),
        "rollout: analysis.metrics[0].floor_us: metric 'custom' has no 'floor_us'; remove it",
    ),
    "arm": (
        arm("x")(1),
        "rollout: arms[0].x: unknown key 'x', expected one of name, version, weight; remove it",
    ),
    "two fields": (
        BLUE_GREEN | {"y": 1, "x": 1},
        "rollout: y: unknown key 'y', expected one of kind, rules, sticky, salt, stable,"
        " candidate, warm_s, keep_s; remove it",
    ),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_an_unknown_field_is_named_with_those_that_there_are(name: str) -> None:
    body, message = OBJECTS[name]
    with pytest.raises(InvalidArgumentError) as caught:
        read_rollout(body)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            RAMP | {"points": points((2, 1), (2, 2))},
            "rollout: points: they must be in the order of",
        ),
        (step("hold_s")(3600), "analysis.timeout_s must be longer than all steps"),
        (CANARY | {"steps": [{"weight": 5}, {"weight": 5}]}, "must grow from step to step"),
        (
            {
                "kind": "ab",
                "arms": [
                    {"name": "a", "version": 1, "weight": 50},
                    {"name": "a", "version": 2, "weight": 50},
                ],
            },
            "rollout: arms: their names must differ",
        ),
        (shadow("version")(1), "the versions of a rollout must differ, got 1, 1"),
    ],
)
def test_fields_have_to_fit_each_other(body: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read_rollout(body)
    assert message in caught.value.message


def test_what_is_not_given_is_the_default() -> None:
    assert read_rollout(shadow("rtol")(None)).shadow == Shadow(
        version=2,
        weight=TOTAL_WEIGHT,
        rtol=1e-3,
        atol=1e-5,
        mismatches_per_minute=60,
        max_pending=256,
    )
    assert read_rollout(CANARY | {"steps": [{"weight": 5}]}).steps == (Step(500, 300.0, 500),)
    assert read_rollout(RAMP | {"points": points((0, 1)), "analysis": {}}).analysis == Analysis()
    assert read_rollout(RAMP | {"points": points((0, 1))}).analysis is None
    blue_green = read_rollout(BLUE_GREEN)
    assert (blue_green.warm_s, blue_green.keep_s) == (10.0, 600.0)
    assert [arm.name for arm in blue_green.arms] == ["stable", "green"]
    assert [arm.name for arm in read_rollout(RAMP | {"points": points((0, 1))}).arms] == [
        "stable",
        "ramp",
    ]


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [("errors", 0.01), ("p50", 0.1), ("p95", 0.1), ("p99", 0.25), ("queue", 0.5), ("custom", 0.01)],
)
def test_each_metric_has_a_tolerance_of_its_own(kind: str, tolerance: float) -> None:
    read = read_rollout(metric(kind, "tolerance")(None)).analysis
    family = "f" if kind == "custom" else ""
    assert read is not None
    assert read.metrics == (Metric(MetricKind(kind), tolerance, family=family),)


def test_only_what_has_ended_is_terminal() -> None:
    ended = {each.value for each in Phase if each.is_terminal}
    assert ended == {"promoted", "rolled_back", "ended", "superseded"}


def test_the_version_of_a_shadow_takes_part() -> None:
    arms = (Arm("stable", 3),)
    assert Rollout(Kind.SHADOW, arms, shadow=Shadow(4)).versions == (3, 4)
    assert Rollout(Kind.AB, arms).versions == (3,)
