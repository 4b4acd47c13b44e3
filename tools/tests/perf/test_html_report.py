# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

"""What the HTML report shows can be computed from the CSV file beside it."""

import csv
import io
from html.parser import HTMLParser

import pytest

from manta_tools.pages.content import Paragraph
from manta_tools.perf.command import main, perform
from manta_tools.perf.options.parsing import parse_options
from manta_tools.perf.reports.page import page
from manta_tools.perf.reports.rows import Row, Rows, read, written
from tests.support.echo_servers import Counters, EchoGrpcServer, EchoHttpServer

QUICK = ("--measurement-mode", "count_windows", "--measurement-request-count", "1", "-s", "1e9")

# Part and quantity of every column, and the decimals that are shown.
COLUMNS = {
    "Throughput, infer/s": ("level", "throughput_per_s", 1),
    "±\xa095\xa0%": ("level", "throughput_half_width_per_s", 1),
    "Goodput, infer/s": ("level", "goodput_per_s", 1),
    "Responses/s": ("level", "responses_per_s", 1),
    "Mean latency, us": ("level", "mean_latency_us", 0),
    "±\xa095\xa0%, us": ("level", "mean_half_width_us", 0),
    "Requests": ("level", "requests", 0),
    "Failed": ("level", "failures", 0),
    "Windows": ("level", "windows", 0),
    "Client processes": ("level", "client_processes", 0),
    "Client busy, %": ("level", "client_busy_percent", 1),
    "Client CPU, us/request": ("level", "client_cpu_us_per_request", 1),
    "Sent late, %": ("level", "delayed_percent", 2),
    "GPU utilisation, 0 to 1": ("gauge", "gpu_utilization", 3),
    "Inferences": ("server", "inference_count", 0),
    "Executions": ("server", "execution_count", 0),
    "Cache hits": ("server", "cache_hit_count", 0),
}


class Tables(HTMLParser):
    """The tables of a page, each a list of rows from titles to cells."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.cell = [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.cell = tag

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cell = None

    def handle_data(self, data):
        if self.cell:
            self.tables[-1][-1][-1] += data

    def cells(self):
        """Yield the first cells of a row, a title and a cell."""
        for titles, *lines in self.tables:
            for line in lines:
                row = dict(zip(titles, line, strict=True))
                yield from ((row, title, cell) for title, cell in row.items())


async def report(tmp_path, server, *arguments):
    path = tmp_path / "report.html"
    async with server as port:
        url = ("-m", "echo", "-u", f"127.0.0.1:{port}", "--html-report", str(path))
        metrics = ("--collect-metrics", "--metrics-url", f"127.0.0.1:{port}/metrics")
        http = () if "grpc" in arguments else metrics
        await perform(parse_options([*url, *http, *arguments]))
    return path.read_text(), (tmp_path / "report.data.csv").read_text()


def shown(rows, row, title):
    """Return what a cell of this title has to be, computed from the rows of the CSV file alone."""
    values = {(r["part"], r["level"], r["key"], r["quantity"]): r["value"] for r in rows}
    if "Setting" in row:
        return (
            row["Setting"] if title == "Setting" else values["setting", "", row["Setting"], "value"]
        )
    level = row["Concurrency"]
    if title in ("Concurrency", "Model", "Device or node"):
        return row[title]
    key = row.get("Model") or row.get("Device or node") or ""
    if title.startswith("p"):
        percentile = title.removeprefix("p").removesuffix(", us")
        found = values.get(("percentile", level, percentile, "latency_us"))
        if found is None:
            # Beyond a percentile are ten requests at least; a busy machine answers fewer.
            assert int(row["Requests"]) * (100 - float(percentile)) / 100 < 10
            return ""
        return f"{float(found):.0f}"
    if title == "Requests" and "Model" in row:
        return values["server", level, key, "success_count"]
    if title in COLUMNS:
        part, quantity, digits = COLUMNS[title]
        return f"{float(values[part, level, key, quantity]):.{digits}f}"
    return values["time", level, "", title.removesuffix(", us")]


@pytest.mark.slow
async def test_every_cell_of_a_table_is_a_number_of_the_csv(tmp_path):
    limits = ("--goodput", "request_latency:1000")
    levels = ("--concurrency-range", "1:3:1", *QUICK, *limits)
    html, text = await report(tmp_path, EchoHttpServer(Counters()), *levels)
    rows = list(csv.DictReader(io.StringIO(text)))
    cells = list(Tables(html).cells())
    assert len(cells) > 100
    for row, title, cell in cells:
        assert cell == shown(rows, row, title), (row, title)


@pytest.mark.slow
async def test_numbers_of_the_csv_agree_with_each_other(tmp_path):
    _, text = await report(tmp_path, EchoHttpServer(Counters()), *QUICK)
    rows = read(text)
    requests, duration_s = rows.value("1", "requests"), rows.value("1", "duration_s")
    assert rows.value("1", "throughput_per_s") == pytest.approx(requests / duration_s)
    busy_us = rows.value("1", "client_busy_percent") / 100 * duration_s * 1e6
    assert rows.value("1", "client_processes") == 1
    assert rows.value("1", "client_cpu_us_per_request") == pytest.approx(busy_us / requests)
    last = rows.keys("window", "1")[-3:]
    assert sum(rows.value("1", "requests", "window", key) for key in last) == requests
    times = [rows.value("1", "latency_us", "percentile", k) for k in rows.keys("percentile", "1")]
    assert times == sorted(times)
    parts = sum(rows.value("1", title, "time") for title in rows.quantities("time", "1"))
    assert parts == pytest.approx(rows.value("1", "mean_latency_us"), abs=10)


@pytest.mark.slow
async def test_a_decoupled_model_s_responses_are_in_the_report(tmp_path):
    arguments = ("-i", "grpc", "--streaming", "--request-count", "8")
    html, _ = await report(tmp_path, EchoGrpcServer(Counters(), responses=3), *arguments)
    for title in ("Responses/s", "Time to the first response by percentile", "Time between"):
        assert title in html


def test_rows_are_read_as_they_were_written():
    rows = Rows(
        [Row("1", "level", "", "requests", "7"), Row("", "setting", 'a "b"', "value", "é,\n")]
    )
    assert read(written(rows)).rows == rows.rows


BAD = {
    "is_stable": ("0", "the last three windows do not agree."),
    "is_within_limit": ("0", "the latency is over its threshold."),
    "failures": ("3", "3 requests failed."),
    "delayed_percent": ("2.5", "2.50 % of the requests left late"),
    "client_busy_percent": ("95", "the client was busy for 95 % of the time"),
}
GOOD = dict.fromkeys(BAD, "0") | {"is_stable": "1", "is_within_limit": "1"}


@pytest.mark.parametrize("bad", [None, *BAD])
def test_a_level_that_is_doubtful_has_a_warning(bad):
    values = GOOD | ({bad: BAD[bad][0]} if bad else {})
    rows = [Row("4", "level", "", quantity, value) for quantity, value in values.items()]
    drawn = page(Rows([Row("", "setting", "load", "value", "concurrency"), *rows]))
    texts = [each.text for each in drawn.sections[0].blocks if isinstance(each, Paragraph)]
    assert len(texts) == (bad is not None)
    if bad:
        assert texts[0].startswith(f"Concurrency 4: {BAD[bad][1]}")


def test_a_report_for_a_folder_that_is_not_there_is_refused(capsys):
    assert main(["-m", "m", "--html-report", "/no/such/folder/r.html"]) == 99
    assert "Failed to parse --html-report" in capsys.readouterr().err
