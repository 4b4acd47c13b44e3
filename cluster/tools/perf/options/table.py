# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of ``manta perf``, a field each.

Names, defaults and meanings are perf_analyzer's; those of the last group are Manta's.

Triton: perf_analyzer/src/command_line_parser.cc @263c5f6
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar

from cluster.tools.perf.options import values
from cluster.tools.perf.options.values import Range, RequestParameter

T = TypeVar("T")

NO_PERCENTILE: Final = -1

_MODEL: Final = "Model and service"
_MEASURING: Final = "Measurement"
_LOAD: Final = "Load"
_SEQUENCES: Final = "Sequences"
_DATA: Final = "Input and output"
_TRANSPORT: Final = "Transport"
_METRICS: Final = "Server metrics"
_FILES: Final = "Files"
_OWN: Final = "Not perf_analyzer's"


@dataclass(frozen=True, slots=True)
class Option:
    """How one option is given.

    Attributes:
        name: Long name without dashes.
        short: Letter; empty when there is none.
        group: Heading in the help.
        meaning: One sentence.
        parse: Reads one value; None for a switch.
        is_repeatable: Whether the values of all occurrences count.
    """

    name: str
    short: str
    group: str
    meaning: str
    parse: Callable[[str], Any] | None
    is_repeatable: bool = False


def _option(
    default: T,
    group: str,
    meaning: str,
    parse: Callable[[str], Any] | None = None,
    *,
    short: str = "",
) -> T:
    metadata = {
        "group": group,
        "meaning": meaning,
        "parse": None if isinstance(default, bool) else parse or str,
        "short": short,
        "is_repeatable": isinstance(default, tuple),
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class PerfOptions:
    """The options of a run; `OPTIONS` says how each is given, and what it means."""

    model_name: str = _option("", _MODEL, "The model; required.", short="m")
    model_version: str = _option(
        "", _MODEL, "The model's version; the server chooses where it is left out.", short="x"
    )
    service_kind: str = _option(
        "triton",
        _MODEL,
        "The kind of service: triton, or openai for an endpoint that takes a JSON body.",
        values.word("--service-kind", "triton", "openai"),
    )
    endpoint: str = _option("", _MODEL, "The endpoint's path, for example v1/chat/completions.")
    bls_composing_models: tuple[tuple[tuple[str, str], ...], ...] = _option(
        (),
        _MODEL,
        "Models that a BLS model calls, whose statistics are reported too.",
        values.composing_models,
    )
    verbose: int = _option(0, _MODEL, "Print each window.", short="v")

    measurement_mode: str = _option(
        "time_windows",
        _MEASURING,
        "What ends a window: time_windows or count_windows.",
        values.word("--measurement-mode", "time_windows", "count_windows"),
    )
    measurement_interval: int = _option(
        5000,
        _MEASURING,
        "Length of a window, in milliseconds.",
        values.least("--measurement-interval (-p)", 1, "> 0 msec."),
        short="p",
    )
    measurement_request_count: int = _option(
        50,
        _MEASURING,
        "Fewest requests of a count window.",
        values.least("--measurement-request-count", 1, "> 0."),
    )
    stability_percentage: float = _option(
        10.0,
        _MEASURING,
        "How far three windows may lie apart.",
        values.percentage("--stability-percentage (-s)"),
        short="s",
    )
    percentile: int = _option(
        NO_PERCENTILE,
        _MEASURING,
        "Percentile whose latency is to be stable and is reported; -1 takes the average.",
        values.whole,
    )
    warmup_request_count: int = _option(
        0,
        _MEASURING,
        "Requests before the measurement.",
        values.least("--warmup-request-count", 0, ">= 0."),
    )
    request_count: int = _option(
        0,
        _MEASURING,
        "Measure exactly this many requests, in one window.",
        values.least("--request-count", 1, "> 0."),
    )
    max_trials: int = _option(
        10,
        _MEASURING,
        "Most windows of a level.",
        values.least("--max-trials (-r)", 1, "> 0."),
        short="r",
    )

    concurrency_range: Range | None = _option(
        None, _LOAD, "Requests in flight, start:end:step.", values.concurrency_range
    )
    periodic_concurrency_range: Range | None = _option(
        None,
        _LOAD,
        "Concurrency that grows by a step at a time, start:end:step.",
        values.periodic_concurrency_range,
    )
    request_period: int = _option(
        10,
        _LOAD,
        "Responses of each request after which the periodic concurrency grows.",
        values.least("--request-period", 1, "> 0"),
    )
    request_rate_range: Range | None = _option(
        None, _LOAD, "Requests a second, start:end:step.", values.request_rate_range
    )
    request_distribution: str = _option(
        "constant",
        _LOAD,
        "Distances of arrivals of a request rate: constant or poisson.",
        values.distribution,
    )
    request_intervals: str = _option(
        "",
        _LOAD,
        "File with the distances of arrivals, in microseconds, a line each; it is repeated.",
        values.existing_file("--request-intervals"),
    )
    fixed_schedule: bool = _option(
        False,
        _LOAD,
        "Send each payload of an endpoint's data once, at its timestamp, in milliseconds.",
    )
    latency_threshold: int = _option(
        0,
        _LOAD,
        "Highest latency, in milliseconds; 0 for none.",
        values.least("--latency-threshold (-l)", 0, ">= 0 msecs."),
        short="l",
    )
    binary_search: bool = _option(False, _LOAD, "Look for the highest level by halving the range.")
    request_parameter: tuple[RequestParameter, ...] = _option(
        (),
        _LOAD,
        "A parameter of every request, name:value:type, gRPC only.",
        values.request_parameter,
    )
    max_threads: int = _option(
        16,
        _LOAD,
        "Accepted: the load comes from one event loop.",
        values.least("--max-threads", 1, "> 0."),
    )

    num_of_sequences: int = _option(
        4,
        _SEQUENCES,
        "Live sequences of a request rate.",
        values.least("--num-of-sequences", 1, "> 0."),
    )
    sequence_length: int | None = _option(
        None,
        _SEQUENCES,
        "Requests of a sequence; 20, or the steps of its stream in a file.",
        values.whole,
    )
    sequence_length_variation: float = _option(
        20.0,
        _SEQUENCES,
        "How far lengths vary, in percent.",
        values.percentage("--sequence-length-variation"),
    )
    sequence_id_range: tuple[int, int] | None = _option(
        None, _SEQUENCES, "Ids of sequences, start:end; from 1 on.", values.sequence_ids
    )
    serial_sequences: bool = _option(
        False, _SEQUENCES, "At most one request of a sequence in flight, also at a request rate."
    )

    input_data: tuple[str, ...] = _option(
        (),
        _DATA,
        "zero, random, a directory or a JSON file; random where it is left out.",
        values.input_data,
    )
    batch_size: int = _option(
        1, _DATA, "Batch size.", values.least("-b (batch size)", 1, "> 0."), short="b"
    )
    shape: tuple[tuple[str, tuple[int, ...]], ...] = _option(
        (), _DATA, "Shape of an input with variable dimensions, name:1,2.", values.shape
    )
    string_data: str = _option("", _DATA, "Contents of all elements of BYTES inputs.")
    string_length: int = _option(
        128,
        _DATA,
        "Length of random elements of BYTES inputs.",
        values.least("--string-length", 1, "> 0"),
    )
    shared_memory: str = _option(
        "none",
        _DATA,
        "Where tensors travel: none or system.",
        values.word("--shared-memory", "system", "none"),
    )
    output_shared_memory_size: int = _option(
        102400,
        _DATA,
        "Bytes for each output in shared memory.",
        values.least("--output-shared-memory-size", 0, ">= 0."),
    )
    input_tensor_format: str = _option(
        "binary",
        _DATA,
        "Form of inputs over HTTP: binary or json.",
        values.word("--input-tensor-format", "binary", "json"),
    )
    output_tensor_format: str = _option(
        "binary",
        _DATA,
        "Form of outputs over HTTP: binary or json.",
        values.word("--output-tensor-format", "binary", "json"),
    )

    protocol: str = _option("http", _TRANSPORT, "http or grpc.", values.protocol, short="i")
    url: str = _option(
        "", _TRANSPORT, "Server, host:port; localhost:8000, or :8001 for gRPC.", short="u"
    )
    is_async: bool = _option(
        False, _TRANSPORT, "Report a measurement whose latency is not stable too.", short="a"
    )
    sync: bool = _option(False, _TRANSPORT, "The opposite, and the default.")
    streaming: bool = _option(False, _TRANSPORT, "Send over one bidirectional stream of gRPC.")
    header: tuple[tuple[str, str], ...] = _option(
        (), _TRANSPORT, "A header of every request, name:value.", values.header, short="H"
    )
    grpc_compression_algorithm: str = _option(
        "none",
        _TRANSPORT,
        "gzip, deflate or none.",
        values.word("--grpc-compression-algorithm", "gzip", "deflate", "none"),
    )
    ssl_grpc_use_ssl: bool = _option(False, _TRANSPORT, "TLS for gRPC.")
    ssl_grpc_root_certifications_file: str = _option(
        "",
        _TRANSPORT,
        "Who may sign the server's certificate.",
        values.existing_file("--ssl-grpc-root-certifications-file"),
    )
    ssl_grpc_private_key_file: str = _option(
        "",
        _TRANSPORT,
        "The client's key.",
        values.existing_file("--ssl-grpc-private-key-file"),
    )
    ssl_grpc_certificate_chain_file: str = _option(
        "",
        _TRANSPORT,
        "The client's certificate.",
        values.existing_file("--ssl-grpc-certificate-chain-file"),
    )
    ssl_https_verify_peer: int = _option(
        1, _TRANSPORT, "0 trusts any certificate.", values.switch("--ssl-https-verify-peer", 1)
    )
    ssl_https_verify_host: int = _option(
        2,
        _TRANSPORT,
        "0 accepts any host in the certificate.",
        values.switch("--ssl-https-verify-host", 2),
    )
    ssl_https_ca_certificates_file: str = _option(
        "",
        _TRANSPORT,
        "Who may sign the server's certificate.",
        values.existing_file("--ssl-https-ca-certificates-file"),
    )
    ssl_https_client_certificate_file: str = _option(
        "",
        _TRANSPORT,
        "The client's certificate, in PEM.",
        values.existing_file("--ssl-https-client-certificate-file"),
    )
    ssl_https_private_key_file: str = _option(
        "",
        _TRANSPORT,
        "The client's key, in PEM.",
        values.existing_file("--ssl-https-private-key-file"),
    )

    collect_metrics: bool = _option(
        False, _METRICS, "Report the gauges of the server's GPUs and CPUs."
    )
    metrics_url: str = _option(
        "", _METRICS, "Where they are; the server's host, port 8002, /metrics."
    )
    metrics_interval: int = _option(
        1000,
        _METRICS,
        "How often they are read, in milliseconds.",
        values.least("--metrics-interval", 1, "> 0 msecs."),
    )

    csv_file: str = _option("", _FILES, "Write the CSV report to this file.", short="f")
    verbose_csv: bool = _option(False, _FILES, "More columns in the CSV.")
    profile_export_file: str = _option(
        "", _FILES, "Write every request to this JSON file.", values.new_path
    )

    goodput: tuple[tuple[tuple[str, float], ...], ...] = _option(
        (),
        _OWN,
        "Count the requests that keep these limits, metric:msec.",
        values.goodput_objectives,
    )
    processes: int = _option(
        1,
        _OWN,
        "From how many processes the load comes.",
        values.least("--processes", 1, "> 0."),
    )
    no_progress: bool = _option(
        False, _OWN, "No progress on a terminal, which only a terminal has anyway."
    )
    html_report: str = _option(
        "",
        _OWN,
        "Write a report with figures to this file, and its numbers beside it as .data.csv.",
        values.html_path,
    )
    seed: int = _option(
        0,
        _OWN,
        "Seed of generated data, arrivals and sequences.",
        values.least("--seed", 0, ">= 0."),
    )


# Fields whose options have another name, or a letter alone.
_LONG_NAMES: Final = {
    "is_async": "async",
    "model_name": "model-name",
    "csv_file": "filename",
}

OPTIONS: Final[dict[str, Option]] = {
    row.name: Option(
        name=_LONG_NAMES.get(row.name, row.name.replace("_", "-")), **dict(row.metadata)
    )
    for row in fields(PerfOptions)
}
DEFAULTS: Final[dict[str, Any]] = {row.name: row.default for row in fields(PerfOptions)}
