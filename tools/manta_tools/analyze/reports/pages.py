# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The summary of models that were measured together, and the details of one configuration.

Every number is a cell of the CSV file with all measurements, or counts its rows.

Triton: model_analyzer/model_analyzer/reports/report_manager.py @63a0fec
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from manta_tools.analyze.options.plots import DETAILED_PLOTS, SUMMARY_PLOTS, Plot
from manta_tools.analyze.reports.figures import (
    latency_parts,
    level_column,
    number,
    over_levels,
    scatter,
)
from manta_tools.analyze.results.rows import Row
from manta_tools.analyze.results.tables import heading
from manta_tools.pages.content import Block, Page, Paragraph, Preformatted, Section, Table

_SUMMARY_COLUMNS: Final = (
    "model_config_path", "model_name", "instance_group", "max_batch_size", "batch_size",
    "concurrency", "request_rate", "satisfies_constraints", "perf_throughput", "perf_latency_p99",
    "cpu_used_ram", "gpu_used_memory", "cpu_per_inference", "gain",
)  # fmt: skip
_LEVEL_COLUMNS: Final = (
    "model_name", "batch_size", "concurrency", "request_rate", "satisfies_constraints",
    "is_stable", "perf_throughput", "perf_latency_avg", "perf_latency_p90", "perf_latency_p95",
    "perf_latency_p99", "perf_server_queue", "perf_server_compute_infer", "cpu_used_ram",
    "gpu_used_memory", "gpu_utilization",
)  # fmt: skip
# What is measured longer again has the same.
_OF_LOAD: Final = (
    "model_name", "model_config_path", "batch_size", "concurrency", "request_rate",
)  # fmt: skip
# Columns of words; the others hold numbers.
_WORDS: Final = frozenset(
    {"model_config_path", "model_name", "instance_group", "satisfies_constraints", "is_stable"}
)


@dataclass(frozen=True, slots=True)
class About:
    """What a report says beside the rows.

    Attributes:
        title: The models.
        objectives: What was wanted, for people.
        constraints: The same.
        facts: What was searched and how it was measured: names and texts.
        notes: Warnings.
        configs: config.pbtxt of variants, by name.
        best: How many configurations are shown.
        plots: Plots that a user asks for, in place of the usual ones.
    """

    title: str
    objectives: str
    constraints: str
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    configs: Mapping[str, str] = field(default_factory=dict)
    best: int = 3
    plots: tuple[Plot, ...] = ()


def summary(rows: Sequence[Row], about: About) -> Page:
    """Return the summary; rows are those of all measurements, the best first."""
    succeeded = [row for row in rows if not row.get("error")]
    named = named_paths(succeeded, about.best)
    best_rows = [row for row in _first_of_each(succeeded) if row["model_config_path"] in set(named)]
    plots = about.plots or SUMMARY_PLOTS
    drawn = _in_full(succeeded)
    figures = [
        *(scatter(plot, drawn, named) for plot in plots),
        over_levels("perf_throughput", drawn, named),
        over_levels("perf_latency_p99", drawn, named),
    ]
    sections = [
        Section(
            "Result",
            (Paragraph(_sentence(rows, succeeded)), _wanted(about), *_warnings(about)),
        ),
        Section("Best configurations", (_table(best_rows, _SUMMARY_COLUMNS, _CAPTION),)),
        Section("Measurements", tuple(each for each in figures if each is not None)),
        Section("What was searched", (_facts(rows, about),)),
    ]
    if failed := [row for row in rows if row.get("error")]:
        sections.append(Section("What failed", (_failures(failed),)))
    if configs := _configs(best_rows[:1], about):
        sections.append(Section("The best configuration", configs))
    return Page(f"Result summary: {about.title}", tuple(sections))


def across(rows: Sequence[Row], paths: Sequence[str], about: About) -> Page:
    """Return the summary of the best configurations of all models together.

    Args:
        rows: All measurements, of each model the best first.
        paths: Cells of these configurations in the column ``model_config_path``, the best first.
        about: What is said besides.
    """
    shown = _in_full(
        [row for row in rows if row["model_config_path"] in paths and not row.get("error")]
    )
    best_rows = sorted(_first_of_each(shown), key=lambda row: paths.index(row["model_config_path"]))
    figures = [
        *(scatter(plot, shown, paths) for plot in about.plots or SUMMARY_PLOTS),
        over_levels("perf_throughput", shown, paths),
        over_levels("perf_latency_p99", shown, paths),
    ]
    sections = [
        Section("Result", (Paragraph(_sentence_across(rows, best_rows)), _wanted(about))),
        Section("Best configurations", (_table(best_rows, _SUMMARY_COLUMNS, _CAPTION),)),
        Section("Measurements", tuple(each for each in figures if each is not None)),
    ]
    return Page(about.title, tuple(sections))


def detailed(rows: Sequence[Row], path: str, about: About) -> Page:
    """Return the details of one configuration.

    Args:
        rows: All measurements.
        path: Its cells in the column ``model_config_path``.
        about: What is said besides.
    """
    own = _in_full(
        [row for row in rows if row["model_config_path"] == path and not row.get("error")]
    )
    column = level_column(own)
    own.sort(key=lambda row: (number(row, "batch_size") or 0, number(row, column) or 0))
    figures = [
        latency_parts(own),
        over_levels("perf_throughput", own, [path]),
        *(scatter(plot, own, [path]) for plot in about.plots or DETAILED_PLOTS),
    ]
    sections = [
        Section("Loads", tuple(each for each in figures if each is not None)),
        Section("Measurements", (_table(own, _LEVEL_COLUMNS, ""),)),
    ]
    if configs := _configs(own[:1], about):
        sections.append(Section("Configuration", configs))
    return Page(f"Detailed report: {path}", tuple(sections), f"Of {about.title}")


def _in_full(rows: Sequence[Row]) -> list[Row]:
    """Return what was measured in full, of a load the longest; all where nothing was."""
    longest: dict[tuple[str, ...], Row] = {}
    for row in rows:
        key = tuple(row.get(name, "") for name in _OF_LOAD)
        if _budget(row) >= 1.0 and (key not in longest or _budget(row) > _budget(longest[key])):
            longest[key] = row
    kept = {id(row) for row in longest.values()}
    return [row for row in rows if id(row) in kept] or list(rows)


def _budget(row: Row) -> float:
    return float(row.get("budget") or 1)


def named_paths(succeeded: Sequence[Row], best: int) -> list[str]:
    """Return the configurations that reports name: the best, and the default one."""
    paths = list(dict.fromkeys(row["model_config_path"] for row in succeeded))
    default = [each for each in paths if each.partition(":")[0].endswith("_config_default")]
    return list(dict.fromkeys([*paths[:best], *default]))


_CAPTION: Final = "Each configuration at the load at which it meets the objectives best."


def _sentence(rows: Sequence[Row], succeeded: Sequence[Row]) -> str:
    if not succeeded:
        return f"All {len(rows)} measurements failed."
    best = succeeded[0]
    count = len({row["model_config_path"] for row in rows})
    text = (
        f"In {len(rows)} measurements of {count} configurations, {best['model_config_path']} "
        f"({best.get('setting', '')}) is the best"
    )
    if best.get("satisfies_constraints") != "Yes":
        return f"{text}, but it does not keep the constraints: none does."
    gain = best.get("gain", "0")
    if float(gain) > 0:
        return f"{text}: by the objectives {gain} % better than the default configuration."
    return f"{text}: no better than the default configuration."


def _sentence_across(rows: Sequence[Row], best_rows: Sequence[Row]) -> str:
    if not best_rows:
        return f"All {len(rows)} measurements failed."
    best = best_rows[0]
    models = len({row["model_name"] for row in rows})
    count = len({row["model_config_path"] for row in rows})
    text = (
        f"Of {count} configurations of {models} models, {best['model_config_path']} "
        f"({best.get('setting', '')}) is the best"
    )
    if best.get("satisfies_constraints") != "Yes":
        return f"{text}, but it does not keep the constraints: none does."
    return f"{text}. A gain is that over the model's own default configuration."


def _wanted(about: About) -> Table:
    rows = (("Objectives", about.objectives), ("Constraints", about.constraints))
    return Table(("", ""), rows, "", 2)


def _warnings(about: About) -> list[Block]:
    return [Paragraph(note, "warning") for note in about.notes]


def _facts(rows: Sequence[Row], about: About) -> Table:
    failed = sum(bool(row.get("error")) for row in rows)
    counted = (
        ("Measurements", str(len(rows))),
        ("Of these failed", str(failed)),
        ("Configurations", str(len({row["model_config_path"] for row in rows}))),
    )
    return Table(("What", "Value"), (*about.facts, *counted), "", 2)


def _failures(failed: Sequence[Row]) -> Table:
    level = level_column(failed)
    return Table(
        ("Configuration", "Setting", heading(level), "Error"),
        tuple(
            (row["model_config_path"], row.get("setting", ""), row.get(level, ""), row["error"])
            for row in failed
        ),
        "",
        4,
    )


def _first_of_each(rows: Sequence[Row]) -> list[Row]:
    firsts: dict[tuple[str, str], Row] = {}
    for row in rows:
        firsts.setdefault((row["model_config_path"], row["model_name"]), row)
    return list(firsts.values())


def _table(rows: Sequence[Row], wanted: Sequence[str], caption: str) -> Table:
    columns = [each for each in wanted if any(each in row for row in rows)]
    if len({row.get("model_name") for row in rows}) == 1 and "model_name" in columns:
        columns.remove("model_name")
    columns.sort(key=lambda each: each not in _WORDS)
    return Table(
        tuple(map(heading, columns)),
        tuple(tuple(row.get(each, "") for each in columns) for row in rows),
        caption,
        sum(each in _WORDS for each in columns),
        frozenset({0}) if caption else frozenset(),
    )


def _configs(rows: Sequence[Row], about: About) -> tuple[Block, ...]:
    """Return the config.pbtxt of every variant that rows name."""
    names = [
        name
        for row in rows
        for name in row["model_config_path"].replace(":", ",").replace(" ", "").split(",")
    ]
    return tuple(
        Preformatted(about.configs[name], f"{name}/config.pbtxt")
        for name in dict.fromkeys(names)
        if name in about.configs
    )
