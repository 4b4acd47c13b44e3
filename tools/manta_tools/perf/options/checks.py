# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which options go together, as perf_analyzer has it.

Triton: perf_analyzer/src/command_line_parser.cc VerifyOptions @263c5f6
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from manta_tools.perf.options.table import NO_PERCENTILE, PerfOptions
from manta_tools.perf.options.values import Range, RefusedValueError

Refused = Callable[[PerfOptions], bool]

# In the order in which the options would be given to be named in.
LOAD_MODES: Final = {
    "concurrency_range": "Concurrency",
    "periodic_concurrency_range": "PeriodicConcurrency",
    "request_rate_range": "RequestRate",
    "request_intervals": "CustomIntervals",
    "fixed_schedule": "FixedSchedule",
}
_DEFAULT_URLS: Final = {"http": "localhost:8000", "grpc": "localhost:8001"}
_HIGHEST_PERCENTILE: Final = 99


def check(options: PerfOptions, given: frozenset[str]) -> PerfOptions:
    """Refuse what does not go together, and fill in what follows from the rest.

    Args:
        options: As given.
        given: Fields that were given.

    Raises:
        RefusedValueError: Two options contradict each other, or the model is missing.
    """
    modes = [name for field, name in LOAD_MODES.items() if field in given]
    if len(modes) > 1:
        raise RefusedValueError(f"Cannot use both {modes[0]} and {modes[1]} inference load modes.")
    for field in ("metrics_url", "metrics_interval"):
        if field in given and not options.collect_metrics:
            raise RefusedValueError(
                f"Must specify --collect-metrics when using the --{field.replace('_', '-')} option."
            )
    for message, is_refused in _RULES:
        if is_refused(options):
            raise RefusedValueError(message)
    return _completed(options)


def searched_range(options: PerfOptions) -> Range:
    """Return the levels of the load that was chosen."""
    return options.request_rate_range or options.concurrency_range or Range(1, 1, 1)


def is_rate(options: PerfOptions) -> bool:
    """Whether the load is an open loop: it does not wait for answers."""
    return (
        options.request_rate_range is not None
        or bool(options.request_intervals)
        or options.fixed_schedule
    )


def trace_settings(options: PerfOptions) -> dict[str, str]:
    """Return the settings of traces that were given, by the names that the server has for them."""
    names = ("trace_level", "trace_rate", "trace_count", "log_frequency")
    given = {name: getattr(options, name) for name in names}
    return {name: str(value) for name, value in given.items() if value not in ("", None)}


def _completed(options: PerfOptions) -> PerfOptions:
    changes: dict[str, object] = {}
    if not options.url:
        changes["url"] = _DEFAULT_URLS[options.protocol]
    if not options.metrics_url:
        host = (options.url or "localhost").removeprefix("https://").removeprefix("http://")
        changes["metrics_url"] = f"{host.rpartition(':')[0] or host}:8002/metrics"
    if options.request_count:
        changes["measurement_mode"] = "count_windows"
        changes["measurement_request_count"] = options.request_count
    return replace(options, **changes) if changes else options  # type: ignore[arg-type]


def _has_no_end(options: PerfOptions) -> bool:
    return searched_range(options).end == 0


def _is_single(options: PerfOptions) -> bool:
    levels = searched_range(options)
    return levels.start >= levels.end


def _both_given(options: PerfOptions) -> bool:
    return "zero" in options.input_data and len(options.input_data) > 1


def _fewer_than_in_flight(options: PerfOptions) -> bool:
    return 0 < options.request_count < searched_range(options).start and not is_rate(options)


def _fewer_ids_than_processes(options: PerfOptions) -> bool:
    first, end = options.sequence_id_range or (0, 0)
    return 0 < end < max(first, 1) + options.processes


def _fewer_than_a_second(options: PerfOptions) -> bool:
    levels = options.request_rate_range
    return levels is not None and 0 < options.request_count < int(levels.start)


_RULES: Final[tuple[tuple[str, Refused], ...]] = (
    (
        "Failed to parse -m (model name). The value must be specified.",
        lambda o: not o.model_name,
    ),
    (
        "Streaming is only allowed with gRPC protocol and Triton C API.",
        lambda o: o.streaming and o.protocol != "grpc",
    ),
    (
        "Using compression algorithm is only allowed with gRPC protocol.",
        lambda o: o.grpc_compression_algorithm != "none" and o.protocol != "grpc",
    ),
    (
        "Failed to parse --percentile. The value must be -1 for not reporting or in range "
        "(0, 100).",
        lambda o: o.percentile != NO_PERCENTILE and not 1 <= o.percentile <= _HIGHEST_PERCENTILE,
    ),
    ("Zero input data does not go with other input data.", _both_given),
    (
        "Cannot specify --async and --sync simultaneously.",
        lambda o: o.is_async and o.sync,
    ),
    (
        "The --periodic-concurrency-range option requires bi-directional gRPC streaming.",
        lambda o: o.periodic_concurrency_range is not None and not o.streaming,
    ),
    (
        "Must provide --profile-export-file when using the --periodic-concurrency-range option.",
        lambda o: o.periodic_concurrency_range is not None and not o.profile_export_file,
    ),
    (
        "The --request-parameter option is currently only supported by gRPC protocol.",
        lambda o: bool(o.request_parameter) and o.protocol != "grpc",
    ),
    (
        "Must supply --input-data for OpenAI service kind.",
        lambda o: o.service_kind == "openai" and not o.input_data,
    ),
    (
        'Must supply --endpoint for OpenAI service kind. For example, "v1/chat/completions".',
        lambda o: o.service_kind == "openai" and not o.endpoint,
    ),
    (
        "Only async mode is currently supported for OpenAI service-kind",
        lambda o: o.service_kind == "openai" and not o.is_async,
    ),
    (
        "Batching is not currently supported with OpenAI service-kind",
        lambda o: o.service_kind == "openai" and o.batch_size != 1,
    ),
    (
        "Shared memory, gRPC and generated data do not go with OpenAI service-kind",
        lambda o: (
            o.service_kind == "openai"
            and (
                o.shared_memory != "none"
                or o.protocol != "http"
                or not {"zero", "random"}.isdisjoint(o.input_data)
            )
        ),
    ),
    (
        "Trace options take Triton service-kind: an endpoint has no settings of traces",
        lambda o: o.service_kind != "triton" and bool(trace_settings(o)),
    ),
    (
        "--processes does not go with --periodic-concurrency-range or --profile-export-file: one "
        "process knows all requests of those",
        lambda o: (
            o.processes > 1
            and (o.periodic_concurrency_range is not None or bool(o.profile_export_file))
        ),
    ),
    (
        "--sequence-id-range has fewer ids than there are --processes; give each at least one",
        _fewer_ids_than_processes,
    ),
    (
        "The end of the search range and the latency limit can not be both 0 (or 0.0) "
        "simultaneously",
        lambda o: _has_no_end(o) and o.latency_threshold == 0,
    ),
    (
        "The end of the range can not be 0 (or 0.0) for binary search mode.",
        lambda o: _has_no_end(o) and o.binary_search,
    ),
    (
        "The --latency-threshold cannot be 0 for binary search mode.",
        lambda o: o.binary_search and o.latency_threshold == 0,
    ),
    (
        "The end of the range can not be less than start of the range for binary search mode.",
        lambda o: o.binary_search and searched_range(o).end < searched_range(o).start,
    ),
    (
        "--warmup-request-count not supported with multiple concurrency values in one run",
        lambda o: bool(o.warmup_request_count) and not is_rate(o) and not _is_single(o),
    ),
    (
        "--warmup-request-count not supported with multiple request rate values in one run",
        lambda o: bool(o.warmup_request_count) and is_rate(o) and not _is_single(o),
    ),
    (
        "Cannot specify `--request-count` when using `--fixed-schedule`. The request count will be "
        "equal to the number of requests in the input data minus the warmup request count.",
        lambda o: o.fixed_schedule and bool(o.request_count),
    ),
    (
        "--fixed-schedule takes the timestamps of payloads: it goes with OpenAI service-kind, and "
        "without --warmup-request-count",
        lambda o: o.fixed_schedule and (o.service_kind != "openai" or bool(o.warmup_request_count)),
    ),
    ("--request-count can not be less than concurrency", _fewer_than_in_flight),
    (
        "--request-count not supported with multiple concurrency values in one run",
        lambda o: bool(o.request_count) and not is_rate(o) and not _is_single(o),
    ),
    ("--request-count can not be less than request rate", _fewer_than_a_second),
    (
        "--request-count not supported with multiple request rate values in one run",
        lambda o: bool(o.request_count) and is_rate(o) and not _is_single(o),
    ),
)
