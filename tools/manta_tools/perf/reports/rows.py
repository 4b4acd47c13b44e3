# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the HTML report is drawn from: rows of a CSV file, one number each.

The page takes its numbers from these rows alone, so whatever it shows can be computed from them.
"""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Final

from manta_tools.perf.data.model import Model
from manta_tools.perf.measuring.confidence import latency_of, throughput_of
from manta_tools.perf.measuring.histogram import LatencyHistogram
from manta_tools.perf.measuring.server_metrics import Gauges
from manta_tools.perf.measuring.server_statistics import ServerSide
from manta_tools.perf.options.checks import is_rate
from manta_tools.perf.options.table import DEFAULTS, OPTIONS, PerfOptions
from manta_tools.perf.profiler import Measurement
from manta_tools.perf.reports.csv_file import Level, time_parts
from manta_tools.perf.reports.text import number, percentiles

_NS_PER_US: Final = 1000.0
_NS_PER_S: Final = 1e9
# Percentiles beyond which fewer requests lie say little.
_LEAST_BEYOND: Final = 10


@dataclass(frozen=True, slots=True)
class Row:
    """One value.

    Attributes:
        level: Concurrency or requests a second; empty for what holds of the whole run.
        part: setting, level, percentile, window, time, server or gauge.
        key: Which option, percentile, window, model or device it is; empty for parts without.
        quantity: What it is, with its unit.
        value: The value.
    """

    level: str
    part: str
    key: str
    quantity: str
    value: str


class Rows:
    """Rows, found by what they are."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = tuple(rows)
        self._values = {
            (each.part, each.level, each.key, each.quantity): each for each in self.rows
        }

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels, in the order in which they were measured."""
        return tuple(dict.fromkeys(each.level for each in self.rows if each.level))

    def text(self, part: str, quantity: str, level: str = "", key: str = "") -> str:
        """Return a value; empty when there is none."""
        found = self._values.get((part, level, key, quantity))
        return found.value if found else ""

    def value(self, level: str, quantity: str, part: str = "level", key: str = "") -> float:
        """Return a number; NaN when there is none."""
        return float(self.text(part, quantity, level, key) or "nan")

    def keys(self, part: str, level: str) -> tuple[str, ...]:
        """Return the keys of a part."""
        return tuple(
            dict.fromkeys(
                each.key for each in self.rows if each.part == part and each.level == level
            )
        )

    def quantities(self, part: str, level: str, key: str = "") -> tuple[str, ...]:
        """Return what is known of a part."""
        return tuple(
            each.quantity
            for each in self.rows
            if (each.part, each.level, each.key) == (part, level, key)
        )


def written(rows: Rows) -> str:
    """Return rows as CSV."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow([field.name for field in fields(Row)])
    lines.writerows(astuple(each) for each in rows.rows)
    return text.getvalue()


def read(text: str) -> Rows:
    """Read what `written` returns."""
    return Rows(Row(**row) for row in csv.DictReader(io.StringIO(text)))


def rows_of(
    options: PerfOptions, model: Model, levels: Sequence[Level], release: str, when: str
) -> Rows:
    """Return the rows of a run.

    Args:
        options: Of the run.
        model: That was measured.
        levels: All levels, in the order in which they were measured.
        release: Of Manta.
        when: Date and time of the run.
    """
    found = [Row("", "setting", key, "value", text) for key, text in _settings(options, model)]
    found.append(Row("", "setting", "Manta", "value", release))
    found.append(Row("", "setting", "measured", "value", when))
    for measured, server in levels:
        level = number(measured.level)
        for part, key, values in _parts(options, model, measured, server):
            found += [
                Row(level, part, key, quantity, _shown(value)) for quantity, value in values.items()
            ]
    return Rows(found)


def _shown(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _settings(options: PerfOptions, model: Model) -> Iterator[tuple[str, str]]:
    """Yield what was given, and what is worth knowing where it was not."""
    yield "model", model.name
    yield "version", model.version or "of the server's choice"
    yield "load", "request rate" if is_rate(options) else "concurrency"
    always = ("protocol", "url", "batch_size", "measurement_mode", "stability_percentage")
    hidden = ("model_name", "model_version", "html_report")
    for field, option in OPTIONS.items():
        value = getattr(options, field)
        if field not in hidden and (field in always or value != DEFAULTS[field]):
            yield f"--{option.name}", _setting(value)


def _setting(value: object) -> str:
    if isinstance(value, tuple):
        return ":".join(map(_setting, value))
    if hasattr(value, "__dataclass_fields__"):
        return ":".join(_setting(getattr(value, name)) for name in value.__dataclass_fields__)
    return number(value) if isinstance(value, float) else str(value)


Values = Mapping[str, float]


def _parts(
    options: PerfOptions, model: Model, measured: Measurement, server: ServerSide | None
) -> Iterator[tuple[str, str, Values]]:
    """Yield part, key and numbers of a level."""
    window = measured.total.window
    yield "level", "", _level(options, model, measured)
    spreads = {"latency_us": window.latencies}
    if model.is_decoupled:
        spreads |= {"first_response_us": window.first_responses, "gap_us": window.gaps}
    for each in _grid(window.requests, percentiles(options)):
        found = {name: _percentile_us(histogram, each) for name, histogram in spreads.items()}
        yield "percentile", f"{each:.10g}", found
    for index, done in enumerate(measured.history, start=1):
        start_s = (done.start_ns - measured.history[0].start_ns) / _NS_PER_S
        yield (
            "window",
            str(index),
            {
                "start_s": start_s,
                "duration_s": (done.end_ns - done.start_ns) / _NS_PER_S,
                "requests": done.requests,
                "failures": done.failures,
                "throughput_per_s": done.throughput,
                "mean_latency_us": done.mean_ns / _NS_PER_US,
                "p50_latency_us": done.p50_ns / _NS_PER_US,
                "p99_latency_us": done.p99_ns / _NS_PER_US,
                "client_busy_percent": done.busy_percentage,
            },
        )
    if server is not None:
        yield "time", "", {**time_parts(window, server.counts, is_cached=model.is_cached)}
        yield from _server(model, server)
    if measured.total.gauges is not None:
        yield from _gauges(measured.total.gauges)


def _level(options: PerfOptions, model: Model, measured: Measurement) -> Values:
    window = measured.total.window
    busy_us = measured.total.busy_percentage / 100.0 * window.duration_s * 1e6
    busy_us *= measured.total.processes
    found = {
        "is_stable": measured.is_stable,
        "is_within_limit": measured.is_within_limit,
        "windows": len(measured.history),
        "duration_s": window.duration_s,
        "requests": window.requests,
        "failures": window.failures,
        "delayed_percent": window.delayed_percentage,
        "throughput_per_s": window.throughput,
        "throughput_half_width_per_s": throughput_of(
            [each.window for each in measured.passes]
        ).half_width,
        "mean_latency_us": window.latencies.mean_ns / _NS_PER_US,
        "deviation_us": window.latencies.deviation_ns / _NS_PER_US,
        "mean_half_width_us": latency_of(window).half_width / _NS_PER_US,
        "client_busy_percent": measured.total.busy_percentage,
        "client_processes": measured.total.processes,
        "client_cpu_us_per_request": busy_us / max(window.requests, 1),
    }
    if model.is_decoupled:
        found["responses_per_s"] = window.response_throughput
    if model.is_sequence:
        found["sequences_per_s"] = window.sequence_throughput
    if options.goodput:
        found["goodput_per_s"] = window.goodput
    # Of too few requests nothing is known.
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _grid(count: int, wanted: Sequence[int]) -> list[float]:
    """Return percentiles, in steps that shrink with each nine, as far as requests reach."""
    found = {float(each) for each in (*range(0, 90, 5), *wanted)}
    step = 1.0
    start = 90.0
    while count * (100.0 - start) / 100.0 >= _LEAST_BEYOND:
        found |= {start + step * index for index in range(9)}
        start, step = 100.0 - (100.0 - start) / 10, step / 10
    return sorted(round(each, 9) for each in found)


def _percentile_us(histogram: LatencyHistogram, percentile: float) -> float:
    return histogram.percentile_ns(percentile) / _NS_PER_US


def _server(model: Model, server: ServerSide) -> Iterator[tuple[str, str, Values]]:
    whole = ((model.name, model.version), server.counts)
    for (name, version), counts in (whole, *server.composing):
        found = {field.name: getattr(counts, field.name) for field in fields(counts)}
        yield "server", f"{name}:{version}" if version else name, found


def _gauges(gauges: Gauges) -> Iterator[tuple[str, str, Values]]:
    for field in fields(gauges):
        for label, value in getattr(gauges, field.name).items():
            yield "gauge", label or "all", {field.name: value}
