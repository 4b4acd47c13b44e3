# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of ``manta perf``, a field each.

Names, defaults and meanings are perf_analyzer's; those of the last group are Manta's.

Triton: perf_analyzer/src/command_line_parser.cc @263c5f6
"""

from dataclasses import dataclass, fields
from typing import Any, Final

from manta_tools.perf.options import values
from manta_tools.perf.options.option import Option, given_as
from manta_tools.perf.options.values import Range, RequestParameter

NO_PERCENTILE: Final = -1

_MODEL: Final = "Model and service"
_MEASURING: Final = "Measurement"
_LOAD: Final = "Load"
_SEQUENCES: Final = "Sequences"
_DATA: Final = "Input and output"
_TRANSPORT: Final = "Transport"
_METRICS: Final = "Server metrics"
_FILES: Final = "Files"
_TRACING: Final = "The server's traces"
_OWN: Final = "Not perf_analyzer's"


@dataclass(frozen=True, slots=True)
class PerfOptions:
    """The options of a run; `OPTIONS` says how each is given, and what it means."""

    model_name: str = given_as("", _MODEL, "The model; required.", short="m")
    model_version: str = given_as(
        "", _MODEL, "The model's version; the server chooses where it is left out.", short="x"
    )
    service_kind: str = given_as(
        "triton",
        _MODEL,
        "The kind of service: triton, or openai for an endpoint that takes a JSON body.",
        values.word("--service-kind", "triton", "openai"),
    )
    endpoint: str = given_as("", _MODEL, "The endpoint's path, for example v1/chat/completions.")
    bls_composing_models: tuple[tuple[tuple[str, str], ...], ...] = given_as(
        (),
        _MODEL,
        "Models that a BLS model calls, whose statistics are reported too.",
        values.composing_models,
    )
    verbose: int = given_as(0, _MODEL, "Print each window.", short="v")

    measurement_mode: str = given_as(
        "time_windows",
        _MEASURING,
        "What ends a window: time_windows or count_windows.",
        values.word("--measurement-mode", "time_windows", "count_windows"),
    )
    measurement_interval: int = given_as(
        5000,
        _MEASURING,
        "Length of a window, in milliseconds.",
        values.least("--measurement-interval (-p)", 1, "> 0 msec."),
        short="p",
    )
    measurement_request_count: int = given_as(
        50,
        _MEASURING,
        "Fewest requests of a count window.",
        values.least("--measurement-request-count", 1, "> 0."),
    )
    stability_percentage: float = given_as(
        10.0,
        _MEASURING,
        "How far three windows may lie apart.",
        values.percentage("--stability-percentage (-s)"),
        short="s",
    )
    percentile: int = given_as(
        NO_PERCENTILE,
        _MEASURING,
        "Percentile whose latency is to be stable and is reported; -1 takes the average.",
        values.whole,
    )
    warmup_request_count: int = given_as(
        0,
        _MEASURING,
        "Requests before the measurement.",
        values.least("--warmup-request-count", 0, ">= 0."),
    )
    request_count: int = given_as(
        0,
        _MEASURING,
        "Measure exactly this many requests, in one window.",
        values.least("--request-count", 1, "> 0."),
    )
    max_trials: int = given_as(
        10,
        _MEASURING,
        "Most windows of a level.",
        values.least("--max-trials (-r)", 1, "> 0."),
        short="r",
    )

    concurrency_range: Range | None = given_as(
        None, _LOAD, "Requests in flight, start:end:step.", values.concurrency_range
    )
    periodic_concurrency_range: Range | None = given_as(
        None,
        _LOAD,
        "Concurrency that grows by a step at a time, start:end:step.",
        values.periodic_concurrency_range,
    )
    request_period: int = given_as(
        10,
        _LOAD,
        "Responses of each request after which the periodic concurrency grows.",
        values.least("--request-period", 1, "> 0"),
    )
    request_rate_range: Range | None = given_as(
        None, _LOAD, "Requests a second, start:end:step.", values.request_rate_range
    )
    request_distribution: str = given_as(
        "constant",
        _LOAD,
        "Distances of arrivals of a request rate: constant or poisson.",
        values.distribution,
    )
    request_intervals: str = given_as(
        "",
        _LOAD,
        "File with the distances of arrivals, in microseconds, a line each; it is repeated.",
        values.existing_file("--request-intervals"),
    )
    fixed_schedule: bool = given_as(
        False,
        _LOAD,
        "Send each payload of an endpoint's data once, at its timestamp, in milliseconds.",
    )
    latency_threshold: int = given_as(
        0,
        _LOAD,
        "Highest latency, in milliseconds; 0 for none.",
        values.least("--latency-threshold (-l)", 0, ">= 0 msecs."),
        short="l",
    )
    binary_search: bool = given_as(False, _LOAD, "Look for the highest level by halving the range.")
    request_parameter: tuple[RequestParameter, ...] = given_as(
        (),
        _LOAD,
        "A parameter of every request, name:value:type, gRPC only.",
        values.request_parameter,
    )
    max_threads: int = given_as(
        16,
        _LOAD,
        "Accepted: the load comes from one event loop.",
        values.least("--max-threads", 1, "> 0."),
    )

    num_of_sequences: int = given_as(
        4,
        _SEQUENCES,
        "Live sequences of a request rate.",
        values.least("--num-of-sequences", 1, "> 0."),
    )
    sequence_length: int | None = given_as(
        None,
        _SEQUENCES,
        "Requests of a sequence; 20, or the steps of its stream in a file.",
        values.whole,
    )
    sequence_length_variation: float = given_as(
        20.0,
        _SEQUENCES,
        "How far lengths vary, in percent.",
        values.percentage("--sequence-length-variation"),
    )
    sequence_id_range: tuple[int, int] | None = given_as(
        None, _SEQUENCES, "Ids of sequences, start:end; from 1 on.", values.sequence_ids
    )
    serial_sequences: bool = given_as(
        False, _SEQUENCES, "At most one request of a sequence in flight, also at a request rate."
    )

    input_data: tuple[str, ...] = given_as(
        (),
        _DATA,
        "zero, random, a directory or a JSON file; random where it is left out.",
        values.input_data,
    )
    batch_size: int = given_as(
        1, _DATA, "Batch size.", values.least("-b (batch size)", 1, "> 0."), short="b"
    )
    shape: tuple[tuple[str, tuple[int, ...]], ...] = given_as(
        (), _DATA, "Shape of an input with variable dimensions, name:1,2.", values.shape
    )
    string_data: str = given_as("", _DATA, "Contents of all elements of BYTES inputs.")
    string_length: int = given_as(
        128,
        _DATA,
        "Length of random elements of BYTES inputs.",
        values.least("--string-length", 1, "> 0"),
    )
    shared_memory: str = given_as(
        "none",
        _DATA,
        "Where tensors travel: none or system.",
        values.word("--shared-memory", "system", "none"),
    )
    output_shared_memory_size: int = given_as(
        102400,
        _DATA,
        "Bytes for each output in shared memory.",
        values.least("--output-shared-memory-size", 0, ">= 0."),
    )
    input_tensor_format: str = given_as(
        "binary",
        _DATA,
        "Form of inputs over HTTP: binary or json.",
        values.word("--input-tensor-format", "binary", "json"),
    )
    output_tensor_format: str = given_as(
        "binary",
        _DATA,
        "Form of outputs over HTTP: binary or json.",
        values.word("--output-tensor-format", "binary", "json"),
    )

    protocol: str = given_as("http", _TRANSPORT, "http or grpc.", values.protocol, short="i")
    url: str = given_as(
        "", _TRANSPORT, "Server, host:port; localhost:8000, or :8001 for gRPC.", short="u"
    )
    is_async: bool = given_as(
        False, _TRANSPORT, "Report a measurement whose latency is not stable too.", short="a"
    )
    sync: bool = given_as(False, _TRANSPORT, "The opposite, and the default.")
    streaming: bool = given_as(False, _TRANSPORT, "Send over one bidirectional stream of gRPC.")
    header: tuple[tuple[str, str], ...] = given_as(
        (), _TRANSPORT, "A header of every request, name:value.", values.header, short="H"
    )
    grpc_compression_algorithm: str = given_as(
        "none",
        _TRANSPORT,
        "gzip, deflate or none.",
        values.word("--grpc-compression-algorithm", "gzip", "deflate", "none"),
    )
    ssl_grpc_use_ssl: bool = given_as(False, _TRANSPORT, "TLS for gRPC.")
    ssl_grpc_root_certifications_file: str = given_as(
        "",
        _TRANSPORT,
        "Who may sign the server's certificate.",
        values.existing_file("--ssl-grpc-root-certifications-file"),
    )
    ssl_grpc_private_key_file: str = given_as(
        "",
        _TRANSPORT,
        "The client's key.",
        values.existing_file("--ssl-grpc-private-key-file"),
    )
    ssl_grpc_certificate_chain_file: str = given_as(
        "",
        _TRANSPORT,
        "The client's certificate.",
        values.existing_file("--ssl-grpc-certificate-chain-file"),
    )
    ssl_https_verify_peer: int = given_as(
        1, _TRANSPORT, "0 trusts any certificate.", values.switch("--ssl-https-verify-peer", 1)
    )
    ssl_https_verify_host: int = given_as(
        2,
        _TRANSPORT,
        "0 accepts any host in the certificate.",
        values.switch("--ssl-https-verify-host", 2),
    )
    ssl_https_ca_certificates_file: str = given_as(
        "",
        _TRANSPORT,
        "Who may sign the server's certificate.",
        values.existing_file("--ssl-https-ca-certificates-file"),
    )
    ssl_https_client_certificate_file: str = given_as(
        "",
        _TRANSPORT,
        "The client's certificate, in PEM.",
        values.existing_file("--ssl-https-client-certificate-file"),
    )
    ssl_https_private_key_file: str = given_as(
        "",
        _TRANSPORT,
        "The client's key, in PEM.",
        values.existing_file("--ssl-https-private-key-file"),
    )

    collect_metrics: bool = given_as(
        False, _METRICS, "Report the gauges of the server's GPUs and CPUs."
    )
    metrics_url: str = given_as(
        "", _METRICS, "Where they are; the server's host, port 8002, /metrics."
    )
    metrics_interval: int = given_as(
        1000,
        _METRICS,
        "How often they are read, in milliseconds.",
        values.least("--metrics-interval", 1, "> 0 msecs."),
    )

    csv_file: str = given_as("", _FILES, "Write the CSV report to this file.", short="f")
    verbose_csv: bool = given_as(False, _FILES, "More columns in the CSV.")
    profile_export_file: str = given_as(
        "", _FILES, "Write every request to this JSON file.", values.new_path
    )

    trace_level: str = given_as(
        "",
        _TRACING,
        "What the server traces of the model: OFF, TIMESTAMPS or TENSORS.",
        values.word("--trace-level", "OFF", "TIMESTAMPS", "TENSORS"),
    )
    trace_rate: int | None = given_as(
        None, _TRACING, "Of how many requests the server traces one.", values.whole
    )
    trace_count: int | None = given_as(
        None,
        _TRACING,
        "How many traces it makes; -1 for any number.",
        values.least("--trace-count", -1, ">= 0 or set to -1 (default)."),
    )
    log_frequency: int | None = given_as(
        None,
        _TRACING,
        "After how many traces it begins a new file; 0 for none.",
        values.least("--log-frequency", 0, ">= 0."),
    )

    goodput: tuple[tuple[tuple[str, float], ...], ...] = given_as(
        (),
        _OWN,
        "Count the requests that keep these limits, metric:msec.",
        values.goodput_objectives,
    )
    processes: int = given_as(
        1,
        _OWN,
        "From how many processes the load comes.",
        values.least("--processes", 1, "> 0."),
    )
    no_progress: bool = given_as(
        False, _OWN, "No progress on a terminal, which only a terminal has anyway."
    )
    html_report: str = given_as(
        "",
        _OWN,
        "Write a report with figures to this file, and its numbers beside it as .data.csv.",
        values.html_path,
    )
    seed: int = given_as(
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
