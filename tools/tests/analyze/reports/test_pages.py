# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reports say nothing that the CSV file does not."""

import re

import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from backends.config.pbtxt import parse_pbtxt
from manta_tools.analyze.objectives import Bound, Goal, Judge
from manta_tools.analyze.records import Candidate, Load, Measured, Setting, Trial
from manta_tools.analyze.reports.pages import About, detailed, summary
from manta_tools.analyze.results.rows import COLUMNS, Found, columns_of, inference_rows
from manta_tools.analyze.results.tables import Table, as_csv, read_csv
from manta_tools.analyze.space.variants import VariantNames
from manta_tools.analyze.tags import TAGS
from manta_tools.pages.content import Preformatted
from manta_tools.pages.content import Table as PageTable
from manta_tools.pages.figures import Bars, Lines, Scatter
from manta_tools.pages.html_page import render

CONFIG = parse_pbtxt(
    'name: "m" backend: "python" max_batch_size: 8 instance_group { kind: KIND_CPU count: 1 }', "m"
)
SERVER = ("queue", "compute_input", "compute_infer", "compute_output")


def measured(count, level, error=""):
    values = (("instance_group.count", count),) if count else ()
    trial = Trial(Candidate((Setting("m", values),)), (Load("m", "concurrency", level),))
    if error:
        return Measured(trial, {}, error=error)
    latency_ms = level * (1.37 if count == 2 else 2.41)
    metrics = {
        "perf_throughput": 1000 * level / latency_ms,
        "perf_latency_avg": latency_ms,
        "perf_latency_p90": latency_ms * 1.1,
        "perf_latency_p95": latency_ms * 1.2,
        "perf_latency_p99": latency_ms * 1.3,
        "cpu_used_ram": 91.25 * max(count, 1),
        **{f"perf_server_{name}": latency_ms / 10 for name in SERVER},
    }
    return Measured(trial, {"m": metrics}, is_stable=level < 4)


def rows_and_csv():
    judge = Judge((Goal("m", constraints=(Bound("perf_latency_p99", "max", 9.0),)),))
    outcomes = [measured(count, level) for count in (0, 2) for level in (1.0, 2.0, 4.0)]
    outcomes.append(measured(3, 1.0, "no room"))
    found = Found(("m",), judge, tuple(outcomes), {"m": CONFIG}, {}, VariantNames())
    rows = inference_rows(found)
    return rows, as_csv(Table("All", columns_of(rows), tuple(rows)), has_tags=True)


ABOUT = About("m", "throughput", "p99 at most 9 ms", configs={"m_config_0": "name: ..."})


def blocks(page, kind):
    return [each for section in page.sections for each in section.blocks if isinstance(each, kind)]


def numbers(text):
    return set(re.findall(r"\d+(?:\.\d+)?", text))


def test_the_file_gives_back_the_rows():
    rows, text = rows_and_csv()
    assert read_csv(text) == [{key: cell for key, cell in row.items() if cell} for row in rows]


def test_every_number_in_a_table_is_a_cell_of_the_file():
    _, text = rows_and_csv()
    rows = read_csv(text)
    cells = {cell for row in rows for cell in row.values()}
    pages = (summary(rows, ABOUT), detailed(rows, "m_config_0", ABOUT))
    tables = [each for page in pages for each in blocks(page, PageTable) if each.columns[0]]
    shown = [t for t in tables if t.columns[:2] != ("What", "Value")]
    assert len(shown) == 3
    for each in shown:
        for row in each.rows:
            assert set(row) <= cells | {""}


def test_every_point_of_a_figure_is_a_cell_of_the_file():
    _, text = rows_and_csv()
    rows = read_csv(text)
    values = {float(cell) for row in rows for cell in row.values() if numbers(cell) == {cell}}
    for page in (summary(rows, ABOUT), detailed(rows, "m_config_0", ABOUT)):
        for figure in blocks(page, Scatter):
            assert {point.x for point in figure.points} <= values
            assert {point.y for point in figure.points} <= values
        for figure in blocks(page, Lines):
            for series in figure.series:
                assert set(series.x) | set(series.y) <= values
    (bars,) = blocks(detailed(rows, "m_config_0", ABOUT), Bars)
    averages = [
        float(row["perf_latency_avg"])
        for row in rows
        if row["model_config_path"] == "m_config_0" and "perf_latency_avg" in row
    ]
    heights = [sum(part.values[i] for part in bars.parts) for i in range(len(bars.categories))]
    assert sorted(round(each, 6) for each in heights) == sorted(averages)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["summary", "detailed"])
def test_a_table_of_all_columns_fits_a_window_of_1100_pixels(kind):
    row = dict.fromkeys((*COLUMNS, *TAGS), "1234.567") | WORDS
    del row["error"], row["request_rate"]
    pages = {
        "summary": summary([row], ABOUT),
        "detailed": detailed([row], row["model_config_path"], ABOUT),
    }
    widest = max(blocks(pages[kind], PageTable), key=lambda table: len(table.columns))
    text = render(pages[kind])
    assert text.count('class="wide"') == 1
    size_px = 16 * float(re.search(r"table.wide { font-size: (\S+)rem", text)[1])
    padding_px = 16 * float(re.search(r".wide td { padding: \S+ (\S+)rem", text)[1])
    margin_px = 16 * float(re.search(r"body {.*padding: \S+ (\S+)rem", text)[1])
    columns = zip(widest.columns, widest.rows[0], strict=True)
    width_px = sum(
        max(*(width(word, size_px, "bold") for word in title.split()), width(cell, size_px))
        + 2 * padding_px
        for title, cell in columns
    )
    assert width_px <= 1100 - 2 * margin_px


WORDS = {
    "model_config_path": "resnet50_config_default",
    "instance_group": "16:GPU",
    "satisfies_constraints": "Yes",
    "is_stable": "Yes",
    "batch_size": "128",
    "max_batch_size": "128",
    "concurrency": "1024",
}


def width(word, size_px, weight="normal"):
    """Return the width of a word in a wide font, in pixels."""
    font = FontProperties(family="DejaVu Sans", weight=weight, size=size_px)
    return TextToPath().get_text_width_height_descent(word, font, ismath=False)[0]


def test_the_sentence_counts_rows_and_tells_the_gain_of_the_best():
    _, text = rows_and_csv()
    rows = read_csv(text)
    sentence = summary(rows, ABOUT).sections[0].blocks[0].text
    assert sentence.startswith("In 7 measurements of 3 configurations, m_config_0 (")
    best = rows[0]
    defaults = [
        float(row["perf_throughput"])
        for row in rows
        if row["model_config_path"] == "m_config_default" and row["satisfies_constraints"] == "Yes"
    ]
    gain = 100 * (float(best["perf_throughput"]) / max(defaults) - 1)
    assert f"{best['gain']} % better" in sentence
    assert abs(float(best["gain"]) - gain) < 0.01


def test_what_was_measured_shortly_is_drawn_only_where_there_is_nothing_else():
    rows = read_csv(rows_and_csv()[1])
    short = [{**row, "budget": "0.111", "perf_throughput": "7"} for row in rows[:6]]
    pages = [detailed([*rows, *short], "m_config_0", ABOUT), summary([*rows, *short], ABOUT)]
    for page in pages:
        assert all(7 not in series.y for each in blocks(page, Lines) for series in each.series)
    alone = detailed(short, "m_config_0", ABOUT)
    assert all(set(series.y) == {7} for each in blocks(alone, Lines) for series in each.series)


def test_what_failed_and_the_best_config_are_told():
    rows = read_csv(rows_and_csv()[1])
    page = summary(rows, ABOUT)
    assert "What failed" in [section.title for section in page.sections]
    assert [each.text for each in blocks(page, Preformatted)] == ["name: ..."]
    lost = summary([row for row in rows if row.get("error")], ABOUT)
    assert lost.sections[0].blocks[0].text == "All 1 measurements failed."
