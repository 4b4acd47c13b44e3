# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of what is refused under overload; see `docs/overload.md`."""

from dataclasses import dataclass
from typing import Final

from cluster.options import values
from cluster.options.access import AccessOptions
from cluster.options.flag import declared as _flag
from deployments.admission.rules import AdmissionDefaults
from deployments.settings.connection_limits import ConnectionLimits

ADMISSION: Final = "Admission"
_US_PER_MS: Final = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionOptions(AccessOptions):
    """A part of `cluster.options.table.ServerOptions`."""

    admission: str = _flag(
        "off",
        ADMISSION,
        "Refuse requests that would wait too long, before they wait: off or adaptive. Parameter"
        " admission.mode of a model says it for the model alone.",
        values.choice("invalid argument for --admission", "off", "adaptive"),
    )
    admission_target_queue_ms: float = _flag(
        0.0,
        ADMISSION,
        "Mean milliseconds in the queue that are kept under overload. 0: as long as a request takes"
        " that does not wait.",
        values.fraction,
    )
    admission_burst_ms: float = _flag(
        100.0,
        ADMISSION,
        "Milliseconds that requests may queue before any is refused; 20 executions if that is"
        " more.",
        values.fraction,
    )
    admission_max_requests: int = _flag(
        0,
        ADMISSION,
        "Requests under way in an ingress process, of all models. 0: any number.",
        values.at_least(0, "Error: --admission-max-requests must not be negative."),
    )
    http_max_connections: int = _flag(
        10_000,
        ADMISSION,
        "Open HTTP connections of an ingress process. For one more an idle one is closed.",
        values.at_least(1, "Error: --http-max-connections must be greater than 0."),
    )
    http_max_connections_per_peer: int = _flag(
        0,
        ADMISSION,
        "Open HTTP connections of one peer's address to an ingress process. 0: any number.",
        values.at_least(0, "Error: --http-max-connections-per-peer must not be negative."),
    )
    http_idle_timeout_secs: int = _flag(
        0,
        ADMISSION,
        "Seconds without a request after which an HTTP connection is closed. 0: never.",
        values.at_least(0, "Error: --http-idle-timeout-secs must not be negative."),
    )
    http_read_timeout_secs: int = _flag(
        60,
        ADMISSION,
        "Seconds without a byte of an unfinished HTTP request; its headers have half of them.",
        values.at_least(2, "Error: --http-read-timeout-secs must be at least 2."),
    )
    http_write_timeout_secs: int = _flag(
        60,
        ADMISSION,
        "Seconds that an HTTP peer may leave its answers unread.",
        values.at_least(1, "Error: --http-write-timeout-secs must be greater than 0."),
    )
    grpc_max_connections: int = _flag(
        10_000,
        ADMISSION,
        "Open gRPC connections of an ingress process. For one more an idle one is closed.",
        values.at_least(1, "Error: --grpc-max-connections must be greater than 0."),
    )
    grpc_max_connections_per_peer: int = _flag(
        0,
        ADMISSION,
        "Open gRPC connections of one peer's address to an ingress process. 0: any number.",
        values.at_least(0, "Error: --grpc-max-connections-per-peer must not be negative."),
    )
    grpc_max_concurrent_streams: int = _flag(
        1000,
        ADMISSION,
        "Calls under way on one gRPC connection.",
        values.at_least(1, "Error: --grpc-max-concurrent-streams must be greater than 0."),
    )
    grpc_write_timeout_secs: int = _flag(
        300,
        ADMISSION,
        "Seconds that a gRPC peer may leave its answers unread.",
        values.at_least(1, "Error: --grpc-write-timeout-secs must be greater than 0."),
    )


def admission_defaults(options: AdmissionOptions) -> AdmissionDefaults:
    """Return what gates have to know."""
    return AdmissionDefaults(
        is_on=options.admission == "adaptive",
        target_queue_us=round(options.admission_target_queue_ms * _US_PER_MS),
        burst_us=max(1, round(options.admission_burst_ms * _US_PER_MS)),
        max_requests=options.admission_max_requests,
    )


def http_connections(options: AdmissionOptions) -> ConnectionLimits:
    """Return the bounds of HTTP connections."""
    return ConnectionLimits(
        count=options.http_max_connections,
        per_peer=options.http_max_connections_per_peer,
        idle_s=options.http_idle_timeout_secs,
        read_s=options.http_read_timeout_secs,
        write_s=options.http_write_timeout_secs,
    )


def grpc_connections(options: AdmissionOptions) -> ConnectionLimits:
    """Return the bounds of gRPC connections."""
    return ConnectionLimits(
        count=options.grpc_max_connections,
        per_peer=options.grpc_max_connections_per_peer,
        stream_count=options.grpc_max_concurrent_streams,
        write_s=options.grpc_write_timeout_secs,
    )
