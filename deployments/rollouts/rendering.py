# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes rollouts and their status as the JSON of the API: what `reading` reads again. Pure."""

from typing import Any, Final

from msgspec import to_builtins

from deployments.rollouts.spec import (
    TOTAL_WEIGHT,
    Arm,
    Condition,
    Decision,
    Kind,
    Metric,
    MetricKind,
    RampPoint,
    Rollout,
    Rule,
    Shadow,
    Status,
    Step,
    Sticky,
)

_PERCENT: Final = 100
Json = dict[str, Any]


def percent(weight: int) -> float | int:
    """Return basis points as a percentage; an integer where it is one."""
    value = weight * _PERCENT / TOTAL_WEIGHT
    return int(value) if value.is_integer() else value


def rollout_json(rollout: Rollout) -> Json:
    """Return the body from which `reading.read_rollout` reads an equal rollout."""
    body: Json = {"kind": rollout.kind.value}
    if rollout.kind is Kind.AB:
        body["arms"] = [_weighted(arm) for arm in rollout.arms]
    else:
        body["stable"] = rollout.arms[0].version
        if len(rollout.arms) > 1:
            body["candidate"] = rollout.arms[1].version
    if rollout.rules:
        body["rules"] = [_rule(rule) for rule in rollout.rules]
    if rollout.sticky is not None:
        body["sticky"] = _given(rollout.sticky)
    if rollout.salt:
        body["salt"] = rollout.salt
    if rollout.steps:
        body["steps"] = [_weighted(step) for step in rollout.steps]
    if rollout.points:
        body["points"] = [_weighted(point) for point in rollout.points]
    if rollout.shadow is not None:
        body["shadow"] = _weighted(rollout.shadow)
    if rollout.kind is Kind.BLUE_GREEN:
        body["warm_s"], body["keep_s"] = rollout.warm_s, rollout.keep_s
    if rollout.analysis is not None:
        metrics = [_metric(metric) for metric in rollout.analysis.metrics]
        body["analysis"] = to_builtins(rollout.analysis) | {"metrics": metrics}
    return body


def status_json(status: Status) -> Json:
    """Return a status: phase, step, arms with weights in percent, evidence, decisions."""
    body: Json = to_builtins(status)
    body["arms"] = [_weighted(arm) for arm in status.arms]
    body["history"] = [decision_json(each) for each in status.history]
    return body


def decision_json(decision: Decision) -> Json:
    """Return a decision, weights in percent."""
    weights = {name: percent(weight) for name, weight in decision.weights.items()}
    return to_builtins(decision) | {"weights": weights}  # type: ignore[no-any-return]


def _weighted(record: Arm | RampPoint | Shadow | Step) -> Json:
    return to_builtins(record) | {"weight": percent(record.weight)}  # type: ignore[no-any-return]


def _given(record: Condition | Sticky) -> Json:
    """Return a record without the fields that are empty."""
    body = {name: value for name, value in to_builtins(record).items() if value}
    # A list for protobuf, which takes no tuple for one.
    return body | ({"values": list(body["values"])} if "values" in body else {})


def _rule(rule: Rule) -> Json:
    return {"arm": rule.arm, "conditions": [_given(each) for each in rule.conditions]}


def _metric(metric: Metric) -> Json:
    body: Json = {"kind": metric.kind.value, "tolerance": metric.tolerance}
    if metric.kind is MetricKind.CUSTOM:
        body["family"], body["is_good"] = metric.family, metric.is_good
    elif metric.kind is not MetricKind.ERRORS:
        body["floor_us"] = metric.floor_us
    return body
