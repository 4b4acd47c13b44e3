# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Optuna's sampler of Parzen trees chooses candidates and loads, then the best at all loads.

What it proposes is measured shortly first; only what is not pruned then is measured in full.

Triton: model_analyzer/model_analyzer/config/generate/optuna_run_config_generator.py @63a0fec
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from manta_tools.analyze.records import Candidate, Measured, Trial
from manta_tools.analyze.searching.levels import fill, relieve
from manta_tools.analyze.searching.quick import climb_from_best, sweep_of_best
from manta_tools.analyze.searching.steps import Steps, side_by_side
from manta_tools.analyze.searching.task import Outcomes, Task, batches, measured_in
from manta_tools.analyze.space.product import Point

# A small space is worth that many trials, whatever part of it they are.
_WORTH_WHILE: Final = 20
# Below every gain; from here down it says how far constraints are exceeded.
_BELOW_ALL: Final = -4.0
# The part of a full measurement that shows what is not worth one.
_GLANCE: Final = 1 / 9
# Full measurements before anything is pruned.
_UNPRUNED: Final = 5
_LEVEL: Final = "level"
_BATCH: Final = "batch"


def tpe(task: Task) -> Steps[None]:
    """Measure the default, then what the sampler proposes, and sweep the loads of the best.

    It ends after the least number of trials once none has been better for a while, or after the
    most; a climb from the best takes the last steps. What looks worse than the median is not
    measured in full. With several objectives it looks for the Pareto front instead of their
    weighted sum, and nothing is pruned.

    Raises:
        InvalidArgumentError: Optuna is not installed.
    """
    outcomes = Outcomes(task.judge)
    yield from fill(task, outcomes, task.space.default())
    study = _study(task)
    least, most = trial_limits(task)
    stale = proposed = 0
    points: dict[Candidate, Point] = {}
    best = outcomes.best()
    while proposed < most and len(outcomes.seen) < most:
        if proposed >= least and stale >= task.limits.patience:
            break
        proposals = [study.ask() for _ in range(min(task.width, most - proposed))]
        yield from side_by_side(
            (_measure(task, study, outcomes, each, points) for each in proposals), task.width
        )
        proposed += len(proposals)
        newest = outcomes.best()
        stale = 0 if newest is not best else stale + len(proposals)
        best = newest
    yield from climb_from_best(task, outcomes, points)
    yield from sweep_of_best(task, outcomes)


def trial_limits(task: Task) -> tuple[int, int]:
    """Return how many trials of the space are made at least and at most.

    The space is that of candidates and loads together.
    """
    levels = _listed_count(task) or (1 if task.uses_formula else len(task.ladder()))
    size = task.space.size * len(list(batches(task))) * levels
    worth_while = min(size, _WORTH_WHILE)
    limits = task.limits
    least = limits.min_trials or max(worth_while, math.ceil(size * limits.min_percentage / 100))
    most = limits.max_trials or max(worth_while, math.ceil(size * limits.max_percentage / 100))
    return min(least, most), most


def _study(task: Task) -> Any:
    if find_spec("optuna") is None:
        raise InvalidArgumentError(
            "'run_config_search_mode' optuna needs Optuna; install manta-tools[analyze]"
        )
    import optuna  # noqa: PLC0415 - of an extra, and its import takes half a second

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(
        directions=["maximize"] * (len(_objectives(task)) if _is_of_many(task) else 1),
        sampler=optuna.samplers.TPESampler(seed=task.seed),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=_UNPRUNED, n_warmup_steps=0),
    )


def _measure(
    task: Task, study: Any, outcomes: Outcomes, proposal: Any, points: dict[Candidate, Point]
) -> Steps[None]:
    """Measure what is proposed, tell the study what came of it, and note where it lies."""
    import optuna  # noqa: PLC0415 - as in _study

    point = tuple(
        proposal.suggest_int(f"{each.model}.{each.name}", 0, len(each.choices) - 1)
        for each in task.space.dimensions
    )
    candidate = task.space.candidate(point)
    points[candidate] = point
    trial = _proposed(task, candidate, proposal)
    # Pruners know one objective only.
    if trial is not None and not _is_of_many(task) and outcomes.of(trial) is None:
        trial = yield from _glance(task, outcomes, proposal, trial)
        if trial is not None and proposal.should_prune():
            study.tell(proposal, state=optuna.trial.TrialState.PRUNED)
            return
    values = None
    if trial is not None:
        yield from _run(task, outcomes, trial)
        found = [each for each in outcomes.seen if _is_like(each.trial, trial, task)]
        values = _values(task, max(found, key=outcomes.standing), outcomes.over)
    if values is None:
        study.tell(proposal, state=optuna.trial.TrialState.FAIL)
    else:
        study.tell(proposal, values)


def _glance(task: Task, outcomes: Outcomes, proposal: Any, trial: Trial) -> Steps[Trial | None]:
    """Measure shortly and report that to the pruner.

    Returns:
        What is to be measured in full: the trial, or one with the load that a limit allows; None
        where it failed.
    """
    short = Outcomes(task.judge)
    yield from _run(task, short, replace(trial, budget=_GLANCE))
    best = max(short.seen, key=lambda each: task.judge.standing(each, outcomes.over))
    values = _values(task, best, outcomes.over)
    if values is None:
        return None
    proposal.report(values[0], step=0)
    return replace(best.trial, budget=trial.budget)


def _run(task: Task, outcomes: Outcomes, trial: Trial) -> Steps[None]:
    """Measure a trial; where a limit decides about loads, also under those that it allows."""
    if _level_count(task):
        yield from measured_in(outcomes, [trial])
    else:
        yield from relieve(task, outcomes, trial)


def _is_like(one: Trial, other: Trial, task: Task) -> bool:
    """Whether a proposal counts by a trial too: its own, or at any load where none is proposed."""
    return one == other if _level_count(task) else one.candidate == other.candidate


def _proposed(task: Task, candidate: Candidate, proposal: Any) -> Trial | None:
    """Return a trial at the proposed load; None where its requests are larger than its batches."""
    if not _level_count(task):
        return task.formula_trial(candidate)
    index = proposal.suggest_int(_BATCH, 0, len(list(batches(task))) - 1)
    level = proposal.suggest_int(_LEVEL, 0, _level_count(task) - 1)
    sizes = [size for size in batches(task) if task.fits(candidate, size)]
    if not sizes:
        return None
    batch_size = sizes[min(index, len(sizes) - 1)]
    listed = task.listed_trials(candidate, batch_size)
    return listed[level] if listed else task.trial(candidate, task.ladder()[level], batch_size)


def _level_count(task: Task) -> int:
    """Return how many levels are searched; 0 where each candidate gets the load that fills it.

    It does where a limit decides how much load that is: the sampler would spend its trials on loads
    that are over it.
    """
    if listed := _listed_count(task):
        return listed
    return 0 if task.uses_formula or task.judge.limits_load else len(task.ladder())


def _listed_count(task: Task) -> int:
    """Return how many levels a user lists; 0 where they are searched."""
    if not all(each.levels for each in task.asked):
        return 0
    return max(len(each.levels) for each in task.asked)


def _values(task: Task, measured: Measured, over: Measured | None) -> list[float] | None:
    """Return what the sampler shall make large; None for a failure."""
    grade, value = task.judge.standing(measured, over)
    if grade == 0 or over is None:
        return None
    count = len(_objectives(task)) if _is_of_many(task) else 1
    if grade == 1:
        return [_BELOW_ALL + value] * count
    return list(task.judge.gains(measured, over)) if _is_of_many(task) else [value]


def _is_of_many(task: Task) -> bool:
    """Whether one model has several objectives; several models are weighted into one instead."""
    return len(task.asked) == 1 and len(_objectives(task)) > 1


def _objectives(task: Task) -> Sequence[tuple[str, float]]:
    return task.judge.goals[0].objectives
