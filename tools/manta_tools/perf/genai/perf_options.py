# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of ``manta perf`` that a run comes down to, as genai-perf calls perf_analyzer.

Triton: perf_analyzer/genai-perf/genai_perf/config/generate/perf_analyzer_config.py
PerfAnalyzerConfig @263c5f6
"""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final

from manta_tools.perf.genai.endpoints import ENDPOINTS, Endpoint
from manta_tools.perf.genai.options import GenaiOptions
from manta_tools.perf.options.parsing import UsageError, parse_options
from manta_tools.perf.options.table import PerfOptions

_FEWEST_REQUESTS: Final = 10
_ROUNDS: Final = 2
# What options after ``--`` may change; the others are chosen by genai-perf's own.
_MAY_DIFFER: Final = frozenset(
    row.name
    for row in fields(PerfOptions)
    if row.name.startswith("ssl_")
    or row.name
    in (
        "grpc_compression_algorithm",
        "header",
        "max_threads",
        "max_trials",
        "request_distribution",
        "request_parameter",
        "verbose",
    )
)


def endpoint_of(options: GenaiOptions) -> Endpoint:
    """Return the kind of endpoint that is asked."""
    is_kserve = options.endpoint_type == "kserve"
    return ENDPOINTS[options.backend if is_kserve else options.endpoint_type]


def artifact_name(options: GenaiOptions) -> str:
    """Return the name of the folder of a run's files."""
    model = options.models[0] + ("_multi" if len(options.models) > 1 else "")
    kind = endpoint_of(options).service_kind
    of_kind = options.backend if kind == "triton" else options.endpoint_type
    if options.fixed_schedule:
        load = "fixed_schedule"
    elif options.session_concurrency is not None:
        load = f"session_concurrency{options.session_concurrency}"
    elif options.request_rate is not None:
        load = f"request_rate{options.request_rate}"
    else:
        load = f"concurrency{options.concurrency or 1}"
    return f"{model.replace('/', '_')}-{kind}-{of_kind}-{load}"


def perf_options(options: GenaiOptions, inputs: Path, passed: Sequence[str] = ()) -> PerfOptions:
    """Return the options for the client, the load and the profiler.

    Args:
        options: Of the run.
        inputs: The file of its requests.
        passed: What followed ``--``.

    Raises:
        UsageError: Options contradict each other, or one that was passed is not to be passed.
    """
    base = _parse(_arguments(options, inputs))
    if not passed:
        return base
    found = _parse([*_arguments(options, inputs), *passed])
    for row in fields(PerfOptions):
        if row.name not in _MAY_DIFFER and getattr(found, row.name) != getattr(base, row.name):
            raise UsageError(
                f"after -- there is an option that sets {row.name}, which genai-perf's own options "
                "do; what may be passed on is of TLS, headers, compression, the distribution of "
                "arrivals, --max-trials and --request-parameter"
            )
    return found


def request_count(options: GenaiOptions) -> int:
    """Return how many requests are measured; 0 where windows of time are."""
    if options.measurement_interval is not None:
        return 0
    if options.request_count is not None:
        return options.request_count
    # manta perf refuses fewer than a second of them.
    return max(
        _FEWEST_REQUESTS, _ROUNDS * (options.concurrency or 0), int(options.request_rate or 0)
    )


def _parse(arguments: Sequence[str]) -> PerfOptions:
    try:
        return parse_options(arguments)
    except UsageError as error:
        # Its last line is how manta perf is called.
        raise UsageError(str(error).rpartition("\n")[0]) from None


def _arguments(options: GenaiOptions, inputs: Path) -> list[str]:
    endpoint = endpoint_of(options)
    arguments = ["-m", options.models[0], "--async", "--service-kind", endpoint.service_kind]
    arguments += ["--input-data", str(inputs), "--seed", str(options.random_seed)]
    arguments += ["--stability-percentage", str(options.stability_percentage)]
    if endpoint.service_kind == "triton":
        arguments += ["-i", "grpc", "--streaming"]
    else:
        path = endpoint.stream_path if options.streaming else endpoint.path
        arguments += [
            "--endpoint",
            options.endpoint.lstrip(" /") or path.format(model=options.models[0]),
        ]
    if options.url:
        arguments += ["-u", options.url]
    if options.verbose:
        arguments.append("--verbose")
    for each in options.header:
        arguments += ["-H", each]
    return arguments + _load_arguments(options)


def _load_arguments(options: GenaiOptions) -> list[str]:
    if options.fixed_schedule:
        return ["--fixed-schedule"]
    if options.session_concurrency is not None:
        return []
    arguments = []
    if options.request_rate is not None:
        arguments += ["--request-rate-range", str(options.request_rate)]
    else:
        arguments += ["--concurrency-range", str(options.concurrency or 1)]
    if options.warmup_request_count:
        arguments += ["--warmup-request-count", str(options.warmup_request_count)]
    if options.measurement_interval is not None:
        return [*arguments, "-p", str(options.measurement_interval)]
    return [*arguments, "--request-count", str(request_count(options))]
