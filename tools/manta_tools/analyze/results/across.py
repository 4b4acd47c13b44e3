# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The best configurations over all models, those that were measured apart too.

Triton: model_analyzer/model_analyzer/result/result_manager.py top_n_results @63a0fec
"""

from collections.abc import Sequence

from manta_tools.analyze.objectives import relative_gain
from manta_tools.analyze.records import Measured
from manta_tools.analyze.results.rows import Found, config_path

Objectives = Sequence[tuple[str, float]]


def best_paths_across(groups: Sequence[Found], objectives: Objectives, count: int) -> list[str]:
    """Return the best configurations of all groups of models, the best first.

    Each counts by its best measurement. Metrics of different models are compared as they are: the
    weighted gain over the first group's best orders them. What breaks constraints is returned only
    where everything does, and then by how far it is off.

    Args:
        groups: What was found of each group.
        objectives: Tags and their weights, which hold for all models.
        count: How many.

    Returns:
        Their cells in the column ``model_config_path``, a cell for each model that was asked.
    """
    bests = [
        (found, measured)
        for found in groups
        for measured in found.judge.best_by_candidate(found.measured)
    ]
    if not bests:
        return []
    over = bests[0]
    kept = [each for each in bests if each[0].judge.satisfies(each[1])]
    ordered = (
        sorted(kept, key=lambda each: _gain(each, over, objectives), reverse=True)
        if kept
        else sorted(bests, key=lambda each: each[0].judge.violation(each[1]))
    )
    return list(
        dict.fromkeys(
            config_path(found, measured, load.model)
            for found, measured in ordered[:count]
            for load in measured.trial.loads
        )
    )


def _gain(
    one: tuple[Found, Measured], over: tuple[Found, Measured], objectives: Objectives
) -> float:
    return sum(
        weight * relative_gain(tag, _value(*one, tag), _value(*over, tag))
        for tag, weight in objectives
    )


def _value(found: Found, measured: Measured, tag: str) -> float | None:
    """Return a metric of models that were measured at once: their mean, by their weighting."""
    goals = found.judge.goals
    values = [found.judge.metric(measured, goal.model, tag) for goal in goals]
    known = [
        (value, goal.weighting)
        for value, goal in zip(values, goals, strict=True)
        if value is not None
    ]
    if not known:
        return None
    return sum(value * weight for value, weight in known) / sum(weight for _, weight in known)
