# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which options go together, and what single models have of the global ones.

Triton: model_analyzer/model_analyzer/config/input/config_command_profile.py
_preprocess_and_verify_arguments, _autofill_values @63a0fec
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from manta_tools.analyze.objectives import Bound
from manta_tools.analyze.options.columns import COLUMNS
from manta_tools.analyze.options.models import ProfiledModel
from manta_tools.analyze.options.option import PROFILE
from manta_tools.analyze.options.table import AnalyzeOptions
from manta_tools.analyze.options.values import unknown
from manta_tools.analyze.tags import COST, P99, TAGS, THROUGHPUT

Refused = Callable[[AnalyzeOptions], bool]

_OUTPUT_FIELDS: Final = ("inference_output_fields", "gpu_output_fields", "server_output_fields")
_RANGES: Final = ("concurrency", "model_batch_size", "instance_count", "request_rate")


def completed(options: AnalyzeOptions, given: frozenset[str], command: str) -> AnalyzeOptions:
    """Refuse what does not go together, and fill in what follows from the rest.

    Raises:
        InvalidArgumentError: Two options contradict each other, or one that is needed is missing.
    """
    for message, is_refused in _RULES if command == PROFILE else ():
        if is_refused(options):
            raise InvalidArgumentError(message)
    _check_ranges(options)
    _check_columns(options)
    rates = _asks_for_rates(options, given)
    changes: dict[str, Any] = {"constraints": _with_shorthands(options, options.constraints)}
    if rates:
        changes["request_rate_search_enable"] = not options.request_rate
        for name in _OUTPUT_FIELDS[:2]:
            if name not in given:
                columns = getattr(options, name)
                changes[name] = tuple("request_rate" if c == "concurrency" else c for c in columns)
    options = replace(options, **changes)
    return replace(
        options,
        profile_models=tuple(_filled(options, each) for each in options.profile_models),
    )


def _filled(options: AnalyzeOptions, model: ProfiledModel) -> ProfiledModel:
    """Return a model with the global options where it has none of its own."""
    lists_rates, lists_concurrency = bool(model.request_rate), bool(model.concurrency)
    return replace(
        model,
        batch_sizes=model.batch_sizes or options.batch_sizes,
        concurrency=model.concurrency or (() if lists_rates else options.concurrency),
        request_rate=model.request_rate or (() if lists_concurrency else options.request_rate),
        objectives=model.objectives or options.objectives,
        constraints=_with_shorthands(options, model.constraints or options.constraints),
        perf_analyzer_flags=model.perf_analyzer_flags or options.perf_analyzer_flags,
        server_flags=model.server_flags or options.triton_server_flags,
        server_environment=model.server_environment or options.triton_server_environment,
    )


def _with_shorthands(options: AnalyzeOptions, bounds: tuple[Bound, ...]) -> tuple[Bound, ...]:
    """Return constraints with ``latency_budget`` and ``min_throughput`` in place of their own."""
    short = []
    if options.latency_budget:
        short.append(Bound(P99, "max", options.latency_budget))
    if options.min_throughput:
        short.append(Bound(THROUGHPUT, "min", options.min_throughput))
    replaced = {(each.tag, each.side) for each in short}
    return (*(each for each in bounds if (each.tag, each.side) not in replaced), *short)


def _asks_for_rates(options: AnalyzeOptions, given: frozenset[str]) -> bool:
    return (
        bool(options.request_rate)
        or options.request_rate_search_enable
        or any(name.endswith("request_rate") for name in given)
        or any(model.request_rate for model in options.profile_models)
    )


def _check_ranges(options: AnalyzeOptions) -> None:
    for name in _RANGES:
        least = getattr(options, f"run_config_search_min_{name}")
        most = getattr(options, f"run_config_search_max_{name}")
        if least > most:
            raise InvalidArgumentError(
                f"option 'run_config_search_min_{name}' is {least}, expected at most "
                f"'run_config_search_max_{name}', which is {most}"
            )


def _check_columns(options: AnalyzeOptions) -> None:
    for name in _OUTPUT_FIELDS:
        for column in getattr(options, name):
            if column not in COLUMNS and column not in TAGS:
                raise unknown(f"the column of '{name}'", column, (*COLUMNS, *TAGS))


def _names_twice(options: AnalyzeOptions) -> bool:
    names = [model.name for model in options.profile_models]
    return len(names) != len(set(names))


def _mixes_loads(options: AnalyzeOptions) -> bool:
    has_rates = [bool(model.request_rate) for model in options.profile_models]
    return any(has_rates) and not all(has_rates)


def _lists_both(options: AnalyzeOptions) -> bool:
    return bool(options.concurrency) and bool(options.request_rate)


def _has_nothing_to_start(options: AnalyzeOptions) -> bool:
    return not options.model_repository and options.triton_launch_mode != "remote"


def _has_no_price(options: AnalyzeOptions) -> bool:
    wanted = [tag for tag, _ in options.objectives] + [each.tag for each in options.constraints]
    for model in options.profile_models:
        wanted += [tag for tag, _ in model.objectives] + [each.tag for each in model.constraints]
    return COST in wanted and not options.price_per_node_hour


def _compares_without_constraints(options: AnalyzeOptions) -> bool:
    limits = (options.constraints, options.latency_budget, options.min_throughput)
    return options.num_top_model_configs > 0 and not any(limits)


_RULES: Final[tuple[tuple[str, Refused], ...]] = (
    (
        "no model is given; name one as 'manta analyze MODEL', or with --profile-models",
        lambda o: not o.profile_models,
    ),
    ("'profile_models' names a model twice, expected each once", _names_twice),
    (
        "no --model-repository (-m) is given; expected the directory of the models, or "
        "--triton-launch-mode remote",
        _has_nothing_to_start,
    ),
    (
        "'nodes' is given with 'triton_launch_mode' remote, expected one of them: on nodes servers "
        "are started",
        lambda o: o.nodes > 0 and o.triton_launch_mode == "remote",
    ),
    ("got both 'concurrency' and 'request_rate', expected one of them", _lists_both),
    (
        "some models list 'request_rate' and others do not, expected all or none",
        _mixes_loads,
    ),
    (
        "'weighting' is given for all models at once, expected it among the keys of single models",
        lambda o: o.weighting > 0,
    ),
    (
        "'min_percentage_of_search_space' is above 'max_percentage_of_search_space'",
        lambda o: o.min_percentage_of_search_space > o.max_percentage_of_search_space,
    ),
    (
        f"{COST} is wanted without a price; give --price-per-node-hour",
        _has_no_price,
    ),
    (
        "'optuna_min_trials' is above 'optuna_max_trials'",
        lambda o: 0 < o.optuna_max_trials < o.optuna_min_trials,
    ),
    (
        "'num_top_model_configs' compares models, and needs global 'constraints', "
        "'latency_budget' or 'min_throughput'; give one",
        _compares_without_constraints,
    ),
)
