# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The report on the console: perf_analyzer's lines, which scripts look for.

What perf_analyzer does not measure stands in lines of its own, before the last ones.

Triton: perf_analyzer/src/inference_profiler.cc Report, perf_analyzer.cc PrerunReport @263c5f6
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from manta_tools.perf.data.model import Model
from manta_tools.perf.measuring.confidence import latency_of, throughput_of
from manta_tools.perf.measuring.histogram import LatencyHistogram
from manta_tools.perf.measuring.server_metrics import Gauges
from manta_tools.perf.measuring.server_statistics import ServerCounts, ServerSide
from manta_tools.perf.measuring.windows import Window
from manta_tools.perf.options.checks import is_rate, searched_range
from manta_tools.perf.options.table import NO_PERCENTILE, PerfOptions
from manta_tools.perf.profiler import Measurement, Pass

PERCENTILES: Final = (50, 90, 95, 99)
_NS_PER_US: Final = 1000
_SHOWN_DELAY_PERCENT: Final = 1.0
# Busier than this, the client may be what is measured.
_BUSY_PERCENT: Final = 90.0


def percentiles(options: PerfOptions) -> list[int]:
    """Return the percentiles that are reported."""
    wanted = {options.percentile} - {NO_PERCENTILE}
    return sorted({*PERCENTILES, *wanted})


def number(value: float) -> str:
    """Return a number as C++ streams print it: six significant digits."""
    return f"{value:g}"


def settings(options: PerfOptions, model: Model) -> str:
    """Return what is printed before a run."""
    return "\n".join(["*** Measurement Settings ***", *_settings(options, model), ""])


def _settings(options: PerfOptions, model: Model) -> Iterator[str]:
    yield f"  Batch size: {options.batch_size}"
    yield f"  Service Kind: {options.service_kind.upper()}"
    if options.warmup_request_count:
        plural = "s" if options.warmup_request_count > 1 else ""
        yield f"  Sending {options.warmup_request_count} warmup request{plural}"
    if options.request_count:
        plural = "s" if options.request_count > 1 else ""
        yield f"  Sending {options.request_count} benchmark request{plural}"
    else:
        yield from _stabilising(options)
    levels = searched_range(options)
    if levels.end != 1:
        yield f"  Latency limit: {options.latency_threshold} msec"
        if levels.end:
            highest = number(max(levels.start, levels.end))
            yield (
                f"  Request Rate limit: {highest} requests per seconds"
                if is_rate(options)
                else f"  Concurrency limit: {highest} concurrent requests"
            )
    if options.request_rate_range:
        kind = "poisson" if options.request_distribution == "poisson" else "uniform"
        yield f"  Using {kind} distribution on request generation"
    if options.binary_search:
        yield "  Using Binary Search algorithm"
    kind = "asynchronous" if options.is_async else "synchronous"
    yield f"  Using {kind} calls for inference"
    if model.is_decoupled:
        yield "  Detected decoupled model, using the last response for measuring latency"


def _stabilising(options: PerfOptions) -> Iterator[str]:
    yield f'  Using "{options.measurement_mode}" mode for stabilization'
    metric = "throughput" if options.is_async else "latency and throughput"
    if options.percentile == NO_PERCENTILE:
        yield f"  Stabilizing using average {metric}"
    else:
        yield f"  Stabilizing using p{options.percentile} {metric}"
    if options.measurement_mode == "time_windows":
        yield f"  Measurement window: {options.measurement_interval} msec"
    else:
        yield f"  Minimum number of samples in each window: {options.measurement_request_count}"


def level_title(options: PerfOptions, level: float) -> str:
    """Return the line above a level."""
    if is_rate(options):
        return f"Request Rate: {number(level)} inference requests per seconds"
    return f"Request concurrency: {number(level)}"


def pass_line(options: PerfOptions, index: int, done: Pass) -> str:
    """Return the line of one window, of a verbose run."""
    start = f"  Pass [{index}] throughput: {number(done.window.throughput)} infer/sec. "
    if options.percentile != NO_PERCENTILE:
        return f"{start}p{options.percentile} latency: {_us(done.latency_ns)} usec"
    deviation = _us(done.window.latencies.deviation_ns)
    return f"{start}Avg latency: {_us(done.latency_ns)} usec (std {deviation} usec). "


def level_report(
    options: PerfOptions, model: Model, measured: Measurement, server: ServerSide | None
) -> str:
    """Return the report of a level."""
    lines = ["  Client: ", *_client(options, model, measured)]
    if server is not None:
        lines += ["  Server: ", *_server(model, server)]
    if measured.total.gauges is not None:
        lines += ["  Server Prometheus Metrics: ", *_gauges(measured.total.gauges)]
    if measured.total.busy_percentage > _BUSY_PERCENT:
        lines.append(
            "[WARNING] Perf Analyzer is not able to keep up with the desired load. The results may "
            "not be accurate."
        )
    return "\n".join([*lines, ""])


def _client(options: PerfOptions, model: Model, measured: Measurement) -> Iterator[str]:
    window = measured.total.window
    yield f"    Request count: {window.requests}"
    if window.failures:
        yield f"    Failed request count: {window.failures}"
    if window.delayed_percentage > _SHOWN_DELAY_PERCENT:
        yield f"    Avg send request rate: {window.send_rate:.2f} infer/sec"
        yield (
            "    [WARNING] Perf Analyzer was not able to keep up with the desired request rate. "
            f"{window.delayed_percentage:.2f}% of the requests were delayed. "
        )
    if model.is_sequence:
        rate = number(window.sequence_throughput)
        yield f"    Sequence count: {window.sequences} ({rate} seq/sec)"
    yield f"    Throughput: {number(window.throughput)} infer/sec"
    if model.is_decoupled:
        yield f"    Response Throughput: {number(window.response_throughput)} infer/sec"
    if options.verbose:
        yield f"    Avg client overhead: {measured.total.busy_percentage:.2f}%"
    if options.percentile == NO_PERCENTILE:
        latencies = window.latencies
        yield (
            f"    Avg latency: {_us(latencies.mean_ns)} usec (standard deviation "
            f"{_us(latencies.deviation_ns)} usec)"
        )
    for each in percentiles(options):
        yield f"    p{each} latency: {_us(window.latencies.percentile_ns(each))} usec"
    if not model.is_decoupled:
        yield _transport(options, window)
    yield from _own(options, model, measured)


def _transport(options: PerfOptions, window: Window) -> str:
    count = max(window.requests, 1)
    send_us, receive_us = _us(window.send_ns / count), _us(window.receive_ns / count)
    total_us = _us(window.latencies.mean_ns)
    wait_us = total_us - send_us - receive_us
    name, send, receive, both = (
        ("gRPC", "marshal", "unmarshal", "(un)marshal request/response")
        if options.protocol == "grpc"
        else ("HTTP", "send", "receive", "send/recv")
    )
    if options.verbose:
        split = (
            f"{send} {send_us} usec + response wait {wait_us} usec + {receive} {receive_us} usec"
        )
    else:
        split = f"{both} {send_us + receive_us} usec + response wait {wait_us} usec"
    return f"    Avg {name} time: {total_us} usec ({split})"


def _own(options: PerfOptions, model: Model, measured: Measurement) -> Iterator[str]:
    window = measured.total.window
    if model.is_decoupled:
        yield from _spread("Time to first response", window.first_responses, options)
        yield from _spread("Time between responses", window.gaps, options)
    if options.goodput:
        share = 100.0 * window.good / max(window.requests + window.failures, 1)
        yield f"    Goodput: {number(window.goodput)} infer/sec ({share:.2f}% of the requests)"
    latency = latency_of(window)
    throughput = throughput_of([each.window for each in measured.passes])
    if math.isfinite(latency.half_width) and math.isfinite(throughput.half_width):
        yield (
            f"    95% confidence: throughput +- {number(throughput.half_width)} infer/sec, avg "
            f"latency +- {_us(latency.half_width)} usec"
        )


def _spread(title: str, latencies: LatencyHistogram, options: PerfOptions) -> Iterator[str]:
    shown = ", ".join(
        f"p{each} {_us(latencies.percentile_ns(each))} usec" for each in percentiles(options)
    )
    yield f"    {title}: avg {_us(latencies.mean_ns)} usec, {shown}"


def _server(model: Model, server: ServerSide) -> Iterator[str]:
    yield from _counts(server.counts, "  ", is_cached=model.is_cached, parts=server.composing)
    if server.composing:
        yield "  Composing models: "
        for (name, version), counts in server.composing:
            yield f"  {name}, version: {version}"
            yield from _counts(counts, "    ", is_cached=False)
            yield ""


def _counts(
    counts: ServerCounts,
    indent: str,
    *,
    is_cached: bool,
    parts: Sequence[tuple[tuple[str, str], ServerCounts]] = (),
) -> Iterator[str]:
    if not counts.success_count:
        yield f"{indent}  Request count: 0"
        return
    yield f"{indent}  Inference count: {counts.inference_count}"
    yield f"{indent}  Execution count: {counts.execution_count}"
    if is_cached:
        yield f"{indent}  Cache hit count: {counts.cache_hit_count}"
        yield f"{indent}  Cache miss count: {counts.cache_miss_count}"
    yield f"{indent}  Successful request count: {counts.success_count}"
    total_us = average_us(counts.success_ns, counts.success_count)
    start = f"{indent}  Avg request latency: {total_us} usec"
    if parts:
        each_counts = [each for _, each in parts]
        queue_us = sum(average_us(each.queue_ns, each.queue_count) for each in each_counts)
        compute_us = sum(
            average_us(each.compute_ns, each.compute_infer_count) for each in each_counts
        )
        overhead_us = max(total_us - queue_us - compute_us, 0)
        yield (
            f"{start} (overhead {overhead_us} usec + queue {queue_us} usec + compute "
            f"{compute_us} usec)"
        )
        return
    yield from _cached(counts, start, total_us) if is_cached else _plain(counts, start, total_us)


def _plain(counts: ServerCounts, start: str, total_us: int) -> Iterator[str]:
    queue_us = average_us(counts.queue_ns, counts.queue_count)
    compute_us = average_us(counts.compute_ns, counts.compute_input_count)
    overhead_us = max(total_us - queue_us - compute_us, 0)
    yield f"{start} (overhead {overhead_us} usec + queue {queue_us} usec + {_compute(counts)})"


def _cached(counts: ServerCounts, start: str, total_us: int) -> Iterator[str]:
    queue_us = average_us(counts.queue_ns, counts.queue_count)
    compute_us = average_us(counts.compute_ns, counts.compute_input_count)
    hit_us = average_us(counts.cache_hit_ns, counts.cache_hit_count)
    miss_us = average_us(counts.cache_miss_ns, counts.cache_miss_count)
    both_us = average_us(
        counts.cache_hit_ns + counts.cache_miss_ns + counts.compute_ns,
        counts.compute_input_count + counts.cache_hit_count,
    )
    overhead_us = max(total_us - queue_us - both_us, 0)
    yield (
        f"{start} (overhead {overhead_us} usec + queue {queue_us} usec + cache hit/miss "
        f"{both_us} usec)"
    )
    yield f"      Average Cache Hit Latency: {hit_us} usec"
    yield (
        f"      Average Cache Miss Latency: {miss_us + compute_us} usec (cache lookup/insertion "
        f"{miss_us} usec + {_compute(counts)})"
    )


def _compute(counts: ServerCounts) -> str:
    return " + ".join(
        f"compute {name} {_average_us(counts, f'compute_{name}')} usec"
        for name in ("input", "infer", "output")
    )


def _average_us(counts: ServerCounts, name: str) -> int:
    return average_us(getattr(counts, f"{name}_ns"), getattr(counts, f"{name}_count"))


def _gauges(gauges: Gauges) -> Iterator[str]:
    for title, name, scale, unit in _GAUGES:
        values = getattr(gauges, name)
        # Of GPUs perf_analyzer prints the title also when there is none.
        if values or title.count("GPU"):
            yield f"    {title}:"
        for label, value in values.items():
            yield f"      {label or 'all'} : {gauge(value * scale)}{unit}"


def gauge(value: float) -> str:
    """Return a gauge's value; bytes are whole."""
    return str(int(value)) if value.is_integer() else number(value)


# Title, field, factor and unit.
_GAUGES: Final = (
    ("Avg GPU Utilization", "gpu_utilization", 100, "%"),
    ("Avg GPU Power Usage", "gpu_power_w", 1, " watts"),
    ("Max GPU Memory Usage", "gpu_memory_used_bytes", 1, " bytes"),
    ("Total GPU Memory", "gpu_memory_total_bytes", 1, " bytes"),
    ("Avg CPU Utilization", "cpu_utilization", 100, "%"),
    ("Max Memory Usage", "cpu_memory_used_bytes", 1, " bytes"),
)


def average_us(total_ns: int, count: int) -> int:
    """Return a mean, in whole microseconds; 0 of nothing."""
    return total_ns // (count * _NS_PER_US) if count else 0


def failure(options: PerfOptions, measured: Measurement) -> str:
    """Return why a level does not count; empty when it does."""
    if not measured.is_within_limit:
        return f"Measured latency went over the set limit of {options.latency_threshold} msec. "
    if measured.is_stable:
        return ""
    if is_rate(options):
        return "Failed to obtain stable measurement."
    remedy = (
        "--measurement-interval"
        if options.measurement_mode == "time_windows"
        else "--measurement-request-count"
    )
    return (
        f"Failed to obtain stable measurement within {options.max_trials} measurement windows for "
        f"concurrency {number(measured.level)}. Please try to increase the {remedy}."
    )


def summary(options: PerfOptions, measurements: Sequence[Measurement]) -> str:
    """Return the last lines: throughput and latency of each level."""
    if not measurements:
        return ""
    what = "Average" if options.percentile == NO_PERCENTILE else f"p{options.percentile}"
    title = "Request Rate" if is_rate(options) else "Concurrency"
    return "\n".join(
        [
            f"Inferences/Second vs. Client {what} Batch Latency",
            *(
                f"{title}: {number(each.level)}, throughput: "
                f"{number(each.total.window.throughput)} infer/sec, latency "
                f"{_us(each.total.latency_ns)} usec"
                for each in measurements
            ),
        ]
    )


def _us(time_ns: float) -> int:
    return int(time_ns // _NS_PER_US)
