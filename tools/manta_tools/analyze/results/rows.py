# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Measurements as rows of columns: names of configurations, loads, settings and metrics.

Triton: model_analyzer/model_analyzer/result/result_table_manager.py @63a0fec
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from backends.api.model_config import ModelConfig
from manta_tools.analyze.objectives import Goal, Judge
from manta_tools.analyze.records import Load, Measured, Setting, Value
from manta_tools.analyze.space.variants import VariantNames, variant
from manta_tools.analyze.tags import ALIASES, TAGS

# Digits of a metric after the point, in every file and every report.
_DIGITS: Final = 3
_PERCENT: Final = 100.0
# The kind of the instances of a group, in the column instance_group.
_SHOWN_KIND: Final = re.compile(r"\d+:(\w+)")
_KINDS: Final = {"KIND_CPU": "CPU", "KIND_GPU": "GPU", "KIND_MODEL": "MODEL"}

# Columns beside the metrics; those after satisfies_constraints are Manta's.
COLUMNS: Final = {
    "model_name": "Model",
    "batch_size": "Batch",
    "concurrency": "Concurrency",
    "request_rate": "Request Rate",
    "model_config_path": "Model Config Path",
    "instance_group": "Instance Group",
    "max_batch_size": "Max Batch Size",
    "satisfies_constraints": "Satisfies Constraints",
    "gpu_uuid": "GPU UUID",
    "setting": "Setting",
    "gain": "Gain over Default (%)",
    "is_stable": "Stable",
    "budget": "Budget",
    "error": "Error",
}

# By column or tag; a metric that was not measured is missing.
Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Found:
    """What was found of models that were measured together.

    Attributes:
        models: The models that were asked.
        judge: What was wanted.
        measured: Their measurements, in their order.
        configs: What the repository says of all models that take part, by name.
        composing: The models that each calls.
        names: The names of variants.
    """

    models: tuple[str, ...]
    judge: Judge
    measured: tuple[Measured, ...]
    configs: Mapping[str, ModelConfig]
    composing: Mapping[str, tuple[str, ...]]
    names: VariantNames

    @property
    def title(self) -> str:
        """Their names."""
        return ",".join(self.models)


def inference_rows(found: Found) -> list[Row]:
    """Return a row for each measurement and each model that was asked, the best first.

    Those that failed are last, with their error.
    """
    return [row for measured in _ordered(found) for row in _rows(found, measured)]


def gpu_rows(found: Found) -> list[Row]:
    """Return the same for each GPU that was measured."""
    return [
        {**row, "gpu_uuid": uuid, **_numbers(metrics)}
        for measured in _ordered(found)
        for row in _rows(found, measured)
        for uuid, metrics in measured.gpu_metrics.items()
    ]


def without_unused_gpus(rows: Sequence[Row]) -> list[Row]:
    """Return rows without metrics of GPUs where all instances are on CPUs.

    Triton: model_analyzer/model_analyzer/record/metrics_manager.py profile_models @63a0fec
    """
    return [
        {column: cell for column, cell in row.items() if not _is_of_gpu(column)}
        if is_on_cpus(row)
        else row
        for row in rows
    ]


def is_on_cpus(row: Row) -> bool:
    """Whether all instances of a row's configuration are on CPUs."""
    return set(_SHOWN_KIND.findall(row.get("instance_group", ""))) == {"CPU"}


def _is_of_gpu(column: str) -> bool:
    return column in TAGS and TAGS[column].is_of_gpu


def idle_rows(idle_gpus: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """Return a row for each GPU, measured before any model was loaded."""
    return [
        {"model_name": "triton-server", "gpu_uuid": uuid, **_numbers(metrics)}
        for uuid, metrics in idle_gpus.items()
    ]


def config_path(found: Found, measured: Measured, model: str) -> str:
    """Return the name of a model's variant; behind it those of the models that it calls."""
    names = found.names.names(measured.trial.candidate)
    called = [names[each] for each in found.composing.get(model, ()) if each in names]
    return f"{names[model]}: {', '.join(called)}" if called else names[model]


def shown_setting(measured: Measured) -> str:
    """Return what a candidate changes, for people."""
    settings = [each for each in measured.trial.candidate.settings if each.values]
    is_plain = len(measured.trial.candidate.settings) == 1
    parts = []
    for each in settings:
        changes = ", ".join(f"{field}={_shown(value)}" for field, value in each.values)
        parts.append(changes if is_plain else f"{each.model}: {changes}")
    return "; ".join(parts) or "as in the repository"


def best_default(found: Found) -> Measured | None:
    """Return the best measurement of the default configuration; None where all failed."""
    defaults = (
        each
        for each in found.measured
        if not any(setting.values for setting in each.trial.candidate.settings)
    )
    return found.judge.best(defaults)


def _ordered(found: Found) -> list[Measured]:
    failed = [each for each in found.measured if each.error]
    return [*found.judge.ranked(found.measured), *failed]


def _rows(found: Found, measured: Measured) -> Iterator[Row]:
    over = best_default(found)
    for load in measured.trial.loads:
        yield {
            "model_name": load.model,
            "model_config_path": config_path(found, measured, load.model),
            **_load(load),
            **_config(found, measured, load.model),
            "satisfies_constraints": "Yes" if found.judge.satisfies(measured) else "No",
            "setting": shown_setting(measured),
            "gain": _gain(found.judge, measured, over),
            "is_stable": "Yes" if measured.is_stable else "No",
            "budget": _shown(measured.trial.budget),
            "error": measured.error,
            **_numbers(measured.metrics.get(load.model, {})),
            **_gpus(found.judge, measured, load.model),
        }


def _load(load: Load) -> Row:
    return {"batch_size": str(load.batch_size), load.kind: _shown(load.level)}


def _config(found: Found, measured: Measured, model: str) -> Row:
    """Return instances and batch sizes; of a model that calls others, theirs in their order."""
    settings = {each.model: each for each in measured.trial.candidate.settings}
    parts = found.composing.get(model) or (model,)
    configs = [
        variant(found.configs[each], settings.get(each, Setting(each)))
        for each in parts
        if each in found.configs
    ]
    return {
        "instance_group": ", ".join(map(_groups, configs)),
        "max_batch_size": ", ".join(str(each.max_batch_size) for each in configs),
    }


def _groups(config: ModelConfig) -> str:
    counts: dict[str, int] = {}
    for group in config.instance_group:
        kind = _KINDS.get(group.kind, "AUTO")
        counts[kind] = counts.get(kind, 0) + max(1, group.count)
    return " + ".join(f"{count}:{kind}" for kind, count in counts.items())


def _gain(judge: Judge, measured: Measured, over: Measured | None) -> str:
    """Return by how many percent the objectives are better, weighted.

    Triton: model_analyzer/model_analyzer/result/model_config_measurement.py
    calculate_weighted_percentage_gain @63a0fec
    """
    if measured.error or over is None:
        return ""
    total = sum(goal.weighting for goal in judge.goals)
    gain = sum(
        goal.weighting / total * _gain_of(judge, goal, measured, over) for goal in judge.goals
    )
    return _shown(gain * _PERCENT)


def _gain_of(judge: Judge, goal: Goal, measured: Measured, over: Measured) -> float:
    gain = 0.0
    for tag, weight in goal.objectives:
        value, other = (judge.metric(each, goal.model, tag) for each in (measured, over))
        if value is not None and other:
            sign = 1.0 if TAGS[ALIASES.get(tag, tag)].is_more_better else -1.0
            gain += weight * sign * (value - other) / other
    return gain / sum(weight for _, weight in goal.objectives)


def _gpus(judge: Judge, measured: Measured, model: str) -> Row:
    tags = sorted({tag for each in measured.gpu_metrics.values() for tag in each})
    values = {tag: judge.metric(measured, model, tag) for tag in tags}
    return _numbers({tag: value for tag, value in values.items() if value is not None})


def _numbers(metrics: Mapping[str, float]) -> Row:
    return {tag: _shown(value) for tag, value in metrics.items()}


def _shown(value: Value) -> str:
    if isinstance(value, float):
        rounded = round(value, _DIGITS)
        return str(int(rounded)) if rounded == int(rounded) else str(rounded)
    return str(value).lower() if isinstance(value, bool) else str(value)


def columns_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return all columns that rows have, those beside the metrics first."""
    seen = {column for row in rows for column in row}
    tags = dict.fromkeys(column for row in rows for column in row if column not in COLUMNS)
    return (*(each for each in COLUMNS if each in seen), *tags)
