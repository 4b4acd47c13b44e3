# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes rollouts and their status as the JSON of the API: what `reading` reads again. Pure."""

from typing import Final

from deployments.rollouts.spec import (
    TOTAL_WEIGHT,
    Analysis,
    Arm,
    Condition,
    Decision,
    Kind,
    Metric,
    MetricKind,
    Rollout,
    Rule,
    Shadow,
    Status,
    Step,
    Sticky,
)

_PERCENT: Final = 100
Json = dict[str, object]


def percent(weight: int) -> float | int:
    """Return basis points as a percentage; an integer where it is one."""
    value = weight * _PERCENT / TOTAL_WEIGHT
    return int(value) if value.is_integer() else value


def rollout_json(rollout: Rollout) -> Json:
    """Return the body from which `reading.read_rollout` reads an equal rollout."""
    body: Json = {"kind": rollout.kind.value}
    if rollout.kind is Kind.AB:
        body["arms"] = [_arm(arm) for arm in rollout.arms]
    else:
        body["stable"] = rollout.arms[0].version
        if len(rollout.arms) > 1:
            body["candidate"] = rollout.arms[1].version
    if rollout.rules:
        body["rules"] = [_rule(rule) for rule in rollout.rules]
    if rollout.sticky is not None:
        body["sticky"] = _sticky(rollout.sticky)
    if rollout.salt:
        body["salt"] = rollout.salt
    if rollout.steps:
        body["steps"] = [_step(step) for step in rollout.steps]
    if rollout.points:
        body["points"] = [
            {"at_s": point.at_s, "weight": percent(point.weight)} for point in rollout.points
        ]
    if rollout.shadow is not None:
        body["shadow"] = _shadow(rollout.shadow)
    if rollout.kind is Kind.BLUE_GREEN:
        body["warm_s"], body["keep_s"] = rollout.warm_s, rollout.keep_s
    if rollout.analysis is not None:
        body["analysis"] = _analysis(rollout.analysis)
    return body


def status_json(status: Status) -> Json:
    """Return a status: phase, step, arms with weights in percent, evidence, decisions."""
    return {
        "phase": status.phase.value,
        "step": status.step,
        "arms": [_arm(arm) for arm in status.arms],
        "reason": status.reason,
        "started_s": status.started_s,
        "changed_s": status.changed_s,
        "evidence": dict(status.evidence),
        "history": [decision_json(each) for each in status.history],
    }


def decision_json(decision: Decision) -> Json:
    """Return a decision, weights in percent."""
    weights = {name: percent(weight) for name, weight in decision.weights.items()}
    return {
        "at_s": decision.at_s,
        "action": decision.action,
        "reason": decision.reason,
        "weights": weights,
    }


def _arm(arm: Arm) -> Json:
    return {"name": arm.name, "version": arm.version, "weight": percent(arm.weight)}


def _rule(rule: Rule) -> Json:
    return {"arm": rule.arm, "conditions": [_condition(each) for each in rule.conditions]}


def _condition(condition: Condition) -> Json:
    body: Json = {"source": condition.source.value, "how": condition.how.value}
    if condition.name:
        body["name"] = condition.name
    if condition.values:
        body["values"] = list(condition.values)
    return body


def _sticky(sticky: Sticky) -> Json:
    body: Json = {"source": sticky.source.value}
    if sticky.name:
        body["name"] = sticky.name
    return body


def _step(step: Step) -> Json:
    weight = percent(step.weight)
    return {"weight": weight, "hold_s": step.hold_s, "min_samples": step.min_samples}


def _shadow(shadow: Shadow) -> Json:
    return {
        "version": shadow.version,
        "weight": percent(shadow.weight),
        "rtol": shadow.rtol,
        "atol": shadow.atol,
        "mismatches_per_minute": shadow.mismatches_per_minute,
        "max_pending": shadow.max_pending,
    }


def _analysis(analysis: Analysis) -> Json:
    return {
        "metrics": [_metric(metric) for metric in analysis.metrics],
        "period_s": analysis.period_s,
        "error_rate": analysis.error_rate,
        "timeout_s": analysis.timeout_s,
        "at_timeout": analysis.at_timeout.value,
    }


def _metric(metric: Metric) -> Json:
    body: Json = {"kind": metric.kind.value, "tolerance": metric.tolerance}
    if metric.kind is MetricKind.CUSTOM:
        body["family"], body["is_good"] = metric.family, metric.is_good
    elif metric.kind is not MetricKind.ERRORS:
        body["floor_us"] = metric.floor_us
    return body
