# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a rollout from the JSON of the API; strict, bounded, with errors that say what to do. Pure.

The fields of the body are those of `deployments.rollouts.spec`, weights in percent.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

from backends.api.errors import InvalidArgumentError
from deployments.rollouts.fields import Fields
from deployments.rollouts.spec import (
    DEFAULT_METRICS,
    MOST_ARMS,
    MOST_CONDITIONS,
    MOST_METRICS,
    MOST_RULES,
    MOST_STEPS,
    MOST_VALUE_CHARS,
    MOST_VALUES,
    STABLE,
    TOTAL_WEIGHT,
    Analysis,
    Arm,
    AtTimeout,
    Condition,
    How,
    Kind,
    Metric,
    MetricKind,
    RampPoint,
    Rollout,
    Rule,
    Shadow,
    Source,
    Step,
    Sticky,
)

_MOST_VERSION: Final = (1 << 63) - 1
_NAMED: Final = frozenset((Source.HEADER, Source.PARAMETER))
_DEFAULT_TOLERANCE: Final[Mapping[MetricKind, float]] = {
    MetricKind.ERRORS: 0.01,
    MetricKind.P50: 0.1,
    MetricKind.P95: 0.1,
    MetricKind.P99: 0.25,
    MetricKind.QUEUE: 0.5,
    MetricKind.CUSTOM: 0.01,
}
_CANDIDATE: Final[Mapping[Kind, str]] = {
    Kind.CANARY: "canary",
    Kind.BLUE_GREEN: "green",
    Kind.RAMP: "ramp",
}
_DEFAULT_STEPS: Final = (Step(500), Step(2500), Step(5000))


def read_rollout(body: object) -> Rollout:
    """Read a rollout.

    Args:
        body: What a JSON parser made of the request's body.

    Raises:
        InvalidArgumentError: A field is missing, unknown or out of bounds, or fields do not fit
            each other.
    """
    fields = Fields(body, "rollout")
    kind = fields.word("kind", Kind)
    arms = _ARMS[kind](fields, kind)
    rollout = Rollout(
        kind=kind,
        arms=arms,
        rules=tuple(_rule(each, arms) for each in fields.objects("rules", MOST_RULES)),
        sticky=_sticky(fields),
        salt=fields.text("salt", ""),
        **_of_kind(fields, kind),  # type: ignore[arg-type]
    )
    fields.close(("kind", *_COMMON, *_FIELDS[kind]))
    _check(rollout)
    return rollout


_COMMON: Final = ("rules", "sticky", "salt")
_FIELDS: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.CANARY: ("stable", "candidate", "steps", "analysis"),
    Kind.SHADOW: ("stable", "shadow"),
    Kind.AB: ("arms",),
    Kind.BLUE_GREEN: ("stable", "candidate", "warm_s", "keep_s"),
    Kind.RAMP: ("stable", "candidate", "points", "analysis"),
}


def _of_kind(fields: Fields, kind: Kind) -> dict[str, object]:
    found: dict[str, object] = {}
    if kind is Kind.CANARY:
        found["steps"] = _steps(fields)
    if kind is Kind.RAMP:
        found["points"] = _points(fields)
    if kind is Kind.SHADOW:
        found["shadow"] = _shadow(fields)
    if kind is Kind.BLUE_GREEN:
        found["warm_s"] = fields.seconds("warm_s", 10.0)
        found["keep_s"] = fields.seconds("keep_s", 600.0)
    if "analysis" in _FIELDS[kind] and fields.has("analysis"):
        found["analysis"] = _analysis(Fields(fields.take("analysis"), "rollout.analysis"))
    elif kind is Kind.CANARY:
        found["analysis"] = Analysis()
    return found


def _version(fields: Fields, name: str) -> int:
    return fields.integer(name, None, 1, _MOST_VERSION)


def _stable_and_candidate(fields: Fields, kind: Kind) -> tuple[Arm, ...]:
    stable, candidate = _version(fields, "stable"), _version(fields, "candidate")
    return Arm(STABLE, stable, TOTAL_WEIGHT), Arm(_CANDIDATE[kind], candidate, 0)


def _stable_alone(fields: Fields, _kind: Kind) -> tuple[Arm, ...]:
    return (Arm(STABLE, _version(fields, "stable"), TOTAL_WEIGHT),)


def _weighted(fields: Fields, _kind: Kind) -> tuple[Arm, ...]:
    arms = []
    for each in fields.objects("arms", MOST_ARMS, 1):
        arms.append(Arm(each.text("name"), _version(each, "version"), each.weight("weight")))
        each.close(("name", "version", "weight"))
    if len({arm.name for arm in arms}) < len(arms):
        raise InvalidArgumentError("rollout.arms must have names that differ")
    total = sum(arm.weight for arm in arms)
    if total != TOTAL_WEIGHT:
        raise InvalidArgumentError(
            f"the weights of rollout.arms must be 100 together, got {total / 100:g}"
        )
    return tuple(arms)


_ARMS: Final[Mapping[Kind, Callable[[Fields, Kind], tuple[Arm, ...]]]] = {
    Kind.CANARY: _stable_and_candidate,
    Kind.SHADOW: _stable_alone,
    Kind.AB: _weighted,
    Kind.BLUE_GREEN: _stable_and_candidate,
    Kind.RAMP: _stable_and_candidate,
}


def _source(fields: Fields) -> tuple[Source, str]:
    source = fields.word("source", Source)
    name = fields.text("name") if source in _NAMED else ""
    return source, name.lower() if source is Source.HEADER else name


def _rule(fields: Fields, arms: tuple[Arm, ...]) -> Rule:
    name = fields.text("arm")
    if all(arm.name != name for arm in arms):
        known = ", ".join(arm.name for arm in arms)
        raise fields.fail("arm", name, f"the name of an arm ({known})")
    conditions = [_condition(each) for each in fields.objects("conditions", MOST_CONDITIONS, 1)]
    fields.close(("arm", "conditions"))
    return Rule(name, tuple(conditions))


def _condition(fields: Fields) -> Condition:
    source, name = _source(fields)
    how = fields.word("how", How, How.EXACT)
    values: tuple[str, ...] = ()
    if how is not How.PRESENT:
        values = fields.texts("values", MOST_VALUES, MOST_VALUE_CHARS)
    fields.close(("source", "name", "how", "values"))
    return Condition(source, name, how, values)


def _sticky(fields: Fields) -> Sticky | None:
    if not fields.has("sticky"):
        return None
    given = Fields(fields.take("sticky"), "rollout.sticky")
    source, name = _source(given)
    given.close(("source", "name"))
    return Sticky(source, name)


def _steps(fields: Fields) -> tuple[Step, ...]:
    if not fields.has("steps"):
        return _DEFAULT_STEPS
    steps = []
    for each in fields.objects("steps", MOST_STEPS, 1):
        weight = each.weight("weight")
        hold_s = each.seconds("hold_s", 300.0)
        steps.append(Step(weight, hold_s, each.integer("min_samples", 500, 0, 1_000_000_000)))
        each.close(("weight", "hold_s", "min_samples"))
    if any(after.weight <= before.weight for before, after in pairwise(steps)):
        raise InvalidArgumentError("the weights of rollout.steps must grow from step to step")
    if steps[0].weight == 0:
        raise InvalidArgumentError("rollout.steps[0].weight must be more than 0")
    return tuple(steps)


def _points(fields: Fields) -> tuple[RampPoint, ...]:
    points = []
    for each in fields.objects("points", MOST_STEPS, 1):
        points.append(RampPoint(each.seconds("at_s", None), each.weight("weight")))
        each.close(("at_s", "weight"))
    if any(after.at_s <= before.at_s for before, after in pairwise(points)):
        raise InvalidArgumentError("rollout.points must be in the order of their times")
    if any(after.weight < before.weight for before, after in pairwise(points)):
        raise InvalidArgumentError("the weights of rollout.points must not fall")
    return tuple(points)


def _shadow(fields: Fields) -> Shadow:
    given = Fields(fields.take("shadow"), "rollout.shadow")
    shadow = Shadow(
        version=_version(given, "version"),
        weight=given.weight("weight", TOTAL_WEIGHT),
        rtol=given.number("rtol", 1e-3, 0.0, 1e6),
        atol=given.number("atol", 1e-5, 0.0, 1e300),
        mismatches_per_minute=given.integer("mismatches_per_minute", 60, 0, 10_000),
        max_pending=given.integer("max_pending", 256, 1, 10_000),
    )
    known = ("version", "weight", "rtol", "atol", "mismatches_per_minute", "max_pending")
    given.close(known)
    return shadow


def _analysis(fields: Fields) -> Analysis:
    metrics = tuple(_metric(each) for each in fields.objects("metrics", MOST_METRICS))
    analysis = Analysis(
        metrics=metrics or DEFAULT_METRICS,
        period_s=fields.seconds("period_s", 10.0, 1.0),
        error_rate=fields.number("error_rate", 0.005, 1e-6, 0.2),
        timeout_s=fields.seconds("timeout_s", 3600.0, 1.0),
        at_timeout=fields.word("at_timeout", AtTimeout, AtTimeout.ROLL_BACK),
    )
    fields.close(("metrics", "period_s", "error_rate", "timeout_s", "at_timeout"))
    if len({metric.label for metric in analysis.metrics}) < len(analysis.metrics):
        raise InvalidArgumentError("rollout.analysis.metrics must name each metric once")
    return analysis


def _metric(fields: Fields) -> Metric:
    kind = fields.word("kind", MetricKind)
    is_custom = kind is MetricKind.CUSTOM
    is_share = is_custom or kind is MetricKind.ERRORS
    tolerance = fields.number(
        "tolerance", _DEFAULT_TOLERANCE[kind], 0.0001 if is_share else 0.01, 0.5 if is_share else 10
    )
    metric = Metric(
        kind,
        tolerance,
        floor_us=0 if is_share else fields.integer("floor_us", 0, 0, 1_000_000_000),
        family=fields.text("family") if is_custom else "",
        is_good=fields.flag("is_good", default=False) if is_custom else False,
    )
    extra = ("family", "is_good") if is_custom else () if is_share else ("floor_us",)
    fields.close(("kind", "tolerance", *extra))
    return metric


def _check(rollout: Rollout) -> None:
    hold_s = sum(step.hold_s for step in rollout.steps)
    if rollout.analysis is not None and hold_s >= rollout.analysis.timeout_s:
        raise InvalidArgumentError(
            f"rollout.analysis.timeout_s must be longer than all steps are held together, got "
            f"{rollout.analysis.timeout_s:g} for {hold_s:g} s of steps"
        )
    versions = rollout.versions
    if len(set(versions)) < len(versions):
        given = ", ".join(map(str, versions))
        raise InvalidArgumentError(f"the versions of a rollout must differ, got {given}")
