# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The CSV report, column by column as perf_analyzer writes it; times are whole microseconds.

Triton: perf_analyzer/src/report_writer.cc GenerateReport @263c5f6
"""

import csv
import io
from collections.abc import Sequence

from manta_tools.perf.data.model import Model
from manta_tools.perf.measuring.server_metrics import Gauges
from manta_tools.perf.measuring.server_statistics import ServerCounts, ServerSide
from manta_tools.perf.measuring.windows import Window
from manta_tools.perf.options.checks import is_rate
from manta_tools.perf.options.table import NO_PERCENTILE, PerfOptions
from manta_tools.perf.profiler import Measurement
from manta_tools.perf.reports.text import average_us, gauge, number, percentiles

# A level and what it cost on the server.
Level = tuple[Measurement, ServerSide | None]


def csv_report(options: PerfOptions, model: Model, levels: Sequence[Level]) -> str:
    """Return the report; rows are sorted by throughput."""
    rows = sorted(levels, key=lambda level: level[0].total.window.throughput)
    cells = [_cells(options, model, *level) for level in rows]
    return _written([list(cells[0]), *(list(row.values()) for row in cells)]) if cells else ""


def composing_reports(options: PerfOptions, levels: Sequence[Level]) -> dict[str, str]:
    """Return the reports of composing models, by what is put before the file's name."""
    reports: dict[str, list[dict[str, str]]] = {}
    for measured, server in levels:
        for (name, version), counts in server.composing if server else ():
            cells = _composing_cells(options, measured, server, counts)
            reports.setdefault(f"{name}_v{version}", []).append(cells)
    return {
        prefix: _written([list(rows[0]), *(list(row.values()) for row in rows)])
        for prefix, rows in reports.items()
    }


def _written(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _cells(
    options: PerfOptions, model: Model, measured: Measurement, server: ServerSide | None
) -> dict[str, str]:
    window = measured.total.window
    count = max(window.requests, 1)
    send_ns, receive_ns = window.send_ns // count, window.receive_ns // count
    cells = {
        "Request Rate" if is_rate(options) else "Concurrency": number(measured.level),
        "Inferences/Second": number(window.throughput),
    }
    if model.is_decoupled:
        cells["Response Throughput"] = number(window.response_throughput)
    cells["Client Send"] = _us(send_ns)
    if server is not None:
        cells |= _server_cells(server.counts, _wait_ns(window), is_cached=model.is_cached)
    cells["Client Recv"] = _us(receive_ns)
    for each in percentiles(options):
        cells[f"p{each} latency"] = _us(window.latencies.percentile_ns(each))
    if options.verbose_csv:
        cells |= _verbose_cells(options, window, send_ns + receive_ns)
        if measured.total.gauges is not None:
            cells |= _gauge_cells(measured.total.gauges)
    return cells


def time_parts(window: Window, counts: ServerCounts, *, is_cached: bool) -> dict[str, int]:
    """Return where the time of a mean request went, in microseconds, by the report's columns."""
    count = max(window.requests, 1)
    return {
        "Client Send": window.send_ns // count // 1000,
        **_server_parts(counts, _wait_ns(window), is_cached=is_cached),
        "Client Recv": window.receive_ns // count // 1000,
    }


def _wait_ns(window: Window) -> int:
    count = max(window.requests, 1)
    return int(window.latencies.mean_ns) - window.send_ns // count - window.receive_ns // count


def _server_cells(counts: ServerCounts, wait_ns: int, *, is_cached: bool) -> dict[str, str]:
    parts = _server_parts(counts, wait_ns, is_cached=is_cached)
    return {title: str(time_us) for title, time_us in parts.items()}


def _server_parts(counts: ServerCounts, wait_ns: int, *, is_cached: bool) -> dict[str, int]:
    cells = {
        "Network+Server Send/Recv": max(wait_ns - _accounted_ns(counts), 0) // 1000,
        "Server Queue": average_us(counts.queue_ns, counts.queue_count),
    }
    for name in ("input", "infer", "output"):
        total_ns = getattr(counts, f"compute_{name}_ns")
        number_of = getattr(counts, f"compute_{name}_count")
        cells[f"Server Compute {name.capitalize()}"] = average_us(total_ns, number_of)
    if is_cached:
        cells["Server Cache Hit"] = average_us(counts.cache_hit_ns, counts.cache_hit_count)
        cells["Server Cache Miss"] = average_us(counts.cache_miss_ns, counts.cache_miss_count)
    return cells


def _accounted_ns(counts: ServerCounts) -> int:
    """Return the mean time of a request that the server accounts for."""
    parts = (
        (counts.queue_ns, counts.queue_count),
        (counts.compute_ns, counts.compute_input_count),
        (counts.cache_hit_ns, counts.cache_hit_count),
        (counts.cache_miss_ns, counts.cache_miss_count),
    )
    return sum(total_ns // count for total_ns, count in parts if count)


def _verbose_cells(options: PerfOptions, window: Window, transport_ns: int) -> dict[str, str]:
    mean_ns = int(window.latencies.mean_ns)
    cells = {"Avg latency": _us(mean_ns)} if options.percentile == NO_PERCENTILE else {}
    cells["request/response"] = _us(transport_ns)
    cells["response wait"] = _us(mean_ns - transport_ns)
    return cells


def _gauge_cells(gauges: Gauges) -> dict[str, str]:
    columns = {
        "Avg GPU Utilization": gauges.gpu_utilization,
        "Avg GPU Power Usage": gauges.gpu_power_w,
        "Max GPU Memory Usage": gauges.gpu_memory_used_bytes,
        "Total GPU Memory": gauges.gpu_memory_total_bytes,
    }
    return {
        title: "".join(f"{label}:{gauge(value)};" for label, value in values.items())
        for title, values in columns.items()
    }


def _composing_cells(
    options: PerfOptions, measured: Measurement, server: ServerSide | None, counts: ServerCounts
) -> dict[str, str]:
    whole = server.counts.success_count if server else 0
    share = counts.success_count / whole if whole else 0.0
    mean_ns = counts.success_ns // counts.success_count if counts.success_count else 0
    return {
        "Request Rate" if is_rate(options) else "Concurrency": number(measured.level),
        "Inferences/Second": number(share * measured.total.window.throughput),
        "Client Send": "0",
        **_server_cells(counts, mean_ns, is_cached=False),
        "Client Recv": "0",
    }


def _us(time_ns: int) -> str:
    return str(time_ns // 1000)
