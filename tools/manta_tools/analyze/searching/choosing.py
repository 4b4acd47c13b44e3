# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""From options and configs to the search that they ask for.

Triton: model_analyzer/model_analyzer/config/generate/run_config_generator_factory.py @63a0fec
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from manta_tools.analyze.objectives import Goal, Judge
from manta_tools.analyze.options.models import ProfiledModel
from manta_tools.analyze.options.table import BRUTE, HALVING, OPTUNA, QUICK, AnalyzeOptions
from manta_tools.analyze.searching.brute import brute
from manta_tools.analyze.searching.halving import halving
from manta_tools.analyze.searching.quick import quick
from manta_tools.analyze.searching.steps import SteppedSearch, Steps, side_by_side
from manta_tools.analyze.searching.task import Asked, Levels, Limits, Task
from manta_tools.analyze.searching.tpe import tpe
from manta_tools.analyze.space import automatic, manual
from manta_tools.analyze.space.automatic import Domains
from manta_tools.analyze.space.dimensions import Dimension, numbers, powers_of_two
from manta_tools.analyze.space.product import MAX_BATCH_SIZE, Space

_SEARCHES: Final[dict[str, Callable[[Task], Steps[None]]]] = {
    BRUTE: brute,
    QUICK: quick,
    OPTUNA: tpe,
    HALVING: halving,
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """A search, and what is said of it.

    Attributes:
        mode: Its name.
        tasks: One for each group of models that is measured at once; they are run in turn.
        notes: What was asked for and is not searched, a sentence each.
    """

    mode: str
    tasks: tuple[Task, ...]
    notes: tuple[str, ...] = ()

    def search(self) -> SteppedSearch:
        """Return the search, from its beginning."""
        return SteppedSearch(self._steps)

    def judge_of(self, model: str) -> Judge:
        """Return who judges the results of a model that is asked."""
        return next(
            task.judge for task in self.tasks if any(each.model == model for each in task.asked)
        )

    def _steps(self) -> Steps[object]:
        return side_by_side(map(_SEARCHES[self.mode], self.tasks), 1)


def composing_of(model: str, options: AnalyzeOptions, config: ModelConfig) -> tuple[str, ...]:
    """Return the models that a model calls: its steps, or the composing models of BLS."""
    if config.has_ensemble_scheduling:
        return tuple(dict.fromkeys(step.model_name for step in config.ensemble_steps))
    return tuple(each.name for each in options.bls_composing_models if each.name != model)


def choose(
    options: AnalyzeOptions, configs: Mapping[str, ModelConfig], *, width: int = 1
) -> Chosen:
    """Return the search that options ask for.

    Args:
        options: The options, completed.
        configs: The configs of all models that are measured or called, by name.
        width: How many trials may run at once.

    Raises:
        InvalidArgumentError: A config is missing, or a key of ``model_config_parameters`` is no
            field of it.
    """
    groups = (
        [options.profile_models]
        if options.run_config_profile_models_concurrently_enable
        else [(model,) for model in options.profile_models]
    )
    mode = options.run_config_search_mode or _usual_mode(groups, options, configs)
    if options.run_config_search_disable:
        mode = BRUTE
    notes: list[str] = []
    tasks = tuple(_task(mode, group, options, configs, width, notes) for group in groups)
    return Chosen(mode, tasks, tuple(dict.fromkeys(notes)))


def _usual_mode(
    groups: Sequence[Sequence[ProfiledModel]],
    options: AnalyzeOptions,
    configs: Mapping[str, ModelConfig],
) -> str:
    """Return brute where a space is that of one model, quick where it multiplies."""
    for group in groups:
        tuned = _tuned(group, options, configs)
        if len(tuned) > 1:
            return QUICK
    return BRUTE


def _task(
    mode: str,
    group: Sequence[ProfiledModel],
    options: AnalyzeOptions,
    configs: Mapping[str, ModelConfig],
    width: int,
    notes: list[str],
) -> Task:
    tuned = _tuned(group, options, configs)
    found: list[Dimension] = []
    for model in tuned.values():
        domains = _domains(options)
        found += _dimensions(mode, model, options, configs[model.name], domains)
        notes += automatic.notes(configs[model.name], domains)
    served = {
        name: automatic.served(configs[name], composing_of(name, options, configs[name]))
        for name in tuned
    }
    # The innermost, so that what differs in it alone is measured in turn.
    found.sort(key=lambda dimension: dimension.name == MAX_BATCH_SIZE)
    levels = _levels(options)
    return Task(
        space=Space(tuple(found), served),
        asked=tuple(_asked(model, options, levels) for model in group),
        judge=Judge(tuple(map(_goal, group)), options.price_per_node_hour),
        levels=levels,
        limits=_limits(options),
        seed=options.seed,
        width=width,
        stops_early=options.early_exit_enable,
        uses_formula=options.use_concurrency_formula,
    )


def _tuned(
    group: Sequence[ProfiledModel], options: AnalyzeOptions, configs: Mapping[str, ModelConfig]
) -> dict[str, ProfiledModel]:
    """Return the models of a group and those that they call, by name."""
    said = {
        each.name: each
        for each in (*options.ensemble_composing_models, *options.bls_composing_models)
    }
    found = {model.name: model for model in group}
    pending = list(found)
    while pending:
        name = pending.pop(0)
        if name not in configs:
            raise InvalidArgumentError(
                f"the config of model '{name}' is not known; expected it in the model repository"
            )
        for called in composing_of(name, options, configs[name]):
            if called not in found:
                found[called] = said.get(called, ProfiledModel(called))
                pending.append(called)
    return found


def _dimensions(
    mode: str,
    model: ProfiledModel,
    options: AnalyzeOptions,
    config: ModelConfig,
    domains: Domains,
) -> Iterator[Dimension]:
    """Yield what is listed, and what else is searched unless the list is to be all."""
    listed = manual.dimensions(model.name, model.config_parameters)
    yield from listed
    is_all = options.run_config_search_disable or (mode == BRUTE and bool(listed))
    taken = {_top(each) for each in listed}
    is_cpu_only = model.cpu_only or model.name in options.cpu_only_composing_models
    for each in automatic.dimensions(config, domains, is_cpu_only=is_cpu_only):
        if _top(each) not in taken and (not is_all or each.name == automatic.KIND):
            yield each


def _top(dimension: Dimension) -> str:
    """Return the field of the config that a dimension is in; of a parameter its whole name."""
    if dimension.name.startswith("parameters."):
        return dimension.name
    return dimension.name.partition(".")[0]


def _domains(options: AnalyzeOptions) -> Domains:
    return Domains(
        instances=numbers(
            options.run_config_search_min_instance_count,
            options.run_config_search_max_instance_count,
        ),
        max_batch_sizes=powers_of_two(
            options.run_config_search_min_model_batch_size,
            options.run_config_search_max_model_batch_size,
        ),
        queue_delays_us=options.search_queue_delays_us,
        threads=options.search_threads,
        gpu_fractions=options.search_gpu_fractions,
    )


def _levels(options: AnalyzeOptions) -> Levels:
    asks_rates = options.request_rate_search_enable or any(
        model.request_rate for model in options.profile_models
    )
    steps = options.run_config_search_max_binary_search_steps
    if asks_rates:
        return Levels(
            "request_rate",
            options.run_config_search_min_request_rate,
            options.run_config_search_max_request_rate,
            steps,
        )
    return Levels(
        "concurrency",
        options.run_config_search_min_concurrency,
        options.run_config_search_max_concurrency,
        steps,
    )


def _asked(model: ProfiledModel, options: AnalyzeOptions, levels: Levels) -> Asked:
    listed = model.request_rate if levels.kind == "request_rate" else model.concurrency
    if not listed and options.run_config_search_disable:
        listed = (levels.least,)
    return Asked(model.name, model.batch_sizes, tuple(map(float, listed)))


def _goal(model: ProfiledModel) -> Goal:
    return Goal(model.name, model.objectives, model.constraints, model.weighting)


def _limits(options: AnalyzeOptions) -> Limits:
    return Limits(
        min_percentage=options.min_percentage_of_search_space,
        max_percentage=options.max_percentage_of_search_space,
        min_trials=options.optuna_min_trials,
        max_trials=options.optuna_max_trials,
        patience=options.optuna_early_exit_threshold,
        top=0 if options.concurrency_sweep_disable else options.num_configs_per_model,
    )
