# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The reports' files: HTML and PDF, where Model Analyzer puts its own."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from backends.api.errors import InvalidArgumentError
from manta_tools.analyze.objectives import Goal, Judge
from manta_tools.analyze.options.table import AnalyzeOptions
from manta_tools.analyze.records import Candidate
from manta_tools.analyze.reports.pages import (
    About,
    across,
    detailed,
    named_paths,
    summary,
)
from manta_tools.analyze.results.across import best_paths_across
from manta_tools.analyze.results.files import read_all
from manta_tools.analyze.results.groups import Noted
from manta_tools.analyze.results.rows import Found, Row
from manta_tools.analyze.results.tables import heading
from manta_tools.analyze.space.variants import config_text, variant
from manta_tools.pages.content import Page
from manta_tools.pages.rendering import html, pdf

_FOLDER = "reports"
# Model Analyzer's name of it.
ACROSS = "Best Configs Across All Models"
Say = Callable[[str], None]


def write_summaries(noted: Noted, options: AnalyzeOptions, say: Say) -> None:
    """Write a summary for each group of models."""
    for found in noted.found:
        page = summary(read_all(options, found.models), about_of(noted, found, options))
        folder = Path(options.export_path, _FOLDER, "summaries", found.title)
        _write(page, folder, "result_summary", say)


def write_best_across(noted: Noted, options: AnalyzeOptions, say: Say) -> None:
    """Write a summary of the best configurations of all models together."""
    models = [model for found in noted.found for model in found.models]
    goal = Goal(ACROSS, options.objectives, options.constraints)
    about = About(
        ACROSS,
        "; ".join(_objectives(Judge((goal,)))),
        "; ".join(_constraints(Judge((goal,)))) or "none",
        plots=options.plots,
    )
    paths = best_paths_across(noted.found, options.objectives, options.num_top_model_configs)
    page = across(read_all(options, models), paths, about)
    _write(page, Path(options.export_path, _FOLDER, "summaries", ACROSS), "result_summary", say)


def write_details(noted: Noted, options: AnalyzeOptions, names: Sequence[str], say: Say) -> None:
    """Write a detailed report for each configuration that is named.

    Raises:
        InvalidArgumentError: None of that name was measured.
    """
    plots = {each.name: each.plots for each in options.report_model_configs}
    for name in names:
        for found in noted.found:
            rows = read_all(options, found.models)
            if path := _path(rows, name):
                about = about_of(noted, found, options, plots.get(name, ()))
                page = detailed(rows, path, about)
                _write(page, Path(options.export_path, _FOLDER, "detailed", name), _DETAILED, say)
                break
        else:
            known = sorted({each for found in noted.found for each in _names(options, found)})
            raise InvalidArgumentError(
                f"configuration '{name}' was not measured, expected one of {', '.join(known)}"
            )


_DETAILED = "detailed_report"


def best_names(noted: Noted, options: AnalyzeOptions) -> list[str]:
    """Return the names of the best configurations of all models."""
    return [
        path.partition(":")[0]
        for found in noted.found
        for path in named_paths(
            [row for row in read_all(options, found.models) if not row.get("error")],
            options.num_configs_per_model,
        )[: options.num_configs_per_model]
    ]


def about_of(noted: Noted, found: Found, options: AnalyzeOptions, plots: object = ()) -> About:
    """Return what reports say of models beside their rows."""
    candidates = dict.fromkeys(each.trial.candidate for each in found.measured)
    configs = {name: text for each in candidates for name, text in _configs(found, each)}
    unstable = sum(not each.is_stable and not each.error for each in found.measured)
    notes = []
    if unstable:
        notes.append(
            f"{unstable} measurements did not become stable; longer windows or a quieter machine "
            "help."
        )
    return About(
        found.title,
        "; ".join(_objectives(found.judge)),
        "; ".join(_constraints(found.judge)) or "none",
        noted.facts,
        tuple(notes),
        configs,
        options.num_configs_per_model,
        tuple(plots) if isinstance(plots, tuple) and plots else options.plots,
    )


def _configs(found: Found, candidate: Candidate) -> Iterator[tuple[str, str]]:
    """Yield the names of a candidate's variants, and their config.pbtxt."""
    names = found.names.names(candidate)
    for setting in candidate.settings:
        name, config = names[setting.model], found.configs[setting.model]
        yield name, config_text(variant(config, setting, name=name, steps=names))


def _objectives(judge: Judge) -> Iterator[str]:
    for goal in judge.goals:
        weights = {weight for _, weight in goal.objectives}
        parts = [
            heading(tag) if len(weights) == 1 else f"{heading(tag)} x {weight:g}"
            for tag, weight in goal.objectives
        ]
        yield f"{goal.model}: {', '.join(parts)}" if len(judge.goals) > 1 else ", ".join(parts)


def _constraints(judge: Judge) -> Iterator[str]:
    words = {"max": "at most", "min": "at least"}
    for goal in judge.goals:
        for bound in goal.constraints:
            text = f"{heading(bound.tag)} {words[bound.side]} {bound.limit:g}"
            yield f"{goal.model}: {text}" if len(judge.goals) > 1 else text


def _path(rows: Sequence[Row], name: str) -> str:
    paths = (row["model_config_path"] for row in rows if not row.get("error"))
    return next((path for path in paths if path.partition(":")[0] == name), "")


def _names(options: AnalyzeOptions, found: Found) -> Iterator[str]:
    for row in read_all(options, found.models):
        yield row["model_config_path"].partition(":")[0]


def _write(page: Page, folder: Path, name: str, say: Say) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.html").write_text(html(page))
    (folder / f"{name}.pdf").write_bytes(pdf(page))
    say(f"Report written to {folder / name}.html and .pdf")
